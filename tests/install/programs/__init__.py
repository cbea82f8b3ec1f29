"""Programs that run in a fresh environment: `python -m tests.install.programs.on_kafka`."""

"""Installs from wheel and sdist in fresh environments: `tox run -e extras` and `tox run -e release`."""

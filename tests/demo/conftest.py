import pytest

from sluicegate.gateway.plugins import Plugins, load_plugins


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Plugins:
    """The product's own plugins."""
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "kafka")
    return load_plugins(())

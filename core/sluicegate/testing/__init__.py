"""A kit for authors of plugins: gates built in one line, a clock that you turn, a sink that remembers.

`SessionWire` stands between a client and a broker that a test plays, `ManualServices` for the gateway of a
front, and `BreakablePlugin` has faults on command. The pytest fixtures are in `sluicegate.testing.fixtures`;
name it in `pytest_plugins` of your conftest. `store_contract` is the suite that every policy store passes.
"""

from sluicegate.testing.clock import ManualClock
from sluicegate.testing.context import ManualContext
from sluicegate.testing.faults import BreakablePlugin, PluginFaultError
from sluicegate.testing.gates import build_gate, load_plugin, plugin_manager
from sluicegate.testing.services import ManualServices
from sluicegate.testing.session_wire import SessionWire
from sluicegate.testing.sink import NullSink, Recorded, RecordingSink

__all__ = [
    "BreakablePlugin",
    "ManualClock",
    "ManualContext",
    "ManualServices",
    "NullSink",
    "PluginFaultError",
    "RecordingSink",
    "Recorded",
    "SessionWire",
    "build_gate",
    "plugin_manager",
    "load_plugin",
]

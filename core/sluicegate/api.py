"""The public interface for authors of plugins and of programs that embed Sluicegate.

Import from here, and tests from `sluicegate.testing`; all other modules may change at any time. docs/api.md
defines what is stable. The product's own code imports from the packages, never from here.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

from sluicegate.broker import (
    PASS,
    Ask,
    BaseDriver,
    BaseFront,
    BaseSession,
    BrokerContext,
    Close,
    Command,
    Dial,
    Extra,
    InterfaceError,
    Listener,
    NextTurn,
    PassOn,
    PauseReading,
    ResumeReading,
    Services,
    ToClient,
    ToUpstream,
    WakeAt,
    helper,
)
from sluicegate.config import (
    BrokerConfig,
    ByteRate,
    Count,
    Delay,
    Duration,
    GatewayConfig,
    HostPort,
    Listen,
    MessageRate,
    PolicyModel,
    Seconds,
    Size,
)
from sluicegate.decisions import explain_last
from sluicegate.engine.check import Check, CheckCall, Stage
from sluicegate.engine.delivery_time import DelayRule
from sluicegate.engine.factors import Factor, Factors
from sluicegate.engine.faults import Fault, GateFaults
from sluicegate.engine.plugin_metrics import Counter, Gauge, Metrics
from sluicegate.engine.pressure import Backlog, PressureSource
from sluicegate.engine.quota import Quota
from sluicegate.engine.state import SubscriptionState, TopicState
from sluicegate.engine.task import Task
from sluicegate.engine.topic_context import TopicContext
from sluicegate.hooks import OpenedPolicies, hookimpl
from sluicegate.host.http_get import HttpError, http_get
from sluicegate.model import (
    ANONYMOUS,
    Action,
    Breakage,
    CloseReason,
    CountedEvent,
    Decision,
    EffectivePolicies,
    HeaderChange,
    Headers,
    Level,
    Message,
    Method,
    MethodMap,
    Operation,
    OperationKind,
    Outcome,
    Part,
    PolicyLayer,
    PolicySet,
    PolicyValue,
    Provenance,
    Reason,
    Role,
    Scope,
    Setting,
    SizeOf,
    Source,
    TopicName,
)
from sluicegate.store import (
    Author,
    Change,
    Edit,
    Key,
    MemoryStore,
    PolicyStore,
    Revision,
    Row,
    StoreConflictError,
    StoreError,
    StoreUnavailableError,
    differences,
    layers_of,
)

if TYPE_CHECKING:
    from sluicegate.decisions.reading import read_decisions
    from sluicegate.embedded import PolicyEngine, PolicyUrlError
    from sluicegate.processes.in_process import EmbeddedGateway

API_VERSION: Final = (1, 0)
"""Major and minor version of this interface; a larger minor version only adds to it."""
PROVISIONAL: Final = frozenset(
    {
        "PASS",
        "Ask",
        "BaseDriver",
        "BaseFront",
        "BaseSession",
        "Breakage",
        "Close",
        "CloseReason",
        "Command",
        "CountedEvent",
        "Dial",
        "Extra",
        "Fault",
        "GateFaults",
        "InterfaceError",
        "Listener",
        "NextTurn",
        "PassOn",
        "PauseReading",
        "ResumeReading",
        "Services",
        "SubscriptionState",
        "ToClient",
        "ToUpstream",
        "TopicState",
        "WakeAt",
        "helper",
    }
)
"""Names that a minor version may change: drivers of brokers, and the state that gates keep."""

_LATER = {
    "EmbeddedGateway": "sluicegate.processes.in_process",
    "PolicyEngine": "sluicegate.embedded",
    "PolicyUrlError": "sluicegate.embedded",
    "read_decisions": "sluicegate.decisions.reading",
}
"""Names that are imported on first use, because they import a gateway or Arrow."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)


__all__ = [
    "ANONYMOUS",
    "API_VERSION",
    "PASS",
    "PROVISIONAL",
    "Action",
    "Ask",
    "Author",
    "Backlog",
    "BaseDriver",
    "BaseFront",
    "BaseSession",
    "Breakage",
    "BrokerConfig",
    "BrokerContext",
    "ByteRate",
    "Change",
    "Check",
    "CheckCall",
    "Close",
    "CloseReason",
    "Command",
    "Count",
    "CountedEvent",
    "Counter",
    "Decision",
    "Delay",
    "DelayRule",
    "Dial",
    "Duration",
    "Edit",
    "EffectivePolicies",
    "EmbeddedGateway",
    "Extra",
    "Factor",
    "Factors",
    "Fault",
    "GateFaults",
    "GatewayConfig",
    "Gauge",
    "HeaderChange",
    "Headers",
    "HostPort",
    "HttpError",
    "InterfaceError",
    "Key",
    "Level",
    "Listen",
    "Listener",
    "MemoryStore",
    "Message",
    "MessageRate",
    "Method",
    "MethodMap",
    "Metrics",
    "NextTurn",
    "OpenedPolicies",
    "Operation",
    "OperationKind",
    "Outcome",
    "Part",
    "PassOn",
    "PauseReading",
    "PolicyEngine",
    "PolicyLayer",
    "PolicyModel",
    "PolicySet",
    "PolicyStore",
    "PolicyUrlError",
    "PolicyValue",
    "PressureSource",
    "Provenance",
    "Quota",
    "Reason",
    "ResumeReading",
    "Revision",
    "Role",
    "Row",
    "Seconds",
    "Services",
    "Scope",
    "Setting",
    "Size",
    "SizeOf",
    "Source",
    "Stage",
    "StoreConflictError",
    "StoreError",
    "StoreUnavailableError",
    "SubscriptionState",
    "Task",
    "ToClient",
    "ToUpstream",
    "TopicContext",
    "TopicName",
    "TopicState",
    "WakeAt",
    "differences",
    "explain_last",
    "helper",
    "hookimpl",
    "http_get",
    "layers_of",
    "read_decisions",
]

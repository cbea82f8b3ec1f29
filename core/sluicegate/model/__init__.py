"""The words of the product: operations, decisions, policies. Standard library only."""

from sluicegate.model.decision import Action, Breakage, Decision, Outcome, Reason
from sluicegate.model.events import (
    CloseReason,
    ConnectionClose,
    ConnectionEvent,
    CountedEvent,
    SessionClose,
)
from sluicegate.model.glob import Glob
from sluicegate.model.identifiers import ANONYMOUS, TopicName, path_name, shortened, split_client, written_out
from sluicegate.model.message import UNCHANGED, HeaderChange, Headers, Message, Part
from sluicegate.model.methods import Method, MethodMap, Path, Role, SizeOf, UnknownRule
from sluicegate.model.mode import ENFORCE, OBSERVE, Mode, ModeKind, parse_mode
from sluicegate.model.operation import Operation, OperationKind
from sluicegate.model.policy import (
    LEVELS,
    EffectivePolicies,
    Level,
    PolicyLayer,
    PolicySet,
    PolicyValue,
    Provenance,
    Setting,
    Source,
)
from sluicegate.model.policy_version import digest_of, policy_version, version_text
from sluicegate.model.scope import EVERYBODY, Scope
from sluicegate.model.visible import visible, visible_json

__all__ = [
    "SessionClose",
    "CountedEvent",
    "ConnectionEvent",
    "ConnectionClose",
    "CloseReason",
    "ANONYMOUS",
    "ENFORCE",
    "EVERYBODY",
    "LEVELS",
    "OBSERVE",
    "UNCHANGED",
    "Action",
    "Breakage",
    "Decision",
    "EffectivePolicies",
    "Glob",
    "HeaderChange",
    "Headers",
    "Level",
    "Message",
    "Method",
    "MethodMap",
    "Mode",
    "ModeKind",
    "Operation",
    "OperationKind",
    "Outcome",
    "Part",
    "Path",
    "PolicyLayer",
    "PolicySet",
    "PolicyValue",
    "Provenance",
    "Reason",
    "Role",
    "Scope",
    "Setting",
    "SizeOf",
    "Source",
    "TopicName",
    "UnknownRule",
    "digest_of",
    "parse_mode",
    "path_name",
    "policy_version",
    "shortened",
    "split_client",
    "version_text",
    "visible",
    "visible_json",
    "written_out",
]

"""What a row of the decision log is: the one place that says so, for writers and readers.

Add columns at the end, nullable ones, and raise `VERSION`; never rename one, never change a unit. Files
carry the version. Readers fill the columns that an older file lacks with nulls, and refuse a file that lacks
columns of its own version. Arrow's own types are made in `schema`: the process that decides does not load
Arrow.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass

from sluicegate.model import OperationKind

VERSION = 1

WINDOW_MS = 100
"""Length in ms of the windows that allows are summed up in (`detail: summary`)."""

OPERATION_NAMES = tuple(kind.name.lower() for kind in OperationKind)
"""The column `operation`, by the number of the kind."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: what it holds, in which unit."""

    name: str
    type: str
    """Arrow's name of the type."""
    meaning: str
    unit: str = ""
    nullable: bool = True
    since: int = 1
    """The first version that has it."""


def lacking(columns: Iterable[Column], names: Container[str], version: int) -> list[str]:
    """Names of the columns of a version that a file of that version lacks.

    :param columns: of the current version.
    :param names: of the columns that the file has.
    """
    return [column.name for column in columns if column.since <= version and column.name not in names]


_TEXT = "string"
COLUMNS = (
    Column("time", "timestamp[us, tz=UTC]", "when it was decided; of a window, its start", "UTC", False),
    Column("run", _TEXT, "the run of the gateway, or of the comparison, that it belongs to", "", False),
    Column("system", _TEXT, "kind of broker: kafka, pulsar, danube", "", False),
    Column("door", _TEXT, "where it was decided: proxy, interceptor, client, native", "", False),
    Column("gateway", _TEXT, "name of the gateway's broker entry that decided", "", False),
    Column("principal", _TEXT, "authenticated name; null in a window, which holds everybody's allows"),
    Column("client", _TEXT, "client id and peer address; of owner_changed both brokers; null in a window"),
    Column("namespace", _TEXT, "namespace of the topic", "", False),
    Column("topic", _TEXT, "full name of the topic", "", False),
    Column("subscription", _TEXT, "subscription or consumer group, where the operation has one"),
    Column(
        "operation",
        _TEXT,
        "connect, attach_producer, create_subscription, attach_consumer, publish, dispatch, acknowledge, "
        "detach, owner_changed",
        "",
        False,
    ),
    Column("policy", _TEXT, "policy that decided, as in the file; null for an allow"),
    Column("level", _TEXT, "level that supplied the limit: broker, namespace, topic; null if built in"),
    Column(
        "action",
        _TEXT,
        "allow, reject, delay, rewrite, drop; with would_ in front if it was only observed",
        "",
        False,
    ),
    Column("reason", _TEXT, "limit_reached, invalid or precondition; null for an allow"),
    Column("current", "double", "what was counted or measured against the limit", "the policy's"),
    Column("limit", "double", "the limit itself", "the policy's"),
    Column("factor", "double", "quota factor in force", "0.0 to 1.0", False),
    Column("delay", "int64", "how long to hold before asking again", "ns", False),
    Column("bytes", "int64", "payload as it is on the wire", "bytes", False),
    Column("messages", "int64", "messages carried", "messages", False),
    Column(
        "decision_cost",
        "int64",
        "time that one of the decisions took, log included; null where none was timed",
        "ns",
    ),
    Column("policy_version", "int64", "version of the policies that decided", "", False),
    Column("decision_id", _TEXT, "id that the client was told; null for an allow"),
    Column("decisions", "int64", "decisions that the row stands for: 1, or those of a window", "", False),
    Column("window", "int32", "length of the window; 0 for a row of a single decision", "ms", False),
    Column(
        "other_reasons",
        "list<item: struct<policy: string, level: string, reason: string, current: double, limit: double>>",
        "further reasons of the same decision, null if none",
    ),
)

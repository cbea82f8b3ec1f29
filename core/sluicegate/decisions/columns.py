"""The columns of the decision log, defined once for writers and readers.

Only add nullable columns at the end, and increment `VERSION`. Never rename a column or change its unit. Files
carry the version. Readers fill columns that an older file lacks with nulls, and refuse a file that lacks
columns of its own version. `schema` creates the Arrow types, because workers do not load Arrow.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass

from sluicegate.model import OperationKind

VERSION = 2

WINDOW_MS = 100
"""Length of the windows that aggregate allows (`detail: summary`), in ms."""

OPERATION_NAMES = tuple(kind.name.lower() for kind in OperationKind)
"""Values of the column `operation`, indexed by the operation kind."""


@dataclass(frozen=True, slots=True)
class Column:
    """The definition of one column."""

    name: str
    type: str
    """Arrow's name for the type."""
    meaning: str
    unit: str = ""
    nullable: bool = True
    since: int = 1
    """The first version that has it."""


def missing_columns(columns: Iterable[Column], names: Container[str], version: int) -> list[str]:
    """Names of the columns of a version that a file of that version lacks.

    :param columns: of the current version.
    :param names: of the columns that the file has.
    """
    return [column.name for column in columns if column.since <= version and column.name not in names]


_TEXT = "string"
COLUMNS = (
    Column("time", "timestamp[us, tz=UTC]", "time of the decision; of a window, its start", "UTC", False),
    Column("run", _TEXT, "run of the gateway or of the comparison", "", False),
    Column("system", _TEXT, "kind of broker: kafka, pulsar, danube", "", False),
    Column("door", _TEXT, "where it was decided: proxy, interceptor, client or native", "", False),
    Column("gateway", _TEXT, "name of the gateway's broker entry that decided", "", False),
    Column(
        "principal",
        _TEXT,
        "authenticated name; null in a window, which contains the allows of all principals",
    ),
    Column("client", _TEXT, "client id and peer address; for owner_changed both brokers; null in a window"),
    Column("namespace", _TEXT, "namespace of the topic", "", False),
    Column("topic", _TEXT, "full name of the topic", "", False),
    Column("subscription", _TEXT, "subscription or consumer group, if the operation has one"),
    Column(
        "operation",
        _TEXT,
        "connect, attach_producer, create_subscription, attach_consumer, publish, dispatch, acknowledge, "
        "detach, owner_changed, create_topic, create_partitions",
        "",
        False,
    ),
    Column("policy", _TEXT, "policy that decided, as in the file; null for an allow"),
    Column(
        "level",
        _TEXT,
        "level that supplied the limit: broker, namespace, topic, and `for …` in a scope; null if built in",
    ),
    Column(
        "action",
        _TEXT,
        "allow, reject, delay, rewrite, drop; with the prefix would_ if it was only observed",
        "",
        False,
    ),
    Column("reason", _TEXT, "limit_reached, invalid or precondition; null for an allow"),
    Column("current", "double", "what was counted or measured against the limit", "the policy's"),
    Column("limit", "double", "the limit itself", "the policy's"),
    Column("factor", "double", "quota factor in force", "0.0 to 1.0", False),
    Column("delay", "int64", "how long to hold before the next attempt", "ns", False),
    Column("bytes", "int64", "payload as on the wire", "bytes", False),
    Column("messages", "int64", "messages carried", "messages", False),
    Column(
        "decision_cost",
        "int64",
        "duration of one of the decisions, including the log; null if none was timed",
        "ns",
    ),
    Column("policy_version", "int64", "version of the policies that decided", "", False),
    Column("decision_id", _TEXT, "id that the client received; null for an allow"),
    Column("decisions", "int64", "number of decisions in the row: 1, or those of a window", "", False),
    Column("window", "int32", "length of the window; 0 for a row of a single decision", "ms", False),
    Column(
        "other_reasons",
        "list<item: struct<policy: string, level: string, reason: string, current: double, limit: double>>",
        "further reasons of the same decision, null if none",
    ),
    Column("host", _TEXT, "name of the host that the gateway ran on; null in files of version 1", since=2),
    Column("worker", "int32", "index of the worker, from 0; null in files of version 1", since=2),
)

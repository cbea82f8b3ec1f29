"""Labels of counters. Each is declared once, with its meaning, in the table of the room that counts it."""

from enum import StrEnum
from typing import Self


class Label(StrEnum):
    """A label with its meaning; the value of a member is `label, meaning`."""

    meaning: str
    """What one count says: a sentence, as metrics and documents show it."""

    def __new__(cls, label: str, meaning: str) -> Self:
        """A member that is equal to its label."""
        member = str.__new__(cls, label)
        member._value_ = label
        member.meaning = meaning
        return member


class CountedEvent(Label):
    """What a broker room counts: a label `event` of `sluicegate_broker_events_total`.

    A room declares its events as members of one subclass.
    """


class CloseReason(Label):
    """Why a connection is closed: a label `reason` of `sluicegate_session_closes_total`, and in the log.

    A room declares its reasons as members of one subclass.
    """


class ConnectionEvent(CountedEvent):
    """What the gateway counts for every broker. Each is a metric of its own, `sluicegate_<label>_total`."""

    ACCEPTED = "connections_accepted", "Client connections accepted."
    ENDED = "connections_closed", "Client connections ended."
    REFUSED = "connections_refused", "Clients turned away because of max_connections."
    REFUSED_ADDRESS = "connections_refused_address", "Clients turned away because of address_share."
    REFUSED_OVERLOAD = (
        "connections_refused_overload",
        "Clients turned away because the worker's memory is short.",
    )
    HANDSHAKE_FAILED = "client_handshakes_failed", "Clients that did not get through the TLS handshake."
    DESCRIPTORS_USED_UP = (
        "descriptors_used_up",
        "Clients turned away because file descriptors were used up.",
    )
    NOT_PASSED = (
        "connections_not_passed",
        "Clients closed because the worker that serves their other connections takes none now.",
    )
    DIAL_FAILED = "upstream_dials_failed", "Broker addresses that did not answer."
    UPSTREAM_CLOSED = "upstream_closed", "Connections that the broker closed first."
    SESSION_FAULT = "session_faults", "Clients closed because of a bug in a broker plugin."
    QUESTION_FAILED = "questions_failed", "Questions of sessions that could not be answered."
    BYTES_FROM_CLIENTS = "bytes_from_clients", "Bytes read from clients."
    BYTES_FROM_BROKERS = "bytes_from_brokers", "Bytes read from brokers."
    POLICY_CHANGE = "policy_changes", "Times that other policies came into force."
    FRONT_FAULT = "front_faults", "Once-a-second work that raised."


class ConnectionClose(CloseReason):
    """Why the gateway closes connections to any broker; a metric of its own each, as `ConnectionEvent`."""

    PRINCIPAL_SHARE_USED_UP = "principal_share_used_up", "Clients closed because of principal_share."
    UPSTREAM_UNREACHABLE = "upstream_unreachable", "Clients closed because no broker address answered."
    IDLE_TIMED_OUT = "idle_timed_out", "Connections closed because nothing was sent for idle_timeout."
    LOGIN_TIMED_OUT = (
        "login_timed_out",
        "Clients closed because their first request or login was not complete within login_timeout.",
    )
    FRAME_TIMED_OUT = (
        "frame_timed_out",
        "Clients closed because a frame was not finished within frame_timeout.",
    )
    BUFFER_BUDGET_USED_UP = "buffer_budget_used_up", "Clients closed because buffer_budget was used up."
    OVERLOAD_CLOSED = (
        "overload_closed",
        "Clients closed because the worker's memory was short and they kept most.",
    )
    EARLY_BYTES_OVER_LIMIT = (
        "early_bytes_over_limit",
        "Clients closed because they sent too much before they were read.",
    )


class SessionClose(CloseReason):
    """Why sessions of any protocol close connections."""

    CLIENT_GONE = "client_gone", "The client hung up while the gateway still had something to do for it."
    FAULT_INJECTED = "fault_injected", "A policy breaks connections on purpose, to test clients."

"""What a gateway in front of a gRPC broker counts, and why it closes connections."""

from sluicegate.model import CloseReason, CountedEvent


class GrpcEvent(CountedEvent):
    """Events of `sluicegate_broker_events_total`."""

    CALL_REFUSED = "call_refused", "A call was refused, by a policy or as its message cannot be read."
    DISPATCH_DROPPED = "dispatch_dropped", "A message of a topic that is not reliable was dropped."
    FORBIDDEN_BROKER_REFUSED = (
        "forbidden_broker_refused",
        "A request named a broker that is not known to the gateway.",
    )
    FORBIDDEN_HEADER_REFUSED = (
        "forbidden_header_refused",
        "A request had metadata that only brokers may send.",
    )
    GHOSTS_RELEASED = (
        "ghosts_released",
        "A producer or consumer stopped counting, as its client was silent for too long.",
    )
    HEADERS_UNCHANGED = (
        "headers_unchanged",
        "A message was refused, as a policy changes its headers and they cannot be changed.",
    )
    HEADER_LIST_TOO_LARGE = (
        "header_list_too_large",
        "A request was refused, as its headers are larger than the gateway takes.",
    )
    HOLD_TIMED_OUT = "hold_timed_out", "A call that limits held was refused after max_hold."
    MALFORMED_CALL = (
        "malformed_calls",
        "A call was reset, as its client broke HTTP/2 in that call alone.",
    )
    MALFORMED_HEADERS = (
        "malformed_headers",
        "A request was reset, as a server could read its headers otherwise than the gateway.",
    )
    MALFORMED_PATH = "malformed_path", "A request was refused, as its path is none of a method."
    MESSAGE_TOO_LARGE = (
        "message_too_large",
        "A message that policies ask about is larger than the gateway buffers, and was refused.",
    )
    SENT_TO_ANOTHER_CONNECTION = (
        "sent_to_another_connection",
        "A client had to open another connection (GOAWAY), as its request is for another broker.",
    )
    STOOD_IN = "stood_in", "Another broker was dialled in place of the one that a client asked for."
    STREAM_REFUSED = (
        "stream_refused",
        "A request was refused (REFUSED_STREAM), as a connection has too many calls or no room for its "
        "headers.",
    )
    UNKNOWN_IDS = "unknown_ids", "A call named a producer or consumer by an id that is not known."
    UNKNOWN_METHOD = "unknown_method", "A call of a method that the map does not name passed."
    UNKNOWN_METHOD_REFUSED = (
        "unknown_method_refused",
        "A call of a method that the map does not name was refused.",
    )


class GrpcClose(CloseReason):
    """Reasons of `sluicegate_session_closes_total`."""

    ANSWER_UNREADABLE = (
        "answer_unreadable",
        "The broker sent a response that the gateway has to rewrite and cannot read.",
    )
    CONTINUATION_FLOOD = (
        "continuation_flood",
        "A header block came in too many frames, or was far too large.",
    )
    EMPTY_FRAMES_FLOOD = (
        "empty_frames_flood",
        "The client sent more than http2.empty_frames frames without content in a second.",
    )
    FRAME_MALFORMED = "frame_malformed", "A frame broke HTTP/2."
    FRAME_TOO_LARGE = "frame_too_large", "A frame was larger than its receiver allows."
    HEADER_BLOCK_MALFORMED = "header_block_malformed", "A header block could not be decoded."
    HEADER_LIST_TOO_LARGE = (
        "header_list_too_large",
        "Headers were so large that the state of their compression was lost.",
    )
    NOT_HTTP2 = "not_http2", "The client did not begin with HTTP/2; it may have to use TLS."
    PINGS_FLOOD = "pings_flood", "The client sent more than http2.pings PING frames in a second."
    RESETS_FLOOD = (
        "resets_flood",
        "The client reset, or had the gateway reset, more than http2.resets calls in a second.",
    )
    SETTINGS_FLOOD = (
        "settings_flood",
        "More than http2.settings SETTINGS frames came in a second, too many were not acknowledged, or one "
        "had too many entries.",
    )
    WINDOW_EXCEEDED = "window_exceeded", "More bytes came than the windows allow."
    WINDOW_OVERFLOW = "window_overflow", "A window was opened beyond 2^31-1 bytes."
    WINDOW_UPDATES_FLOOD = (
        "window_updates_flood",
        "The client sent more than http2.window_updates WINDOW_UPDATE frames in a second.",
    )

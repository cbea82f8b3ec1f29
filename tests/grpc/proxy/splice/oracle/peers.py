"""The two ends of a connection: h2, which raises at whatever breaks the protocol, and what it was told."""

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import h2.stream
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    DataReceived,
    Event,
    PingAckReceived,
    RequestReceived,
    ResponseReceived,
    SettingsAcknowledged,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.settings import SettingCodes, Settings
from h2.windows import WindowManager
from tests.grpc.proxy.splice.oracle.reshape import GOAWAY, Choose, Cutter, Frame, reshape

Settled: TypeAlias = dict[SettingCodes | int, int]


class _Windows(WindowManager):
    """A frame without data may come whatever the window is (RFC 9113 section 6.9.1), below 0 too."""

    def window_consumed(self, size: int) -> None:
        if size:
            super().window_consumed(size)


h2.stream.WindowManager = _Windows  # type: ignore[attr-defined]  # h2 raises there


@dataclass
class Seen:
    """What one end was told about one stream."""

    headers: dict[str, str] = field(default_factory=dict)
    data: bytearray = field(default_factory=bytearray)
    trailers: dict[str, str] = field(default_factory=dict)
    is_ended: bool = False
    reset: int | None = None
    """Error code."""
    owed: int = 0
    """Bytes that it was sent and has not given back to the stream's window."""

    @property
    def is_over(self) -> bool:
        return self.is_ended or self.reset is not None

    @property
    def status(self) -> str:
        """`grpc-status`, wherever it stood."""
        return self.trailers.get("grpc-status", self.headers.get("grpc-status", ""))


class Peer:
    """One end.

    :param window: of its streams.
    :param choose: where frames are cut and padded; nothing is changed if it always returns 1.
    :param table: what its decoder keeps of headers. h2 says so to the other end only once, and not a second
        time if it was told twice; so it is never changed.
    """

    def __init__(self, is_client: bool, window: int, choose: Choose, table: int = 4_096) -> None:
        self.is_client = is_client
        config = H2Configuration(client_side=is_client, header_encoding="latin-1")
        self.h2 = H2Connection(config)
        if table != 4_096:
            self.h2.local_settings = Settings(is_client, {SettingCodes.HEADER_TABLE_SIZE: table})
            self.h2.decoder.max_allowed_table_size = table
        self.seen: defaultdict[int, Seen] = defaultdict(Seen)
        self.owed = 0
        """Bytes that it was sent and has not given back to the connection's window."""
        self.goaways: list[Frame] = []
        self.pings: list[bytes] = []
        """Answers to its own."""
        self.acknowledged = 0
        """How many of its SETTINGS were acknowledged."""
        self.sent_settings = 1
        self._due: deque[Settled] = deque()
        self._choose = choose
        self._in = Cutter(has_preface=not is_client)
        self._out = Cutter(has_preface=is_client)
        self._preface_due = is_client
        self.h2.initiate_connection()
        if window != 65_535:
            self.change({SettingCodes.INITIAL_WINDOW_SIZE: window})

    def receive(self, data: bytes) -> None:
        """Read what the other end sent; raises what h2 raises."""
        for found in self._in.feed(data):
            if found.type == GOAWAY:
                self.goaways.append(found)  # h2 takes it for the end; it is the end of new streams only
                continue
            for event in self.h2.receive_data(self._with_preface(found)):
                self._note(event)

    def _with_preface(self, found: Frame) -> bytes:
        """The cutter takes the client's preface away, which h2 as a server wants to see first."""
        raw = found.to_bytes()
        if self.is_client or self._saw_preface:
            return raw
        self._saw_preface = True
        return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + raw

    _saw_preface = False

    def take_output(self) -> bytes:
        """What is to go to the other end."""
        raw = self.h2.data_to_send()
        preface = b""
        if self._preface_due and raw:
            self._preface_due, preface = False, raw[:24]
        out = b"".join(reshape(found, self._choose) for found in self._out.feed(raw))
        assert self._out.is_between_frames
        return preface + out

    def window(self, stream: int) -> int:
        """How many bytes of DATA it may send on a stream now."""
        return min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)

    def give_back(self, stream: int, amount: int) -> None:
        """Open the window of a stream (0: of the connection) again, by no more than was taken of it."""
        if stream == 0:
            amount = min(amount, self.owed)
            if amount:
                self.h2.increment_flow_control_window(amount)
                self.owed -= amount
            return
        seen = self.seen[stream]
        amount = min(amount, seen.owed)
        if amount and not seen.is_over:
            self.h2.increment_flow_control_window(amount, stream)
            seen.owed -= amount

    def change(self, settings: Settled) -> None:
        """Send SETTINGS, once those before are acknowledged: h2 takes any answer for one to all of them."""
        if self.acknowledged < self.sent_settings:
            self._due.append(settings)
            return
        self.h2.update_settings(settings)
        self.sent_settings += 1

    @property
    def inbound(self) -> int:
        """The connection's window as this end keeps it: what the other may send."""
        return int(self.h2.inbound_flow_control_window)

    @property
    def unannounced(self) -> int:
        """Bytes of streams that were closed, which h2 gives back when there are more of them."""
        return int(self.h2._inbound_flow_control_window_manager._bytes_processed)

    @property
    def outbound(self) -> int:
        """The connection's window as this end knows it: what it may send."""
        return int(self.h2.outbound_flow_control_window)

    def _note(self, event: Event) -> None:
        match event:
            case RequestReceived() | ResponseReceived():
                self.seen[_id(event.stream_id)].headers.update(_pairs(event.headers))
            case TrailersReceived():
                self.seen[_id(event.stream_id)].trailers.update(_pairs(event.headers))
            case DataReceived():
                seen, size = self.seen[_id(event.stream_id)], event.flow_controlled_length or 0
                seen.data += event.data or b""
                seen.owed += size
                self.owed += size
            case StreamEnded():
                self.seen[_id(event.stream_id)].is_ended = True
            case StreamReset():
                self.seen[_id(event.stream_id)].reset = int(event.error_code or 0)
            case PingAckReceived():
                self.pings.append(event.ping_data or b"")
            case SettingsAcknowledged():
                self.acknowledged += 1
                if self._due:
                    self.change(self._due.popleft())
            case _:
                pass


def _id(stream: int | None) -> int:
    assert stream is not None
    return stream


def _pairs(headers: Iterable[tuple[bytes | str, bytes | str]] | None) -> dict[str, str]:
    return {str(name): str(value) for name, value in headers or ()}

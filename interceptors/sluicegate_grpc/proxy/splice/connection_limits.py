"""What one client connection may take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one client connection: bytes, and events per second."""

    header_list_bytes: int = 65_536
    """Of the headers of one request, by RFC 9113 section 6.5.2 (names, values, 32 for each). Both sides are
    told so (SETTINGS_MAX_HEADER_LIST_SIZE)."""
    continuations: int = 32
    """CONTINUATION frames of one header block."""
    frame_bytes: int = 65_536
    """Payload of a frame; both sides are told so (SETTINGS_MAX_FRAME_SIZE). At least 16,384."""
    message_bytes: int = 16 * 1024 * 1024
    """Size of a message that must be complete before it can be decided, also after decompression."""
    stream_bytes: int = 8 * 1024 * 1024
    """Bytes withheld of one stream, beyond its receiver's window."""
    max_streams: int = 4_000
    """Requests that are open at once; clients are told so (SETTINGS_MAX_CONCURRENT_STREAMS)."""
    resets: int = 1_000
    """Streams that a client resets, or makes the gate reset (CVE-2023-44487, CVE-2025-8671)."""
    window_updates: int = 10_000
    """WINDOW_UPDATE frames, besides some for each read from the broker."""
    pings: int = 1_000
    settings: int = 100
    empty_frames: int = 10_000
    """DATA frames that carry nothing and end nothing, PRIORITY frames and frames of unknown types."""

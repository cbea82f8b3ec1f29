"""Opens a page in a real browser by its command line and reads what it shows."""

import os
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import pytest
from tests.waiting import LONG_S

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_SCHEMES = {"dark": "0", "light": "1"}
_NARROWEST = 500
_PROBE = Path(__file__).with_name("probe.js")
"""Added to a copy of the page."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the browser made of a page."""

    measured: dict[str, str]
    """What the probe measured, by the names of `probe.js`."""
    pixels: "Picture"
    console: list[str]
    """Lines of the page's console."""


def find_browser() -> str:
    """The browser; without one the test is skipped, or fails with SLUICEGATE_REQUIRE_BROKER=1."""
    for name in (os.environ.get("SLUICEGATE_CHROMIUM"), *_NAMES):
        found = shutil.which(name) if name else None
        if found:
            return found
    missing = f"no browser: expected one of {', '.join(_NAMES)} in PATH, or SLUICEGATE_CHROMIUM=/path/to/it"
    if os.environ.get("SLUICEGATE_REQUIRE_BROKER") == "1":
        pytest.fail(missing)
    pytest.skip(missing)


def look(
    browser: str, text: str, folder: Path, scheme: str, widths: Sequence[int], height: int = 700
) -> list[Seen]:
    """Open a page at several widths, in one start of the browser.

    :param text: the page.
    :param folder: an empty one; the screenshot stays there.
    :param scheme: light or dark.
    :param widths: in pixels; the screenshot has one after the other, from the top.
    """
    probed = text.replace("</body>", f"<script>{_PROBE.read_text()}</script></body>")
    # A window is never narrower than 500 pixels; a frame is as narrow as one likes.
    frames = "".join(
        f'<iframe name="f{place}" srcdoc="{escape(probed)}" width="{width}" height="{height}" '
        'style="border:0;display:block"></iframe>'
        for place, width in enumerate(widths)
    )
    around, shot = folder / "around.html", folder / f"{scheme}.png"
    around.write_text(f'<!doctype html><html><body style="margin:0">{frames}</body></html>')
    done = _run(
        browser,
        folder,
        f"--blink-settings=preferredColorScheme={_SCHEMES[scheme]}",
        f"--window-size={max(*widths, _NARROWEST)},{height * len(widths)}",
        f"--screenshot={shot}",
        "--dump-dom",
        around.as_uri(),
    )
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    start = done.stdout.index("<html")
    told = dict(re.findall(r'data-(\w+)="([^"]*)"', done.stdout[start : done.stdout.index(">", start)]))
    picture = Picture.read(shot.read_bytes())
    return [
        Seen(
            {
                name.removeprefix(f"f{place}"): value
                for name, value in told.items()
                if name[:2] == f"f{place}"
            },
            picture.cut(width, place * height, height),
            console,
        )
        for place, width in enumerate(widths)
    ]


def printed(browser: str, text: str, folder: Path) -> bytes:
    """The page as PDF."""
    copy, paper = folder / "page.html", folder / "page.pdf"
    copy.write_text(text)
    _run(browser, folder, "--no-pdf-header-footer", f"--print-to-pdf={paper}", copy.as_uri())
    return paper.read_bytes()


def _run(browser: str, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    options = [
        "--headless=new",
        "--disable-gpu",
        "--hide-scrollbars",
        "--no-first-run",
        "--enable-logging=stderr",
    ]
    if os.geteuid() == 0:
        options.append("--no-sandbox")  # its sandbox refuses to work for root
    done = subprocess.run(
        [browser, *options, f"--user-data-dir={folder / 'profile'}", *arguments],
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@dataclass(frozen=True, slots=True)
class Picture:
    """Pixels of a PNG, 8 bits a channel, not interlaced."""

    width: int
    lines: list[bytes]
    channels: int

    @classmethod
    def read(cls, data: bytes) -> "Picture":
        """Decode one, as the PNG specification says in its chapters on chunks and on filtering."""
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        at, packed = 8, b""
        width = channels = 0
        while at < len(data):
            length, kind = struct.unpack(">I4s", data[at : at + 8])
            body = data[at + 8 : at + 8 + length]
            if kind == b"IHDR":
                width, _, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
                assert (depth, interlaced) == (8, 0)
                channels = {2: 3, 6: 4}[colour]
            elif kind == b"IDAT":
                packed += body
            at += 12 + length
        return cls(width, _unfiltered(zlib.decompress(packed), width * channels, channels), channels)

    def cut(self, width: int, top: int, height: int) -> "Picture":
        """A part at its left edge."""
        lines = self.lines[top : top + height]
        return Picture(width, [line[: width * self.channels] for line in lines], self.channels)

    def colours(self) -> dict[bytes, int]:
        """How often each colour comes."""
        found: dict[bytes, int] = {}
        for line in self.lines[::2]:
            for at in range(0, len(line), self.channels * 2):
                colour = line[at : at + 3]
                found[colour] = found.get(colour, 0) + 1
        return found


def _unfiltered(data: bytes, size: int, step: int) -> list[bytes]:
    above, lines = bytes(size), []
    for start in range(0, len(data), size + 1):
        line = bytearray(data[start + 1 : start + 1 + size])
        _undo(data[start], line, above, step)
        above = bytes(line)
        lines.append(above)
    return lines


def _undo(filtered: int, line: bytearray, above: bytes, step: int) -> None:
    """Take one line's filter off."""
    if filtered == 0:
        return
    for at, value in enumerate(line):
        left = line[at - step] if at >= step else 0
        corner = above[at - step] if at >= step else 0
        line[at] = (value + _predicted(filtered, left, above[at], corner)) & 0xFF


def _predicted(filtered: int, left: int, up: int, corner: int) -> int:
    if filtered == 4:
        straight = left + up - corner
        return min((left, up, corner), key=lambda near: abs(straight - near))
    return (0, left, up, (left + up) // 2)[filtered]

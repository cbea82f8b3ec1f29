"""Opens a page in a real browser by its command line and reads what it shows."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import pytest
from PIL import Image
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
    pixels: Image.Image
    console: list[str]
    """Lines of the page's console."""


def find_browser() -> str:
    """The browser; without one the test is skipped, or fails with SLUICEGATE_REQUIRE_BROKER=1."""
    for name in (os.environ.get("SLUICEGATE_CHROMIUM"), *_NAMES):
        path = shutil.which(name) if name else None
        if path:
            return path
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
    attributes = dict(re.findall(r'data-(\w+)="([^"]*)"', done.stdout[start : done.stdout.index(">", start)]))
    with Image.open(shot) as picture:
        pixels = picture.convert("RGB")
    return [
        Seen(
            {
                name.removeprefix(f"f{place}"): value
                for name, value in attributes.items()
                if name[:2] == f"f{place}"
            },
            pixels.crop((0, place * height, width, (place + 1) * height)),
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

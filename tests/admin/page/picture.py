"""Makes the picture for docs/operations.md: `python -m tests.admin.page.picture docs/page.png`."""

import sys
import tempfile
import time
from pathlib import Path

from tests.admin.page.driven import Driven
from tests.admin.page.served import Served
from tests.reports.render.page.browser import find_browser

_COLLECTING_S = 180
_NAMES = ("invoices.eu", "invoices.us", "telemetry.raw", "audit.all")


def main(file: str) -> None:
    """Let the page collect for some minutes, and write what it shows."""
    with tempfile.TemporaryDirectory() as folder:
        served = Served(Path(folder), names=_NAMES)
        browser = Driven(find_browser(), Path(folder))
        browser.look_like(1100, "light", height=780)
        browser.open(f"{served.url}#topics")
        time.sleep(_COLLECTING_S)
        browser.photograph(Path(file))
        browser.close()
        served.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A browser that a test drives by keys and clicks, as a user would (DevTools protocol over pipes)."""

import base64
import json
import os
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.waiting import LONG_S, until

_KEYS = {"Tab": 9, "Enter": 13, "Escape": 27}
_TEXTS = {"Enter": "\r"}


class Driven:
    """One page of a browser of its own.

    :param browser: path of Chromium.
    :param folder: for its profile.
    """

    def __init__(self, browser: str, folder: Path) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        options = ["--headless=new", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe"]
        if os.geteuid() == 0:
            options.append("--no-sandbox")  # its sandbox refuses to work for root
        # Chromium takes commands from descriptor 3 and answers on 4.
        pipes = f'exec "$0" "$@" 3</proc/self/fd/{to_browser} 4>/proc/self/fd/{from_browser}'
        self._process = subprocess.Popen(
            ["sh", "-c", pipes, browser, *options, f"--user-data-dir={folder / 'profile'}", "about:blank"],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._number, self._session = b"", 0, ""
        self.requests: list[str] = []
        """Addresses that were asked for."""
        self.troubles: list[str] = []
        """Exceptions, errors in the console, and what the page's policy refused."""
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.command(f"{domain}.enable")

    def close(self) -> None:
        """End the browser."""
        self._session = ""
        self.command("Browser.close")
        self._process.wait(LONG_S)
        os.close(self._read)
        os.close(self._write)

    def command(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command of the protocol and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def open(self, url: str) -> None:
        """Open a page and wait until it shows its first view."""
        self.command("Page.navigate", url=url)
        self.wait_for("document.querySelector('main h2') !== null")

    def run(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = self.command(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Wait until an expression in the page is true."""

        def shown() -> str:
            return str(self.run("document.body.innerText"))[:2_000]

        return until(lambda: self.run(expression), expression, tell=shown)

    def press(self, key: str, shift: bool = False) -> None:
        """Press a key."""
        event = {"key": key, "code": key, "windowsVirtualKeyCode": _KEYS[key], "modifiers": 8 if shift else 0}
        text = {"text": _TEXTS[key]} if key in _TEXTS else {}
        self.command("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **event, **text)
        self.command("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        self.command("Input.insertText", text=text)

    def click(self, text: str, within: str = "body") -> None:
        """Click the button or link with a text, once it is there."""
        found = (
            f"[...document.querySelector({json.dumps(within)}).querySelectorAll('button, a')]"
            f".find((each) => each.textContent === {json.dumps(text)} && each.offsetParent !== null)"
        )
        self.wait_for(f"{found} !== undefined")
        self.run(f"{found}.click()")

    def fill(self, selector: str, text: str) -> None:
        """Put a text into a field in place of what it has."""
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        self.run("document.activeElement.select()")
        self.type(text)

    def look_like(self, width: int, scheme: str, media: str = "screen", height: int = 900) -> None:
        """Set the window's size, the colours that the user prefers, and screen or print."""
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.command("Emulation.setEmulatedMedia", media=media, features=features)

    def photograph(self, file: Path) -> None:
        """Write a screenshot."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(self.command("Page.captureScreenshot", format="png")["data"]))

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + LONG_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            chunk = os.read(self._read, 1 << 16)
            assert chunk, f"the browser ended: {self._process.poll()}"
            self._buffer += chunk
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        method, params = event.get("method", ""), event.get("params", {})
        taken: dict[str, Callable[[], None]] = {
            "Network.requestWillBeSent": lambda: self.requests.append(params["request"]["url"]),
            "Runtime.exceptionThrown": lambda: self.troubles.append(str(params["exceptionDetails"])),
            "Runtime.consoleAPICalled": lambda: self.troubles.append(str(params["args"])),
            "Log.entryAdded": lambda: self.troubles.append(params["entry"]["text"]),
        }
        if method in taken:
            taken[method]()

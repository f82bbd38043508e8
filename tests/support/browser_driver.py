"""A browser that tests drive: pages are opened, clicked and typed at, over Chromium's own pipe, without any package."""

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = os.environ.get("HEADWAY_BROWSER") or next((found for name in NAMES if (found := shutil.which(name))), None)
COMMAND = (
    str(BROWSER), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-dev-shm-usage",
)  # fmt: skip
"""Without a sandbox, which root cannot have, and without /dev/shm, of which a container may have too little."""
_KEYS = {
    "Enter": 13,
    "Escape": 27,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}


class Page:
    """A page in a browser.

    `said` is what its console said, errors that nobody caught included; `asked` are the addresses that it asked for.
    """

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write, self._last, self._rest = read, write, 0, b""
        self._session: str | None = None
        self.said: list[str] = []
        self.asked: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Network", "Page"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Tell the browser something; what it answers."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                return dict(answer["result"])

    def open(self, path: Path, fragment: str = "", ready: str = "document.body.dataset.ready") -> None:
        """Open a file, from nothing, and wait until an expression is true."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=path.resolve().as_uri() + fragment)
        self.until(f"location.protocol === 'file:' && document.body && {ready}")

    def until(self, expression: str, seconds: float = 60) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self.value(f"Boolean({expression})"):
            assert time.monotonic() < end, f"never: {expression}; the console said {self.said}"
            time.sleep(0.02)

    def value(self, expression: str) -> Any:
        """What an expression is."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def size(self, width: int, height: int) -> None:
        """Make the window as large as that."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def click(self, selector: str) -> None:
        """Click into the middle of the first element that fits."""
        self._at(selector, "mousePressed", "mouseReleased")

    def hover(self, selector: str) -> None:
        """Move the pointer there."""
        self._at(selector)

    def _at(self, selector: str, *events: str) -> None:
        where = json.dumps(selector)
        self.value(f"document.querySelector({where}).scrollIntoView({{block: 'center'}})")
        x, y = self.value(
            f"(({{left, top, width, height}}) => [left + width / 2, top + height / 2])"
            f"(document.querySelector({where}).getBoundingClientRect())"
        )
        for event in ("mouseMoved", *events):
            button = "left" if event != "mouseMoved" else "none"
            self.call("Input.dispatchMouseEvent", type=event, x=x, y=y, button=button, clickCount=int(button == "left"))

    def press(self, key: str) -> None:
        """Press a key where the focus is."""
        # What the browser itself does with a key goes by its number, and a button is used by Enter's character.
        own = {"key": key, "code": key, "windowsVirtualKeyCode": _KEYS.get(key, 0)}
        self.call("Input.dispatchKeyEvent", type="keyDown", **own, **({"text": "\r"} if key == "Enter" else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **own)

    def choose(self, selector: str, value: str) -> None:
        """Choose an option, or move a slider, as a user would."""
        self.value(
            f"(() => {{ const it = document.querySelector({json.dumps(selector)}); it.value = {json.dumps(value)}; "
            "for (const name of ['input', 'change']) { it.dispatchEvent(new Event(name, {bubbles: true})); } })()"
        )

    def text(self, selector: str) -> str:
        """The text of the first element that fits."""
        return str(self.value(f"document.querySelector({json.dumps(selector)}).textContent"))

    def picture(self, path: Path, height: int | None = None) -> None:
        """Write a picture of the page from its top; None: all of it."""
        options: dict[str, Any] = {}
        if height is None:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000), "scale": 1}
            options = {"clip": clip, "captureBeyondViewport": True}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **options)["data"]))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._read, 1 << 20)
            assert more, "the browser ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        self._note(found.get("method", ""), found.get("params", {}))
        return found

    def _note(self, method: str, told: dict[str, Any]) -> None:
        if method == "Runtime.consoleAPICalled":
            self.said.append(json.dumps(told["args"]))
        elif method == "Runtime.exceptionThrown":
            self.said.append(json.dumps(told["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.said.append(told["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not told["request"]["url"].startswith("file:"):
            self.asked.append(told["request"]["url"])


@contextmanager
def driven(folder: Path) -> Iterator[Page]:
    """A browser with an empty profile in a folder, that is ended afterwards."""
    command = [*COMMAND, "--remote-debugging-pipe", f"--user-data-dir={folder / 'profile'}"]
    to_browser, from_browser = os.pipe(), os.pipe()

    def three_and_four() -> None:
        # Copies first: either may be one of the two numbers already.
        read, write = os.dup(to_browser[0]), os.dup(from_browser[1])
        os.dup2(read, 3)
        os.dup2(write, 4)

    process = subprocess.Popen(
        command, preexec_fn=three_and_four, close_fds=False, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    os.close(to_browser[0])
    os.close(from_browser[1])
    try:
        yield Page(from_browser[0], to_browser[1])
    finally:
        os.close(to_browser[1])
        process.terminate()
        process.wait(timeout=30)
        os.close(from_browser[0])

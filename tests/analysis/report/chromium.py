"""A headless Chromium, driven by its own protocol through a pair of pipes: no library, no port."""

import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
    "--disable-background-networking",
)  # fmt: skip
# Seconds that a browser may take to answer, or to load a page, before it counts as hanging.
PATIENCE = 300


class Page:
    """A page in a browser, of which one may ask what a reader would see, hear or reach."""

    def __init__(self, commands: int, answers: int):
        self._commands, self._answers = commands, answers
        self._buffer, self._number, self._session = b"", 0, None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Accessibility"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The browser's answer to a command; what it says in between is kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while (said := self._read(end)).get("id") != self._number:
            self.events.append(said)
        assert "error" not in said, (method, said["error"])
        return said["result"]

    def _read(self, end: float) -> dict[str, Any]:
        """What the browser says next, which it has to do before `end`."""
        while b"\0" not in self._buffer:
            left = end - time.monotonic()
            ready = left > 0 and select.select([self._answers], [], [], left)[0]
            assert ready, f"The browser has not answered in {PATIENCE} seconds."
            piece = os.read(self._answers, 1 << 16)
            assert piece, "The browser has gone."
            self._buffer += piece
        said, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(said)

    def open(self, path: Path, width: int, height: int = 800, *, phone: bool = False) -> None:
        """Load a file in a window of this size."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height,
            deviceScaleFactor=2 if phone else 1, mobile=phone,
        )  # fmt: skip
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        end = time.monotonic() + PATIENCE
        while not any(said.get("method") == "Page.loadEventFired" for said in self.events):
            self.events.append(self._read(end))

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page."""
        said = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in said, said
        return said["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press a key and let it go."""
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **about, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def heard(self) -> list[tuple[str, str, int | None]]:
        """What a screen reader is told, in order: role, name, and level of a heading."""
        told = []
        for node in self.call("Accessibility.getFullAXTree")["nodes"]:
            if not node.get("ignored"):
                levels = [p["value"]["value"] for p in node["properties"] if p["name"] == "level"]
                name = node.get("name", {}).get("value", "")
                told.append((node["role"]["value"], name, levels[0] if levels else None))
        return told

    def picture(self, path: Path) -> None:
        """Save what is seen, for a person to look at."""
        import base64

        taken = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(taken["data"]))


@contextlib.contextmanager
def chromium(profile: Path) -> Iterator[Page]:
    """A browser for as long as it is needed. It reads commands from 3 and answers on 4."""
    (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
    command = " ".join(
        [f"exec '{CHROMIUM}'", *OPTIONS, f"--user-data-dir='{profile}'", "--remote-debugging-pipe",
         f"3<&{theirs_in} 4>&{theirs_out}"]
    )  # fmt: skip
    process = subprocess.Popen(
        ["bash", "-c", command], pass_fds=(theirs_in, theirs_out),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Page(ours_out, ours_in)
    finally:
        os.close(ours_out)
        os.close(ours_in)
        process.kill()
        process.wait(timeout=PATIENCE)

"""A headless Chromium, driven over the DevTools pipe: no driver, no extra package."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--hide-scrollbars", "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE = 300.0
"""Seconds; only a machine that hangs needs them."""


def chromium() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page:
    """One tab, with the network off. `problems` collects what the console, the page and its policy complain about."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers, self._buffer, self._number = commands, answers, b"", 0
        self._session: str | None = None
        self.problems: list[str] = []
        self.requests: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return dict(answer["result"])
            self._note(answer)
        raise AssertionError(f"no answer to {method}")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self._answers, 1 << 20)
            assert part, "Chromium has ended"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))

    def _note(self, event: dict[str, Any]) -> None:
        found = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(str(found["exceptionDetails"].get("exception", found["exceptionDetails"])))
        elif event.get("method") == "Log.entryAdded" and found["entry"]["level"] in ("error", "warning"):
            self.problems.append(found["entry"]["text"])
        elif event.get("method") == "Runtime.consoleAPICalled" and found["type"] in ("error", "warning", "assert"):
            self.problems.append(str([argument.get("value") for argument in found["args"]]))
        elif event.get("method") == "Network.requestWillBeSent":
            self.requests.append(found["request"]["url"])

    def open(self, url: str, width: int = 1400, *, dark: bool = False) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[theme])
        self.send("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def wait(self, condition: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.value(condition):
            assert time.monotonic() < deadline, (condition, self.problems)
            time.sleep(0.05)

    def value(self, expression: str) -> Any:
        """Of a JavaScript expression; evaluated by the debugger, which the page's policy does not bind."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """The whole page, not only what fits."""
        found = self.send("Page.captureScreenshot", captureBeyondViewport=True, fromSurface=True)
        path.write_bytes(base64.b64decode(found["data"]))


@contextmanager
def browser(program: str) -> Iterator[Page]:
    commands_in, commands_out = os.pipe()
    answers_in, answers_out = os.pipe()
    # ignore_cleanup_errors: Chromium's children may still be writing while the folder is removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # Chromium expects its pipe as descriptors 3 and 4.
        line = f'exec "$0" "$@" 3<&{commands_in} 4>&{answers_out}'
        process = subprocess.Popen(
            ["bash", "-c", line, program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(commands_in, answers_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands_in)
        os.close(answers_out)
        try:
            yield Page(commands_out, answers_in)
        finally:
            process.terminate()
            process.wait(PATIENCE)
            os.close(commands_out)
            os.close(answers_in)

"""An OpenAI-compatible chat endpoint on loopback that really writes: the lab's paraphraser reads the request.

It obeys the requested number of words and `max_tokens` (a word is a token here), and it can misbehave: every entry of
`faults` is the fate of one request.
"""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from wmbench.lab.paraphrase import Mode, paraphrase

Fault = Literal[
    "429",
    "500",
    "400",
    "401",
    "busy",
    "garbage",
    "hollow",
    "cut",
    "slow",
    "empty",
    "long",
    "refused",
    "uncounted",
    "echo",
    "drop",
]
LONGEST_FOR_THE_LAB = 5_000
"""Characters; longer texts get a plain answer."""


class Endpoint:
    """The server, which can die and come back at the same address."""

    def __init__(self) -> None:
        self.faults: deque[Fault | None] = deque()
        """None: as it should be."""
        self.prompts: list[str] = []
        """Of every request, whatever became of it."""
        self.answered: list[str] = []
        """Of every request that was answered as it should be: what a provider charges for."""
        self.keys: set[str] = set()
        self.dies_after: int | None = None
        """Answers, after which it is gone."""
        self.on_request: Any = None
        """Called with the number of each request."""
        self.release = threading.Event()
        """Lets the slow answers go."""
        self.write: Callable[[str, int], str] = write
        """From a prompt and the number of the request to what is answered."""
        self.lock = threading.Lock()
        self.port = 0
        self.start()

    def start(self) -> None:
        self.dies_after = None
        endpoint = self

        class Handler(_Handler):
            owner = endpoint

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


class _Handler(BaseHTTPRequestHandler):
    owner: Endpoint

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        owner, key = self.owner, self.headers["Authorization"].removeprefix("Bearer ")
        prompt = request["messages"][-1]["content"]
        with owner.lock:
            if owner.dies_after is not None and len(owner.answered) >= owner.dies_after:
                self.close_connection = True
                return
            owner.prompts.append(prompt)
            owner.keys.add(key)
            number = len(owner.prompts)
            fault = owner.faults.popleft() if owner.faults else None
        if owner.on_request is not None:
            owner.on_request(number)
        if self.path != "/v1/chat/completions" or request["model"] == "no-such-model":
            self.reply(404, {"error": {"message": "no such model"}})
        elif fault is None:
            self.answer(request, prompt, number)
        else:
            self.misbehave(fault, request, prompt, number, key)

    def answer(self, request: dict[str, Any], prompt: str, number: int, extra: str = "") -> None:
        words = (self.owner.write(prompt, number) + extra).split(" ")
        room = request.get("max_tokens") or request["max_completion_tokens"]
        with self.owner.lock:
            self.owner.answered.append(prompt)
        self.complete(" ".join(words[:room]), "length" if len(words) > room else "stop", prompt)

    def complete(self, text: str | None, finish: str, prompt: str, **message: str) -> None:
        choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": len((text or "").split())}
        self.reply(200, {"object": "chat.completion", "choices": [choice], "usage": usage})

    def misbehave(self, fault: Fault, request: dict[str, Any], prompt: str, number: int, key: str) -> None:
        angry = {"error": {"message": f"your key {key} is not welcome", "code": fault}}
        if fault in ("429", "500", "400", "401"):
            self.reply(int(fault), angry, {"Retry-After": "0.01"} if fault == "429" else {})
        elif fault == "busy":
            self.reply(429, angry, {"Retry-After": "nan"})
        elif fault == "uncounted":
            message = {"role": "assistant", "content": write(prompt, number)}
            self.reply(200, {"choices": [{"message": message}], "usage": {"total_tokens": 7}})
        elif fault == "garbage":
            self.reply(200, b'{"choices": [{"message": {"content": "half a sen')
        elif fault == "hollow":
            self.reply(200, {"object": "chat.completion", "choices": []})
        elif fault == "cut":
            words = write(prompt, number).split()
            self.complete(" ".join(words[: len(words) // 2]), "length", prompt)
        elif fault == "slow":
            self.owner.release.wait()
            self.close_connection = True
        elif fault == "empty":
            self.complete("  \n", "stop", prompt)
        elif fault == "long":
            self.answer(request, prompt, number, extra=" and so on" * 30)
        elif fault == "refused":
            self.complete(None, "stop", prompt, refusal="I would rather not.")
        elif fault == "echo":
            self.complete(f"Certainly. Your key is {key}, by the way.", "stop", prompt)
        else:  # drop
            self.close_connection = True

    def reply(self, status: int, body: dict[str, Any] | bytes, headers: dict[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            pass  # the client has gone

    def log_message(self, *_: Any) -> None:
        """Not on the screen of the tests."""


# --- writing -----------------------------------------------------------------------------------------------------


def write(prompt: str, seed: int) -> str:
    """What the request asks for."""
    task, text = request_in(prompt)
    if languages := re.search(r"from (\w+) into (\w+)", task):
        return translate(text, *languages.groups(), both="JSON" in task, seed=seed)
    if limits := limits_in(task):
        return within(say_again(text, mode_of(task), seed), *limits)
    return say_again(text, mode_of(task), seed)


def request_in(prompt: str) -> tuple[str, str]:
    """What is to be done, and the text."""
    task, _, text = prompt.partition("\n\n")
    return task, text.removeprefix("Sentence:\n").removeprefix("Text:\n")


def limits_in(task: str) -> tuple[int, int] | None:
    """Fewest and most words of the answer."""
    found = re.search(r"at least (\d+)\s+and at most (\d+) words", task)
    return (int(found[1]), int(found[2])) if found else None


def mode_of(task: str) -> Mode:
    if "shorter" in task:
        return "compress"
    return "expand" if "longer" in task else "rewrite"


def say_again(text: str, mode: Mode, seed: int) -> str:
    new = paraphrase(text, mode, seed).text if len(text) <= LONGEST_FOR_THE_LAB else text
    return new if new.casefold().split() != text.casefold().split() else f"In other words: {text}"


def within(text: str, fewest: int, most: int) -> str:
    words = text.split()
    return " ".join([*words, *["indeed"] * (fewest - len(words))][:most])


def translate(text: str, source: str, target: str, *, both: bool, seed: int) -> str:
    """The pivot is English with every word spelt backwards; coming back, it is said in other words."""
    there = " ".join(word[::-1] for word in text.split())
    if both:
        return json.dumps({"there": there, "back": say_again(text, "rewrite", seed)})
    return there if source == "English" else say_again(there, "rewrite", seed)

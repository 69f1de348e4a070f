"""One answer of the endpoint: call, wait, repeat.

Three ends besides an answer. `Unanswered`: this request cannot be answered, others can; the text fails. ConfigError:
no request can be answered as things are set (key, model, address). WmbenchError: the endpoint is down or the budget is
spent. The last two end the run, which can be resumed.
"""

from __future__ import annotations

import importlib.util
import random
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, Field, ValidationError

from wmbench.errors import ConfigError, WmbenchError
from wmbench_attacks.llm.budget import Ledger
from wmbench_attacks.llm.cache import Answer
from wmbench_attacks.llm.config import LlmConfig
from wmbench_attacks.llm.prompts import Message

if TYPE_CHECKING:
    import openai

_LONGEST_PAUSE = 60.0
"""Seconds; also when the endpoint asks for a longer one."""
_TEMPLATE_TOKENS = 64
"""More than any chat template adds to two messages."""
_NO_KEY = "none"
"""Sent to endpoints that need no key; the client insists on one."""
_WRONG_KEY, _WRONG_ADDRESS = (401, 403), (404,)
_PASSING = (408, 409, 425, 429)
"""Status codes that mean `later`; so do all from 500 on."""


class Unanswered(Exception):
    """This request has no answer; says why."""


class _Passing(Exception):
    """A failure that may be over in a moment."""

    def __init__(self, reason: str, pause: float | None = None) -> None:
        super().__init__(reason)
        self.pause = pause
        """What the endpoint asked for, in seconds."""


class Endpoint:
    """Sends requests and counts them. Used by many threads."""

    def __init__(
        self, config: LlmConfig, ledger: Ledger, stop: threading.Event, has_answered: Callable[[], bool]
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._stop = stop
        self._has_answered = has_answered
        self._key = config.api_key
        self._client = _client(config, self._key)
        self._answers = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def ask(self, messages: list[Message], room: int) -> Answer:
        """The model's answer of at most `room` tokens."""
        answers_before = self._answers
        reason = ""
        for repeat in range(self._config.retries + 1):
            if self._stop.is_set():
                raise Unanswered("the run was stopped")
            try:
                return self._call(messages, room)
            except _Passing as failure:
                reason = str(failure)
                if repeat < self._config.retries:
                    self._pause(failure.pause or self._config.pause * 2**repeat)
        if self._answers > answers_before:
            raise Unanswered(reason)  # others were answered meanwhile
        raise WmbenchError(
            "the endpoint does not answer",
            where=self._config.base_url,
            why=f"{reason} ({self._config.retries + 1} calls)",
            hint="run the same command again when it does: what was answered is kept and not paid for twice",
        )

    def _call(self, messages: list[Message], room: int) -> Answer:
        import openai

        most_in = _TEMPLATE_TOKENS + sum(len(message["content"].encode()) for message in messages)
        with self._ledger.call(most_in, room) as charge:
            try:
                body = self._post(messages, room)
            except openai.APIStatusError as error:
                raise self._status_error(error) from None  # its request holds the key
            except openai.APITimeoutError:
                charge(most_in, room)  # it may have been answered, and charged, after we stopped listening
                raise _Passing(f"no answer within {self._config.timeout:g} s") from None
            except openai.APIConnectionError as error:
                cause = error.__cause__ or error
                raise _Passing(self._redacted(f"no connection: {cause}")) from None
            charge(most_in, room)  # in doubt, should it be no answer
            answer = self._read(body, most_in, room)
            charge(answer.tokens_in, answer.tokens_out)
        self._answers += 1
        return answer

    def _post(self, messages: list[Message], room: int) -> str:
        options: dict[str, Any] = {self._config.token_limit: room}
        if self._config.temperature is not None:
            options["temperature"] = self._config.temperature
        create: Any = self._client.chat.completions.with_raw_response.create
        text: str = create(model=self._config.model, messages=messages, **options).text
        return text

    def _read(self, body: str, most_in: int, room: int) -> Answer:
        """Own reading instead of the client's: it lets through what is no answer at all."""
        if self._key is not None and self._key in body:
            raise _Passing("the answer repeats the API key")
        try:
            completion = _Completion.model_validate_json(body)
        except ValidationError as error:
            raise _Passing(f"the answer is no chat completion: {error.errors(include_input=False)[0]['msg']}") from None
        choice = completion.choices[0]
        usage = completion.usage or _Usage()
        tokens_in = most_in if usage.prompt_tokens is None else usage.prompt_tokens
        tokens_out = room if usage.completion_tokens is None else usage.completion_tokens
        finish = "refused" if choice.message.refusal else choice.finish_reason or "stop"
        return Answer(choice.message.content or "", finish, tokens_in, tokens_out)

    def _status_error(self, error: openai.APIStatusError) -> Exception:
        code, config = error.status_code, self._config
        reason = self._redacted(f"HTTP {code}: {error.message}")
        if code in _WRONG_KEY:
            named = f"${config.api_key_env}" if config.api_key_env else "api_key_env"
            return ConfigError(
                "the endpoint refuses the API key", where=config.base_url, why=reason, hint=f"check {named}"
            )
        if code in _WRONG_ADDRESS:
            return ConfigError(
                f"the endpoint does not know the address or the model {config.model!r}",
                where=config.base_url,
                why=reason,
                hint="check base_url and model",
            )
        if error.code == "insufficient_quota":
            return WmbenchError(
                "the endpoint's quota is used up", where=config.base_url, why=reason, hint="resume later"
            )
        if code in _PASSING or code >= 500:
            return _Passing(reason, _asked_pause(error))
        if not self._has_answered():  # then it is not the text that it dislikes
            return ConfigError(
                "the endpoint refuses the request",
                where=config.base_url,
                why=reason,
                hint="check model, temperature, max_tokens and token_limit",
            )
        return Unanswered(reason)

    def _pause(self, seconds: float) -> None:
        """Half of it at random, so that the workers do not all come back at once. Ends at once when the run does."""
        self._stop.wait(min(seconds, _LONGEST_PAUSE) * random.uniform(0.5, 1.0))

    def _redacted(self, message: str) -> str:
        """Without the key, should the endpoint repeat it; on one line, not endless."""
        hidden = message.replace(self._key, "(API key)") if self._key else message
        return " ".join(hidden.split())[:300]


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Usage(BaseModel):
    """Some servers leave out one of them, or both."""

    prompt_tokens: int | None = Field(None, ge=0)
    completion_tokens: int | None = Field(None, ge=0)


class _Completion(BaseModel):
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None


def require_client(config: LlmConfig) -> None:
    """Fails when the package or the key is missing."""
    if importlib.util.find_spec("openai") is None:
        raise ConfigError("LLM attacks need the package openai", hint="pip install 'wmbench[llm]'")
    _ = config.api_key


def _client(config: LlmConfig, key: str | None) -> openai.OpenAI:
    import openai

    # Repeats are ours: they are counted, limited by the budget and end with the run.
    return openai.OpenAI(api_key=key or _NO_KEY, base_url=config.base_url, timeout=config.timeout, max_retries=0)


def _asked_pause(error: openai.APIStatusError) -> float | None:
    try:
        seconds = float(error.response.headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if seconds > 0 else None  # nor is `nan` a pause

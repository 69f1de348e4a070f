"""What this process has spent. A call is allowed only if its worst case still fits, so a budget is never exceeded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from wmbench.errors import WmbenchError
from wmbench_attacks.llm.config import LlmConfig

_MILLION = 1_000_000


class Ledger:
    """Calls and money of one process, over all attacks that share a cache file."""

    def __init__(self) -> None:
        self.calls = 0
        self.cost = 0.0
        self._reserved = 0.0
        self._under_way = 0
        self._changed = threading.Condition()

    @contextmanager
    def call(self, config: LlmConfig, most_in: int, most_out: int) -> Iterator[Callable[[int, int], None]]:
        """One call of at most so many tokens. The body reports the tokens it was charged for; no report, no charge."""
        worst = _price(config, most_in, most_out)
        with self._changed:
            # Calls under way may turn out cheaper than reserved; only when none is left is the budget really spent.
            while not self._fits(config, worst) and self._under_way and not self._is_out_of_calls(config):
                self._changed.wait()
            if not self._fits(config, worst):
                raise _spent(self, config)
            self.calls += 1
            self._under_way += 1
            self._reserved += worst
        charged = 0.0

        def report(tokens_in: int, tokens_out: int) -> None:
            nonlocal charged
            charged = _price(config, tokens_in, tokens_out)

        try:
            yield report
        finally:
            with self._changed:
                self._under_way -= 1
                self._reserved -= worst
                self.cost += charged
                self._changed.notify_all()

    def _is_out_of_calls(self, config: LlmConfig) -> bool:
        return config.max_calls is not None and self.calls >= config.max_calls

    def _fits(self, config: LlmConfig, worst: float) -> bool:
        affordable = config.max_cost is None or self.cost + self._reserved + worst <= config.max_cost
        return affordable and not self._is_out_of_calls(config)


@cache
def ledger_of(cache_file: Path) -> Ledger:
    return Ledger()


def _price(config: LlmConfig, tokens_in: int, tokens_out: int) -> float:
    return ((config.price_in or 0.0) * tokens_in + (config.price_out or 0.0) * tokens_out) / _MILLION


def _spent(ledger: Ledger, config: LlmConfig) -> WmbenchError:
    limits = (("max_calls", config.max_calls), ("max_cost", config.max_cost))
    return WmbenchError(
        "the budget of the LLM attacks is used up",
        why=f"{ledger.calls} calls, cost {ledger.cost:.4f}; "
        + ", ".join(f"{name} = {limit}" for name, limit in limits if limit is not None),
        hint="raise the limit and run the same command again: what was answered is kept and not paid for twice",
    )

"""What this command has spent, its worker processes included. A call is made only if its worst case still fits, so a
budget is never exceeded."""

from __future__ import annotations

import hashlib
import multiprocessing
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from wmbench.errors import WmbenchError
from wmbench_attacks.llm.cache import AnswerCache
from wmbench_attacks.llm.config import LlmConfig

_MILLION = 1_000_000


class Ledger:
    """Calls and money of one command, kept beside the answers, where all its processes see them."""

    def __init__(self, cache: AnswerCache, config: LlmConfig) -> None:
        self._cache = cache
        self._config = config
        self._command = _this_command()
        self._under_way = 0
        self._changed = threading.Condition()

    @contextmanager
    def call(self, most_in: int, most_out: int) -> Iterator[Callable[[int, int], None]]:
        """One call of at most so many tokens. The body reports the tokens it was charged for; no report, no charge."""
        worst = self._price(most_in, most_out)
        with self._changed:
            # Calls under way may turn out cheaper than reserved; only when none is left is the budget really spent.
            while not self._book(1, worst):
                if self._is_out_of_calls(self.totals()[0]) or not self._under_way:
                    raise self._spent()
                self._changed.wait()
            self._under_way += 1
        charged = 0.0

        def report(tokens_in: int, tokens_out: int) -> None:
            nonlocal charged
            charged = self._price(tokens_in, tokens_out)

        try:
            yield report
        finally:
            with self._changed:
                self._under_way -= 1
                self._book(0, charged - worst)
                self._changed.notify_all()

    def totals(self) -> tuple[int, float]:
        """Calls, and what they cost; those under way at their worst."""
        with self._cache.transaction() as database:
            query = "SELECT calls, cost FROM spending WHERE command = ?"
            calls, cost = database.execute(query, (self._command,)).fetchone() or (0, 0.0)
        return int(calls), float(cost)

    def _book(self, calls: int, cost: float) -> bool:
        """Add to the totals; a call only if it fits."""
        with self._cache.transaction() as database:
            database.execute("INSERT OR IGNORE INTO spending VALUES (?, 0, 0)", (self._command,))
            query = "SELECT calls, cost FROM spending WHERE command = ?"
            calls_before, cost_before = database.execute(query, (self._command,)).fetchone()
            most = self._config.max_cost
            if calls and (self._is_out_of_calls(calls_before) or (most is not None and cost_before + cost > most)):
                return False
            change = "UPDATE spending SET calls = calls + ?, cost = cost + ? WHERE command = ?"
            database.execute(change, (calls, cost, self._command))
            return True

    def _is_out_of_calls(self, calls: int) -> bool:
        return self._config.max_calls is not None and calls >= self._config.max_calls

    def _price(self, tokens_in: int, tokens_out: int) -> float:
        return ((self._config.price_in or 0.0) * tokens_in + (self._config.price_out or 0.0) * tokens_out) / _MILLION

    def _spent(self) -> WmbenchError:
        calls, cost = self.totals()
        limits = (("max_calls", self._config.max_calls), ("max_cost", self._config.max_cost))
        return WmbenchError(
            "the budget of the LLM attacks is used up",
            why=f"{calls} calls, cost {cost:.4f}; "
            + ", ".join(f"{name} = {limit}" for name, limit in limits if limit is not None),
            hint="raise the limit and run the same command again: what was answered is kept and not paid for twice",
        )


def _this_command() -> str:
    """The same in all processes of one command, and in no other: multiprocessing hands a random value down."""
    return hashlib.sha256(b"wmbench spending" + bytes(multiprocessing.current_process().authkey)).hexdigest()[:16]

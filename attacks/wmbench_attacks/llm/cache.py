"""Answers on disk, and what they cost: one sqlite file that several processes may share. What was paid for is never
lost."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from wmbench.errors import IntegrityError

_FORMAT = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY,       -- hash of all that the answer depends on, and of the attempt
    source TEXT NOT NULL,       -- endpoint and model
    prompt TEXT NOT NULL,       -- name, version and hash of the prompt
    text TEXT NOT NULL,
    finish TEXT NOT NULL,       -- why the model stopped: 'stop', 'length', ...
    tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spending (
    command TEXT PRIMARY KEY,
    calls INTEGER NOT NULL,
    cost REAL NOT NULL          -- calls under way at their worst
) WITHOUT ROWID;
"""
_WAIT_SECONDS = 60.0
"""For another process that is writing."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model said, usable or not: it was paid for."""

    text: str
    finish: str
    tokens_in: int
    tokens_out: int


class AnswerCache:
    """Answers by key. Used by many threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        with self._errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, check_same_thread=False)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self) -> None:
        (found,) = self._connection.execute("PRAGMA user_version").fetchone()
        if found not in (0, _FORMAT):
            raise sqlite3.DatabaseError(f"its format is {found}, expected {_FORMAT}")
        self._connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {_FORMAT}; COMMIT")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def get(self, key: str) -> Answer | None:
        query = "SELECT text, finish, tokens_in, tokens_out FROM answers WHERE key = ?"
        with self._errors(), self._lock:
            row = self._connection.execute(query, (key,)).fetchone()
        return Answer(*row) if row else None

    def put(self, key: str, source: str, prompt: str, answer: Answer) -> Answer:
        """On disk when this returns. What another process stored meanwhile stays, and is what both get."""
        row = (key, source, prompt, answer.text, answer.finish, answer.tokens_in, answer.tokens_out)
        with self.transaction() as database:
            database.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return self.get(key) or answer

    def has_answer_of(self, source: str) -> bool:
        """Whether this endpoint and model have ever answered."""
        query = "SELECT 1 FROM answers WHERE source = ? LIMIT 1"
        with self._errors(), self._lock:
            return self._connection.execute(query, (source,)).fetchone() is not None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, and no other thread or process in between."""
        with self._errors(), self._lock, self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise IntegrityError(
                "the file of the LLM answers cannot be used",
                where=str(self._path),
                why=str(error),
                hint="free the disk, name another file with the setting `cache`, or delete it to pay for all again",
            ) from error

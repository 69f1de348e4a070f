"""Every error wmbench raises on purpose.

WmbenchError                  exit 1   finished with failures above the limit
├── ConfigError               exit 2   usage or configuration
│   ├── UnknownNameError               a scheme, attack, backbone ... that is not registered
│   ├── KeyFileError                   a secret key that cannot be read or is not protected
│   └── CalibrationError               a level the calibration cannot resolve, scores that cannot be ranked
├── PluginError               exit 3   a plugin failed to load, or a hook raised or returned nonsense
├── IntegrityError            exit 4   files that contradict each other, a locked folder, a full disk
└── Interrupted               exit 130 stopped by the user, resumable

A message says what happened; `where`, `why` and `hint` (the next step) are printed below it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class WmbenchError(Exception):
    """Base of all errors that are shown without a traceback."""

    exit_code = 1

    def __init__(
        self, message: str, *, where: str | None = None, why: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.why = why
        self.hint = hint

    def __str__(self) -> str:
        details = (("where", self.where), ("why", self.why), ("next step", self.hint))
        return "\n".join([self.message, *(f"  {label}: {text}" for label, text in details if text)])


class ConfigError(WmbenchError):
    exit_code = 2


class UnknownNameError(ConfigError):
    """A name that no plugin registered; suggests the nearest known ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str], *, hint: str | None = None) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        suggestion = f"did you mean {' or '.join(repr(n) for n in near)}?" if near else None
        listing = f"known: {', '.join(names)}" if names else f"no {kind} is registered"
        super().__init__(
            f"unknown {kind} {name!r}" + (f": {suggestion}" if suggestion else ""),
            why=listing,
            hint=hint or "run `wmbench ls` to see what is installed",
        )


class KeyFileError(ConfigError):
    pass


class CalibrationError(ConfigError):
    pass


class PluginError(WmbenchError):
    exit_code = 3


class IntegrityError(WmbenchError):
    exit_code = 4


class Interrupted(WmbenchError):
    exit_code = 130

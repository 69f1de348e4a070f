"""The docstring of `wmbench.bench` says where to look; it must not forget a module."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import wmbench.bench


def test_every_module_is_on_the_map_once() -> None:
    """A line is the subject, two or more spaces, names with remarks in parentheses."""
    lines = re.findall(r"^    \S.*?  +(.*)$", str(wmbench.bench.__doc__), re.MULTILINE)
    named = re.sub(r"\(.*?\)", "", ", ".join(lines)).replace("/", "")
    there = {path.stem for path in Path(str(wmbench.bench.__file__)).parent.iterdir() if path.stem[0] not in "_."}
    assert Counter(re.findall(r"\w+", named)) == Counter(there)

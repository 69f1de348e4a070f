"""Numpy and torch bring a pool of threads each, and idle threads of one spin on the cores that the other needs."""

from __future__ import annotations

from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def numpy_on_one_thread() -> Any:
    """A context in which numpy's matrix products leave the cores to torch.

    In a step both work by turns, a millisecond each; DenMark's steps on two cores are twice as fast for it.
    """
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> ThreadpoolController:
    """Looking for the libraries of a process takes milliseconds; they do not change afterwards."""
    return ThreadpoolController()

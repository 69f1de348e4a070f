"""How many threads work, and how they wait. Imports no torch."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


def wait_without_spinning() -> None:
    """Let torch's threads sleep soon where they wait for each other; call it before torch is imported.

    By default they spin for milliseconds, also while the thread that they wait for does not run because other programs
    have the cores. Seconds on two cores, by default and with a short spin:

                               idle                    beside two processes   beside eight
        clean, two answers     0.68-0.82   0.74-0.98    2.8    1.7            47-89     2.6
        DenMark, eight         2.9-3.2     3.0-3.4     10.4    6.2            over 60   6.9

    A setting of the user's own is left alone.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # read by torch's GNU OpenMP (Linux) when it is loaded


def numpy_on_one_thread() -> Any:
    """A context in which numpy's matrix products leave the cores to torch.

    Numpy and torch bring a pool of threads each, and idle threads of one spin on the cores that the other needs. In a
    step both work by turns, a millisecond each; DenMark's steps on two cores are twice as fast for it.
    """
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> ThreadpoolController:
    """Looking for the libraries of a process takes milliseconds; they do not change afterwards."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()

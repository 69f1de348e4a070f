"""Arrays of numpy, by what they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.floating[Any]]
AnyArray = npt.NDArray[Any]

"""From scores to decisions: calibrated p-values, rates at fixed false-positive rates, intervals. Imports no torch."""

from wmbench.detection.calibration import Calibration, Scan, is_calibration, needed_nulls
from wmbench.detection.intervals import Interval, bootstrap, bootstrap_difference, clopper_pearson
from wmbench.detection.like_length import LikeLength
from wmbench.detection.metrics import OperatingPoint, Roc, auc, operating_point, roc, split_rule, tpr_at_fpr
from wmbench.detection.resampling import RocIntervals, bootstrap_roc

__all__ = [
    "Calibration",
    "Interval",
    "LikeLength",
    "OperatingPoint",
    "Roc",
    "RocIntervals",
    "Scan",
    "auc",
    "bootstrap",
    "bootstrap_difference",
    "bootstrap_roc",
    "clopper_pearson",
    "is_calibration",
    "needed_nulls",
    "operating_point",
    "roc",
    "split_rule",
    "tpr_at_fpr",
]

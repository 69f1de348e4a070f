"""From scores to decisions: calibrated p-values, rates at fixed false-positive rates, intervals. Imports no torch."""

from wmbench.detection.calibration import Calibration, Scan, needed_nulls
from wmbench.detection.intervals import Interval, bootstrap, bootstrap_difference, clopper_pearson
from wmbench.detection.metrics import OperatingPoint, Roc, auc, operating_point, roc, split_rule, tpr_at_fpr

__all__ = [
    "Calibration",
    "Interval",
    "OperatingPoint",
    "Roc",
    "Scan",
    "auc",
    "bootstrap",
    "bootstrap_difference",
    "clopper_pearson",
    "needed_nulls",
    "operating_point",
    "roc",
    "split_rule",
    "tpr_at_fpr",
]

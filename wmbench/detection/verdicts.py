"""The host's verdict: every scheme without an analytic law of its own is judged by rank among null texts."""

from __future__ import annotations

from wmbench.detection.calibration import Calibration
from wmbench.types import TextContext, Verdict, Views


def empirical_verdicts(views: Views, calibration: Calibration, context: TextContext) -> list[Verdict]:
    """One verdict per text: add-one p per view, Bonferroni over the views, ranked by -ln p_scan."""
    calibration.require(context.alpha)
    calibration.require_views(views.names)
    scan = calibration.scan(views.scores)
    count = len(views.names)
    method = "empirical add-one" + (f", Bonferroni over {count} views" if count > 1 else "")
    verdicts = []
    for i, best in enumerate(scan.best_view.tolist()):
        name, p = views.names[best], float(scan.p_scan[i])
        # Ranks saturate at the best null; the raw score still orders the texts above it.
        details = {
            "raw_score": float(views.scores[i, best]),
            "p_view": float(scan.p[i, best]),
            "n_views": count,
            "n_nulls": calibration.n0,
        }
        evidence = views.evidence[i].get(name, ()) if views.evidence is not None else ()
        verdicts.append(
            Verdict(p, float(scan.s_rob[i]), p <= context.alpha, context.alpha, name, method, evidence, details)
        )
    return verdicts

"""How much a watermark costs in quality: how surprising its texts are to a model that had no part in writing them."""

from wmbench.quality.judges import DEFAULT_JUDGE, FoundJudge, TextJudge, find_judge, require_judge, require_judge_folder

__all__ = ["DEFAULT_JUDGE", "FoundJudge", "TextJudge", "find_judge", "require_judge", "require_judge_folder"]

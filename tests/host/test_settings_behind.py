"""What runs may share: a product of a scheme depends on the settings it names, and on no others."""

from __future__ import annotations

from wmbench.types import SchemeInfo

SETTINGS = {"strength": 4.0, "threshold": 0.5, "encoder": "mini", "secret": 7}


def info(**fields: frozenset[str]) -> SchemeInfo:
    return SchemeInfo("mine", "a test", "nowhere:Mine", decoding_only=frozenset({"strength"}), **fields)


def test_a_scheme_that_names_nothing_shares_nothing() -> None:
    silent = SchemeInfo("mine", "a test", "nowhere:Mine")
    for product in ("texts", "features", "scores"):
        assert silent.settings_behind(product, SETTINGS) == SETTINGS


def test_texts_do_not_depend_on_the_detector() -> None:
    found = info(detection_only=frozenset({"threshold"})).settings_behind("texts", SETTINGS)
    assert found == {"strength": 4.0, "encoder": "mini", "secret": 7}


def test_scores_do_not_depend_on_decoding() -> None:
    assert info().settings_behind("scores", SETTINGS) == {"threshold": 0.5, "encoder": "mini", "secret": 7}


def test_features_depend_on_what_they_name_or_on_all_that_scores_do() -> None:
    assert info().settings_behind("features", SETTINGS) == info().settings_behind("scores", SETTINGS)
    named = info(feature_settings=frozenset({"encoder"}))
    assert named.settings_behind("features", SETTINGS) == {"encoder": "mini"}
    assert info(feature_settings=frozenset()).settings_behind("features", SETTINGS) == {}

"""Scheme `none`: clean decoding, the control of every comparison."""

from __future__ import annotations

from wmbench import hookimpl
from wmbench.types import SchemeInfo


@hookimpl
def register_schemes() -> list[SchemeInfo]:
    return [
        SchemeInfo(
            name="none",
            summary="no watermark: the backbone's own decoding, as a control",
            factory="wmbench_none.decode:CleanDecoding",
            alg_id="org.wmbench.none.1",
            key_use="none",
        )
    ]

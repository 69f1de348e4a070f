"""How a page becomes one file that works with the network off, under a policy that loads and evaluates nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from wmbench.report.palette import PALETTE

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

NOTHING: Final = "'none'"


def has_chart_library() -> bool:
    return find_spec("altair") is not None and find_spec("vl_convert") is not None


@cache
def chart_bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, from the package that carries them."""
    import altair
    import vl_convert

    version = ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    bundle: str = vl_convert.javascript_bundle(vl_version=version)  # type: ignore[call-arg]  # its stub says otherwise
    return f"(() => {{ {bundle}\n}})();"  # its own scope: minified names must not meet the page's


def render(template: str, scripts: Sequence[str], **context: Any) -> str:
    from markupsafe import Markup

    style = template_file("page.css") + "\n".join(_generated_rules())
    inline = [_inline(script) for script in scripts]
    policy = "; ".join(
        [
            f"default-src {NOTHING}",
            f"script-src {' '.join(_hash(script) for script in inline) or NOTHING}",
            f"style-src {_hash(style)}",
            "img-src data:",
            f"base-uri {NOTHING}",
            f"form-action {NOTHING}",
        ]
    )
    page = _environment().get_template(template)
    return page.render(policy=policy, style=Markup(style), scripts=[Markup(script) for script in inline], **context)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(loader=PackageLoader("wmbench.report"), autoescape=True, undefined=StrictUndefined)


@cache
def template_file(name: str) -> str:
    return files("wmbench.report").joinpath("templates", name).read_text(encoding="utf-8")


def _generated_rules() -> Iterable[str]:
    """Colours by class: the policy allows no style in the markup."""
    for number, colour in enumerate(PALETTE):
        yield f".swatch-{number} {{ background: {colour}; }}"
    for step in range(11):
        yield f".heat-{step} {{ background: rgb(64 130 235 / {0.032 * step:.3f}); }}"
    for shade in range(1, 6):
        for sign, name in ((1, "22 140 90"), (-1, "208 60 40")):
            yield f".shade-{sign * shade} {{ background: rgb({name} / {0.11 * shade:.2f}); }}"


def _inline(script: str) -> str:
    """Nothing in a script may end its element, or open a comment that hides the end."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def safe_json(value: Any) -> Markup:
    from markupsafe import Markup

    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))

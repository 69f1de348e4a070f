"""Decodes a few samples in a fresh process, for `SchemeContract.test_restart_does_not_matter`.

Reads a task (JSON) from standard input and writes the token ids to standard output.
"""

from __future__ import annotations

import json
import sys
import traceback

from wmbench.host import Host
from wmbench.testing.harness import build, run_scheme, scheme_context
from wmbench.testing.toys import backbone_named, toy_key
from wmbench.types import Registered, Sample


def main() -> None:
    task = json.load(sys.stdin)
    if task["plugins"]:
        Host.discover(task["plugins"])  # from now on their modules can be imported
    backbone = backbone_named(task["backbone"])
    key = toy_key(task["key"]) if task["key"] is not None else None
    info = Registered("restarted", "", task["info"]["factory"], task["info"]["config"])
    scheme = build(info, task["settings"], scheme_context(backbone.codec, key))
    generations = run_scheme(scheme, backbone, [Sample(**sample) for sample in task["samples"]])
    json.dump([generation.token_ids for generation in generations], sys.stdout)


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # `wmbench conform` shows how the message begins, and with --debug the rest
        sys.exit(f"{type(error).__name__}: {error}\n{traceback.format_exc()}")

"""A key leaves no trace: not in a file of the run, not on the screen, not in a traceback."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

from tests.crash.test_crash import ENVIRONMENT
from tests.store.helpers import DEMO_PLUGIN

CANARY = bytes(range(0xA0, 0xC0))

BOTH = """
import sys
from wmbench.cli import main
common = ["--backbone", "tiny", "--dataset", "toy", "--samples", "2", "--debug", "--plugin", sys.argv[1]]
codes = [main(["run", "--scheme", scheme, *common, "--trace"]) for scheme in ("demo", "raising")]
codes.append(main(["validate", "--scheme", "demo", *common]))
codes.append(main(["run", "--scheme", "demo", *common, "--dry-run", "--json"]))
for given in sys.argv[2:]:  # a key, or most of one, where the name of a file or variable belongs
    codes.append(main(["key", "id", given, "--debug"]))
codes += [main(["validate", "--scheme", "demo", *common, "--key", given]) for given in sys.argv[2:5]]
print(codes)
"""


def disguises(secret: bytes) -> list[bytes]:
    forms = [
        secret,
        secret.hex().encode(),
        secret.hex().upper().encode(),
        secret.hex(":").encode(),
        repr(secret).encode(),
    ]
    forms += [base64.b64encode(secret).rstrip(b"="), base64.urlsafe_b64encode(secret).rstrip(b"=")]
    forms += [str(int.from_bytes(secret, order)).encode() for order in ("big", "little")]
    forms.append(", ".join(map(str, secret)).encode())
    return forms


def test_the_canary_appears_nowhere(tmp_path: Path) -> None:
    encoded = [CANARY.hex()[:63], CANARY.hex(), CANARY.hex(":"), base64.b64encode(CANARY).decode(),
               base64.urlsafe_b64encode(CANARY).decode().rstrip("="), str(int.from_bytes(CANARY, "big"))]  # fmt: skip
    mistakes = [f"{kind}{form}" for form in encoded for kind in ("", "env:", "file:")]
    done = subprocess.run(
        [sys.executable, "-c", BOTH, str(DEMO_PLUGIN), *mistakes],
        env={**ENVIRONMENT, "WMBENCH_KEY": CANARY.hex()}, cwd=tmp_path, capture_output=True, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == str([0, 3, 0, 0, *[2] * (len(mistakes) + 3)]).encode(), done.stderr.decode()
    assert b"Traceback" in done.stderr
    assert b"SecretKey(id=" in done.stderr  # the plugin did try to print it
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"run.json", "samples.jsonl", "trace.jsonl", "timings.jsonl"} <= {path.name for path in files}
    for form in [*disguises(CANARY), CANARY.hex()[:63].encode()]:
        assert form not in done.stdout
        assert form not in done.stderr
        for path in files:
            assert form not in path.read_bytes(), path

"""Errors in plugins, told so that their author finds the line."""

from __future__ import annotations

import traceback
from pathlib import Path


def told(error: BaseException, module: str) -> str:
    """`NameError: name 'bonus' is not defined (greenlist.py:31)`."""
    line = line_in(error, module)
    return f"{type(error).__name__}: {error}" + (f" ({line})" if line else "")


def line_in(error: BaseException, module: str) -> str:
    """The innermost line that the error passed in the package of a module; empty when it passed none."""
    package, found = module.partition(".")[0], ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        name = str(frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] == package:
            depth = 1 + name.count(".") + ("__path__" in frame.f_globals)
            found = f"{'/'.join(Path(frame.f_code.co_filename).parts[-depth:])}:{line}"
    return found


def place_in_file(error: BaseException, path: Path) -> str:
    """The line of a plugin file that an error stems from."""
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    frames += [(error.filename or "", error.lineno)] if isinstance(error, SyntaxError) else []
    lines = [line for file, line in frames if file == str(path.absolute())]
    return f"{path}:{lines[-1]}" if lines else str(path)

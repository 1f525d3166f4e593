"""Check a class in a learner's file, in a child process with a time limit.

The file runs with the learner's rights: this protects from accidents, not from attacks. The child
is told what to check through its standard input, and writes its verdict into a file whose name only
it knows; so nothing that the learner's code prints, and no way to end Python, counts as a verdict.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

# By the class that the learner's should equal: the check's name in attncourse.checks
CHECKS = {
    "CausalAttention": "check_causal_attention",
    "MultiHeadAttentionWrapper": "check_stacked_heads",
    "MultiHeadAttention": "check_weight_split",
}
RIGHT, WRONG, UNKNOWN = 0, 1, 2  # exit statuses


class CannotCheckError(Exception):
    """The class cannot be judged; the message says why."""


def check_in_child(path: Path, name: str, like: str | None, seconds: float) -> tuple[int, str]:
    """Check a class in a file.

    Args:
        path: the file.
        name: of the class.
        like: the class that it should equal, one of CHECKS; None means by its parameters.
        seconds: how long the child may take.

    Returns:
        The exit status, 0 right, 1 wrong, 2 cannot be judged, and the sentence that says so.
    """
    if path.suffix == ".ipynb":
        return UNKNOWN, f"{path} is a notebook: copy the class into a .py file, and check that."
    if path.suffix != ".py" or not path.is_file():
        return UNKNOWN, f"{path} is not a Python file: give a .py file that is there."
    with TemporaryDirectory() as folder:
        verdict = Path(folder) / "verdict.json"
        task = json.dumps([str(path.resolve()), name, like, str(verdict)])
        # -P: a file in the current folder must not take the place of a library's module
        command = [sys.executable, "-P", "-m", "attncourse.classroom.check_file"]
        try:
            subprocess.run(command, input=task, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return UNKNOWN, f"{path} took longer than {seconds:g} seconds: does a loop never end?"
        try:
            status, said = json.loads(verdict.read_text(encoding="utf-8"))
        except (OSError, ValueError, TypeError):  # there is none, or only a part of one
            return UNKNOWN, f"{path} ended Python before {name} was checked."
    return status, said


def judge(path: Path, name: str, like: str | None) -> tuple[int, str]:
    """Run a file in this process, and check a class in it; returns what check_in_child does."""
    from attncourse import checks

    try:
        module = _run(path)
        if not hasattr(module, name):
            found = [each for each, value in vars(module).items() if isinstance(value, type)]
            raise CannotCheckError(f"has no class {name}; it has: {', '.join(found) or 'none'}.")
    except CannotCheckError as error:
        return UNKNOWN, f"{path.name} {error}"
    written = getattr(module, name)
    like = like or ("MultiHeadAttention" if _takes_heads(written) else "CausalAttention")
    verdict = getattr(checks, CHECKS[like])(written)
    return (RIGHT if verdict.holds is True else WRONG), str(verdict)


def _run(path: Path) -> ModuleType:
    """Run a file as a module, with its neighbours importable, or raise CannotCheckError."""
    name = path.stem
    if name in sys.modules or name in sys.stdlib_module_names:
        raise CannotCheckError(f"has the name of the module {name}, and hides it: rename the file.")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        where = f"line {error.lineno}" if error.filename == str(path) else f"{error.filename}"
        raise CannotCheckError(f"has a syntax error in {where}: {error.msg}.") from error
    except ModuleNotFoundError as error:
        raise CannotCheckError(
            f"in line {_line(error, path)} imports {error.name}, which is neither installed nor a "
            "file beside it."
        ) from error
    except (SystemExit, KeyboardInterrupt) as error:
        raise CannotCheckError(
            f"ends Python in line {_line(error, path)}, so {type(error).__name__} comes before the "
            'check: put what the file does as a script below `if __name__ == "__main__":`.'
        ) from error
    except BaseException as error:
        raise CannotCheckError(
            f"stops in line {_line(error, path)} with {type(error).__name__}: {error}"
        ) from error
    return module


def _line(error: BaseException, path: Path) -> int:
    """Return the last line of a file that led to an error."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return lines[-1] or 0 if lines else 0


def _takes_heads(written: type) -> bool:
    """Return whether a class is made with a number of heads, under whatever name."""
    try:
        names = inspect.signature(written).parameters
    except (TypeError, ValueError):
        return True
    return any("head" in name for name in names)


def main() -> None:
    """Check what standard input names, write the verdict, and end before any code at exit runs."""
    path, name, like, verdict = json.loads(sys.stdin.read())
    sys.argv = [path]
    found = judge(Path(path), name, like)
    sys.stdout.flush()
    sys.stderr.flush()
    Path(verdict).write_text(json.dumps(found), encoding="utf-8")
    os._exit(0)


if __name__ == "__main__":
    main()

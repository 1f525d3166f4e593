"""Run pytest in forks of one process, which has loaded already what takes long to load.

    python tools/forked_pytest.py [module ...]

The named modules are loaded first; none may load attnlib, so each run loads its own folder's. It
reads a line of JSON for each run: the folder to run in, pytest's arguments, and a limit in seconds.
It answers with a line: pytest's exit code, null if it ran out of time, and what it printed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory


def run(folder: str, arguments: Sequence[str], limit: float) -> tuple[int | None, str]:
    """Return pytest's exit code, None if it ran out of time, and what it printed."""
    with TemporaryDirectory() as kept:
        printed = Path(kept) / "printed"
        child = os.fork()
        if child == 0:
            os.setsid()  # so that what it starts ends with it
            _become_pytest(folder, arguments, printed)
        code = _wait(child, limit)
        text = printed.read_text(encoding="utf-8", errors="replace") if printed.exists() else ""
    return (code, text) if code is not None else (None, "ran out of time")


def _become_pytest(folder: str, arguments: Sequence[str], printed: Path) -> None:
    """Run pytest, as `python -m pytest` would in the folder, and end with its exit code."""
    code = 70
    try:
        os.chdir(folder)
        out = os.open(printed, os.O_WRONLY | os.O_CREAT)
        for stream in (1, 2):
            os.dup2(out, stream)
        sys.path[0] = folder  # it was this file's
        os.environ["PYTHONPATH"] = folder
        import pytest

        code = int(pytest.main(list(arguments)))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(child: int, limit: float) -> int | None:
    """Return the exit code of a process; end it, and return None, if it takes longer."""
    end = time.monotonic() + limit
    pause = 0.002
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    with suppress(ProcessLookupError):  # it has not come to setsid yet
        os.killpg(child, signal.SIGKILL)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def main(modules: Sequence[str]) -> None:
    """Load modules, then answer each line of stdin."""
    for name in modules:
        import_module(name)
    if found := [name for name in sys.modules if name.split(".")[0] in ("attnlib", "attncourse")]:
        raise ImportError(f"{found[0]} is loaded before the forks: they would all share it")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    for line in sys.stdin:
        print(json.dumps(run(**json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

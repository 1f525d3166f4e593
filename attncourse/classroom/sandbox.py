"""Run a program that may be hostile: with a time limit, in a folder of its own.

Where Linux lets a user make namespaces (util-linux's `unshare`), the program has no network, sees
no process but its own, and can write to its own folder alone; all else is read-only. Elsewhere it
still has its own folder, home and time limit, and `walls()` says that there is no more than that.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple

# In the new namespaces: the folder becomes a mount of its own, every other mount read-only.
ENTER = r"""
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
while read -r _ _ _ _ point _; do
    point=$(printf %b "$point")
    [ "$point" = "$1" ] || mount -o remount,bind,ro "$point" 2>/dev/null || [ "$point" != / ]
done < /proc/self/mountinfo
mount -t proc proc /proc
cd "$1"
shift
exec "$@"
"""
UNSHARE = ("--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "--kill-child")


class Ended(NamedTuple):
    """How a program ended: its exit status, None if it ran out of time; what it wrote last."""

    status: int | None
    said: str


def run_program(command: Sequence[str], folder: Path, seconds: float) -> Ended:
    """Run a program in a folder and end it, with all that it started, after some seconds.

    Args:
        command: the program and its arguments.
        folder: where it runs, and where alone it may write.
        seconds: how long it may take.
    """
    folder = folder.resolve()
    home = folder / "home"
    home.mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    environment = kept | {
        "HOME": str(home),
        "TMPDIR": str(home),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "MPLCONFIGDIR": str(home / "matplotlib"),
        "TORCHINDUCTOR_CACHE_DIR": str(home / "inductor"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "OMP_NUM_THREADS": "1",
    }
    if walls():
        command = ["unshare", *UNSHARE, "sh", "-c", ENTER, "sh", str(folder), *command]
    with tempfile.TemporaryFile() as out:  # a pipe would stay open as long as any child of theirs
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _end(process)
        process.wait()
        return Ended(status, _last(out))


def _last(out: IO[bytes]) -> str:
    """Return the end of what was written to a file."""
    out.seek(max(0, out.seek(0, os.SEEK_END) - 2000))
    return out.read(2000).decode("utf-8", "replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program and every process of its session."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


@cache
def walls() -> bool:
    """Return whether programs run without network, with nothing writable but their folder."""
    if not sys.platform.startswith("linux") or not shutil.which("unshare"):
        return False
    with tempfile.TemporaryDirectory() as folder:
        enter = ["unshare", *UNSHARE, "sh", "-c", ENTER, "sh", os.path.realpath(folder), "true"]
        return subprocess.run(enter, capture_output=True).returncode == 0

"""Run a script that may be hostile: behind bubblewrap's walls, and watched from outside.

Behind the walls there are the system's programs, this Python and the two packages, read-only; one
folder in memory, /tmp, can be written to. There is no network, socket, process or variable of the
host, no solution of the course, no capability and no way to get one. Limits of the system hold
for each process; time, and memory in all, are watched.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from math import inf
from pathlib import Path
from shutil import which
from time import monotonic
from typing import NamedTuple

import attnlib
from attncourse.classroom.lessons import course
from attncourse.language.kept import cache_folder

MEMORY = 8 * 10**9  # bytes: a slip of the pen must not use up the machine
SPACE = 256 * 10**6  # bytes that can be written
PROCESSES = 256
TOLD = 10_000_000  # bytes that a script may tell
START = 60.0  # seconds until Python runs, and for what is imported first
TICK = 0.2  # seconds from one look to the next

SYSTEM = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"]
SYSTEM += ["/etc/alternatives", "/etc/fonts", "/etc/ld.so.cache", "/etc/localtime"]
PACKAGES = (Path(attnlib.__file__).parent, Path(__file__).parents[1])
LIBRARIES = [path for path in sys.path if path.endswith("-packages")]
SETTINGS = {
    "PYTHONPATH": os.pathsep.join([*(str(package.parent) for package in PACKAGES), *LIBRARIES]),
    "PYTHONDONTWRITEBYTECODE": "1",
    "MPLBACKEND": "agg",
    "OMP_NUM_THREADS": "1",
}
INSIDE = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "USER": "learner",
    "LANG": "C.UTF-8",
    "XDG_CACHE_HOME": str(cache_folder().parent),
}
LIMITS = ["prlimit", f"--as={MEMORY}", f"--fsize={SPACE}", f"--nproc={PROCESSES}", "--core=0"]
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]
NOBODY += ["--bounding-set=-all", "--inh-caps=-all"]


class NoWallsError(RuntimeError):
    """This system makes no sandbox; the message says what would help."""


class Ended(NamedTuple):
    """How a script ended, and what it had told by then."""

    told: bytes
    why: str
    seconds: float  # that it took, without those in which it waited for a busy processor


@cache
def walls() -> tuple[str, ...]:
    """Return the command that puts another one behind walls.

    Raises:
        NoWallsError: bubblewrap is not installed, or may not do its work here.
    """
    bubblewrap = which("bwrap")
    if bubblewrap is None:
        raise NoWallsError(
            "bubblewrap, which makes the sandbox, is not installed: sudo apt-get install bubblewrap"
        )
    alone = [f"--unshare-{what}" for what in ("ipc", "pid", "net", "uts", "cgroup")]
    is_root = os.geteuid() == 0  # whom no limit of processes holds: nobody runs the script
    user = [] if is_root else ["--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
    made = [bubblewrap, "--die-with-parent", *alone, *user, *_list_mounts()]
    made += [*(NOBODY if is_root else []), *LIMITS]
    tried = subprocess.run([*made, "true"], env=INSIDE, capture_output=True, text=True)
    if tried.returncode != 0:
        raise NoWallsError(f"bubblewrap makes no sandbox here: {tried.stderr.strip()}")
    return tuple(made)


def _list_mounts() -> list[str]:
    """Return bubblewrap's options for what there is inside, in their order."""
    hidden = course()  # its solutions; Python and the packages may be below it
    named = map(Path, [*SYSTEM, sys.prefix, sys.base_prefix, *LIBRARIES])
    found = Path(sys.executable).resolve().parents[1], *PACKAGES, cache_folder()
    shown = dict.fromkeys([*named, *found])
    there = [hidden, *(path for path in shown if path.exists() and path.parent != path)]
    options = ["--perms", "1777", "--size", str(SPACE), "--tmpfs", "/tmp"]
    for path in sorted(there, key=lambda path: path.is_relative_to(hidden)):
        for folder in list(reversed(path.parents))[1:]:
            options += ["--perms", "0755", "--dir", str(folder)]
        empty = ["--perms", "0755", "--tmpfs", str(path)]
        options += empty if path == hidden else ["--ro-bind", str(path), str(path)]
    options += ["--dev", "/dev", "--proc", "/proc", "--hostname", "box", "--chdir", "/tmp"]
    for place in (str(hidden), "/dev", "/"):
        options += ["--remount-ro", place]
    return options


def run_script(
    script: Path, given: str, seconds: float, behind: Sequence[str] = (), in_all: float = inf
) -> Ended:
    """Run a script of Python, and end it with all that it started if it takes too much.

    Args:
        script: its path.
        given: what it reads.
        seconds: how long it may go without telling a line; START more before the first.
        behind: the walls around it; none for a script that is trusted.
        in_all: how long it may go, whatever it tells; START more, too.
    """
    variables = SETTINGS | (INSIDE if behind else dict(os.environ) | SETTINGS)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        reads, tells = Path(name) / "given", Path(name) / "told"
        reads.write_text(given, encoding="utf-8")
        with reads.open("rb") as source, tells.open("wb") as target:
            process = subprocess.Popen(
                [*behind, sys.executable, "-P", str(script)],
                cwd=name,
                env=variables,
                stdin=source,
                stdout=target,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            why, taken = _watch(process, tells, seconds, in_all)
        finally:
            _end(process)
        with tells.open("rb") as file:
            return Ended(file.read(TOLD), why, taken)


def _watch(
    process: subprocess.Popen[bytes], tells: Path, seconds: float, in_all: float
) -> tuple[str, float]:
    """Return how a script ended, or why it was ended, and how long it took."""
    taken = since = computed = 0.0
    size, before = 0, monotonic()
    while True:
        with suppress(subprocess.TimeoutExpired):
            status = process.wait(TICK)
            return f"Python ended (status {status})", taken
        now, (used, memory, is_busy) = monotonic(), _look(process.pid)
        step = max(0.0, used - computed) if is_busy else now - before
        taken, since, computed, before = taken + step, since + step, used, now
        told = tells.stat().st_size
        if told > size:
            size, since = told, 0.0
        if told > TOLD:
            return f"told more than {TOLD // 10**6} MB", taken
        if memory > MEMORY:
            return f"took more than {MEMORY / 10**9:g} GB of memory", taken
        if since > seconds + START * (size == 0):
            return f"took longer than {seconds:g} seconds", taken
        if taken > in_all + START:
            return f"took longer than {in_all:g} seconds in all", taken


def _look(pid: int) -> tuple[float, int, bool]:
    """Return the seconds that a process and its children computed, their memory, and if any can.

    One that can compute and does not waits for a processor. Only Linux tells.
    """
    import psutil

    seconds, memory, is_busy = 0.0, 0, False
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            with suppress(psutil.Error), one.oneshot():
                seconds += sum(one.cpu_times()[:4])
                memory += one.memory_info().rss
                is_busy |= psutil.LINUX and one.status() == psutil.STATUS_RUNNING
    return seconds, memory, is_busy


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a script and every process of its session; behind walls, all."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()

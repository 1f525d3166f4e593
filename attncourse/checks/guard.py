"""A learner's code may loop for ever, print, exit or change settings: here it does no harm."""

from __future__ import annotations

import contextlib
import io
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from types import FrameType

import torch

SECONDS = 10.0
# A busy computer may keep the code from computing. So it gets up to this many times the seconds,
# as long as it has not spent half of the seconds computing.
PATIENCE = 3


class TimeIsUp(BaseException):
    """Raised inside the learner's code; no `except Exception` of theirs catches it."""


@contextlib.contextmanager
def guarded(seconds: float = SECONDS) -> Iterator[None]:
    """Run what is inside quietly, on one thread of the CPU, and for some seconds at most.

    What it prints or warns is dropped. torch's settings are afterwards as before.

    Args:
        seconds: after these, TimeIsUp is raised inside.
    """
    dtype, threads, grad, device = (
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.get_default_device(),
    )
    elsewhere = device.type != "cpu"  # to say so costs every operation 2 us: only where it matters
    silence = io.StringIO()
    try:
        torch.set_num_threads(1)  # on numbers this small, more threads only wait for each other
        with (
            contextlib.redirect_stdout(silence),
            contextlib.redirect_stderr(silence),
            warnings.catch_warnings(),
            torch.enable_grad(),
            torch.device("cpu") if elsewhere else contextlib.nullcontext(),
        ):
            warnings.simplefilter("ignore")
            with time_limit(seconds):
                yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)
        torch.set_grad_enabled(grad)
        if torch.get_default_device() != device:
            torch.set_default_device(device)


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeIsUp inside if it takes longer than some seconds.

    A signal interrupts even a sleep. There is one only in the main thread, where Jupyter runs
    cells, and not on Windows. Elsewhere there is no limit.
    """
    if not hasattr(signal, "setitimer") or (
        threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    began, computed = time.monotonic(), time.process_time()

    def ring(number: int, frame: FrameType | None) -> None:
        busy = time.process_time() - computed < seconds / 2
        if not busy or time.monotonic() - began > PATIENCE * seconds:
            raise TimeIsUp

    before = signal.signal(signal.SIGALRM, ring)
    # again each 0.2 s, in case the code catches everything
    rest, _ = signal.setitimer(signal.ITIMER_REAL, seconds, 0.2)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)  # first, so that it rings no more
        signal.setitimer(signal.ITIMER_REAL, rest)
        signal.signal(signal.SIGALRM, before)

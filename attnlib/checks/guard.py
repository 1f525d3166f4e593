"""A learner's code may loop for ever, print, exit or change settings: here it does no harm."""

from __future__ import annotations

import contextlib
import ctypes
import io
import signal
import threading
import warnings
from collections.abc import Iterator
from types import FrameType

import torch

SECONDS = 10.0


class TimeIsUp(BaseException):
    """Raised inside the learner's code; no `except Exception` of theirs catches it."""


@contextlib.contextmanager
def guarded(seconds: float = SECONDS) -> Iterator[None]:
    """Run what is inside quietly, on one thread of the CPU, and for some seconds at most.

    What it prints or warns is dropped. torch's settings are afterwards as before.

    Args:
        seconds: after these, TimeIsUp is raised inside.
    """
    dtype, threads, grad = (
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
    )
    silence = io.StringIO()
    try:
        torch.set_num_threads(1)  # on numbers this small, more threads only wait for each other
        with (
            contextlib.redirect_stdout(silence),
            contextlib.redirect_stderr(silence),
            warnings.catch_warnings(),
            torch.enable_grad(),
            torch.device("cpu"),
        ):
            warnings.simplefilter("ignore")
            with time_limit(seconds):
                yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)
        torch.set_grad_enabled(grad)


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeIsUp inside if it takes longer than some seconds.

    In the main thread of a Unix system a signal interrupts even a sleep. Elsewhere the exception
    comes with the next line of Python that runs.
    """
    if hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGALRM, _raise)
        rest, _ = signal.setitimer(signal.ITIMER_REAL, seconds, 0.2)  # again, if it is caught
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, rest)
            signal.signal(signal.SIGALRM, before)
        return
    over, lock = threading.Event(), threading.Lock()
    thread = ctypes.c_ulong(threading.get_ident())

    def watch() -> None:
        wait = seconds
        while not over.wait(wait):
            with lock:
                if not over.is_set():
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(TimeIsUp))
            wait = 0.2

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        with lock:
            over.set()
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, None)


def _raise(number: int, frame: FrameType | None) -> None:
    raise TimeIsUp

"""A learner's code may loop for ever, print, exit or change settings: here it does no harm."""

from __future__ import annotations

import contextlib
import ctypes
import io
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from types import FrameType

import torch

SECONDS = 10.0
PATIENCE = 3  # times as long it may take where the computer is busy with something else


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
    """Raise TimeIsUp inside if it takes longer than some seconds, half of them spent computing.

    In the main thread of a Unix system a signal interrupts even a sleep. Elsewhere the exception
    comes with the next line of Python that runs.
    """
    clock = _Clock(seconds)

    def ring(number: int, frame: FrameType | None) -> None:
        if clock.is_over():
            raise TimeIsUp

    if hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGALRM, ring)
        rest, _ = signal.setitimer(signal.ITIMER_REAL, seconds, 0.2)  # again, if it is caught
        try:
            yield
        finally:
            while True:
                try:
                    signal.setitimer(signal.ITIMER_REAL, rest)
                    signal.signal(signal.SIGALRM, before)
                    break
                except TimeIsUp:  # it rang once more, just now
                    continue
        return
    watch = _Watch(seconds)
    try:
        yield
    finally:
        try:
            watch.end()
        except TimeIsUp:  # it came as end was called, before its own try
            watch.end()


class _Clock:
    """Tells whether something has had its time: a busy computer may have kept it from computing."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.began, self.computed = time.monotonic(), time.process_time()

    def is_over(self) -> bool:
        """Return whether half of the time was spent computing, or much more has passed."""
        waited = time.monotonic() - self.began
        computed = time.process_time() - self.computed
        return computed >= self.seconds / 2 or waited >= PATIENCE * self.seconds


class _Watch:
    """Raises TimeIsUp in the thread that makes it, after some seconds, and again if it is caught.

    An exception that was sent must also arrive: Python 3.11 keeps a note that one is on its way,
    which taking it back does not clear, and with that note a traced function never begins.
    """

    def __init__(self, seconds: float) -> None:
        self.clock = _Clock(seconds)
        self.thread = ctypes.c_ulong(threading.get_ident())
        self.over, self.lock, self.has_sent = threading.Event(), threading.Lock(), False
        threading.Thread(target=self._wait, args=(seconds,), daemon=True).start()

    def _wait(self, seconds: float) -> None:
        while not self.over.wait(seconds):
            with self.lock:
                if not self.over.is_set() and self.clock.is_over():
                    self._send()
            seconds = 0.2

    def _send(self) -> None:
        self.has_sent = True
        ctypes.pythonapi.PyThreadState_SetAsyncExc(self.thread, ctypes.py_object(TimeIsUp))

    def end(self) -> None:
        """Send nothing more, and let arrive what was sent."""
        while not self.over.is_set():
            try:
                with self.lock:
                    self.over.set()
                    if not self.has_sent:
                        return
                    self._send()  # takes the place of one that has not arrived
                while True:
                    time.sleep(0)  # it arrives between two lines
            except TimeIsUp:
                continue

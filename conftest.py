"""Shared by all tests. Nothing is seeded here: a test that draws numbers sets its own seed."""

import gc
import os
import tempfile
from pathlib import Path

import pytest
import torch

gc.disable()  # until all tests are collected: what is loaded stays
os.environ.pop("MPLBACKEND", None)  # a kernel chooses its own

# What torch.compile has built is kept under a key that does not name the instruction set
BUILT_FOR = f"attnlib-inductor-{torch.__version__}-{torch.backends.cpu.get_cpu_capability()}"
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(tempfile.gettempdir()) / BUILT_FOR))

pytest_plugins = ["support.nbval_plugin"]

LONGEST = ("tests/project/test_book.py", "tests/attncourse/checks/test_diagnosis.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files, so that no worker is left alone with one at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Look for garbage from now on, and never again among what is loaded."""
    gc.freeze()
    gc.enable()

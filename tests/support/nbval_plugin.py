"""nbval runs every notebook; here it also learns whether the printed numbers are safe.

A cell fails that prints a number on a rounding boundary: `support/rounding.py` finds it.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import pytest

from support.forked_kernels import forked_kernels
from support.rounding import Notes, golden_numbers

NOTES = pytest.StashKey[Notes]()
FRESH = ("07", "a2")  # they watch memory page by page, and a fork shares its pages


def _is_cell(item: pytest.Item) -> bool:
    return type(item).__module__ == "nbval.plugin"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Have the kernel of a notebook note what it rounds, before its first cell."""
    forked = _is_cell(item) and not item.path.name.startswith(FRESH)
    with forked_kernels() if forked else nullcontext():
        yield
    if not _is_cell(item) or NOTES in item.parent.stash:
        return
    folder = tempfile.TemporaryDirectory(prefix="notes-", ignore_cleanup_errors=True)
    item.parent.addfinalizer(folder.cleanup)
    notes = item.parent.stash[NOTES] = Notes(Path(folder.name) / "notes.json")
    kernel = item.parent.kernel
    request = kernel.execute_cell_input(notes.set_up, allow_stdin=False)
    kernel.await_reply(request, timeout=60)
    kernel.await_idle(request, timeout=60)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a cell that prints what another machine may print differently."""
    yield
    if _is_cell(item):
        cell = json.loads(json.dumps(item.cell))
        problems = item.parent.stash[NOTES].fragile_numbers(cell, _golden())
        if problems:
            item.raise_cell_error("\n".join(problems))


_golden = cache(golden_numbers)

"""Start the kernels of nbval quickly: see forked_kernels.py."""

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from support.forked_kernels import forked_kernels

FRESH = ("07", "a2")  # they count page faults, and a fork shares pages with its parent


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Fork the kernel of a notebook, unless the lesson needs a fresh process."""
    is_cell = type(item).__module__ == "nbval.plugin"
    forked = is_cell and not item.path.name.startswith(FRESH)
    with forked_kernels() if forked else nullcontext():
        yield

"""Names of earlier versions are explained, and the names that they got exist."""

import importlib
import pkgutil

import pytest

from attncourse.renamed import NEW_NAMES


@pytest.mark.parametrize(
    ("place", "old", "new"),
    [(place, old, new) for place, names in NEW_NAMES.items() for old, new in names.items()],
)
def test_an_old_name_is_told_the_new_one(place, old, new):
    owner = pkgutil.resolve_name(place)
    words = f"^{old} is now called {new}" if new else f"^{old} is no longer there"
    with pytest.raises((ImportError, AttributeError), match=words):
        owner.__getattr__(old)
    if new:
        module, _, name = new.rpartition(".")
        assert hasattr(importlib.import_module(module) if module else owner, name)

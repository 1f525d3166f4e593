"""Names of earlier versions are explained, and the names that they got exist."""

import importlib
import pkgutil

import pytest

from attncourse.renamed import NEW_NAMES


def owner_of(place: str) -> object:
    return pkgutil.resolve_name(place)


@pytest.mark.parametrize(
    ("place", "old", "new"),
    [(place, old, new) for place, names in NEW_NAMES.items() for old, new in names.items()],
)
def test_an_old_name_is_told_the_new_one(place, old, new):
    owner = owner_of(place)
    words = f"^{old} is now called {new}" if new else f"^{old} is no longer there"
    with pytest.raises((ImportError, AttributeError), match=words):
        getattr(owner, old) if isinstance(owner, type) else owner.__getattr__(old)
    if new:
        module, _, name = new.rpartition(".")
        assert hasattr(importlib.import_module(module) if module else owner, name)

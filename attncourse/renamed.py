"""What names of earlier versions are called now, for notebooks that were copied before."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# Old name: new name, by the module or class that had it. There are no aliases.
NEW_NAMES: dict[str, dict[str, str]] = json.loads(
    Path(__file__).with_name("renamed.json").read_text("utf-8")
)


def explain_renamed(owner: str | type) -> None:
    """Let a module, by its name, or a class say what an old name of its own is called now.

    >>> from attncourse.language import Mute
    Traceback (most recent call last):
    ImportError: Mute is now called Ablate. This notebook is a copy of an earlier version of the \
lesson; `make fresh NB=` with its number brings the new version and keeps your copy beside it.
    """
    is_module = isinstance(owner, str)
    place = owner if isinstance(owner, str) else f"{owner.__module__}.{owner.__qualname__}"
    new_names = NEW_NAMES[place]

    def look_up(*names: Any) -> None:
        name = names[-1]
        if name not in new_names:
            raise AttributeError(f"{place} has no attribute {name!r}")
        new = new_names[name]
        sentence = (
            f"{name} {f'is now called {new}' if new else 'is no longer there'}. This notebook is "
            "a copy of an earlier version of the lesson; `make fresh NB=` with its number brings "
            "the new version and keeps your copy beside it."
        )
        # Python replaces an AttributeError in an import by a sentence of its own
        raise ImportError(sentence) if is_module else AttributeError(sentence)

    target: Any = sys.modules[place] if is_module else owner
    target.__getattr__ = look_up

"""The installed language model, for tests that ask the real one, and Hugging Face's package."""

import os
from functools import cache
from importlib import import_module
from types import ModuleType

import pytest

from attncourse.language import LanguageModel, ModelMissingError, language_model


@cache
def the_model() -> LanguageModel:
    """Return the model; where there is none, skip the test, or fail it in CI."""
    try:
        return language_model()
    except ModelMissingError as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))


def hugging_face() -> ModuleType:
    """Return transformers; loaded where a test asks for it, for it takes seconds."""
    return import_module("transformers")

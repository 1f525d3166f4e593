"""The installed language model, for tests that ask the real one."""

import os
from functools import cache

import pytest

from attncourse.language import LanguageModel, ModelMissingError, installed_model


@cache
def the_model() -> LanguageModel:
    """Return the model; where there is none, skip the test, or fail it in CI."""
    try:
        return installed_model()
    except ModelMissingError as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))

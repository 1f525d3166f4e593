"""Where the language model is not installed, a page that reads it prints the same.

All of them are run by tools/without_model.py; here the one that asks most of the recording.
"""

import pytest

import without_model
from support.notebook_tools import NOTEBOOKS, code_cells, read


def test_these_are_all_lessons_that_read_the_model():
    assert [path.name[:2] for path in without_model.read_it()] == ["01", "02", "03", "08", "09"]


def test_the_last_lesson_prints_the_same_from_the_recording(capfd: pytest.CaptureFixture[str]):
    assert without_model.main(["09"]) == 0, capfd.readouterr().out[-3000:]
    assert f"{len(code_cells(read(NOTEBOOKS[-1])))} passed" in capfd.readouterr().out

"""`make notebooks` stores the same bytes every time, and nothing that went wrong."""

import json

import pytest

from execute_notebooks import WIDGET, execute, main


def notebook(*sources: str, **metadata) -> dict:
    return {
        "cells": [
            {
                "cell_type": "code",
                "execution_count": 99,
                "metadata": {"execution": {"iopub.status.busy": "2026-01-01"}, **metadata},
                "outputs": [],
                "source": source,
            }
            for source in sources
        ],
        "metadata": {"widgets": {}, "language_info": {"name": "python", "version": "3.0.0"}},
        "nbformat": 4,
        "nbformat_minor": 4,
    }


def stored(folder, content: dict):
    path = folder / "lesson.ipynb"
    path.write_text(json.dumps(content))
    return path


def test_a_second_run_changes_no_byte(tmp_path):
    cells = ("print('ä', flush=True); 1", "from ipywidgets import IntSlider\nIntSlider()", "1 / 0")
    path = stored(tmp_path, notebook(*cells, tags=["raises-exception"]))
    execute(path)
    first = path.read_bytes()
    execute(path)
    assert path.read_bytes() == first
    result = json.loads(first)
    assert "widgets" not in result["metadata"]
    assert [cell["execution_count"] for cell in result["cells"]] == [1, 2, 3]
    assert WIDGET not in result["cells"][1]["outputs"][0]["data"]
    (output,) = result["cells"][2]["outputs"]  # an announced error
    assert output["ename"] == "ZeroDivisionError"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import sys; print('old', file=sys.stderr)", "cell 1 writes to stderr: old"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_what_went_wrong_is_not_stored(tmp_path, capsys, source, message):
    path = stored(tmp_path, notebook(source))
    before = path.read_bytes()
    assert main([str(path)]) == 1
    assert message in capsys.readouterr().err
    assert path.read_bytes() == before

"""`make notebooks` stores the same bytes every time, and nothing that went wrong."""

import json

import pytest

from execute_notebooks import WIDGET, execute, main, normalize, to_text


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
    cells = (
        "for i in range(3): print(i, flush=True)",
        "from ipywidgets import IntSlider\nIntSlider()",
        "print('ä'); 1",
        "print('ä'); 1",
        "import json\njson.loads('no')",
    )
    path = stored(tmp_path, notebook(*cells, tags=["raises-exception"]))
    execute(path)
    first = path.read_bytes()
    execute(path)
    assert path.read_bytes() == first

    result = json.loads(first)
    assert first.endswith(b"\n}\n")
    assert result["metadata"]["kernelspec"]["name"] == "python3"
    assert "widgets" not in result["metadata"]
    assert [cell["execution_count"] for cell in result["cells"]] == [1, 2, 3, 4, 5]
    assert all(cell["metadata"] == {"tags": ["raises-exception"]} for cell in result["cells"])
    assert len({cell["id"] for cell in result["cells"]}) == 5
    assert WIDGET not in result["cells"][1]["outputs"][0]["data"]
    assert to_text(normalize(result)).encode() == first
    (output,) = result["cells"][4]["outputs"]  # an announced error, without library frames
    assert output["ename"] == "JSONDecodeError"
    assert "json.loads('no')" in "".join(output["traceback"])
    assert "decoder.py" not in "".join(output["traceback"])


@pytest.mark.parametrize(("text", "kept"), [("  step 3\r        \r", 1), ("     \r", 0)])
def test_progress_that_wiped_itself_away_leaves_no_empty_box(text, kept):
    content = notebook("train()")
    content["cells"][0]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": text}]
    assert len(normalize(content)["cells"][0]["outputs"]) == kept


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

"""`git diff` of a notebook shows what was changed, and no bytes of pictures."""

import copy
import json
import os

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from notebook_diff import main
from support.notebook_tools import ROOT


def picture(letter: str, alt: str) -> dict:
    image = letter * 4000
    shown = f'<img alt="{alt}" src="data:image/png;base64,{image}">'
    return new_output("display_data", {"image/png": image, "text/html": shown})


def lesson() -> dict:
    printed = new_output("stream", name="stdout", text="0.25\n")
    return new_notebook(
        cells=[
            new_markdown_cell("# Why?"),
            new_code_cell("draw()", outputs=[picture("a", "One head")], execution_count=1),
            new_code_cell("show()", outputs=[printed], execution_count=2),
        ]
    )


@pytest.fixture
def diff(tmp_path, capsys):
    """Return what git prints of two notebooks; None stands for no file."""

    def printed(*notebooks: dict | None) -> str:
        paths = [tmp_path / "old", tmp_path / "new"]
        for path, notebook in zip(paths, notebooks, strict=True):
            path.write_text(json.dumps(notebook))
        old = os.devnull if notebooks[0] is None else str(paths[0])
        main("01.ipynb", old, str(paths[1]))
        return capsys.readouterr().out

    return printed


def test_words_and_outputs_are_shown_and_pictures_by_their_alt_text(diff):
    old, new = lesson(), copy.deepcopy(lesson())
    new.cells[0].source = "# Why not?"
    new.cells[1].outputs = [picture("b", "Two heads")]
    new.cells[2].outputs[0].text = "0.75\n"
    shown = diff(old, new)
    for words in ("# Why not?", "Two heads", "-0.25", "+0.75"):
        assert words in shown
    assert "aaaa" not in shown
    assert len(shown) < 2500


def test_ids_and_counts_alone_are_no_change_and_a_new_notebook_is_shown(diff):
    old, new = lesson(), lesson()  # each with ids of its own
    new.cells[1].execution_count = 7
    assert diff(old, new) == "diff 01.ipynb\n"
    assert "# Why?" in diff(None, new)


def test_git_is_told_of_it():
    assert "*.ipynb diff=jupyternotebook" in (ROOT / ".gitattributes").read_text("utf-8")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "test ! -e .git || git config diff.jupyternotebook.command" in makefile
    assert "/tools/notebook_diff.py" in makefile

"""`git diff` of a notebook shows what was changed, and no bytes of pictures."""

from __future__ import annotations

import copy
import json
import os

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


def test_words_and_outputs_are_shown_and_pictures_by_their_alt_text(tmp_path, capsys):
    old, new = lesson(), copy.deepcopy(lesson())
    new.cells[0].source = "# Why not?"
    new.cells[1].outputs = [picture("b", "Two heads")]
    new.cells[2].outputs[0].text = "0.75\n"
    for name, notebook in (("old", old), ("new", new)):
        (tmp_path / name).write_text(json.dumps(notebook))
    main("01.ipynb", str(tmp_path / "old"), str(tmp_path / "new"))
    shown = capsys.readouterr().out
    for words in ("# Why not?", "Two heads", "-0.25", "+0.75"):
        assert words in shown
    assert "aaaa" not in shown
    assert len(shown) < 2500


def test_ids_and_counts_alone_are_no_change_and_a_new_notebook_is_shown(tmp_path, capsys):
    old, new = lesson(), lesson()  # each with ids of its own
    new.cells[1].execution_count = 7
    for name, notebook in (("old", old), ("new", new)):
        (tmp_path / name).write_text(json.dumps(notebook))
    main("01.ipynb", str(tmp_path / "old"), str(tmp_path / "new"))
    assert capsys.readouterr().out == "diff 01.ipynb\n"
    main("01.ipynb", os.devnull, str(tmp_path / "new"))
    assert "# Why?" in capsys.readouterr().out


def test_git_is_told_of_it():
    assert "*.ipynb diff=jupyternotebook" in (ROOT / ".gitattributes").read_text("utf-8")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "test ! -e .git || git config diff.jupyternotebook.command" in makefile
    assert "/tools/notebook_diff.py" in makefile

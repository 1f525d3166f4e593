"""The reader's copies of the notebooks: refreshed, and never overwritten."""

import json
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from working_copy import (
    RECORD,
    answer_cells,
    read,
    save_widget_state,
    start_over,
    style_like_the_book,
    update,
    without_answers,
)


def notebook(*cells: tuple[str, str]) -> dict:
    make = {"code": new_code_cell, "markdown": new_markdown_cell}
    return new_notebook(cells=[make[kind](text) for kind, text in cells])


def write(path: Path, text: str, outputs: tuple = ()) -> None:
    made = notebook(("markdown", "# A question?"), ("code", text))
    made["cells"][1]["outputs"] = list(outputs)
    path.write_text(json.dumps(made), encoding="utf-8")


def text_of(path: Path) -> str:
    return "".join(read(path)["cells"][1]["source"])


@pytest.fixture
def folders(tmp_path):
    source, work = tmp_path / "notebooks", tmp_path / "work"
    source.mkdir()
    write(source / "01_one.ipynb", "one")
    write(source / "02_two.ipynb", "two")
    return source, work


def test_all_are_copied_at_first(folders):
    source, work = folders
    assert update(source, work) == []
    assert sorted(path.name for path in work.iterdir()) == [RECORD, "01_one.ipynb", "02_two.ipynb"]
    assert text_of(work / "02_two.ipynb") == "two"


def test_a_copy_that_was_only_run_takes_the_new_lesson(folders):
    source, work = folders
    update(source, work)
    write(work / "01_one.ipynb", "one", outputs=({"output_type": "stream", "text": "ran"},))
    write(source / "01_one.ipynb", "one, better")
    assert update(source, work) == []
    assert text_of(work / "01_one.ipynb") == "one, better"


@pytest.mark.parametrize("mine", ["my own answer", None])
def test_what_the_reader_wrote_is_never_overwritten(folders, mine):
    """Nor is a file that is no notebook any more."""
    source, work = folders
    update(source, work)
    copy = work / "01_one.ipynb"
    copy.write_text("damaged") if mine is None else write(copy, mine)
    before = copy.read_bytes()
    assert update(source, work) == []  # the lesson is as it was: nothing to say
    write(source / "01_one.ipynb", "one, better")
    for _ in range(2):
        (said,) = update(source, work)
        assert "01_one.ipynb has a newer version" in said
        assert "make fresh NB=01" in said
    assert copy.read_bytes() == before


def test_starting_over_keeps_the_old_ones_aside(folders, monkeypatch):
    """Within one second too: the second would otherwise replace what the first has kept."""
    source, work = folders
    monkeypatch.setattr("working_copy.time.strftime", lambda form: "now")
    update(source, work)
    for answer in ("my first answer", "my second answer"):
        write(work / "01_one.ipynb", answer)
        said = start_over("01", source, work)
        assert text_of(work / "01_one.ipynb") == "one"
    kept = {path.name: text_of(path) for path in work.glob("01_one.*.ipynb")}
    assert sorted(kept.values()) == ["my first answer", "my second answer"]
    (second,) = (name for name, text in kept.items() if text == "my second answer")
    assert said == f"01_one.ipynb is new; your old one is {second}"


@pytest.mark.parametrize("record", [None, "{"])
def test_without_a_record_a_copy_is_kept_unless_it_is_the_lesson(folders, record):
    """A damaged one costs no answer either."""
    source, work = folders
    update(source, work)
    write(work / "01_one.ipynb", "my own answer")
    (work / RECORD).unlink() if record is None else (work / RECORD).write_text(record)
    (said,) = update(source, work)
    assert said.startswith("01_one.ipynb has a newer version")
    assert text_of(work / "01_one.ipynb") == "my own answer"


@pytest.mark.parametrize("name", ["", "0", "07", "../notebooks/x"])
def test_starting_over_wants_one_notebook(folders, name):
    source, work = folders
    with pytest.raises(ValueError, match="there are: 01, 02"):
        start_over(name, source, work)
    assert not work.exists()


PRINTED = [{"output_type": "stream", "text": "5"}]
ASKED = ("markdown", "Ten rows.\n\n**Your guess.** How many?")


def with_outputs(*cells):
    """Return a notebook whose code cells have all printed something; some are tagged."""
    made = notebook(*((kind, text) for kind, text, *_ in cells))
    for cell, (kind, _, *tags) in zip(made["cells"], cells, strict=True):
        cell["metadata"] = {"tags": tags}
        if kind == "code":
            cell["outputs"] = PRINTED
    return made


def told(lesson):
    return ["".join(c["source"]) for c in lesson["cells"] if c.get("outputs") == PRINTED]


def test_what_settles_a_guess_is_shown_only_when_it_is_run():
    codes = [("code", "b"), ("code", "c", "answer"), ("code", "d")]
    lesson = with_outputs(("code", "a"), ASKED, *codes, ASKED, ("code", "e"), ("code", "f"))
    assert ["".join(cell["source"]) for cell in answer_cells(lesson)] == ["c", "e"]  # e has no tag
    assert told(without_answers(lesson)) == ["a", "b", "d", "f"]
    assert told(without_answers(with_outputs(*codes))) == ["b", "d"]


@pytest.mark.parametrize(
    "text", ["PanelWidget(HEADS)", "LiveWidget(MINI_MODEL)", "box = SentenceWidget(gpt2)\nbox"]
)
def test_in_the_place_of_a_slider_stands_the_key_that_brings_it(text):
    lesson = without_answers(with_outputs(ASKED, ("code", text), ("code", "b")))
    assert told(lesson) == ["b"]
    (output,) = lesson["cells"][1]["outputs"]
    assert "Shift+Enter" in output["data"]["text/plain"][0]
    assert "<blockquote>" in output["data"]["text/html"][0]


def test_the_settings_keep_what_else_is_set(tmp_path):
    path = tmp_path / "settings" / "overrides.json"
    save_widget_state(path)
    assert read(path) == {"@jupyter-widgets/jupyterlab-manager:plugin": {"saveState": True}}
    path.write_text('{"other": {"a": 1}, "@jupyter-widgets/jupyterlab-manager:plugin": {"b": 2}}')
    save_widget_state(path)
    widgets = {"b": 2, "saveState": True}
    assert read(path) == {"other": {"a": 1}, "@jupyter-widgets/jupyterlab-manager:plugin": widgets}


def test_jupyterlab_is_told_of_the_css_and_what_else_is_set_stays(tmp_path):
    path = tmp_path / "jupyter_server_config.json"
    styles, fonts = [tmp_path / "one.css", tmp_path / "two.css"], tmp_path / "fonts"
    for part, text in zip(styles, ("a { }", "b { }"), strict=True):
        part.write_text(text)
    fonts.mkdir()
    (fonts / "letters.woff2").write_bytes(b"abc")
    path.write_text('{"ServerApp": {"ip": "x", "tornado_settings": {"b": 2}}}')
    style_like_the_book(tmp_path, styles, fonts)
    custom = tmp_path / "custom"
    assert (custom / "custom.css").read_text() == "a { }b { }"
    assert (custom / "letters.woff2").read_bytes() == b"abc"
    settings = {"b": 2, "static_custom_path": [str(custom.resolve())]}
    server = {"ip": "x", "tornado_settings": settings}
    assert read(path) == {"ServerApp": server, "LabApp": {"custom_css": True}}

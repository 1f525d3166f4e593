"""The `attncourse` command: it opens the notebooks, and checks a class in a file."""

import os
import subprocess
import sys
import textwrap
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

import pytest

from attncourse.checks import guard
from attncourse.classroom import check_file, command
from attncourse.classroom.check_file import judge
from attncourse.classroom.command import main
from attncourse.classroom.lessons import copy_course, course

CLASSES = """
import torch
from torch import nn

class Mine(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        future = torch.ones(context_length, context_length, dtype=torch.bool).triu(1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, x):
        num_tokens = x.shape[1]
        queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
        scores = queries @ keys.transpose(1, 2) / keys.shape[-1] ** 0.5
        scores = scores.masked_fill(self.future[:num_tokens, :num_tokens], -torch.inf)
        return self.dropout(torch.softmax(scores, dim=-1)) @ values

class Wrong(Mine):
    def forward(self, x):
        return 2 * super().forward(x)
"""
MODULES = "my_attention", "other", "helper_of_mine"
GENEROUS = "600"  # seconds: the tests do not depend on how busy the computer is


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Return a function that writes a learner's file; judge runs it here, without a time limit."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(guard, "time_limit", lambda _seconds: nullcontext())
    for name in MODULES:  # set, so that it is taken out again afterwards
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        del sys.modules[name]

    def write(code: str, name: str = "my_attention.py") -> Path:
        path = tmp_path / name
        path.write_text(textwrap.dedent(code))
        return path

    return write


# In a child process


def test_a_right_class_ends_with_0_and_the_child_is_told_no_argument_and_has_no_input(
    written, capfd
):
    path = written(f"import sys\nprint(sys.argv[1:], sys.stdin.read())\n{CLASSES}")
    assert main(["check", f"{path}:Mine", "--seconds", GENEROUS]) == 0
    said = capfd.readouterr().out
    assert "[] \n" in said
    assert "Mine is right" in said


def test_a_wrong_class_ends_with_1_whatever_the_file_prints_or_does_at_the_end(written, capsys):
    code = "import atexit, os\natexit.register(os._exit, 0)\nprint([0, 'Right.'])"
    path = written(f"{CLASSES}\n{code}\n")
    assert main(["check", f"{path}:Wrong", "--seconds", GENEROUS]) == 1
    assert "2 * super().forward(x)" in capsys.readouterr().out


def test_a_class_that_ends_python_is_not_judged(written, capsys):
    path = written(f"{CLASSES}\nimport os\nWrong.forward = lambda self, x: os._exit(0)\n")
    assert main(["check", f"{path}:Wrong", "--seconds", GENEROUS]) == 2
    assert "ended Python before Wrong was checked" in capsys.readouterr().out


def test_a_loop_that_never_ends_is_ended(written, capsys):
    path = written("while True:\n    pass\n")
    assert main(["check", f"{path}:Wrong", "--seconds", "0.5"]) == 2
    assert "took longer than 0.5 seconds" in capsys.readouterr().out


@pytest.mark.parametrize("verdict", ["", "[0", "{}", "5"])
def test_half_a_verdict_is_none(written, monkeypatch, verdict):
    def child(_command, input, **_options) -> None:
        Path(check_file.json.loads(input)[-1]).write_text(verdict)

    monkeypatch.setattr(check_file.subprocess, "run", child)
    status, said = check_file.check_in_child(written(CLASSES), "Wrong", None, 1.0)
    assert (status, "ended Python before Wrong was checked" in said) == (2, True)


# What cannot be judged


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise SystemExit(0)", "ends Python in line 1"),
        ("x = 1\nexit()", "ends Python in line 2"),
        ("class Mine(:", "has a syntax error in line 1: "),
        ("import no_such_helper", "in line 1 imports no_such_helper, which is neither installed"),
        ("x = 1\n1 / 0", "stops in line 2 with ZeroDivisionError: division by zero"),
        ("input()", "stops in line 1 with "),
        ("x = 1", "has no class Mine; it has: none"),
        ("class Other: pass", "has no class Mine; it has: Other"),
    ],
)
def test_what_a_file_does_wrong_is_said_in_a_sentence(written, code, said):
    status, sentence = judge(written(code), "Mine", None)
    assert (status, "\n" in sentence) == (2, False)
    assert sentence.startswith("my_attention.py ")
    assert said in sentence


def test_a_neighbour_is_found(written):
    written("width = 5", "helper_of_mine.py")
    path = written(f"from helper_of_mine import width\n{CLASSES}")
    assert judge(path, "Mine", None)[1].startswith("Mine is right")
    assert judge(written(CLASSES, "other.py"), "Mine", "MultiHeadAttention")[0] == 1


@pytest.mark.parametrize("name", ["torch.py", "functools.py", "turtle.py", "attnlib.py"])
def test_a_file_that_hides_a_module_is_to_be_renamed(written, name):
    status, said = judge(written(CLASSES, name), "Mine", None)
    assert status == 2
    assert "rename the file" in said


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("Mine", "expected FILE:CLASS"),
        ("no_such.py:Mine", "no_such.py is not a Python file"),
        ("mine.txt:Mine", "mine.txt is not a Python file"),
        ("01.ipynb:Mine", "01.ipynb is a notebook"),
    ],
)
def test_what_is_no_file_of_python_is_refused(capsys, asked, said):
    assert main(["check", asked]) == 2
    assert said in capsys.readouterr().out


def test_the_help_says_that_the_file_is_run(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["check", "--help"])
    assert "Run FILE with your rights" in capsys.readouterr().out


# The notebooks


def test_the_course_is_copied_and_nothing_of_the_reader_overwritten(tmp_path):
    assert copy_course(tmp_path) == []
    names = sorted(path.name for path in (course() / "notebooks").glob("*.ipynb"))
    mine = tmp_path / "notebooks" / names[0]
    assert mine.read_bytes() == (course() / "notebooks" / names[0]).read_bytes()
    images = [sorted(p.name for p in f.glob("images/*.png")) for f in (tmp_path, course())]
    assert images[0] == images[1]
    mine.write_text("mine")
    assert copy_course(tmp_path) == names
    assert mine.read_text() == "mine"


def test_jupyterlab_is_opened_for_this_machine_alone(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    ended = subprocess.CompletedProcess([], 7)
    monkeypatch.setattr(command.subprocess, "run", lambda line, cwd: started.append(line) or ended)
    assert main(["lab", str(tmp_path)]) == 7
    ((_, _, module, address, opened, *rest),) = started
    assert (module, address, rest) == ("jupyterlab", "--ip=127.0.0.1", ["--allow-root"])
    assert opened.endswith("notebooks/00_start.ipynb")


def test_without_jupyterlab_it_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda _: None)
    assert main(["lab", str(tmp_path)]) == 1
    assert "pip install jupyterlab" in capsys.readouterr().err

"""Every shape comment in attncourse is true, and the reading of them can fail."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

import attncourse
from attncourse.examples import traceable_example
from attncourse.language.reference import reference_logits
from attncourse.learning.mini import mini_model
from attncourse.learning.two_looks import TwoLooks, journeys
from attncourse.panels import live
from attncourse.panels.worked_example import InlinedAttention
from attncourse.pictures import arcs_picture
from attncourse.pictures.weights import weights_picture
from support.cases import ALL_PANELS, H, T
from support.shape_comments import comments_in, reading
from support.small_llama import small_model

COURSE = Path(attncourse.__file__).parent
DRAWN = (
    "pictures/weights",
    "pictures/arcs",
    "learning/record",
    "panels/stacked_heads",
    "panels/worked_example",
)
DRAWN += ("panels/weight_split", "panels/torch_equality", "panels/gallery")
DRAWN += ("panels/online_softmax",)
OWN_SIZES = {
    "online softmax": {"head_dim": 2},
    "stacked heads": {"head_dim": 2, "d_in": 5},
    "number steps": {"num_tokens": 3, "d_in": 6},
    "weight split": {"d_out": 12},
    "gallery": {"num_heads": 2, "d_out": 8},
}


def test_in_the_pictures_and_panels():
    """Their sizes are those of their examples; the fields of their results count too."""
    found = reading(*(COURSE / f"{name}.py" for name in DRAWN))
    weights = torch.full((H, T, T), 1 / T)
    sizes = {"num_layers": 2, "num_heads": H, "num_tokens": T}
    found.run(sizes, lambda: weights_picture(weights, "abcdefg"))
    found.run(sizes, lambda: arcs_picture("abcdefg", weights.tril()))
    module, x = traceable_example(InlinedAttention)
    sizes = {"b": 1, "num_tokens": 5, "num_heads": 2, "head_dim": 3}
    found.run(sizes, lambda: module(x))
    for panel in ALL_PANELS:
        for state in (panel.states()[0], panel.states()[-1]):
            sizes = {"b": 1, "num_tokens": 6, "d_in": 3, "embed_dim": 12}
            sizes |= OWN_SIZES.get(panel.name, {}) | state
            data = found.run(sizes, lambda: panel.compute(**state))  # noqa: B023
            found.fields(sizes | {"head_dim": getattr(data, "head_dim", 2)}, data)
    assert found.lies == found.unreached() == []


def test_in_the_mini_model_and_its_twin():
    found = reading(COURSE / "learning" / "mini.py", COURSE / "learning" / "two_looks.py")
    mini = mini_model()
    sizes = {"b": 3, "num_tokens": 7, "n": 5, "width": 4, "words": mini.words}
    found.run(sizes, lambda: mini(torch.zeros(3, 7, dtype=torch.long)))
    found.fields(sizes, found.run(sizes, lambda: mini.read("The capital of France is")))
    twin = TwoLooks(2, has_mlp=True)
    sizes = {"b": 1, "n": 7, "num_heads": 2, "head_dim": 2, "width": 4, "words": twin.words}
    text = journeys()[0][0]
    found.fields(sizes, found.run(sizes, lambda: twin.read(text)))
    assert found.lies == found.unreached() == []


def test_in_the_language_model():
    found = reading(COURSE / "language" / "model.py", COURSE / "language" / "runs.py")
    model = small_model()
    sizes = {"b": 1, "num_tokens": 5, **vars(model.size)}
    run = found.run(sizes, lambda: model.read([1, 2, 3, 4, 5]))
    found.run(sizes, lambda: run.attn_scores(0))
    found.run(sizes | {"b": 6}, lambda: run.ablate_layer(0))  # a head of the six each
    found.run(sizes, lambda: model.llama(torch.ones(1, 5, model.size.width)))
    assert found.lies == found.unreached() == []


def test_in_the_stored_answers_of_another_implementation():
    found = reading(COURSE / "language" / "reference.py")
    references = found.run({}, reference_logits)
    found.fields({"num_tokens": 5}, references[0])
    assert found.lies == []


def test_in_the_panels_that_compute():
    found = reading(COURSE / "panels" / "live.py")
    found.run({"num_tokens": 6, "d_in": 3}, live.LEAK_DETECTOR.draw)
    found.run({"num_layers": 12, "num_heads": 12}, live.PAINTED_PATTERN.draw)
    assert found.lies == found.unreached() == []


def test_no_other_module_has_some():
    """A module with shape comments needs a run above."""
    have = {
        file.relative_to(COURSE).with_suffix("").as_posix()
        for file in COURSE.rglob("*.py")
        if comments_in(file.read_text("utf-8"))
    }
    read = {*DRAWN, "panels/live", "learning/mini"}
    read |= {"learning/two_looks", "language/model", "language/runs", "language/reference"}
    read |= {f"learning/{name}" for name in ("model", "patterns", "tasks", "peeking")}  # elsewhere
    assert have - read == {"variants/mistakes"}  # its comments are run where each mistake is


# The reading itself can fail

CODE = """\
import torch
from typing import NamedTuple

def forward(x, flag=True):
    x = x.transpose(0, 1)  # (d, b)
    y = torch.cat(
        [x, x],
        dim=1,
    )  # (d, 2 * b)
    y.unsqueeze_(0)  # (..., d, 2 * b)
    for part in y:
        part = part.sum(dim=[i for i in range(part.ndim)][-1])  # (d)
    if not flag:
        y = y + 1  # (1, d, 2 * b)
    z: torch.Tensor = y[0]  # (d, 2 * b)
    return z[:, 0]  # (d,)

class Result(NamedTuple):
    out: torch.Tensor  # (d); one text
"""
SIZES = {"b": 2, "d": 5}


def read_code(tmp_path: Path, text: str, **how: object) -> tuple[list[str], list[str]]:
    """Run `forward` of a module that says `text`; return the lies and the unreached lines."""
    file = tmp_path / "example.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("example", file)
    example = importlib.util.module_from_spec(spec)
    sys.modules["example"] = example  # where inspect looks for a class's file
    try:
        spec.loader.exec_module(example)
        found = reading(file)
        out = found.run(SIZES, lambda: example.forward(torch.ones(2, 5), **how))
        if hasattr(example, "Result"):
            found.fields(SIZES, example.Result(out))
    finally:
        del sys.modules["example"]
    return found.lies, found.unreached()


def test_true_comments_pass(tmp_path):
    assert read_code(tmp_path, CODE, flag=False) == ([], [])


@pytest.mark.parametrize(
    ("true", "lie", "found"),
    [
        ("(d, b)\n", "(b, d)\n", "example.py:5: x is (5, 2), not (b, d)"),
        ("    )  # (d, 2 * b)", "    )  # (d, b)", "example.py:9: y is (5, 4), not (d, b)"),
        ("(..., d, 2 * b)", "(d, 2 * b)", "example.py:10: y is (1, 5, 4), not (d, 2 * b)"),
        ("(..., d, 2 * b)", "(..., b, b)", "example.py:10: y is (1, 5, 4), not (..., b, b)"),
        ("(..., d, 2 * b)", "(d, ...)", "example.py:10: y is (1, 5, 4), not (d, ...)"),
        ("-1])  # (d)", "-1])  # (b)", "example.py:12: part is (5,), not (b)"),
        (
            "y[0]  # (d, 2 * b)\n    ret",
            "y[0]  # (d)\n    ret",
            "example.py:15: z is (5, 4), not (d)",
        ),
        ("# (d,)", "# (b,)", "example.py:16: what is returned is (5,), not (b)"),
        ("Tensor  # (d);", "Tensor  # (b);", "example.py:19: out is (5,), not (b)"),
    ],
)
def test_a_lie_is_found(tmp_path, true, lie, found):
    assert CODE.count(true) == 1
    assert read_code(tmp_path, CODE.replace(true, lie), flag=False) == ([found], [])


def test_a_comment_that_no_run_reaches_is_found(tmp_path):
    assert read_code(tmp_path, CODE, flag=True) == ([], ["example.py:14"])


@pytest.mark.parametrize(
    "line", ["x, y = 1, 2  # (b, d)", "x.sum()  # (b)", "del x  # (b)", "x.y = x  # (b)"]
)
def test_a_comment_that_names_no_single_tensor_is_refused(line):
    with pytest.raises(ValueError, match="line 2: a shape comment needs a statement with one"):
        comments_in(f"x = y = 1\n{line}\n")


def test_an_unknown_name_in_a_comment_is_an_error(tmp_path):
    with pytest.raises(NameError, match="name 'h' is not defined"):
        read_code(tmp_path, CODE.replace("(d, b)\n", "(d, h)\n"))

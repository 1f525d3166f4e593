"""Panels that walk through the lines of a forward, and through eleven steps by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncourse.checks.steps_by_hand import telling
from attncourse.examples import counting, counting_weights
from attncourse.panels.panel import Panel
from attncourse.panels.touch import Pick, Touch
from attncourse.pictures.scene import Box, Scene, above, beside
from attncourse.pictures.tensors import listing_picture, tensor_picture
from attncourse.tracing.source import numbered_lines
from attncourse.tracing.table import Step, Trace
from attncourse.tracing.tracer import trace
from attnlib.convert import PROJECTIONS
from attnlib.functional import causal_mask
from attnlib.modules import MultiHeadAttention

CHANGES = {  # of a step of a trace, for the readout
    "given": "receives {}",
    "new": "makes {}",
    "re-bound": "makes {} anew",
    "in place": "changes {} in place",
    "returned": "returns {}",
}


class TraceStep(NamedTuple):
    """One step of a trace: what the line made, and what the variable held before."""

    number: int
    num_steps: int
    step: Step
    before: Step | None
    text: str  # the source of the function
    num_heads: int | None
    numbers: dict[int, int]  # of each line of the function: the first step that it makes
    width: int  # letters in the longest line of any function


def step_panel(traced: Trace, name: str = "steps") -> Panel:
    """Return a panel whose slider walks through the steps of a trace.

    Args:
        traced: from trace(module, x), with at least one step.
        name: the panel's name.

    Raises:
        ValueError: the trace has no steps.
    """
    if not traced.steps:
        raise ValueError("the trace has no steps to show; see its failure for the reason")
    return Panel(
        name=name,
        controls={"step": tuple(range(1, len(traced) + 1))},
        default={"step": 1},
        compute=lambda step: _trace_step(traced, step),
        draw=draw_trace_step,
        readout=readout_trace_step,
        time="step",
        touch=touch_trace_step,
    )


def _trace_step(traced: Trace, number: int) -> TraceStep:
    step, earlier = traced[number - 1], traced.steps[: number - 1]
    same = [s for s in earlier if (s.function, s.name) == (step.function, step.name)]
    if not step.dims:  # no shape comment: take the names from the tensor that was handed on
        known = same[-1:] if step.change == "in place" else []
        known += [
            s for s in earlier if s.dtype == step.dtype and torch.equal(s.values, step.values)
        ]
        step = step._replace(dims=next((s.dims for s in known if s.dims), ()))
    if not step.dims:  # or from the sizes, where none has two names in the whole trace
        names: dict[int, set[str]] = {}
        for s in traced.steps:
            for size, name in zip(s.shape, s.dims, strict=False):
                names.setdefault(size, set()).add(name)
        told = [names.get(size, {""}) for size in step.shape]
        if all(len(some) == 1 for some in told) and any("" not in some for some in told):
            step = step._replace(dims=tuple(name for some in told for name in some))
    num_heads = [
        size
        for s in traced.steps
        for dim, size in zip(s.dims, s.shape, strict=False)
        if dim == "num_heads"
    ]
    return TraceStep(
        number,
        len(traced),
        step,
        same[-1] if same else None,
        traced.sources[step.function],
        num_heads[0] if num_heads else None,
        _numbers(traced, step.function),
        max(len(line) for text in traced.sources.values() for _, line in numbered_lines(text)),
    )


def _numbers(traced: Trace, function: str) -> dict[int, int]:
    steps = list(enumerate(traced.steps, start=1))
    return {
        line: number
        for number, step in reversed(steps)
        if step.function == function
        for line in range(step.line, step.last_line + 1)
    }


def draw_trace_step(data: TraceStep) -> Scene:
    """Draw the source with the current line marked, beside the tensor that it made."""
    lines = numbered_lines(data.text)
    listing = listing_picture(lines, data.step.line, data.step.last_line)
    listing = _resized(listing, 60 + 7.9 * data.width)
    step = data.step
    picture = tensor_picture(step.name, step.values, step.dims, data.num_heads, room=480)
    return beside(listing, picture, gap=16)


def touch_trace_step(data: TraceStep, _scene: Scene) -> Touch:
    """Return the lines of the source: a click on one goes to the first step that it makes."""
    shown = [number for number, _ in numbered_lines(data.text)]
    height = 19.0  # of a line, in listing_picture
    lines = [
        Pick(0, i * height, 740, height, {"step": data.numbers[line]})
        for i, line in enumerate(shown)
        if line in data.numbers
    ]
    return Touch((), picks=lines)


def _resized(scene: Scene, width: float) -> Scene:
    """Return a scene of this width; no box in it is wider."""
    items = [
        item._replace(width=min(item.width, width)) if isinstance(item, Box) else item
        for item in scene.items
    ]
    return replace(scene, width=width, items=tuple(items))


def readout_trace_step(data: TraceStep) -> str:
    """Return which line ran, what it made, and which shape the variable had before."""
    step = data.step
    does = CHANGES[step.change].format("the result" if step.name == "return" else step.name)
    was = f", before {data.before.shape}" if data.before and data.before.shape != step.shape else ""
    memory = "" if step.contiguous else f"; {step.memory()}"
    return (
        f"Step {data.number} of {data.num_steps}: line {step.line} of {step.function} "
        f"{does}, {step.shape}{was}{memory}"
    )


class OnePiece(MultiHeadAttention):
    """MultiHeadAttention in one piece: the values take one step on a line, to be watched."""

    def forward(self, x: Tensor, return_weights: bool = False) -> Any:
        split = (*x.shape[:2], self.num_heads, self.head_dim)
        queries = self.W_query(x).view(split).transpose(1, 2)
        keys = self.W_key(x).view(split).transpose(1, 2)

        values = self.W_value(x)  # (b, num_tokens, num_heads * head_dim)
        values = values.view(split)  # (b, num_tokens, num_heads, head_dim)
        values = values.transpose(1, 2)  # (b, num_heads, num_tokens, head_dim)

        attn_scores = queries @ keys.transpose(2, 3)
        attn_scores.masked_fill_(causal_mask(x.shape[1]), -torch.inf)
        scaled = attn_scores / self.head_dim**0.5
        attn_weights = torch.softmax(scaled, dim=-1)

        context_vec = attn_weights @ values  # (b, num_heads, num_tokens, head_dim)
        by_token = context_vec.transpose(1, 2)  # (b, num_tokens, num_heads, head_dim)
        merged = by_token.contiguous().view(*x.shape[:2], -1)
        output = self.out_proj(merged)
        return (output, attn_weights) if return_weights else output


@cache
def _shape_trace() -> Trace:
    module, x = telling(OnePiece)
    with torch.no_grad():
        return trace(module, x)


def compute_shape_step(step: int) -> TraceStep:
    """Trace the class in one piece on five tokens of width 4, and take one step."""
    return _trace_step(_shape_trace(), step)


Named = dict[str, tuple[Tensor, tuple[str, ...]]]  # tensors with the names of their dimensions


class NumberStep(NamedTuple):
    """One of the eleven steps: its title, and the tensors that it makes, with their dimensions."""

    number: int
    num_heads: int
    title: str
    tensors: Named


def eleven_steps(num_heads: int) -> list[NumberStep]:
    """Work attention out on counting() by hand, each step from the ones before.

    Args:
        num_heads: 1, 2, 3 or 6.

    Returns:
        Steps 1 to 11. The last one's `merged` is what MultiHeadAttention with the same weights
        computes before out_proj.
    """
    x = counting().inputs[None]  # (b, num_tokens, d_in)
    W = dict(zip(PROJECTIONS, counting_weights(), strict=True))
    head_dim = 6 // num_heads
    split, heads = ("b", "num_tokens", "num_heads", "head_dim"), ("b", "num_heads", "num_tokens")
    tokens = ("b", "num_tokens", "num_heads * head_dim")
    square = (*heads, "num_tokens")

    flat = {"queries": x @ W["W_query"], "keys": x @ W["W_key"], "values": x @ W["W_value"]}
    viewed = {name: t.view(1, 3, num_heads, head_dim) for name, t in flat.items()}
    by_head = {name: t.transpose(1, 2) for name, t in viewed.items()}
    scores = by_head["queries"] @ by_head["keys"].transpose(2, 3)
    masked = scores.masked_fill(causal_mask(3), -torch.inf)
    scaled = masked / head_dim**0.5
    weights = torch.softmax(scaled, dim=-1)
    context = weights @ by_head["values"]
    by_token = context.transpose(1, 2)
    merged = by_token.contiguous().view(1, 3, 6)

    columns: Named = {name: (t, ("d_in", "num_heads * head_dim")) for name, t in W.items()}
    numbers = torch.arange(6)
    made: list[tuple[str, Named]] = [
        ("the input x", {"x": (x, ("b", "num_tokens", "d_in"))}),
        (
            f"d_out = 6 columns are shared out: {num_heads} x head_dim {head_dim}",
            {"column": (numbers, ("num_heads * head_dim",))},
        ),
        ("three matrices; each head owns columns", columns),
        ("x times each matrix", {name: (t, tokens) for name, t in flat.items()}),
        ("view: cut each row into heads", {name: (t, split) for name, t in viewed.items()}),
        (
            "transpose: heads before tokens",
            {name: (t, (*heads, "head_dim")) for name, t in by_head.items()},
        ),
        ("attn_scores = queries @ keys^T", {"attn_scores": (scores, square)}),
        (
            "mask, divide by sqrt(head_dim), softmax",
            {"masked and scaled": (scaled, square), "attn_weights": (weights, square)},
        ),
        (
            "context_vec = attn_weights @ values",
            {"context_vec": (context, (*heads, "head_dim"))},
        ),
        ("transpose back: tokens before heads", {"context_vec": (by_token, split)}),
        ("merge: each token's heads side by side", {"merged": (merged, tokens)}),
    ]
    return [
        NumberStep(number, num_heads, title, tensors)
        for number, (title, tensors) in enumerate(made, start=1)
    ]


def compute_number_step(step: int, num_heads: int) -> NumberStep:
    """Work out the eleven steps and take one."""
    return eleven_steps(num_heads)[step - 1]


HIGHEST = 500.0  # in pixels: so a laptop shows the picture and its controls together


def draw_number_step(data: NumberStep) -> Scene:
    """Draw the tensors of the step under each other, two beside each other where they are high."""
    named = data.tensors.items()
    scenes = [tensor_picture(name, t, dims, data.num_heads) for name, (t, dims) in named]
    if sum(scene.height for scene in scenes) > HIGHEST:
        scenes = [beside(*scenes[:2]), *scenes[2:]]
    return above(*scenes)


def readout_number_step(data: NumberStep) -> str:
    """Return which step it is, and the shape of what it makes last."""
    name, (tensor, _) = list(data.tensors.items())[-1]
    many = "1 head" if data.num_heads == 1 else f"{data.num_heads} heads"
    return (
        f"Step {data.number} of 11, {many} of width {6 // data.num_heads}: {data.title}; "
        f"{name} {tuple(tensor.shape)}"
    )


SHAPE_STEPS = Panel(
    name="shape steps",
    controls={"step": tuple(range(1, 15))},
    default={"step": 1},
    compute=compute_shape_step,
    draw=draw_trace_step,
    readout=readout_trace_step,
    time="step",
    touch=touch_trace_step,
    telling=({"step": 7}, {"step": 8}),
)
NUMBER_STEPS = Panel(
    name="number steps",
    controls={"step": tuple(range(1, 12)), "num_heads": (1, 2, 3, 6)},
    default={"step": 1, "num_heads": 2},
    compute=compute_number_step,
    draw=draw_number_step,
    readout=readout_number_step,
    time="step",
    telling=({"step": 8, "num_heads": 1}, {"step": 8, "num_heads": 6}),
)

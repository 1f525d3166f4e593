"""A panel over the number of stacked heads."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from attncourse.examples import journey
from attncourse.panels.built import LOOKS, add_places, build_stack
from attncourse.panels.states import Panel
from attncourse.panels.touch import Looks, Touch, head_maps, listen
from attncourse.pictures.letters import text_width
from attncourse.pictures.matrices import LABEL, matrix_picture
from attncourse.pictures.palette import FAINT
from attncourse.pictures.scene import Scene, Words, above, frame
from attncourse.pictures.weights import weights_picture
from attncourse.speed.count import count_matrix_products, count_parameters
from attnlib.functional import causal_mask
from attnlib.modules import MultiHeadAttentionWrapper

STACKED = 19.0  # of stacked heads: at most four maps in a row


class Heads(NamedTuple):
    """Several heads on the running example: what they return and what they cost."""

    tokens: tuple[str, ...]
    num_heads: int
    head_dim: int
    context_vec: Tensor  # (num_tokens, num_heads * head_dim)
    attn_weights: Tensor  # (num_heads, num_tokens, num_tokens)
    W_query: Tensor  # (num_heads * head_dim, d_in)
    num_parameters: int
    num_products: int
    seen: Looks
    moved: tuple[int, ...] = ()  # the columns of ASKING that move when SWAPPED change places


SWAPPED = (2, 3)  # starts, with
ASKING = 4  # one, the token behind them


def compute_stacked_heads(num_heads: int) -> Heads:
    """Run stacked heads of width 2 that are built to look at different places."""
    stack, inputs = build_stack(num_heads), journey().inputs
    heads = _several_heads(stack, add_places(inputs)[None])
    order = list(range(len(inputs)))
    for i, j in (SWAPPED, SWAPPED[::-1]):
        order[i] = j
    swapped = _several_heads(stack, add_places(inputs[order])[None])
    difference = (swapped.context_vec - heads.context_vec)[ASKING].abs()  # (num_heads * head_dim)
    return heads._replace(moved=tuple(difference.gt(1e-3).nonzero().flatten().tolist()))


def _several_heads(module: MultiHeadAttentionWrapper, x: Tensor) -> Heads:
    """Run a module on the running example, (1, num_tokens, d_in)."""
    with torch.no_grad():
        context_vec, attn_weights = module(x, return_weights=True)
    weights = module.state_dict().items()
    return Heads(
        tokens=journey().tokens,
        num_heads=module.num_heads,
        head_dim=context_vec.shape[-1] // module.num_heads,
        context_vec=context_vec[0],
        attn_weights=attn_weights[0],
        W_query=torch.cat([weight for name, weight in weights if "W_query" in name]),
        num_parameters=count_parameters(module),
        num_products=count_matrix_products(module, x),
        seen=listen(module, x),
    )


def draw_stacked_heads(data: Heads) -> Scene:
    """Draw the output, its columns colored by head, above the weights of each head, in a row.

    In the row of ASKING what moves is framed.
    """
    column_heads = [column // data.head_dim for column in range(data.context_vec.shape[1])]
    title = "context_vec: each head owns its columns"
    output = matrix_picture(data.context_vec, data.tokens, column_heads, title, 3)
    is_future = causal_mask(len(data.tokens))
    maps = weights_picture(data.attn_weights, data.tokens, is_future, STACKED, columns=4)
    return above(_framed(output, data), maps)


def _framed(output: Scene, data: Heads) -> Scene:
    """Put a frame around the numbers that the swap moves, and a line below that says so."""
    (cell,) = output.named("matrix")
    y = cell.y + ASKING * cell.height + 1
    firsts = [c for c in data.moved if c - 1 not in data.moved]
    lasts = [c for c in data.moved if c + 1 not in data.moved]
    items = list(output.items)
    for first, last in zip(firsts, lasts, strict=True):
        x, width = cell.x + first * cell.width, (last - first + 1) * cell.width
        items += frame(x + 1, y, width - 2, 22, 2)
    what = "framed: what moves" if firsts else "nothing moves"
    swapped = " and ".join(f"“{data.tokens[i]}”" for i in SWAPPED)
    told = f"{what} in the row of “{data.tokens[ASKING]}” if {swapped} are swapped"
    items.append(Words(LABEL, output.height + 10, told, "start", FAINT))
    width = max(output.width, LABEL + text_width(told) + 4)
    return Scene(width, output.height + 18, output.alt, tuple(items))


def touch_stacked_heads(data: Heads, scene: Scene) -> Touch:
    """Return the cells of the maps, their heads counted from 0."""
    return Touch(data.tokens, head_maps(scene, data.attn_weights, data.seen))


def readout_stacked_heads(data: Heads) -> str:
    """Return where the last head looks, what the heads cost, and what a swap of words moves."""
    swapped = " and ".join(data.tokens[i] for i in SWAPPED)
    columns = ", ".join(map(str, data.moved))
    moved = f"columns {columns} move (framed)" if columns else "nothing moves"
    return (
        f"num_heads = {data.num_heads} | head {data.num_heads - 1} looks "
        f"{LOOKS[data.num_heads - 1]} | {data.context_vec.shape[1]} columns | "
        f"matrix products {data.num_products} | swap {swapped}: in the row of "
        f"{data.tokens[ASKING]}, {moved}"
    )


STACKED_HEADS = Panel(
    name="stacked heads",
    controls={"num_heads": tuple(range(1, len(LOOKS) + 1))},
    default={"num_heads": 2},
    compute=compute_stacked_heads,
    draw=draw_stacked_heads,
    readout=readout_stacked_heads,
    touch=touch_stacked_heads,
    telling=({"num_heads": 2}, {"num_heads": 4}),
)

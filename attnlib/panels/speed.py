"""The panel of measured times: all variants at each point of the stored grid."""

from __future__ import annotations

from typing import NamedTuple

from attnlib.panels.panel import Panel
from attnlib.pictures.charts import bars_picture
from attnlib.pictures.scene import Scene
from attnlib.speed.clock import ratio
from attnlib.speed.results import floor_seconds, grid_result, medians, title

GRID_HEADS = (1, 3, 6, 12, 24)
GRID_TOKENS = (64, 128, 256, 512, 1024)


class Speed(NamedTuple):
    """The times of all variants at one point of the grid, on one machine."""

    machine: str
    num_heads: int
    num_tokens: int
    floor: float  # seconds
    times: dict[str, float]  # median seconds by variant
    split_over_stacked: float  # of the same round, the median


def compute_speed(num_heads: int, num_tokens: int) -> Speed:
    """Look up a point of the measured grid: width 768, batch 1, forward."""
    result = grid_result()
    (entry,) = (
        entry
        for entry in result["grid"]
        if (entry["num_heads"], entry["num_tokens"]) == (num_heads, num_tokens)
    )
    share = ratio(entry["samples"], "weight split", "stacked heads").median
    return Speed(title(result), num_heads, num_tokens, floor_seconds(entry), medians(entry), share)


def draw_speed(data: Speed) -> Scene:
    """Draw a bar for each variant, against the floor."""
    heads = "1 head" if data.num_heads == 1 else f"{data.num_heads} heads"
    return bars_picture(data.times, data.floor, f"{heads}, {data.num_tokens} tokens", end=4.0)


def readout_speed(data: Speed) -> str:
    """Return which version is the fastest, and compare the two that this course writes."""
    fastest = min(data.times, key=lambda name: data.times[name])
    return (
        f"num_heads = {data.num_heads} | num_tokens = {data.num_tokens} | "
        f"fastest: {fastest}, {data.times[fastest] / data.floor:.2f} x floor | "
        f"weight split / stacked heads {data.split_over_stacked:.2f} | {data.machine}"
    )


SPEED = Panel(
    name="speed",
    controls={"num_heads": GRID_HEADS, "num_tokens": GRID_TOKENS},
    default={"num_heads": 12, "num_tokens": 1024},
    compute=compute_speed,
    draw=draw_speed,
    readout=readout_speed,
    telling=tuple({"num_heads": 12, "num_tokens": n} for n in (64, 256, 512)),
)

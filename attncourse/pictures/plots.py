"""Curves, bars and heat maps, drawn by matplotlib, each with an alt text."""

from __future__ import annotations

import cmath
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from attncourse.pictures.alt_text import format_number
from attncourse.pictures.letters import SIZE
from attncourse.pictures.palette import FAINT, HATCH, INK, QUIET, head_color, hex_color
from attncourse.pictures.scene import FONT_FILES, PAGE_WIDTH, Picture

if TYPE_CHECKING:  # matplotlib is loaded with the first plot
    from matplotlib.figure import Figure

BLUE, ORANGE, RED = head_color(0), head_color(1), head_color(4)
BLACK, GRAY, PALE = hex_color(INK), hex_color(FAINT), hex_color(QUIET)
STYLE: Any = {  # of matplotlib.rcParams
    "font.family": "Inter",
    "font.size": SIZE,
    "text.color": BLACK,
    "axes.titlesize": SIZE,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelcolor": GRAY,
    "axes.edgecolor": GRAY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": GRAY,
    "ytick.color": GRAY,
    "xtick.labelcolor": BLACK,
    "ytick.labelcolor": BLACK,
    "legend.frameon": False,
    "hatch.color": hex_color(HATCH),
    "hatch.linewidth": 0.7,
}


@dataclass(frozen=True, repr=False)
class Plot(Picture):
    """A figure of matplotlib as a PNG, with an alt text."""

    width: float
    height: float
    alt: str
    data: bytes

    def png(self) -> bytes:
        """Return the PNG file, with two dots per pixel."""
        return self.data


@contextmanager
def _figure(width: float, height: float) -> Iterator[Figure]:
    """Give a figure of so many pixels in the style of the course."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.font_manager import fontManager

    for path in FONT_FILES if "Inter" not in fontManager.get_font_names() else ():
        fontManager.addfont(path)
    with matplotlib.rc_context(STYLE):
        # one point is one pixel, so that a size of letters means the same as in a scene
        yield Figure(figsize=(width / 72, height / 72), layout="constrained")


def _plot(figure: Figure, alt: str) -> Plot:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=144)
    width, height = (72 * inches for inches in figure.get_size_inches())
    return Plot(width, height, alt, file.getvalue())


def ablation_picture(probabilities: Tensor, before: float, word: str) -> Plot:
    """Draw the probability of a word, each head of a model ablated in turn.

    Args:
        probabilities: (num_layers, num_heads), with that head ablated.
        before: the probability when no head is ablated, a dashed line.
        word: the word.

    Returns:
        A Plot: from the line a bar for each head, in the order of the layers, to the probability
        that is left. The lowest bar has the name of its head.
    """
    num_layers, num_heads = probabilities.shape
    lowest, least = int(probabilities.argmin()), probabilities.min().item()
    name = "L{}H{}".format(*divmod(lowest, num_heads))
    starts = [i / num_heads for i in range(probabilities.numel())]
    colors = [ORANGE if i == lowest else BLUE for i in range(probabilities.numel())]
    with _figure(PAGE_WIDTH, 210) as figure:
        axes = figure.subplots()
        changes = (probabilities.flatten() - before).tolist()
        axes.bar(starts, changes, 1 / num_heads, before, align="edge", color=colors)
        axes.axhline(before, color=BLACK, linestyle="--", linewidth=1)
        axes.text(num_layers, 0.92, f"no head ablated: {before:.2f}", ha="right")
        axes.text(starts[lowest] - 0.2, least, f"{name}: {least:.2f}", ha="right", weight="bold")
        axes.set_title(f"probability of {word}, each head ablated in turn")
        axes.set(xlabel="layer", xlim=(0, num_layers), ylim=(0, 1), yticks=(0, 0.5, 1))
        alt = (
            f"A bar for each of {probabilities.numel()} heads: the probability of {word} with the "
            f"head ablated. With no head ablated: {format_number(before)}. The lowest is {name}: "
            f"{format_number(least)}."
        )
        return _plot(figure, alt)


def bars_picture(values: Mapping[str, float], title: str, form: str = ".2f") -> Plot:
    """Draw numbers as horizontal bars, each with its name and its value.

    Args:
        values: by name, in order, from above to below.
        title: what is drawn, above the picture and in the alt text.
        form: how a value is written, as format() takes it.
    """
    labels = [format(value, form) for value in values.values()]
    with _figure(560, 44 + 28 * len(values)) as figure:
        axes = figure.subplots()
        axes.bar_label(
            axes.barh([*values], [*values.values()], 0.65, color=BLUE), labels, padding=6
        )
        axes.invert_yaxis()
        axes.margins(x=0.15)
        axes.tick_params(left=False)
        axes.set_xticks([])
        axes.spines[:].set_visible(False)
        axes.set_title(title)
        told = "; ".join(f"{name}: {label}" for name, label in zip(values, labels, strict=True))
        return _plot(figure, f"{title}. {told}.")


def loss_curves_picture(
    curves: Mapping[str, Sequence[float]],
    title: str,
    baseline: tuple[str, float],
    xlabel: str,
    first: int = 0,
) -> Plot:
    """Draw losses as curves on one scale.

    Args:
        curves: by name, a loss for each step, or for whatever is counted.
        title: what is drawn, above the picture and in the alt text.
        baseline: a name and a loss, drawn as a dashed line.
        xlabel: what is counted.
        first: the count of the first loss.
    """
    with _figure(PAGE_WIDTH, 280) as figure:
        axes = figure.subplots()
        for (name, losses), color in zip(curves.items(), (BLUE, RED, head_color(2)), strict=False):
            counts = range(first, first + len(losses))
            axes.plot(counts, losses, color=color, linewidth=2.2, label=f"{name} {losses[-1]:.2f}")
        name, loss = baseline
        axes.axhline(loss, color=GRAY, linestyle="--", label=f"{name} {loss:.3f}")
        axes.set_title(title)
        axes.set(xlabel=xlabel, ylim=(0, None), xlim=(first, None))
        figure.legend(loc="outside right upper")
        told = ", ".join(
            f"{name} begins at {losses[0]:.2f} and ends at {losses[-1]:.2f}"
            for name, losses in curves.items()
        )
        return _plot(figure, f"{title}: {told}; the dashed line is {name} {loss:.3f}.")


def training_heatmaps_picture(
    maps: Mapping[str, Tensor], steps: Sequence[int], hues: Sequence[int], mark: int
) -> Plot:
    """Draw how heads grow: for each a heat map, training steps down and positions across.

    Args:
        maps: by name, shares from 0 to 1, (num_steps, num_positions); NaN where there is none.
        steps: of the training, evenly spaced, one for each row.
        hues: whose color each map has, counted from 0.
        mark: a position that gets a dashed line at its right side.

    Returns:
        A Plot: the more, the stronger the color; 0 is white; what has no value is hatched. The alt
        text says where each map ends.
    """
    from matplotlib.colors import LinearSegmentedColormap

    said = []
    with _figure(PAGE_WIDTH, 200) as figure:
        row = figure.subplots(1, len(maps), sharey=True)
        for axes, (name, shares), hue in zip(row, maps.items(), hues, strict=True):
            colors = LinearSegmentedColormap.from_list(name, ["#ffffff", head_color(hue)])
            extent = (-0.5, shares.shape[1] - 0.5, steps[-1], steps[0])
            axes.patch.set(hatch="////")  # is seen where there is no value
            axes.imshow(shares.numpy(), colors, vmin=0, vmax=1, aspect="auto", extent=extent)
            axes.axvline(mark + 0.5, color=GRAY, linestyle="--", linewidth=1)
            axes.set_title(name)
            axes.set_xlabel("position")
            said.append(f"{name}: at the end {format_number(shares[-1].nanmean().item())}.")
        row[0].set_ylabel("training step")
        return _plot(figure, f"Heat maps over {len(steps)} training steps. {' '.join(said)}")


def rotary_picture(
    query: tuple[float, float],
    key: tuple[float, float],
    angle: float,
    positions: Sequence[tuple[int, int]],
) -> Plot:
    """Draw a pair of a query's numbers and one of a key's as arrows, rotated by their positions.

    Args:
        query: a pair of its numbers, before it is rotated.
        key: a pair of its numbers.
        angle: by which each position rotates a pair, in radians.
        positions: of the query and of the key.

    Returns:
        A Plot: two arrows for each two positions, with the product of the two.
    """
    said = []
    with _figure(210 * len(positions), 240) as figure:
        row = figure.subplots(1, len(positions), squeeze=False)[0]
        for axes, (at_query, at_key) in zip(row, positions, strict=True):
            q = complex(*query) * cmath.rect(1, at_query * angle)
            k = complex(*key) * cmath.rect(1, at_key * angle)
            product = q.real * k.real + q.imag * k.imag
            title = f"query at {at_query}, key at {at_key}"
            for end, name, color in ((q, "q", BLACK), (k, "k", BLUE)):
                x, y = end.real, end.imag
                arrow = {"arrowstyle": "-|>", "color": color, "linewidth": 2.5, "shrinkB": 0}
                axes.annotate("", (x, y), (0, 0), arrowprops=arrow)
                axes.text(1.15 * x, 1.15 * y, name, ha="center", va="center", weight="bold")
            axes.set_title(title, loc="center")
            axes.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal", xticks=[], yticks=[])
            axes.set_xlabel(f"product {product:.2f}".replace("-", "−"), color=BLACK)
            axes.spines[:].set_color(PALE)
            said.append(f"{title}: product {format_number(product)}")
        alt = (
            "A pair of a query's numbers and one of a key's, two arrows from one point, rotated by "
            f"their positions. {'; '.join(said)}. Equal distances, equal angles between the arrows."
        )
        return _plot(figure, alt)

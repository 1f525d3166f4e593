"""What the sliders show: for each subject a module with its panels.

A Panel is plain: controls with a few values each, and pure functions from those values to numbers,
to a picture and to a line of text. Only attnlib.panels.widgets knows ipywidgets, and it is
imported by name. Panels may import everything else in attnlib; nothing imports panels.
"""

from attnlib.panels.gpt2 import GPT2_HEADS, gpt2_panel, heads_picture
from attnlib.panels.learning import (
    LETTERS,
    MUTE,
    SHOWN,
    TRAINING_STEP,
    held_out_batch,
    lines_picture,
    recorded_model,
)
from attnlib.panels.mistakes import BY_NAME, GALLERY, build, examine, tokens
from attnlib.panels.panel import ONE_HEAD, STACKED_HEADS, WEIGHT_SPLIT, Panel
from attnlib.panels.speed import (
    SPEED,
    bars_picture,
    crossover_picture,
    grid_result,
    roofline_picture,
)
from attnlib.panels.steps import NUMBER_STEPS, SHAPE_STEPS, eleven_steps, step_panel
from attnlib.panels.torch_equality import TORCH_EQUALITY

__all__ = [
    "BY_NAME",
    "GALLERY",
    "GPT2_HEADS",
    "LETTERS",
    "MUTE",
    "NUMBER_STEPS",
    "ONE_HEAD",
    "SHAPE_STEPS",
    "SHOWN",
    "SPEED",
    "STACKED_HEADS",
    "TORCH_EQUALITY",
    "TRAINING_STEP",
    "WEIGHT_SPLIT",
    "Panel",
    "bars_picture",
    "build",
    "crossover_picture",
    "eleven_steps",
    "examine",
    "gpt2_panel",
    "grid_result",
    "heads_picture",
    "held_out_batch",
    "lines_picture",
    "recorded_model",
    "roofline_picture",
    "step_panel",
    "tokens",
]

"""What the sliders show: a module of panels for each topic.

A Panel is plain data: controls with a few values each, and pure functions that turn those values
into numbers, a picture and a line of text. Only widgets and sentence use anywidget; they must be
imported explicitly. live has the panels that compute in the page. Panels may import everything
else; nothing imports panels.
"""

from attncourse.panels.gallery import GALLERY
from attncourse.panels.heads import STACKED_HEADS
from attncourse.panels.live import LEAK, MINI, PAINTED, TYPED
from attncourse.panels.running_softmax import TILES
from attncourse.panels.states import Panel
from attncourse.panels.steps import NUMBER_STEPS, OnePiece, eleven_steps
from attncourse.panels.torch_equality import TORCH_EQUALITY
from attncourse.panels.weight_columns import WEIGHT_SPLIT

__all__ = [
    "GALLERY",
    "LEAK",
    "MINI",
    "NUMBER_STEPS",
    "PAINTED",
    "STACKED_HEADS",
    "TILES",
    "TORCH_EQUALITY",
    "TYPED",
    "WEIGHT_SPLIT",
    "OnePiece",
    "Panel",
    "eleven_steps",
]

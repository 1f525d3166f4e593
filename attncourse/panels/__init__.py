"""What the sliders show: a module of panels for each topic.

A Panel is plain data: controls with a few values each, and pure functions that turn those values
into numbers, a picture and a line of text. Only widgets and sentence use anywidget; they must be
imported explicitly. live has the panels that compute in the page. Panels may import everything
else; nothing imports panels.
"""

from attncourse.panels.gallery import MISTAKE_GALLERY
from attncourse.panels.live import LEAK_DETECTOR, MINI_MODEL, PAINTED_PATTERN, TYPED_LETTERS
from attncourse.panels.online_softmax import ONLINE_SOFTMAX
from attncourse.panels.stacked_heads import STACKED_HEADS
from attncourse.panels.weight_split import WEIGHT_SPLIT
from attncourse.renamed import explain_renamed

__all__ = [
    "LEAK_DETECTOR",
    "MINI_MODEL",
    "MISTAKE_GALLERY",
    "ONLINE_SOFTMAX",
    "PAINTED_PATTERN",
    "STACKED_HEADS",
    "TYPED_LETTERS",
    "WEIGHT_SPLIT",
]

explain_renamed(__name__)

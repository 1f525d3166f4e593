"""Everything that is drawn: one picture as plain data, as SVG, and as a PNG in a notebook.

palette holds the colors, letters their widths, scene the picture, cells its parts, alt_text what an
alt text says of weights. weights draws maps of attention, arcs the same over a sentence, matrices
numbers, head_columns which of them belong to which head, one_head all numbers of a small head,
planes queries and keys of two numbers, shapes a forward line by line; fault_table is a table.
plots has curves and bars, drawn by matplotlib. Pictures import nothing else of attncourse.
"""

from attncourse.pictures.arcs import arcs_picture
from attncourse.pictures.fault_table import FaultTable
from attncourse.pictures.head_columns import (
    product_picture,
)
from attncourse.pictures.matrices import difference_picture
from attncourse.pictures.one_head import head_picture
from attncourse.pictures.plots import (
    ablation_picture,
    losses_picture,
    rotary_picture,
    softmax_picture,
    times_picture,
    training_maps_picture,
)
from attncourse.pictures.scene import Scene, above, beside
from attncourse.pictures.shapes import shapes_picture
from attncourse.pictures.weights import weights_picture

__all__ = [
    "FaultTable",
    "Scene",
    "ablation_picture",
    "above",
    "arcs_picture",
    "beside",
    "difference_picture",
    "head_picture",
    "losses_picture",
    "product_picture",
    "rotary_picture",
    "shapes_picture",
    "softmax_picture",
    "times_picture",
    "training_maps_picture",
    "weights_picture",
]

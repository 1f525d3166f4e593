"""How anything is drawn: one picture as plain data, written as a PNG or as an SVG.

palette holds the colours, scene the picture; tensors draws weights and matrices, charts draws
times. matplotlib loads with the first PNG. Pictures import nothing else of attnlib.
"""

from attnlib.pictures.arcs import arcs_picture
from attnlib.pictures.charts import bars_picture, crossover_picture, roofline_picture
from attnlib.pictures.scene import Scene, above, beside
from attnlib.pictures.tensors import (
    blocks_picture,
    difference_picture,
    heads_picture,
    lines_picture,
    listing_picture,
    matrix_picture,
    tensor_picture,
    weights_picture,
)

__all__ = [
    "Scene",
    "above",
    "arcs_picture",
    "bars_picture",
    "beside",
    "blocks_picture",
    "crossover_picture",
    "difference_picture",
    "heads_picture",
    "lines_picture",
    "listing_picture",
    "matrix_picture",
    "roofline_picture",
    "tensor_picture",
    "weights_picture",
]

"""How anything is drawn: one picture as plain data, written as a PNG or as an SVG.

palette holds the colours, scene the picture, tensors draws weights and matrices. matplotlib loads
with the first PNG. Pictures know numbers and names, never a module that made them.
"""

from attnlib.pictures.blocks import listing_picture, tensor_picture
from attnlib.pictures.scene import Scene, above, beside
from attnlib.pictures.tensors import (
    blocks_picture,
    difference_picture,
    matrix_picture,
    weights_picture,
)

__all__ = [
    "Scene",
    "above",
    "beside",
    "blocks_picture",
    "difference_picture",
    "listing_picture",
    "matrix_picture",
    "tensor_picture",
    "weights_picture",
]

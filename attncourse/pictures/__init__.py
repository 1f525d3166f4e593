"""How anything is drawn: one picture as plain data, written as a PNG or as an SVG.

palette holds the colors, letters their widths, scene the picture, cells its parts, seen what its
alt text says of weights. weights draws maps of attention, matrices numbers, head_columns which of
them belong to which head, arcs words and who looks where, between new tokens and a longer past,
rows one row of weights as bars, planes queries and keys of two numbers, moves shapes line by line,
axes which axis of a mask is stretched, memories what is carried between far and near, ladder what
one change after the other saves, strikes a table whose rows are struck out, grids many numbers as
colors, curves and two_losses losses, sizes the heads in a file's matrix, turned a pair of numbers
at two positions. Pictures import nothing else of
attncourse.
"""

from attncourse.pictures.arcs import arcs_picture
from attncourse.pictures.axes import axes_picture
from attncourse.pictures.between import rectangle_picture
from attncourse.pictures.curves import curves_picture
from attncourse.pictures.grids import shares_picture, strips_picture
from attncourse.pictures.head_columns import (
    blocks_and_maps_picture,
    blocks_beside_maps_picture,
    product_picture,
)
from attncourse.pictures.ladder import ladder_picture
from attncourse.pictures.matrices import difference_picture
from attncourse.pictures.memories import memories_picture
from attncourse.pictures.moves import moves_picture, shapes_picture
from attncourse.pictures.one_head import head_picture
from attncourse.pictures.rows import muted_picture, small_bars_picture, softmax_picture
from attncourse.pictures.scene import Scene, above, beside
from attncourse.pictures.sizes import c_attn_picture
from attncourse.pictures.strikes import strikes_picture
from attncourse.pictures.turned import turned_picture
from attncourse.pictures.two_losses import two_losses_picture
from attncourse.pictures.weights import leaks_picture, weights_picture

__all__ = [
    "Scene",
    "above",
    "arcs_picture",
    "axes_picture",
    "beside",
    "blocks_and_maps_picture",
    "blocks_beside_maps_picture",
    "c_attn_picture",
    "curves_picture",
    "difference_picture",
    "head_picture",
    "ladder_picture",
    "leaks_picture",
    "memories_picture",
    "moves_picture",
    "muted_picture",
    "product_picture",
    "rectangle_picture",
    "shapes_picture",
    "shares_picture",
    "small_bars_picture",
    "softmax_picture",
    "strikes_picture",
    "strips_picture",
    "turned_picture",
    "two_losses_picture",
    "weights_picture",
]

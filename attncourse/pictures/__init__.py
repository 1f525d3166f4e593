"""Everything that is drawn: one picture as plain data, as SVG, and as a PNG in a notebook.

palette holds the colors, letters their widths, scene the picture, cells its parts, alt_text what an
alt text says of weights. weights draws maps of attention, arcs the same over a sentence, matrices
numbers and products, weight_blocks the columns of each head, one_head all numbers of a small head.
tables has tables in HTML, plots curves and bars, drawn by matplotlib. Pictures import nothing else
of attncourse.
"""

from attncourse.pictures.arcs import arcs_picture
from attncourse.pictures.matrices import difference_picture, matmul_picture
from attncourse.pictures.one_head import head_picture
from attncourse.pictures.plots import (
    ablation_picture,
    bars_picture,
    loss_curves_picture,
    rotary_picture,
    training_heatmaps_picture,
)
from attncourse.pictures.scene import Scene
from attncourse.pictures.tables import FaultTable, ShapeTable
from attncourse.pictures.weights import weights_picture
from attncourse.renamed import explain_renamed

__all__ = [
    "FaultTable",
    "Scene",
    "ShapeTable",
    "ablation_picture",
    "arcs_picture",
    "bars_picture",
    "difference_picture",
    "head_picture",
    "loss_curves_picture",
    "matmul_picture",
    "rotary_picture",
    "training_heatmaps_picture",
    "weights_picture",
]

explain_renamed(__name__)

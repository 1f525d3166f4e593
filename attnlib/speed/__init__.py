"""How fast the ways to write attention are, and what they cost.

variants writes one function in eleven ways, clock times them in turns, count counts parameters,
products and FLOPs, results reads what `make bench` has stored in measured/. This folder imports
only the core.
"""

from attnlib.speed.clock import (
    BOTH,
    FORWARD,
    MATRIX_PRODUCT,
    Quartiles,
    added_to_peak,
    forward,
    forward_and_backward,
    in_turns,
    machine,
    next_token,
    page_faults,
    products_of_floor,
    quartiles,
    race,
    ratio,
    run_python,
    trend,
)
from attnlib.speed.count import (
    causal_flops,
    count_matrix_products,
    count_parameters,
    count_work,
    projection_flops,
)
from attnlib.speed.results import grid_result, over_floor, stored_results, times_table, title
from attnlib.speed.variants import VARIANTS

__all__ = [
    "BOTH",
    "FORWARD",
    "MATRIX_PRODUCT",
    "VARIANTS",
    "Quartiles",
    "added_to_peak",
    "causal_flops",
    "count_matrix_products",
    "count_parameters",
    "count_work",
    "forward",
    "forward_and_backward",
    "grid_result",
    "in_turns",
    "machine",
    "next_token",
    "over_floor",
    "page_faults",
    "products_of_floor",
    "projection_flops",
    "quartiles",
    "race",
    "ratio",
    "run_python",
    "stored_results",
    "times_table",
    "title",
    "trend",
]

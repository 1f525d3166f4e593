"""How fast the ways to write attention are, and what they cost.

variants writes one function in eleven ways, clock times them in turns, phases says where the time
goes, fresh measures in processes of their own, count counts parameters, products and FLOPs, results
reads what `make bench` has stored in measured/. This folder imports only the core.
"""

from attnlib.speed.clock import (
    BOTH,
    FORWARD,
    MATRIX_PRODUCT,
    Quartiles,
    added_to_peak,
    forward,
    forward_and_backward,
    huge_pages,
    in_turns,
    machine,
    next_token,
    page_faults,
    products_of_floor,
    quartiles,
    race,
    ratio,
    require_equal,
    run_python,
    trend,
)
from attnlib.speed.count import (
    causal_flops,
    count_matrix_products,
    count_parameters,
    count_work,
    kept_for_backward,
    projection_flops,
)
from attnlib.speed.fresh import (
    Peak,
    Run,
    in_fresh_process,
    peak,
    runs_table,
    saved_by_keeping,
    with_and_without_kept_blocks,
)
from attnlib.speed.phases import PHASES, Phase, phases
from attnlib.speed.results import (
    Crossing,
    crossing,
    grid_result,
    over_floor,
    shapes_table,
    stored_results,
    times_table,
    title,
)
from attnlib.speed.variants import VARIANTS

__all__ = [
    "BOTH",
    "FORWARD",
    "MATRIX_PRODUCT",
    "PHASES",
    "VARIANTS",
    "Crossing",
    "Peak",
    "Phase",
    "Quartiles",
    "Run",
    "added_to_peak",
    "causal_flops",
    "count_matrix_products",
    "count_parameters",
    "count_work",
    "crossing",
    "forward",
    "forward_and_backward",
    "grid_result",
    "huge_pages",
    "in_fresh_process",
    "in_turns",
    "kept_for_backward",
    "machine",
    "next_token",
    "over_floor",
    "page_faults",
    "peak",
    "phases",
    "products_of_floor",
    "projection_flops",
    "quartiles",
    "race",
    "ratio",
    "require_equal",
    "run_python",
    "runs_table",
    "saved_by_keeping",
    "shapes_table",
    "stored_results",
    "times_table",
    "title",
    "trend",
    "with_and_without_kept_blocks",
]

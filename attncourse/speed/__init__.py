"""How fast the ways to write attention are, and what they cost.

variants writes one function in several ways, clock times them in turns, phases says where the time
goes, fresh measures in processes of their own, count counts parameters, products and FLOPs, results
reads what `make bench` has stored in measured/.
"""

from attncourse.speed.clock import (
    cpu_seconds,
    forward,
    huge_pages,
    in_turns,
    quartiles,
    race,
    ratio,
)
from attncourse.speed.count import (
    causal_flops,
    count_matrix_products,
    count_parameters,
    count_work,
    kept_for_backward,
    projection_flops,
)
from attncourse.speed.fresh import (
    new_and_used_block,
    peak,
    runs_table,
    saved_by_keeping,
    with_and_without_kept_blocks,
)
from attncourse.speed.phases import phases, tile_phases
from attncourse.speed.results import crossing, grid_result, title
from attncourse.speed.variants import VARIANTS

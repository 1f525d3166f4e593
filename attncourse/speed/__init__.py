"""How fast the ways to write attention are, and what they cost.

variants writes one function in several ways, clock times them in turns, fresh measures in processes
of their own, count counts parameters, products and FLOPs.
"""

from attncourse.speed.clock import (
    cpu_seconds,
    in_turns,
    quartiles,
    race,
    ratio,
    writing,
)
from attncourse.speed.count import count_work, kernels
from attncourse.speed.fresh import with_and_without_kept_blocks
from attncourse.speed.variants import VARIANTS

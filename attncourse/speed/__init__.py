"""How fast the ways to write attention are, and what they cost.

variants writes one function in several ways, timing times them in turns, new_process measures in
processes of their own, count counts parameters, matrix products and FLOPs.
"""

from attncourse.speed.count import count_work, kernels
from attncourse.speed.new_process import with_and_without_kept_blocks
from attncourse.speed.timing import (
    cpu_seconds,
    in_turns,
    quartiles,
    race,
    ratio,
    writing,
)
from attncourse.speed.variants import VARIANTS

"""How fast the ways to write attention are, and what they cost.

variants writes one function in several ways, timing times them in turns, new_process measures in
processes of their own, count counts parameters, matrix products and FLOPs.
"""

from attncourse.speed.count import count_work, kernel_names
from attncourse.speed.new_process import time_in_new_processes
from attncourse.speed.timing import (
    cpu_seconds,
    quartiles,
    ratio,
    time_generation,
    time_in_turns,
    time_modules,
)
from attncourse.speed.variants import VARIANTS

"""How fast the ways to write attention are, and what they cost.

timing times functions in turns, new_process measures the same function written in two ways in
processes of their own, count counts parameters, matrix products and FLOPs.
"""

from attncourse.renamed import explain_renamed
from attncourse.speed.count import count_work, kernel_names
from attncourse.speed.new_process import VARIANTS, time_in_new_processes
from attncourse.speed.timing import (
    cpu_seconds,
    forward,
    quartiles,
    ratio,
    time_generation,
    time_in_turns,
)

explain_renamed(__name__)

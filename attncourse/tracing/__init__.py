"""What every line of a forward does, and the source that the course shows.

tracer runs a module and records each tensor that a line makes, table is the record, shapes shows
its shapes first, operations records every single operation and the line that asked for it, source
cuts and marks the text of a class, diffs shows two texts as lines with - and +. Tracing imports
nothing else of attnlib.
"""

from attncourse.tracing.diffs import Diff
from attncourse.tracing.operations import Line, Operation, Recording
from attncourse.tracing.shapes import ShapeTable, shape_table
from attncourse.tracing.source import Source, numbered_lines, show_source
from attncourse.tracing.table import Failure, Step, Trace
from attncourse.tracing.tracer import locate, trace

__all__ = [
    "Diff",
    "Failure",
    "Line",
    "Operation",
    "Recording",
    "ShapeTable",
    "Source",
    "Step",
    "Trace",
    "locate",
    "numbered_lines",
    "shape_table",
    "show_source",
    "trace",
]

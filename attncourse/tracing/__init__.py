"""What every line of a forward does, and the source that the course shows.

tracer runs a module and records each tensor that a line makes, table is the record, operations
records every single operation and the line that asked for it, class_text reads what a learner
wrote, source cuts the text of a class, diffs shows two texts as lines with - and +.
"""

from attncourse.tracing.source import show_source
from attncourse.tracing.tracer import trace

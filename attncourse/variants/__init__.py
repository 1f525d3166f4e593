"""Classes that differ from a right one by a few lines of text, compiled so that they run.

changes has the text and the class that it makes; the stored lines are in the .toml files. mistakes
are classes of attention that are wrong by one line, faults those of them that have no label, and
broken are forwards that are to be repaired. torch_multihead is PyTorch's module rebuilt with all
its options; torch_options has it in twenty lines, each option as a change of a few. llama has the
attention of a larger model, where each usual mistake is an option. inlined is right: it has the
attention of lesson 03 with one step on each line.
"""

from attncourse.variants.inlined import InlinedAttention
from attncourse.variants.mistakes import MISTAKES, make
from attncourse.variants.torch_options import OPTIONS, CoreAttention

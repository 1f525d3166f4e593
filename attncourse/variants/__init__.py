"""Classes that differ from a right one by a few lines of text, compiled so that they run.

changes has the text and the class that it makes. mistakes are classes of attention that are wrong
by one line; torch_options has PyTorch's module in twenty lines, each option as a change of a few.
"""

from attncourse.variants.mistakes import MISTAKES, make
from attncourse.variants.torch_options import OPTIONS, CoreAttention

"""GPT-2: its published sizes, and what the attention heads of the released model computed.

The weights are not part of the course: sizes counts its parameters, and recorded holds attention
scores and weights that others published.
"""

from attncourse.gpt2.recorded import TEXTS, RecordedText, recorded_attention
from attncourse.gpt2.sizes import SIZES, Gpt2Size, cache_bytes, parameter_parts

"""GPT-2 around our class: its weights and its sizes.

files opens GPT-2's file, weights copies from them into our classes, model is the rest of GPT-2,
writing lets it write; recorded holds what the released model's heads looked at, own is the reader's
file, and released says whether that is the released model.
"""

from attncourse.gpt2.files import read_gpt2
from attncourse.gpt2.model import SIZES, cache_bytes, load_gpt2, parameter_parts
from attncourse.gpt2.own import own_gpt2
from attncourse.gpt2.recorded import recorded
from attncourse.gpt2.released import check_gpt2
from attncourse.gpt2.weights import from_gpt2

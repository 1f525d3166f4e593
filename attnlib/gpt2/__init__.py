"""GPT-2 around our class: its weights, its sizes, its heads over several processes.

files opens GPT-2's files, weights copies between them and our classes, model is the rest of GPT-2,
parallel shares the heads out among processes; recorded holds what the released model's heads looked
at. This folder imports only the core.
"""

from attnlib.gpt2.files import read_gpt2
from attnlib.gpt2.model import (
    GPT2,
    SIZES,
    TINY,
    Block,
    Gpt2Size,
    cache_bytes,
    journey_ids,
    load_gpt2,
    tiny_gpt2,
    write_gpt2,
)
from attnlib.gpt2.parallel import require_whole_heads, run_processes, share_out_heads
from attnlib.gpt2.recorded import (
    RecordedSentence,
    RecordedText,
    recorded,
    recorded_names,
    recorded_sentence,
)
from attnlib.gpt2.weights import attention_weights, from_gpt2, to_gpt2

__all__ = [
    "GPT2",
    "SIZES",
    "TINY",
    "Block",
    "Gpt2Size",
    "RecordedSentence",
    "RecordedText",
    "attention_weights",
    "cache_bytes",
    "from_gpt2",
    "journey_ids",
    "load_gpt2",
    "read_gpt2",
    "recorded",
    "recorded_names",
    "recorded_sentence",
    "require_whole_heads",
    "run_processes",
    "share_out_heads",
    "tiny_gpt2",
    "to_gpt2",
    "write_gpt2",
]

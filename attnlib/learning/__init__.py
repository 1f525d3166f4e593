"""What heads learn: small models, tasks and their training, patterns to score a head by.

model holds a model of attention alone, and what can be done to its heads; tasks and training teach
it, writing lets it write; patterns scores its heads; record reads one stored training step by step,
runs how many others ended. data/ holds these and a text. This folder imports only the core.
"""

from attnlib.learning.model import (
    AttentionModel,
    exchanged,
    mean_output,
    mute_head,
    reads_and_writes,
    run_with_weights,
)
from attnlib.learning.patterns import (
    PATTERNS,
    even_score,
    induction,
    is_ambiguous,
    k_back,
    score,
    score_by_place,
    scores,
    share_by_pair,
    two_letters,
)
from attnlib.learning.record import (
    HEADS,
    LETTERS,
    SHOWN,
    asked,
    growth,
    held_out_batch,
    recorded_model,
    watched,
)
from attnlib.learning.runs import (
    LONG,
    SEEDS,
    Setting,
    late_head,
    look_up_model,
    look_up_runs,
    look_up_test,
    repeat_runs,
    spread,
)
from attnlib.learning.tasks import alphabet, encode, look_ups, next_tokens, repeats, story, walk
from attnlib.learning.training import accuracy, mean_loss, right_answers, train
from attnlib.learning.writing import UnmaskedAttention, without_mask, write

__all__ = [
    "HEADS",
    "LETTERS",
    "LONG",
    "PATTERNS",
    "SEEDS",
    "SHOWN",
    "AttentionModel",
    "Setting",
    "UnmaskedAttention",
    "accuracy",
    "alphabet",
    "asked",
    "encode",
    "even_score",
    "exchanged",
    "growth",
    "held_out_batch",
    "induction",
    "is_ambiguous",
    "k_back",
    "late_head",
    "look_up_model",
    "look_up_runs",
    "look_up_test",
    "look_ups",
    "mean_loss",
    "mean_output",
    "mute_head",
    "next_tokens",
    "reads_and_writes",
    "recorded_model",
    "repeat_runs",
    "repeats",
    "right_answers",
    "run_with_weights",
    "score",
    "score_by_place",
    "scores",
    "share_by_pair",
    "spread",
    "story",
    "train",
    "two_letters",
    "walk",
    "watched",
    "without_mask",
    "write",
]

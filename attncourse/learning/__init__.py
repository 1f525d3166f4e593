"""What heads learn: small models, tasks and their training, patterns to score a head by.

model holds a model of attention alone, and what can be done to its heads; tasks and training teach
it, writing lets it write; patterns scores its heads; record reads one stored training step by step,
runs how many others ended; mini is a model small enough to print, two_looks its twin. data/ holds
these and a text. This folder imports only the core.
"""

from attncourse.learning.mini import COUNTRIES, mini_model, page_data, sentences
from attncourse.learning.model import (
    AttentionModel,
    exchanged,
    mean_output,
    mute_head,
    reads_and_writes,
    run_with_weights,
)
from attncourse.learning.patterns import (
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
from attncourse.learning.record import (
    HEADS,
    LETTERS,
    SHOWN,
    asked,
    clear_and_ambiguous,
    growth,
    held_out_batch,
    recorded_model,
    watched,
)
from attncourse.learning.runs import (
    LONG,
    SEEDS,
    Setting,
    guess_by_place,
    late_head,
    look_up_model,
    look_up_runs,
    look_up_test,
    orders_named,
    repeat_runs,
    spread,
)
from attncourse.learning.tasks import alphabet, encode, look_ups, next_tokens, repeats, story, walk
from attncourse.learning.training import accuracy, mean_loss, right_answers, train
from attncourse.learning.two_looks import journeys, right_journeys, two_looks
from attncourse.learning.writing import UnmaskedAttention, without_mask, write

__all__ = [
    "COUNTRIES",
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
    "clear_and_ambiguous",
    "encode",
    "even_score",
    "exchanged",
    "growth",
    "guess_by_place",
    "held_out_batch",
    "induction",
    "is_ambiguous",
    "journeys",
    "k_back",
    "late_head",
    "look_up_model",
    "look_up_runs",
    "look_up_test",
    "look_ups",
    "mean_loss",
    "mean_output",
    "mini_model",
    "mute_head",
    "next_tokens",
    "orders_named",
    "page_data",
    "reads_and_writes",
    "recorded_model",
    "repeat_runs",
    "repeats",
    "right_answers",
    "right_journeys",
    "run_with_weights",
    "score",
    "score_by_place",
    "scores",
    "sentences",
    "share_by_pair",
    "spread",
    "story",
    "train",
    "two_letters",
    "two_looks",
    "walk",
    "watched",
    "without_mask",
    "write",
]

"""What heads learn: small models, tasks and their training, patterns to score a head by.

model holds a model of attention alone; tasks and training teach it, writing lets it write; patterns
scores its heads; record reads a stored training. data/ holds that training and a text. This folder
imports only the core.
"""

from attnlib.learning.model import AttentionModel, mute_head, run_with_weights
from attnlib.learning.patterns import (
    PATTERNS,
    even_score,
    induction,
    is_ambiguous,
    k_back,
    score,
    scores,
)
from attnlib.learning.record import LETTERS, SHOWN, held_out_batch, recorded_model
from attnlib.learning.tasks import alphabet, encode, look_ups, next_tokens, repeats, story, walk
from attnlib.learning.training import accuracy, mean_loss, right_answers, train
from attnlib.learning.writing import UnmaskedAttention, without_mask, write

__all__ = [
    "LETTERS",
    "PATTERNS",
    "SHOWN",
    "AttentionModel",
    "UnmaskedAttention",
    "accuracy",
    "alphabet",
    "encode",
    "even_score",
    "held_out_batch",
    "induction",
    "is_ambiguous",
    "k_back",
    "look_ups",
    "mean_loss",
    "mute_head",
    "next_tokens",
    "recorded_model",
    "repeats",
    "right_answers",
    "run_with_weights",
    "score",
    "scores",
    "story",
    "train",
    "walk",
    "without_mask",
    "write",
]

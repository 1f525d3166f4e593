"""What heads learn: small models, tasks and their training.

model holds a model of attention alone, and what can be done to its heads; tasks and training teach
it, peeking lets it look ahead; patterns marks where a token came before; record reads one stored
training step by step, runs how many others ended; mini is a model small enough to print, two_looks
its twin. data/ holds these.
"""

from attncourse.learning.mini import mini_model, sentences
from attncourse.learning.model import AttentionModel, ablate_head, reads_and_writes
from attncourse.learning.patterns import heads_with, is_ambiguous
from attncourse.learning.peeking import UnmaskedAttention, losses_when_cut, without_mask
from attncourse.learning.record import (
    HEADS,
    LETTERS,
    clear_and_ambiguous,
    growth,
    held_out_batch,
    keys_before,
    recorded_model,
)
from attncourse.learning.runs import (
    Setting,
    guess_by_place,
    look_up_model,
    look_up_runs,
    look_up_test,
    repeat_runs,
    spread,
)
from attncourse.learning.tasks import look_ups, walk
from attncourse.learning.training import right_answers, train
from attncourse.learning.two_looks import right_journeys, two_looks

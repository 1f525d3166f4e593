"""What heads learn: small models, tasks and their training.

model has a model of attention alone, and what can be done to its heads; tasks and training train
it, unmasked lets it attend to later tokens; patterns marks where a token came before; record has
one stored training step by step, runs how many others ended; mini is a model small enough to
print, two_answers a similar one with two answers. data/ holds these.
"""

from attncourse.learning.mini import mini_model, sentences
from attncourse.learning.model import AttentionModel, ablate_head, ov_circuit
from attncourse.learning.patterns import heads_above, is_ambiguous
from attncourse.learning.record import (
    HEADS,
    LETTERS,
    accuracy_by_ambiguity,
    held_out_batch,
    queries_with_early_keys,
    recorded_history,
    recorded_model,
)
from attncourse.learning.runs import (
    Setting,
    percent_range,
    position_baseline,
    previous_tokens_model,
    previous_tokens_runs,
    previous_tokens_test,
    repeat_runs,
)
from attncourse.learning.tasks import previous_tokens, random_walk
from attncourse.learning.training import correct_answers, train
from attncourse.learning.two_answers import correct_journeys, two_answer_model
from attncourse.learning.unmasked import UnmaskedAttention, losses_of_prefixes, without_mask
from attncourse.renamed import explain_renamed

explain_renamed(__name__)

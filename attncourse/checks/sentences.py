"""All that a learner reads about a class: a sentence for each kind, and what is folded.

A sentence says what is wrong, after the learner's own line. What PyTorch says, shapes and numbers
are details, folded behind it. The finished line of code comes only at the second try.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attncourse.checks.findings import Finding, Kind

LONGEST = 300  # characters of a sentence, with the line that it quotes
PLAIN_ERRORS = (Kind.ERROR, Kind.ERROR_ARGUMENTS, Kind.TIME)  # whose sentence is the error's own
LEAK = "Token 0 sees token 1: "
ROOT = "must be divided by the root of the width of one query"
NOT_ATTEMPTED = "not attempted yet"

CAUSES: dict[Kind, str] = {
    Kind.STUB: NOT_ATTEMPTED,
    Kind.STUB_RAISE: "Your lines stop at `raise NotImplementedError`: delete that line.",
    Kind.STUB_RETURN: f"{NOT_ATTEMPTED}: forward makes {{name}} and returns None. Is the return "
    "missing?",
    Kind.STUB_INIT: f"{NOT_ATTEMPTED}: __init__ does not call super().__init__()",
    Kind.NOT_A_CLASS: "Give the class itself, a subclass of nn.Module, or a function: not {name}.",
    Kind.FORWARD_NAME: "The class has no forward, but {name}: the method that runs a module must "
    "be named forward, and nn.Module's own __call__ calls it.",
    Kind.SETTINGS: "The class changes torch's default dtype, from {dtype}, for all the rest of the "
    "program: give dtype to the tensors that need it.",
    Kind.TIME: "It takes too long, and was stopped here. Does a loop never end?",
    Kind.CHECK_FAILED: "The check cannot go on with what the class returns ({error}: {message}).",
    # Exceptions
    Kind.ERROR: "{message_}",
    Kind.ERROR_ARGUMENTS: "{message_} __init__ takes d_in, d_out, context_length, dropout, "
    "num_heads if it has heads, and qkv_bias=False; forward takes x.",
    Kind.ERROR_DIMENSION: "There is no such dimension. Would -1, the last, do, or -2 before it?",
    Kind.ERROR_DTYPE: "Two dtypes meet here: make every new tensor with dtype=x.dtype.",
    Kind.ERROR_EXIT: "The code calls sys.exit() here, which would end the program that uses the "
    "class: raise an error instead, and only where the call is wrong.",
    Kind.ERROR_FLOAT_SIZE: "A size must be an int: // divides to an int, / to a float.",
    Kind.ERROR_GENERATOR: "torch wants a list here, not a loop in ( ) or a map: write it in [ ].",
    Kind.ERROR_KEEPDIM: "{reduces} drops the dimension that it runs over: add keepdim=True.",
    Kind.ERROR_LAYER_MADE: "An nn layer is made here, from its sizes, and does not take the tensor "
    "yet: make it in __init__, and call on the tensor what was made.",
    Kind.ERROR_LAYERS: "The heads themselves are joined here: it must be head(x) for each head.",
    Kind.ERROR_LIST: "A ModuleList is a list and cannot be called: call each head in it on x.",
    Kind.ERROR_MASK_CUT: "The mask is for all {context_length} tokens of the context, and x has "
    "fewer. Cut it to the tokens that there are: [:num_tokens, :num_tokens].",
    Kind.ERROR_MASK_DIMS: "{name} has a dimension for the texts and none for the heads, so it "
    "cannot meet the scores: leave the texts out, (num_tokens, num_tokens) serves all.",
    Kind.ERROR_MERGED_WIDTH: "The merged heads are {d_out} wide, not {asked}: write self.d_out.",
    Kind.ERROR_NONE: "Something here is None: does a function that made it end without return?",
    Kind.ERROR_NO_ROOM: "This writes past the end of a tensor: is it as wide as all heads are?",
    Kind.ERROR_NOT_SPLIT: "{Names} are not split into heads: they are (b, num_tokens, d_out).",
    Kind.ERROR_NUMBER_CALLED: "A number or a tensor is called here as if it were a layer: __init__ "
    "must keep a layer, such as nn.Dropout(dropout), under this name.",
    Kind.ERROR_NUMPY: "NumPy keeps no gradients, so nothing before this line could learn: every "
    "step must be one of torch, and the root is a number, head_dim**0.5.",
    Kind.ERROR_RECURSION: "A function calls itself without an end: does forward call forward?",
    Kind.ERROR_REFUSED: "This refuses {given}: any number up to context_length must pass.",
    Kind.ERROR_RESIDUAL: "x is added here to what attention made, and is not as wide. Attention "
    "does not add x: the block around it does.",
    Kind.ERROR_SIZES: "Two axes meet here that do not fit: is a transpose missing, or * for @?",
    Kind.ERROR_SOFTMAX_DIM: "softmax must be told along which dimension: dim=-1, along each row.",
    Kind.ERROR_SUPER: "Begin __init__ with super().__init__().",
    Kind.ERROR_T: "{turn} is for matrices: write .transpose(-2, -1), which swaps the last two.",
    Kind.ERROR_VIEW_ORDER: "After transpose the numbers are no longer in reading order, which view "
    "needs: put .contiguous() before .view(), or use .reshape().",
    Kind.ERROR_VIEW_SIZE: "view keeps the number of elements: the sizes must multiply to it. Is "
    "head_dim d_out // num_heads, num_heads the argument, and num_tokens x.shape[1]?",
    Kind.ERROR_WIDTHS: "The last axis of the left one must be as wide as the right one expects: is "
    "a merge, a split or a transpose missing before this line?",
    # Parameters
    Kind.PARAMETERS_BIAS_ALWAYS: "The projections always have a bias: pass it on, bias=qkv_bias.",
    Kind.PARAMETERS_BIAS_NEVER: "With qkv_bias=True the projections have no bias: pass it on.",
    Kind.PARAMETERS_CHANGED: "forward changes its own parameter {name}: a second call would "
    "compute something else. Only an optimizer may change parameters.",
    Kind.PARAMETERS_EXTRA: "The class has a parameter too many: {name}.",
    Kind.PARAMETERS_FROZEN: "{name} is frozen: it has requires_grad=False and would never learn.",
    Kind.PARAMETERS_MISSING: "The class has no parameter {name}; it has {has}.{otherwise}",
    Kind.PARAMETERS_PLAIN_LIST: "self.heads is a plain list, and PyTorch sees no parameters in it: "
    "make it an nn.ModuleList.",
    Kind.PARAMETERS_REPEATED_HEAD: "All heads are one and the same module. Make a new one for each "
    "head: [... for _ in range(num_heads)].",
    Kind.PARAMETERS_SHAPE: "{name} is {have_} where {want_} is right: {meaning}.",
    Kind.PARAMETERS_SHARED: "{name} and {twin} are one parameter: each needs its own nn.Linear.",
    Kind.PARAMETERS_TURNED: "{name} is {have_} where {want_} is right: nn.Linear takes the width "
    "that it gets first, nn.Linear(d_in, d_out).",
    Kind.INIT_EQUAL: "{name} and {twin} begin alike: each must be drawn in its own layer.",
    Kind.INIT_SEED: "Two new modules begin with the same {name}: is a seed set in __init__?",
    Kind.INIT_VALUES: "The numbers of {name} begin as {value}: let nn.Linear draw them.",
    Kind.HEADS_ARGUMENT: "Heads are made with {argument}={have}{which}: pass {argument} on, {why}.",
    Kind.HEADS_COUNT: "{have} heads are made, not {want}: through which numbers does range go?",
    Kind.HEADS_CHAINED: "Head {head} takes what head {before} has made: all heads must take the "
    "same x, and their results go side by side.",
    Kind.HEADS_MANY: "With {num_heads} heads the result is wrong, with few it is right: are they "
    "in the order of their names as text, where '10' comes before '2'?",
    Kind.HEADS_PART: "Head {head} gets another tensor than x here: each head must take x whole.",
    Kind.HEADS_NOT_RUN: "Only {ran} of {num_heads} heads run, not {missing_}: go through all.",
    Kind.LOOP_RETURN: "The return is inside the loop and ends it after one round: indent it less.",
    # x and the projections
    Kind.X_CHANGED: "x is changed before it is projected (this line {does}): leave it as it is.",
    Kind.X_IN_PLACE: "forward changes x itself, which belongs to the caller, and which every head "
    "must see as it came in: leave that out, or change a copy, as x = x * 2 does.",
    Kind.OUTSIDE: "{Listed}: take sizes from x.shape, or keep what __init__ gets on self.",
    Kind.PROJECTION_WRONG: "This is not what {layer} makes of x: call self.{layer}(x).",
    Kind.PARTS_SWAPPED: "Here {swapped}: W_query must make queries, W_key keys, W_value values.",
    Kind.PARTS_TWICE: "Attention takes queries, keys and values, in this order, and here come "
    "{given[0]}, {given[1]} and {given[2]}.",
    Kind.PARTS_CHANGED: "This line changes the {name} (it {does}): leave them as projected.",
    Kind.MULTIPLIED: "{The} {are} multiplied by {factor:.4g}: nothing in attention does that.",
    Kind.ORDER: "The {what} of {the} are {how} here: they must keep their places.",
    Kind.SPLIT_COLUMNS: "The heads get other columns of the {name} than their own: the first "
    "{width} columns must be head 0's, the next head 1's, and so on.",
    Kind.SPLIT_MISSING: "This takes columns {columns_} of the {name}, which are not those of one "
    "head: head h must get columns h * {width} to (h + 1) * {width}.",
    Kind.SPLIT_MIXED: "The split mixes tokens and heads of the {name}, or texts: view goes "
    "through the numbers in reading order, where each token's heads come one after the other.",
    Kind.SPLIT_NO_TRANSPOSE: "The {name} come from here with the tokens before the heads, so that "
    "the product compares the heads of one token: the heads must come first.",
    Kind.SPLIT_TEXTS: "The {name} come from here with texts and tokens in one dimension, so that "
    "tokens meet those of other texts: the texts must stay apart.",
    Kind.SPLIT_PARTS: "The projection makes {size} columns of queries, then {size} of keys, then "
    "{size} of values, each head by head: they must be taken apart in this order.",
    # Scores
    Kind.SCORES_APART: "The {first_} of {axis_} {place} meet the {second} of {axis_} {other}: "
    "both must come from the same {axis_}. Split and order the two alike.",
    Kind.SCORES_CHANGED: "The scores are right before this line, which changes them: it {does}. "
    "Only the scale and the mask may come before softmax.",
    Kind.SCORES_LARGE: "With large scores the result is another: are they cut off, or rounded?",
    Kind.SCORES_PAIR: "The scores are {pair[0]} times {pair[1]}: they must be queries times keys.",
    Kind.SCORES_SUMMED: "The scores of all heads are added up here: each head must keep its own, "
    "(b, num_heads, num_tokens, num_tokens).",
    Kind.SCORES_TRANSPOSED: "The scores are keys times queries: the queries come first.",
    Kind.SCORES_WRONG: "Queries and keys are right before this line, but the scores it makes are "
    "not queries times keys, head by head.",
    Kind.SCALE_CUT: "The root of {width} is cut to a whole number here: take it as it is.",
    Kind.SCALE_HALF: f"{{width}}**1/2 is half of {{width}}, since ** binds before /: the "
    f"scores {ROOT}.",
    Kind.SCALE_LATE: "The division by the root comes after softmax, where it only makes the rows "
    "smaller: the scores must be divided, before softmax.",
    Kind.SCALE_NONE: f"The scores are not scaled: they {ROOT}, before softmax.",
    Kind.SCALE_NO_ROOT: "The scores are divided by {width}: divide them by its root, once.",
    Kind.SCALE_OTHER: "The scores are scaled by another number than the root of the width of one "
    "query: they must be divided by that root, taken from the tensor or the module.",
    Kind.SCALE_SIGN: "The scores are multiplied by a negative number, so that the best key gets "
    "the least attention. Nothing in attention turns their sign.",
    Kind.SCALE_TIMES: "The scores are multiplied by the root of {width}: they must be divided.",
    Kind.SCALE_TWICE: "The {name} are scaled here, and scaled_dot_product_attention divides by the "
    "root itself: leave this out.",
    Kind.SCALE_WIDTH: "The scores are divided by {root_of}{by}: they must be divided by the root "
    "of the width of one query.",
    # The mask
    Kind.MASK_AFTER_SOFTMAX: "The future is hidden only after softmax, so the rows that softmax "
    "made still counted it: the scores must be hidden before softmax.",
    Kind.MASK_ADDED: "A mask of 0 and 1 is added to the scores, which hides nothing: what is added "
    "must be -inf where a token may not look, and 0 where it may.",
    Kind.MASK_CUT: "The mask is cut to {have_} here, and the scores are {want_}: rows and columns "
    "must be cut to the tokens that there are.",
    Kind.MASK_DIAGONAL: "The mask hides each token from itself too, and token 0 has nothing else "
    "to see: the diagonal must stay visible.",
    Kind.MASK_DIFFERS: "The mask differs between heads or texts: one triangle must serve all.",
    Kind.MASK_EMPTY: f"{LEAK}the mask of this line hides nothing of these tokens. Does it "
    "reach the scores, and is it cut to the rows and columns of the tokens that there are?",
    Kind.MASK_EMPTY_ROW: "For token 0 no {name} are left here: token i must see itself too, so "
    "what is cut for it must end after token i.",
    Kind.MASK_EVERYTHING: "This mask hides every score of some tokens, the past too, and leaves "
    "them nothing to see: it must hide the future alone.",
    Kind.MASK_FILL: "The scores that the mask hides are set to {fill_}, or get that added, and "
    "softmax still gives them weight: they must be -torch.inf.",
    Kind.MASK_INVERTED: "Each token sees only what comes after it: the mask is the wrong way "
    "round. True hides in masked_fill, and shows in where and in scaled_dot_product_attention.",
    Kind.MASK_LATE: f"{LEAK}the mask begins too late. Hidden must be all above the diagonal, "
    "where the key comes after the query, and nothing else.",
    Kind.MASK_LEAKS: "Token {token} sees token {other}, which comes later: hide all that does.",
    Kind.MASK_LENGTH: "The mask is for {length} tokens, and x has {num_tokens}: make it from "
    "x.shape[1].",
    Kind.MASK_NAN: "NaN arises here: 0 * inf is NaN, so hide with masked_fill; so is a root or a "
    "logarithm of a negative score.",
    Kind.MASK_NO_BUFFER: "On another device it stops: self.{name} is a tensor that the module does "
    "not know of, and .to(device) leaves it behind. It must be a buffer.",
    Kind.MASK_NONE: f"{LEAK}nothing is hidden. The future must be hidden.",
    Kind.MASK_NOT_LOW: "The number that hides is not the lowest: where scores are {far:g} apart, "
    "token 0 sees token 1. It must be -torch.inf.",
    Kind.MASK_PAST: f"{LEAK}the mask is on the wrong side of the diagonal. Hidden must be the "
    "triangle above it, where the key comes after the query.",
    Kind.MASK_ROWS: "Token {token} meets the keys {low} to {high} here: token i may see the "
    "tokens 0 to i, so keys and values must be cut to [: i + 1].",
    Kind.MASK_TOO_MUCH: "Token {token} does not see token {other}, which is not in its future: "
    "the mask must hide what is above the diagonal, and nothing else.",
    Kind.MASK_TRAINING: "The mask is there in eval only: in training it must hide the future too.",
    Kind.MASK_UNUSED: "The future is hidden here, but the result is not kept: masked_fill returns "
    "a new tensor, masked_fill_ changes the old one.",
    Kind.MASK_ZEROS: "This hides every score of 0, also a visible one: hide by place instead.",
    # Softmax, weights, values
    Kind.SOFTMAX_AXIS: "Softmax runs over {axes_}: it must run over the keys alone, dim=-1.",
    Kind.SOFTMAX_BY_HAND: "Softmax by hand goes wrong here, where it {does}: it is exp of the "
    "scores, 0 where they are hidden, divided by the sum of its row.",
    Kind.SOFTMAX_LARGEST: "Softmax by hand fails where all scores of a row are {level:g}: exp is "
    "{exp}, and the row NaN. The largest score of each row must be subtracted first.",
    Kind.SOFTMAX_NONE: "The scores meet the {name} as they are: softmax must come before.",
    Kind.SOFTMAX_OTHER: "{operation} stands here in place of softmax, so the rows do not sum to 1: "
    "attention weights must be softmax of the scores, over the keys.",
    Kind.SOFTMAX_UNFINISHED: "Softmax by hand stops here, and its numbers meet the {name} as they "
    "are: exp must be divided by the sum of its row.",
    Kind.SOFTMAX_WRONG: "The scores are right, and the result is not their softmax over the keys.",
    Kind.WEIGHTS_CHANGED: "This line changes the attention weights after softmax (it {does}): "
    "they must go to the values as softmax made them, so that a row sums to 1.",
    Kind.WEIGHTS_TRANSPOSED: "The attention weights are used the other way round: row i must "
    "weigh what token i sees, without a transpose.",
    Kind.VALUES_OTHER: "The attention weights multiply {the} here, and must multiply the values.",
    Kind.ATTENTION_WRONG: "Queries, keys and values are right, and their attention is not.",
    # Context vectors and result
    Kind.CONTEXT_CHANGED: "The context vectors are right until this line: it {does}. Leave it out.",
    Kind.CONTEXT_WRONG: "Attention weights and values are right before this line, and what it "
    "makes is not their product, head by head: it {does}.",
    Kind.MERGE_ADDED: "The heads become one here, by {added}: they must go side by side.",
    Kind.MERGE_ALTERNATING: "The columns of the heads alternate: all of head 0 must come first.",
    Kind.MERGE_AXIS: "The heads are put along dimension {dim}: torch.cat must join their columns.",
    Kind.MERGE_MIXED: "The merge mixes tokens and heads: before view, the heads of a token must "
    "be next to each other, (b, num_tokens, num_heads, head_dim).",
    Kind.MERGE_ORDER: "The heads come out {how}: head 0 must be in the first columns, then head 1.",
    Kind.MERGE_REPEATED: "One head comes again where another belongs: use each head once.",
    Kind.MERGE_SOME_HEADS: "Only {some_heads} of {num_heads} come out: all must go side by side.",
    Kind.MERGE_TEXTS: "The merge mixes texts and heads: whichever of the two came first when they "
    "were put into one dimension must come first here too.",
    Kind.OUT_PROJ_MISSING: "The context vectors are returned without out_proj: it must come last.",
    Kind.OUT_PROJ_TWICE: "out_proj is applied here a second time: it must come once.",
    Kind.RESULT_CHANGED: "The result was complete before this line, which changes it: it {does}.",
    Kind.RESULT_DIFFERS: "Each step is right alone, but not for every number of texts and tokens: "
    "does anything depend on the batch, on the length or on earlier calls?",
    Kind.RESULT_DTYPE: "The result is {dtype} for x of {x_dtype}: new tensors need dtype=x.dtype.",
    Kind.RESULT_NONE: "Forward makes {name} and returns None: end with return.",
    Kind.RESULT_OTHER: "{The} {are} returned here: the steps that come after are missing.",
    Kind.RESULT_SHAPE: "The result is {have_} where {want_} is right.",
    Kind.RESULT_TYPE: "forward(x) returns a {returned}: {use}.",
    Kind.RESULT_UNWRITTEN: "Some of the result is never written: what {filler} put there is still "
    "there. Does the loop reach every token and every head, from 0 on?",
    Kind.GRADIENT: "The results are right, but the gradient of {name} is missing or another: does "
    ".detach(), .data, torch.tensor or no_grad cut it off?",
    Kind.GRADIENT_BIAS: "The results are right, but {name} gets no gradient: is it used? "
    "{layer}(x) adds it, F.linear(x, weight, bias) too.",
    Kind.GRADIENT_IN_PLACE: "The backward pass fails: a number that a gradient needs is "
    "overwritten. Write a = a * b and not a *= b, and drop without inplace.",
    # Other calls, other modes
    Kind.RANDOM: "Two runs on the same x differ: in eval, forward must draw no random numbers.",
    Kind.RANDOM_LAYERS: "New layers are made in each call of forward: make them once, in __init__.",
    Kind.STATE: "Two calls on the same x differ: keep no tensors on self in forward.",
    Kind.STATE_KEPT: "self.{name} still holds what earlier calls made: make it anew in forward.",
    Kind.LENGTH_CROPPED: "Of a text longer than context_length some rows never come out, and "
    "nobody is told: raise an error, or return a row for each token.",
    Kind.LENGTH: "With context_length={length} it goes wrong: does a mask have a fixed size?",
    Kind.TRAINING: "With dropout=0.0 training differs from eval: what depends on self.training?",
    Kind.MODE_CHANGED: "forward itself switches to eval, so that dropout never drops: the mode "
    "belongs to the caller, who calls train() and eval().",
    Kind.DROPOUT_ACTIVE: "Dropout is active in eval(): nn.Dropout from __init__ knows the mode, "
    "F.dropout needs training=self.training, SDPA dropout_p=p if self.training else 0.0.",
    Kind.DROPOUT_FIXED: "In training every call drops the same attention weights: is a seed set, "
    "or a pattern kept? Dropout must draw anew for each of them.",
    Kind.DROPOUT_NOT_GROWN: "In training what is not dropped must be divided by 1 - dropout, so "
    "that a row still sums to 1 on average.",
    Kind.DROPOUT_NONE: "In training nothing is dropped: is dropout passed on, and are the "
    "attention weights put through it?",
    Kind.DROPOUT_PLACE: "Dropout must come right after softmax, on the attention weights, once.",
    Kind.DROPOUT_SHARE: "Not the share dropout={p} is dropped: pass dropout on as it is.",
    Kind.DROPOUT_TOGETHER: "In training attention weights are dropped together, {what}: dropout "
    "must draw anew for every one of them.",
    Kind.DROPOUT_TWICE: "Dropout is applied twice: it must come once, right after softmax.",
    Kind.DROPOUT_VALUES: "In training dropout falls on single numbers of the values or the result: "
    "it must fall on the attention weights, right after softmax.",
    # Notes
    Kind.NOTE_SCORES: "Where a row's largest score is hidden after exp, 0 / 0 is NaN.",
}

# The finished line, for the second try
CAT = "Write torch.cat([head(x) for head in self.heads], dim=-1)."
JOIN = "First transpose(1, 2), then view."
REMEDIES: dict[str, str] = {  # by the kind, or else by its step
    "split": "First view(b, num_tokens, num_heads, head_dim), then transpose(1, 2).",
    "scale": "Divide them by {divisor}**0.5.",
    Kind.SCALE_TWICE: "",
    Kind.SCORES_PAIR: "Write queries @ keys.transpose(-2, -1).",
    Kind.SCORES_TRANSPOSED: "Write queries @ keys.transpose(-2, -1).",
    Kind.MASK_AFTER_SOFTMAX: "Write scores.masked_fill(is_future, -torch.inf).",
    Kind.MASK_NONE: "Write scores.masked_fill(is_future, -torch.inf), or is_causal=True.",
    Kind.WEIGHTS_TRANSPOSED: "Write attn_weights @ values.",
    Kind.VALUES_OTHER: "Write attn_weights @ values.",
    Kind.MERGE_MIXED: JOIN,
    Kind.MERGE_ALTERNATING: JOIN,
    Kind.MERGE_AXIS: "Write torch.cat(results, dim=-1).",
    Kind.MERGE_ADDED: "Write torch.cat(results, dim=-1).",
    Kind.MERGE_SOME_HEADS: CAT,
    Kind.HEADS_NOT_RUN: CAT,
    Kind.HEADS_CHAINED: CAT,
    Kind.OUT_PROJ_MISSING: "End with self.out_proj(context_vec).",
    Kind.DROPOUT_NONE: "Write attn_weights = self.dropout(attn_weights).",
    Kind.DROPOUT_PLACE: "Write attn_weights = self.dropout(attn_weights).",
}


def sentence(finding: Finding, again: bool = False) -> str:
    """Return what a learner reads of a finding: the line and the cause, at most LONGEST characters.

    Args:
        finding: what is wrong.
        again: whether the same was found at the last try, so that the finished line helps.
    """
    when = finding.facts.get("when")
    cause = f"{f'With {when}: ' if when else ''}{cause_of(finding)}"
    line = REMEDIES.get(finding.kind, REMEDIES.get(finding.kind.step, "")) if again else ""
    remedy = line.format_map(_Words(finding))
    if finding.line is None or (
        finding.kind.step == "stub" and finding.kind is not Kind.STUB_RAISE
    ):
        return _cut(f"{cause} {remedy}".strip(), LONGEST)
    verb = "Stopped in" if _stopped_here(finding) else "In"
    place = f"{verb} {finding.line.function}, line {finding.line.number}: "
    said = _cut(f" | {cause} {remedy}".rstrip(), LONGEST - len(place) - 20)
    return f"{place}{_cut(finding.line.text, LONGEST - len(place) - len(said))}{said}"


def cause_of(finding: Finding) -> str:
    """Return what is wrong, without the line."""
    return CAUSES[finding.kind].format_map(_Words(finding))


def details(finding: Finding) -> str:
    """Return what is folded behind the sentence: the error, shapes, numbers."""
    facts = finding.facts
    parts = []
    if finding.kind.step == "scale" and "factor" in facts:
        right = f"1 / sqrt(width) = {facts['right']:.4g} is right"
        parts.append(f"Here the scores are multiplied by {facts['factor']:.4g}, and {right}.")
    if "stopped" in facts:
        parts.append(f"So it stops in {facts['stopped']}")
    if "error" in facts and ("stopped" in facts or finding.kind not in PLAIN_ERRORS):
        parts.append(_message(facts))
    if facts.get("shapes"):
        met = (f"{name} {name_shape(s, facts['sizes'])}" for name, s in facts["shapes"].items())
        parts.append(f"Shapes there: {', '.join(met)}.")
    if "made_with" in facts:
        parts.append(f"It was made with {facts['made_with']}.")
    return " | ".join(parts)


def in_full(finding: Finding) -> str:
    """Return a sentence with its details."""
    return " | ".join(part for part in (sentence(finding), details(finding)) if part)


def _stopped_here(finding: Finding) -> bool:
    return "error" in finding.facts and "stopped" not in finding.facts


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: max(most, 4) - 3].rstrip()}..."


def _message(facts: Mapping[str, Any]) -> str:
    said = f"{facts['error']}: {facts['message']}".removesuffix(": ")
    return said if said.endswith((".", "?", "!")) else f"{said}."


def listed(words: Iterable[Any]) -> str:
    """Return words as a list in a sentence.

    >>> listed([1, 2, 3])
    '1, 2 and 3'
    """
    *first, last = map(str, words)
    return f"{', '.join(first)} and {last}" if first else last


def _ranges(places: tuple[int, ...]) -> str:
    if len(places) > 2 and places == tuple(range(places[0], places[-1] + 1)):
        return f"{places[0]} to {places[-1]}"
    return listed(places)


def name_shape(shape: tuple[int, ...], sizes: Mapping[str, int]) -> str:
    """Return a shape in words: by the names of its sizes, or of their products.

    >>> name_shape((2, 15, 7), {"b": 2, "num_heads": 3, "num_tokens": 5, "head_dim": 7})
    '(b, num_heads * num_tokens, head_dim) = (2, 15, 7)'
    >>> name_shape((2, 5, 14), {"b": 2, "num_heads": 3, "num_tokens": 5, "head_dim": 7})
    '(b, num_tokens, 14) = (2, 5, 14)'
    """
    factors = [name for name in sizes if sizes[name] > 1]
    is_square = len(shape) == 2 and shape[0] == shape[1]  # a mask or a matrix
    has_b = not is_square and not (len(shape) > 1 and shape[0] == sizes.get("b"))  # in a product
    names = {  # where two products are equal the later one stays: the one of fewer names
        math.prod(sizes[name] for name in some): " * ".join(some)
        for count in (3, 2, 1)
        for some in itertools.combinations(factors, count)
        if count == 1 or has_b or "b" not in some
    }
    if not any(size in names for size in shape):
        return str(shape)
    return f"({', '.join(names.get(size, str(size)) for size in shape)}) = {shape}"


# Words that stand in the sentences: each is made of a finding's facts when a sentence asks for it

DOES = {
    "add": "adds something", "iadd": "adds something", "sub": "subtracts something",
    "mul": "multiplies by something", "imul": "multiplies by something",
    "div": "divides by something", "truediv": "divides by something",
    "matmul": "makes another product", "bmm": "makes another product",
    "einsum": "makes another product", "sum": "adds numbers up", "mean": "takes a mean",
    "getitem": "takes out a part", "setitem": "overwrites a part", "cat": "puts parts together",
    "stack": "puts parts together", "softmax": "applies softmax", "linear": "makes a product",
    "masked_fill": "overwrites a part", "view": "reads the numbers in other rows",
    "reshape": "reads the numbers in other rows",
}  # fmt: skip
AXES = {
    "i": "the queries, down the columns",
    "h": "the heads",
    "b": "the texts of the batch",
    "ij": "all rows together",
    "bhij": "all numbers together",
}
ADDED = {"add": "adding", "iadd": "adding", "sum": "adding", "mean": "averaging"}
ARTICLES = {"x": "x", "attn_weights": "the attention weights", "context_vec": "the context vectors"}


class _Words(dict[str, Any]):
    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.facts)
        self.finding = finding

    def __missing__(self, name: str) -> Any:
        return WORDS[name](self)


def _the(words: Mapping[str, Any]) -> str:
    return ARTICLES.get(words["name"], f"the {words['name']}")


def _capital(text: str) -> str:
    return text if text.startswith("x ") or text == "x" else text[0].upper() + text[1:]


def _does(words: Mapping[str, Any]) -> str:
    name = str(words["operation"]).strip("_")
    return DOES.get(name) or DOES.get(name.removeprefix("r")) or f"applies {words['operation']}"


def _outside(words: Mapping[str, Any]) -> str:
    named = words["variables"]
    numbers = [value for value in named.values() if isinstance(value, int)]
    several = len(named) > 1
    are = "are the notebook's variables" if several else "is the notebook's variable"
    return f"{listed(named)} here {are}" + (f", {listed(numbers)}" if numbers else "")


def _shape(key: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda words: name_shape(words[key], words["sizes"])


WORDS: dict[str, Callable[[Any], str]] = {
    "message_": _message,
    "the": _the,
    "The": lambda words: _capital(_the(words)),
    "are": lambda words: "is" if words["name"] in {"x", "result"} else "are",
    "does": _does,
    "have_": _shape("have"),
    "want_": _shape("want"),
    "Names": lambda words: _capital(listed(f"the {name}" for name in words["names"])),
    "swapped": lambda words: listed(f"{k} holds the {v}" for k, v in words["holds"].items()),
    "columns_": lambda words: _ranges(words["columns"]),
    "first_": lambda words: words["first"].replace("attn_", "attention "),
    "axis_": lambda words: {"h": "head", "b": "text"}[words["axis"]],
    "axes_": lambda words: AXES.get(words["axes"], "more than the keys"),
    "root_of": lambda words: "the root of " if words["root"] else "",
    "divisor": lambda words: "keys.shape[-1]" if words.get("width") == "d_out" else "head_dim",
    "fill_": lambda words: f"{words['number'] + 0.0:.4g}",
    "added": lambda words: ADDED.get(words["operation"].strip("_"), words["operation"]),
    "some_heads": lambda words: f"head {listed(words['heads'])}",
    "missing_": lambda words: f"head {listed(words['missing'])}",
    "Listed": _outside,
}

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
    Kind.NOT_A_CLASS: "Give the class itself, a subclass of nn.Module, or a function that makes "
    "one, not {name}.",
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
    Kind.ERROR_DIMENSION: "There is no such dimension. They are counted from 0: would -1, the "
    "last, and -2, the one before it, do?",
    Kind.ERROR_DTYPE: "Two dtypes meet here: make every new tensor with dtype=x.dtype.",
    Kind.ERROR_EXIT: "The code calls sys.exit() here, which would end the program that uses the "
    "class: raise an error instead, and only where the call is wrong.",
    Kind.ERROR_FLOAT_SIZE: "A size must be an int: // divides to an int, / to a float.",
    Kind.ERROR_GENERATOR: "torch wants a list or a tuple here, and a loop in ( ) or a map is "
    "neither: write it in [ ].",
    Kind.ERROR_KEEPDIM: "{reduces} drops the dimension that it runs over, so that its numbers meet "
    "the wrong rows: add keepdim=True.",
    Kind.ERROR_LAYERS: "The heads themselves are joined here, not what they make of x: head(x) "
    "for each head.",
    Kind.ERROR_LIST: "A ModuleList is a list and cannot be called: call each head in it on x.",
    Kind.ERROR_MASK_CUT: "The mask is for all {context_length} tokens of the context, and x has "
    "fewer. Cut it to the tokens that there are: [:num_tokens, :num_tokens].",
    Kind.ERROR_MASK_DIMS: "{name} has a dimension for the texts and none for the heads, so it "
    "cannot meet the scores: leave the texts out, (num_tokens, num_tokens) serves all.",
    Kind.ERROR_MERGED_WIDTH: "The merged heads are num_heads * head_dim = {d_out} wide, not "
    "{asked}: write self.d_out, or -1.",
    Kind.ERROR_NONE: "Something here is None: does a method or function that made it end without "
    "return?",
    Kind.ERROR_NO_ROOM: "This writes past the end of a tensor, which has no columns left there: is "
    "it as wide as all heads side by side, num_heads times one head?",
    Kind.ERROR_NOT_SPLIT: "{Names} are not split into heads yet: they are still "
    "(b, num_tokens, d_out).",
    Kind.ERROR_NUMBER_CALLED: "A number or a tensor is called here as if it were a layer: __init__ "
    "must keep a layer, such as nn.Dropout(dropout), under this name.",
    Kind.ERROR_NUMPY: "NumPy keeps no gradients, so nothing before this line could learn: every "
    "step must be one of torch, and the root is a number, head_dim**0.5.",
    Kind.ERROR_OVERFLOW: "Half precision ends at 65504, so a number like -1e9 does not fit: fill "
    "with -torch.inf.",
    Kind.ERROR_RECURSION: "A function calls itself without an end: does forward call forward?",
    Kind.ERROR_REFUSED: "This refuses {given}, which is right: any number of tokens up to "
    "context_length must pass.",
    Kind.ERROR_SIZES: "Two axes meet here that do not fit: is a transpose missing, or does one "
    "swap the wrong axes?",
    Kind.ERROR_SOFTMAX_DIM: "softmax must be told along which dimension: dim=-1, along each row.",
    Kind.ERROR_SUPER: "Begin __init__ with super().__init__().",
    Kind.ERROR_T: "{turn} is for matrices, and here are {dims} dimensions: write "
    ".transpose(-2, -1), which swaps the last two.",
    Kind.ERROR_VIEW_ORDER: "After transpose the numbers are no longer in reading order, which view "
    "needs: put .contiguous() before .view(), or use .reshape().",
    Kind.ERROR_VIEW_SIZE: "view keeps the number of elements, and the sizes asked for must "
    "multiply to it. Is head_dim d_out // num_heads, and num_heads the module's own, "
    "self.num_heads?",
    Kind.ERROR_WIDTHS: "The last axis of the left one must be as wide as the right one expects: is "
    "a merge, a split or a transpose missing before this line?",
    # Parameters
    Kind.PARAMETERS_BIAS_ALWAYS: "The projections have a bias though qkv_bias=False: pass it on, "
    "bias=qkv_bias.",
    Kind.PARAMETERS_BIAS_NEVER: "With qkv_bias=True the projections have no bias: pass qkv_bias on "
    "to them.",
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
    Kind.PARAMETERS_SHARED: "{name} and {twin} are one and the same parameter: each projection "
    "needs its own nn.Linear.",
    Kind.PARAMETERS_TURNED: "{name} is {have_} where {want_} is right: nn.Linear takes the width "
    "that it gets first, nn.Linear(d_in, d_out).",
    Kind.INIT_EQUAL: "{name} and {twin} begin with the same numbers: each must be drawn for "
    "itself, in a layer of its own.",
    Kind.INIT_SEED: "Two new modules begin with the same {name}: is a seed set in __init__? All "
    "layers of a model would begin alike.",
    Kind.INIT_VALUES: "The numbers of {name} begin as {value}: let nn.Linear draw them.",
    Kind.HEADS_ARGUMENT: "The heads are made with {argument}={have}{which}, and must be made with "
    "{argument} as it is: {why}.",
    Kind.HEADS_COUNT: "{have} heads are made, and num_heads={want} were asked for: through which "
    "numbers does range go? range(num_heads) goes through as many.",
    Kind.HEADS_CHAINED: "Head {head} takes what head {before} has made: all heads must take the "
    "same x, and their results go side by side.",
    Kind.HEADS_INPUT: "Head {head} does not take x, but something else: all heads must take the "
    "same x, whole.",
    Kind.HEADS_MANY: "With {num_heads} heads the result is wrong, with few it is right: are they "
    "in the order of their names as text, where '10' comes before '2'?",
    Kind.HEADS_NOT_RUN: "Only {ran} of {num_heads} heads run: {missing_}. The loop must go through "
    "all of them.",
    Kind.LOOP_RETURN: "The return is inside the loop and ends it after one round: indent it less.",
    # x and the projections
    Kind.X_CHANGED: "x is changed before it is projected: this line {does}. Queries, keys and "
    "values must come from x itself.",
    Kind.X_IN_PLACE: "forward changes x itself, which belongs to the caller, and which every head "
    "must see as it came in: leave that out, or change a copy, as x = x * 2 does.",
    Kind.OUTSIDE: "{Listed}: {use}.",
    Kind.PROJECTION_WRONG: "This is not what {layer} makes of x, x times its weight's transpose "
    "plus its bias: call self.{layer}(x).",
    Kind.PARTS_SWAPPED: "{swapped}",
    Kind.PARTS_TWICE: "Attention takes queries, keys and values, in this order, and here come "
    "{given[0]}, {given[1]} and {given[2]}.",
    Kind.PARTS_CHANGED: "This line changes the {name} (it {does}): they must go into attention as "
    "the projection made them.",
    Kind.PARTS_VIEWED: "view leaves all numbers in their order, so it does not exchange axes: the "
    "{name} need a transpose of the last two.",
    Kind.MULTIPLIED: "{The} {are} multiplied by {factor:.4g} here, and nothing in attention does "
    "that.",
    Kind.ORDER: "The {what} of {the} are {how} here: they must keep their places.",
    Kind.MIXED: "The numbers of {the} get mixed up here: each must stay with its token and head.",
    Kind.SPLIT_COLUMNS: "The heads get other columns of the {name} than their own: the first "
    "{width} columns must be head 0's, the next head 1's, and so on.",
    Kind.SPLIT_MISSING: "This takes columns {columns_} of the {name}, which are not those of one "
    "head: head h must get columns h * {width} to (h + 1) * {width}.",
    Kind.SPLIT_MIXED: "The split mixes tokens and heads of the {name}: view goes through the "
    "numbers in reading order, where each token's heads come one after the other.",
    Kind.SPLIT_NO_TRANSPOSE: "The {name} come from here with the tokens before the heads, so that "
    "the product compares the heads of one token: the heads must come first.",
    Kind.SPLIT_PARTS: "The projection makes {size} columns of queries, then {size} of keys, then "
    "{size} of values, each head by head: they must be taken apart in this order.",
    Kind.SPLIT_TEXTS: "The split mixes texts and heads of the {name}: view takes the dimensions in "
    "the order in which they come.",
    # Scores
    Kind.SCORES_APART: "The queries of {axis_} {place} meet the keys of {axis_} {other}: both must "
    "come from the same {axis_}. Split and order the two alike.",
    Kind.SCORES_CHANGED: "The scores are right before this line, which changes them: it {does}. "
    "Only the scale and the mask may come before softmax.",
    Kind.SCORES_LARGE: "With large scores the result is another: are the scores cut off or rounded "
    "before softmax?",
    Kind.SCORES_PAIR: "The scores are {pair[0]} times {pair[1]}: they must be queries times keys.",
    Kind.SCORES_ROOT: "Scores are negative too, and a root or a logarithm of those is NaN: only "
    "the number that divides them is a root.",
    Kind.SCORES_SUMMED: "The scores of all heads are added up here: each head must keep its own, "
    "(b, num_heads, num_tokens, num_tokens).",
    Kind.SCORES_TRANSPOSED: "The scores are keys times queries: row i of them must belong to query "
    "i, so the queries come first.",
    Kind.SCORES_WRONG: "Queries and keys are right before this line, but the scores it makes are "
    "not queries times keys, head by head.",
    Kind.SCALE_CUT: "The root of {width} is cut to a whole number here: it must stay as it is, "
    "without int(...), // or round.",
    Kind.SCALE_HALF: f"{{width}}**1/2 is half of {{width}}, since ** binds before /: the "
    f"scores {ROOT}.",
    Kind.SCALE_KEYS: "Each row is divided by the root of the number of its keys, another one in "
    "each row: it must be the root of the width of one query.",
    Kind.SCALE_LATE: "The division by the root comes after softmax, where it only makes the rows "
    "smaller: the scores must be divided, before softmax.",
    Kind.SCALE_NONE: f"The scores are not scaled: they {ROOT}, before softmax.",
    Kind.SCALE_NO_ROOT: "The scores are divided by {width} itself, or twice by its root: they must "
    "be divided by its root, once.",
    Kind.SCALE_ONE_SIDE: "Only one of queries and keys is scaled, by a root of the root: the "
    f"scores {ROOT}.",
    Kind.SCALE_OTHER: "The scores are scaled by {number_}: they must be divided by the root of the "
    "width of one query, a number that comes from the tensor or the module.",
    Kind.SCALE_SIGN: "The scores are multiplied by a negative number, so that the best key gets "
    "the least attention. Nothing in attention turns their sign.",
    Kind.SCALE_TIMES: "The scores are multiplied by the root of {width}: they must be divided by "
    "it.",
    Kind.SCALE_TWICE: "The {name} are scaled here, and scaled_dot_product_attention divides by the "
    "root itself: leave this out.",
    Kind.SCALE_WIDTH: "The scores are divided by {root_of}{by_}: they must be divided by the root "
    "of the width of one query.",
    # The mask
    Kind.MASK_AFTER_SOFTMAX: "The future is hidden only after softmax, so the rows that softmax "
    "made still counted it: the scores must be hidden before softmax.",
    Kind.MASK_ADDED: "A mask of 0 and 1 is added to the scores, which hides nothing: what is added "
    "must be -inf where a token may not look, and 0 where it may.",
    Kind.MASK_CUT: "The mask is cut to {have_} here, and the scores are {want_}: rows and columns "
    "must be cut to the tokens that there are.{texts}",
    Kind.MASK_DIAGONAL: "The mask hides each token from itself too, and token 0 has nothing else "
    "to see{nan_}: the diagonal must stay visible{above}.",
    Kind.MASK_DIFFERS: "The mask hides other places in one head or text than in another: it must "
    "be the same triangle for all.",
    Kind.MASK_EMPTY: f"{LEAK}the mask of this line hides nothing of these tokens. Is it cut to the "
    "rows and columns of the tokens that there are?",
    Kind.MASK_EMPTY_ROW: "For token 0 no {name} are left here: token i must see itself too, so "
    "what is cut for it must end after token i.",
    Kind.MASK_EVERYTHING: "This mask hides every score of {rows_}, the past too{nan_}: it must "
    "hide the future alone.",
    Kind.MASK_FILL: "The scores that the mask hides {fill_}: they must be -torch.inf.",
    Kind.MASK_INVERTED: "Each token sees only what comes after it: the mask is the wrong way "
    "round. {polarity}",
    Kind.MASK_LATE: f"{LEAK}the mask begins too late. {{begin_}}",
    Kind.MASK_LEAKS: "Token {token} sees token {other}, which comes later: {shape_of_mask}",
    Kind.MASK_LENGTH: "{side} mask is for {length} tokens, and x has {num_tokens}: make it from "
    "x.shape[1].",
    Kind.MASK_NAN: "NaN arises here. Is a mask multiplied by -inf? 0 * inf is NaN: hide with "
    "masked_fill.",
    Kind.MASK_NO_BUFFER: "On another device it stops: self.{name} is a tensor that the module does "
    "not know of, and .to(device) leaves it behind. It must be a buffer.",
    Kind.MASK_NONE: f"{LEAK}nothing is hidden{{when_}}. The future must be hidden.",
    Kind.MASK_NOT_LOW: "The number that hides is not the lowest: where scores are {far:g} apart, "
    "token 0 sees token 1. It must be -torch.inf.",
    Kind.MASK_PAST: f"{LEAK}the mask is on the wrong side of the diagonal. {{begin_}}",
    Kind.MASK_ROWS: "Token {token} meets {meets_} here, and may see {may_}: for token i, keys and "
    "values are cut to [: i + 1].",
    Kind.MASK_TOO_MUCH: "Token {token} does not see token {other}, which is not in its future: "
    "{shape_of_mask}",
    Kind.MASK_TRAINING: "The mask is there in eval only: in training and in eval the future must "
    "be hidden.",
    Kind.MASK_UNUSED: "The future is hidden here, but the result is not kept: masked_fill returns "
    "a new tensor, masked_fill_ changes the old one.",
    Kind.MASK_ZEROS: "This hides every score that is 0, and a score that token i may see can be 0 "
    "too{nan_}: hide by place, not by number.",
    # Softmax, weights, values
    Kind.SOFTMAX_AXIS: "Softmax runs over {axes_}: it must run over the keys alone, dim=-1, so "
    "that each row sums to 1.",
    Kind.SOFTMAX_BY_HAND: "Softmax by hand goes wrong here, where it {does}: it is exp of the "
    "scores, 0 where they are hidden, divided by the sum of its row.",
    Kind.SOFTMAX_LARGEST: "Softmax by hand fails where all scores of a row are {level:g}: exp is "
    "{exp}, and the row NaN. The largest score of each row must be subtracted first, amax(-1, "
    "True).",
    Kind.SOFTMAX_NONE: "The scores meet the {name} here as they are: softmax over the keys must "
    "come before.",
    Kind.SOFTMAX_OTHER: "{operation} stands here in place of softmax, so the rows do not sum to 1: "
    "attention weights must be softmax of the scores, over the keys.",
    Kind.SOFTMAX_ROWS: "Equal keys must get equal attention weights, and here they do not: are the "
    "scores changed after the product, or the weights after softmax?",
    Kind.SOFTMAX_UNFINISHED: "Softmax by hand stops here, and its numbers meet the {name} as they "
    "are: exp must be divided by the sum of its row.",
    Kind.SOFTMAX_WRONG: "The scores are right before this line, and its result is not their "
    "softmax over the keys.",
    Kind.WEIGHTS_CHANGED: "This line changes the attention weights after softmax (it {does}): "
    "they must go to the values as softmax made them, so that a row sums to 1.",
    Kind.WEIGHTS_RETURNED: "return_weights=True {what}.",
    Kind.WEIGHTS_TRANSPOSED: "The attention weights are used the other way round: row i must "
    "weigh what token i sees, without a transpose.",
    Kind.VALUES_APART: "The attention weights of {axis_} {place} multiply the values of {axis_} "
    "{other}: both must come from the same {axis_}. Split and order them alike.",
    Kind.VALUES_OTHER: "The attention weights multiply {the} here, and must multiply the values.",
    Kind.ATTENTION_WRONG: "Queries, keys and values are right before this line, and its result is "
    "not their causal attention.",
    # Context vectors and result
    Kind.CONTEXT_CHANGED: "The context vectors are {right_} before this line, which changes them: "
    "it {does}. Leave that out.",
    Kind.CONTEXT_WRONG: "Attention weights and values are right before this line, and what it "
    "makes is not their product, head by head: it {does}.",
    Kind.MERGE_ADDED: "The heads become one here, by {added}: they must go side by side, head "
    "0 in the first columns.",
    Kind.MERGE_ALTERNATING: "The columns of the heads alternate: all columns of head 0 must come "
    "first, then all of head 1.",
    Kind.MERGE_AXIS: "The heads {axis_words}: they must go side by side, along the last dimension.",
    Kind.MERGE_MIXED: "The merge mixes tokens and heads{order_}: before view, the heads of a token "
    "must be next to each other, (b, num_tokens, num_heads, head_dim).",
    Kind.MERGE_ORDER: "The heads come out {how}: head 0 must be in the first columns, then head 1.",
    Kind.MERGE_REPEATED: "What one head returns comes again where another head belongs: each round "
    "must use a head of its own.",
    Kind.MERGE_SOME_HEADS: "Only {some_heads} of {num_heads} come out: all heads must go side by "
    "side, along the last dimension.",
    Kind.MERGE_TEXTS: "The merge mixes texts and heads: whichever of the two came first when they "
    "were put into one dimension must come first here too.",
    Kind.OUT_PROJ_BIAS: "The bias of out_proj is not added.",
    Kind.OUT_PROJ_MISSING: "The context vectors are returned without out_proj: it must come last.",
    Kind.OUT_PROJ_TWICE: "out_proj is applied here a second time: it must come once.",
    Kind.OUT_PROJ_WRONG: "This is not out_proj of the joined heads: each row must hold all heads "
    "of one token, head 0 first.",
    Kind.RESULT_CHANGED: "The result was complete before this line, which changes it: it {does}.",
    Kind.RESULT_DIFFERS: "Each step is right alone, but for {b} x {num_tokens} tokens{bias} the "
    "results differ: does anything depend on the batch, on the length or on earlier calls?",
    Kind.RESULT_DTYPE: "The result is {dtype} for x of {x_dtype}: new tensors must have "
    "dtype=x.dtype.",
    Kind.RESULT_NAN: "The result is NaN: which line divides by 0, or multiplies a mask by -inf?",
    Kind.RESULT_NONE: "Forward makes {name} and returns None: end with return.",
    Kind.RESULT_OTHER: "{The} {are} returned, not the {target}.",
    Kind.RESULT_SHAPE: "The result is {have_} where {want_} is right.",
    Kind.RESULT_TYPE: "forward(x) returns a {returned}: {use}.",
    Kind.RESULT_UNWRITTEN: "{unwritten}",
    Kind.GRADIENT: "The results are right, but {gradient}: does .detach(), .data, "
    "torch.tensor or no_grad cut it off?",
    Kind.GRADIENT_BIAS: "The results are right, but {name} gets no gradient: is it used? "
    "{layer}(x) adds it, F.linear(x, weight, bias) too.",
    Kind.GRADIENT_IN_PLACE: "The backward pass fails: a number that a gradient needs is "
    "overwritten in place. Write a = a * b and not a *= b, and drop without inplace.",
    # Other calls, other modes
    Kind.RANDOM: "Two runs on the same x differ, though in eval: random numbers come in here. In "
    "eval, forward must not draw any.",
    Kind.RANDOM_LAYERS: "New layers are made in forward, with new random parameters in each call: "
    "make them once, in __init__.",
    Kind.STATE: "Two calls on the same x differ: something stays from an earlier call. Keep no "
    "tensors on self in forward.",
    Kind.STATE_KEPT: "self.{name} is kept from one call to the next, which may have other tokens: "
    "make it anew in forward, or cut it to the tokens that there are.",
    Kind.STATE_LIST: "self.{name} still holds the tensors of earlier calls when the next one "
    "appends to it: make the list in forward.",
    Kind.LENGTH: "With context_length={length} and as many tokens the outputs are wrong from token "
    "{token} on: does a mask or a window have a fixed size?",
    Kind.LENGTH_CUT: "With context_length={length}, {num_tokens} tokens come in and {left} come "
    "out: the rest is cut off in silence. Raise a ValueError instead.",
    Kind.TRAINING: "With dropout=0.0 training and eval must compute the same, and yours do not: "
    "what depends on self.training?",
    Kind.MODE_CHANGED: "forward itself switches to eval, so that dropout never drops: the mode "
    "belongs to the caller, who calls train() and eval().",
    Kind.DROPOUT_ACTIVE: "Dropout is active in eval(): {mode}",
    Kind.DROPOUT_FIXED: "In training every call drops the same attention weights: is a seed set, "
    "or a pattern kept? Dropout must draw anew for each of them.",
    Kind.DROPOUT_NONE: "In training nothing is dropped: is dropout passed on, and are the "
    "attention weights put through it?",
    Kind.DROPOUT_PLACE: "Dropout is in the wrong place: it must come right after softmax, on the "
    "attention weights, once.",
    Kind.DROPOUT_SHARE: "In training with dropout={p}, {share:.0%} of the attention weights are "
    "dropped: pass dropout on as it is.",
    Kind.DROPOUT_SUMS: "In training the rows are made to sum to 1 again after dropout, which takes "
    "back what it did: dropout must come last before the values.",
    Kind.DROPOUT_TOGETHER: "In training attention weights are dropped together, {what}: dropout "
    "must draw anew for every one of them.",
    Kind.DROPOUT_TWICE: "Dropout is applied twice: it must come once, right after softmax.",
    Kind.DROPOUT_VALUES: "In training dropout falls on single numbers of the values or the result: "
    "it must fall on the attention weights, right after softmax.",
    Kind.DROPOUT_ZERO: "With dropout=0.0 something is dropped in training: pass dropout on as it "
    "is.",
    # Notes
    Kind.NOTE_BROADCASTS: "With context_length=1 more than one token passes, and token 0 sees "
    "token 1: the mask is 1 x 1 and broadcasts.",
    Kind.NOTE_DTYPE: "In {dtype} it would not be right: {why}.",
    Kind.NOTE_ONE_WIDTH: "The class takes only d_in equal to d_out, and was tried with that.",
    Kind.NOTE_SCORES: "Where the largest score of a row is hidden after exp, nothing may be left "
    "of the row, and 0 / 0 is NaN.",
}

# The finished line, for the second try
SPLIT = "First view(b, num_tokens, num_heads, head_dim), then transpose(1, 2)."
DIVIDE = "Divide them by {divisor}**0.5."
HIDE = "Write scores.masked_fill(is_future, -torch.inf)."
DROP = "Write attn_weights = self.dropout(attn_weights)."
CUT = "Write torch.cat([head(x) for head in self.heads], dim=-1)."
REMEDIES: dict[Kind, str] = {
    Kind.ERROR_NOT_SPLIT: SPLIT,
    Kind.SPLIT_MIXED: SPLIT,
    Kind.SPLIT_COLUMNS: SPLIT,
    Kind.SPLIT_TEXTS: SPLIT,
    Kind.SPLIT_NO_TRANSPOSE: SPLIT,
    Kind.MERGE_MIXED: "First transpose(1, 2), then view.",
    Kind.MERGE_ALTERNATING: "First transpose(1, 2), then view.",
    Kind.MERGE_AXIS: "Write torch.cat(results, dim=-1).",
    Kind.MERGE_ADDED: "Write torch.cat(results, dim=-1).",
    Kind.MERGE_SOME_HEADS: CUT,
    Kind.HEADS_CHAINED: CUT,
    Kind.HEADS_NOT_RUN: CUT,
    Kind.ERROR_LIST: CUT,
    Kind.ERROR_LAYERS: CUT,
    Kind.OUT_PROJ_MISSING: "End with self.out_proj(context_vec).",
    Kind.OUT_PROJ_WRONG: "End with self.out_proj(context_vec).",
    Kind.PARTS_VIEWED: "Write keys.transpose(-2, -1).",
    Kind.SCORES_PAIR: "Write queries @ keys.transpose(-2, -1).",
    Kind.SCORES_TRANSPOSED: "Write queries @ keys.transpose(-2, -1).",
    Kind.SCORES_WRONG: "Write queries @ keys.transpose(-2, -1).",
    Kind.SCALE_HALF: DIVIDE,
    Kind.SCALE_LATE: DIVIDE,
    Kind.SCALE_NONE: DIVIDE,
    Kind.SCALE_NO_ROOT: DIVIDE,
    Kind.SCALE_OTHER: DIVIDE,
    Kind.SCALE_TIMES: DIVIDE,
    Kind.SCALE_WIDTH: DIVIDE,
    Kind.MASK_AFTER_SOFTMAX: HIDE,
    Kind.MASK_NAN: HIDE,
    Kind.MASK_NONE: "Write scores.masked_fill(is_future, -torch.inf), or is_causal=True.",
    Kind.MASK_NO_BUFFER: 'Write self.register_buffer("{name}", ...).',
    Kind.MASK_EMPTY_ROW: "Cut to [: i + 1].",
    Kind.WEIGHTS_TRANSPOSED: "Write attn_weights @ values.",
    Kind.VALUES_OTHER: "Write attn_weights @ values.",
    Kind.DROPOUT_NONE: DROP,
    Kind.DROPOUT_PLACE: DROP,
    Kind.DROPOUT_VALUES: DROP,
}


def sentence(finding: Finding, again: bool = False) -> str:
    """Return what a learner reads of a finding: the line and the cause, at most LONGEST characters.

    Args:
        finding: what is wrong.
        again: whether the same was found at the last try, so that the finished line helps.
    """
    when = finding.facts.get("when")
    cause = f"{f'With {when}: ' if when else ''}{cause_of(finding)}"
    remedy = REMEDIES.get(finding.kind, "").format_map(_Words(finding)) if again else ""
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
        parts.append(f"It was made with {facts['made_with']}.{facts['remainder']}")
    return " | ".join(parts)


def in_full(finding: Finding) -> str:
    """Return a sentence with its details; of an exception first where, then what, then why."""
    said = details(finding)
    if not _stopped_here(finding) or finding.kind in PLAIN_ERRORS:
        return " | ".join(part for part in (sentence(finding), said) if part)
    line = finding.line
    where = f"in {line.function}, line {line.number}: {line.text}" if line else "outside its lines"
    return f"Stopped {where} | {said} {cause_of(finding)}"


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
SIZE_NAMES = {
    "b": "the number of texts",
    "d_in": "d_in, the width of the embedding",
    "d_out": "d_out, the width of all heads",
    "num_heads": "num_heads",
    "num_tokens": "the number of tokens",
    "context_length": "context_length",
}
ADDED = {"add": "adding", "iadd": "adding", "sum": "adding", "mean": "averaging"}
ARTICLES = {"x": "x", "attn_weights": "the attention weights", "context_vec": "the context vectors"}
DROPS_IN_EVAL = {
    "pytorch": "scaled_dot_product_attention does not know the mode, so pass dropout_p=p if "
    "self.training else 0.0.",
    "new": "a layer that is made here is new in each call, and a new one is in training: make it "
    "once, in __init__, and eval() reaches it.",
    "": "nn.Dropout knows the mode, F.dropout must be told by training=self.training.",
}


class _Words(dict[str, Any]):
    """The facts of a finding, and the words that are made of them."""

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


def _swapped(words: Mapping[str, Any]) -> str:
    holds = words["holds"]
    if len(holds) > 1 and len(set(holds.values())) > 1:
        first, second = list(holds.items())[:2]
        return (
            f"Here {first[0]} holds the {first[1]} and {second[0]} the {second[1]}: they have "
            "changed places."
        )
    made = {"queries": "W_query", "keys": "W_key", "values": "W_value"}
    what = next(iter(holds.values()))
    verb, made_by = ("hold", "each is") if len(holds) > 1 else ("holds", "it is")
    return f"Here {listed(holds)} {verb} the {what}: {made_by} made by {made[what]}."


def _fill(words: Mapping[str, Any]) -> str:
    number = words["number"] + 0.0  # no -0
    if number == math.inf:
        return "are set to +inf, which wins softmax"
    verb = f"get {number:+.4g}" if words["added"] else f"are set to {number:.4g}"
    return f"{verb}, and softmax still gives them weight"


def _begin(words: Mapping[str, Any]) -> str:
    if words.get("shows"):
        return "What is drawn is what may be seen: the key must not come after the query."
    return "It must hide where the key comes after the query: the triangle above the diagonal."


def _mask_shape(words: Mapping[str, Any]) -> str:
    if words.get("shows"):
        return "what may be seen must be all on and below the diagonal, and nothing else."
    return "the mask must hide all above the diagonal, and nothing else."


def _axis_words(words: Mapping[str, Any]) -> str:
    dim, axes = words["dim"], words["axes"]
    if axes == "h":
        return f"have a dimension of their own, dimension {dim}, counted from 0"
    like = "texts" if "b" in axes else "tokens"
    return f"are joined along dimension {dim}, counted from 0, like more {like}"


def _unwritten(words: Mapping[str, Any]) -> str:
    what, places = words["what"], words["places"]
    if not places:
        return (
            f"torch.{words['filler']} holds whatever numbers are in memory, and this line computes "
            "with them: begin with zeros."
        )
    several = len(places) > 1
    return (
        f"{_capital(what)}{'s' * several} {_ranges(places)} of the result "
        f"{'are' if several else 'is'} never written, counted from 0: what {words['filler']} put "
        "there is still there."
    )


def _number(words: Mapping[str, Any]) -> str:
    factor = words["factor"]
    for power, how in ((-2, "the root of "), (-1, "")):
        number = factor**power
        if 1.5 < number < 1025 and abs(number - round(number)) < 1e-3 * number:
            return f"1 / {how}{round(number)}"
    return f"{factor:.4g}"


def _outside(words: Mapping[str, Any]) -> str:
    named = words["variables"]
    numbers = [value for value in named.values() if isinstance(value, int)]
    several = len(named) > 1
    are = "are the notebook's variables" if several else "is the notebook's variable"
    return f"{listed(named)} here {are}" + (f", {listed(numbers)}" if numbers else "")


def _order_before(words: Mapping[str, Any]) -> str:
    return f" (before it they are {', '.join(words['order'])})" if words["order"] else ""


def _meets(words: Mapping[str, Any]) -> str:
    low, high = words["low"], words["high"]
    return f"the keys {low} to {high}" if low < high else f"key {low} alone"


def _never_run(words: Mapping[str, Any]) -> str:
    several = len(words["missing"]) > 1
    return f"head{'s' * several} {listed(words['missing'])} never {'do' if several else 'does'}"


def _gradient(words: Mapping[str, Any]) -> str:
    if words["name"] is None:
        return "no parameter gets a gradient"
    if words["none"]:
        return f"{words['name']} gets no gradient"
    return f"the gradient of {words['name']} is not"


def _nan(words: Mapping[str, Any]) -> str:
    return ", so that its result is NaN" if words.get("nan") else ""


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
    "swapped": _swapped,
    "columns_": lambda words: _ranges(words["columns"]),
    "axis_": lambda words: {"h": "head", "b": "text"}[words["axis"]],
    "axes_": lambda words: AXES.get(words["axes"], "more than the keys"),
    "axis_words": _axis_words,
    "root_of": lambda words: "the root of " if words["root"] else "",
    "by_": lambda words: SIZE_NAMES[words["by"]],
    "number_": _number,
    "divisor": lambda words: "keys.shape[-1]" if words.get("width") == "d_out" else "head_dim",
    "nan_": _nan,
    "above": lambda words: ": True on it, if True means visible" if words.get("shows") else "",
    "fill_": _fill,
    "polarity": lambda words: (
        "In scaled_dot_product_attention True means that a token may look."
        if words.get("sdpa")
        else "What is True in masked_fill is hidden, in where it stays."
    ),
    "begin_": _begin,
    "rows_": lambda words: "all tokens" if words["all"] else "some tokens",
    "shape_of_mask": _mask_shape,
    "side": lambda words: "One side of the" if words["one_side"] else "The",
    "texts": lambda words: (
        " b is the number of texts." if words["sizes"]["b"] in words["have"] else ""
    ),
    "when_": lambda words: "" if words.get("sdpa") else " when softmax comes",
    "meets_": _meets,
    "may_": lambda words: f"the tokens 0 to {words['token']}" if words["token"] else "itself alone",
    "right_": lambda words: "right and already joined" if words["complete"] else "right",
    "added": lambda words: ADDED.get(words["operation"].strip("_"), words["operation"]),
    "order_": _order_before,
    "some_heads": lambda words: f"head {listed(words['heads'])}",
    "target": lambda words: (
        "result of out_proj" if words["width"] == "head_dim" else ("context vectors")
    ),
    "unwritten": _unwritten,
    "gradient": _gradient,
    "missing_": _never_run,
    "mode": lambda words: DROPS_IN_EVAL[words.get("how", "")],
    "Listed": _outside,
}

"""The questions that the exercise checks put to a learner's class, in order.

A question takes a Trial and returns None, or a sentence that says what is wrong. Those that
isolate one step of attention are in isolate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from attnlib.checks.attempt import (
    NOT_ATTEMPTED,
    Diagnosis,
    call,
    draw,
    name_shape,
    returns_weights,
    run,
)
from attnlib.checks.isolate import (
    equal_keys,
    equal_keys_several_heads,
    mean_so_far,
    one_token,
    the_mask,
    two_tokens_one_head,
    two_tokens_several_heads,
)
from attnlib.checks.trial import (
    CONTEXT_LENGTH,
    D_IN,
    HEAD_DIM,
    NUM_TOKENS,
    B,
    Trial,
    close,
    marked_tokens,
)
from attnlib.examples import one_thread, seeded
from attnlib.modules import MultiHeadAttention
from attnlib.tracing.tracer import trace

DROPOUT = 0.25
LOW_SCORE = -15000.0  # below -1e4; before it is scaled still above -65504, where float16 ends

Question = Callable[[Trial], str | None]


def it_returns_something(trial: Trial) -> str | None:
    """Make the class and run it once: a stub returns None."""
    mine, _ = trial.build()
    x = draw(B, NUM_TOKENS, D_IN)
    try:
        result = call(mine, x, sizes=trial.sizes())
    except Diagnosis as diagnosis:
        if str(diagnosis) == NOT_ATTEMPTED:
            raise
        return it_has_the_parameters(trial) or str(diagnosis)
    if result is not None:
        return None
    made = [step.name for step in trace(mine, x).steps if step.change != "given"]
    if not made:
        return NOT_ATTEMPTED
    return f"{NOT_ATTEMPTED}: forward makes {made[-1]} and returns None. Is the return missing?"


def it_has_the_parameters(trial: Trial) -> str | None:
    """Compare names and shapes of the parameters with ours."""
    for qkv_bias in (False, True):
        mine, ours = trial.build(qkv_bias=qkv_bias)
        if sentence := _wrong_names(mine, ours, qkv_bias):
            return sentence
        have = dict(mine.named_parameters())
        for name, parameter in ours.named_parameters():
            if have[name].shape != parameter.shape:
                return _wrong_parameter(trial, name, have[name], parameter)
    return None


def _wrong_names(mine: nn.Module, ours: nn.Module, qkv_bias: bool) -> str | None:
    have, want = ([name for name, _ in module.named_parameters()] for module in (mine, ours))
    with_repeated = {name for name, _ in mine.named_parameters(remove_duplicate=False)}
    missing = [name for name in want if name not in have]
    extra = [name for name in have if name not in want]
    if with_repeated.difference(have).intersection(want):
        return (
            "All heads are one and the same module: [head] * num_heads repeats it. Make a new "
            "one for each head: [... for _ in range(num_heads)]."
        )
    if isinstance(getattr(mine, "heads", None), (list, tuple)):
        return (
            "self.heads is a plain list, and PyTorch sees no parameters in it: make it an "
            "nn.ModuleList."
        )
    if not qkv_bias and any(name.startswith("W_") and "bias" in name for name in extra):
        return "The projections have a bias though qkv_bias=False: nn.Linear(bias=qkv_bias)."
    if qkv_bias and any("bias" in name for name in missing):
        return "With qkv_bias=True the projections have no bias: hand qkv_bias on to them."
    if missing:
        has = f"it has {', '.join(have)}" if have else "it has no parameters at all"
        return f"The class has no parameter {missing[0]}; {has}."
    if extra:
        return f"The class has a parameter too many: {extra[0]}."
    return None


def _wrong_parameter(trial: Trial, name: str, have: Tensor, want: Tensor) -> str:
    sizes = {k: v for k, v in trial.sizes().items() if k.startswith("d_") or "head" in k}
    shapes = [name_shape(tuple(tensor.shape), sizes) for tensor in (have, want)]
    what = f"{name} is {shapes[0]} where {shapes[1]} is right"
    if have.shape == want.shape[::-1]:
        return f"{what}: nn.Linear takes the width that it gets first, nn.Linear(d_in, d_out)."
    meaning = "the total width" if trial.right is MultiHeadAttention else "the width of one head"
    return f"{what}: d_out is {meaning}, here {sizes['d_out']}."


def it_returns_the_right_shape(trial: Trial) -> str | None:
    """Give it fewer tokens than fit, as many as fit, and one."""
    mine, _ = trial.build()
    for x in (draw(B, NUM_TOKENS, D_IN), draw(B, CONTEXT_LENGTH, D_IN), draw(1, 1, D_IN)):
        trial.run(mine, x)
    return None


def the_whole(trial: Trial) -> str | None:
    """Random weights and inputs in float64: outputs and gradients against our class."""
    for qkv_bias in (False, True):
        mine, ours = trial.build(qkv_bias=qkv_bias)
        weights = {
            name: draw(*parameter.shape, seed=seed).double().div(3).requires_grad_()
            for seed, (name, parameter) in enumerate(ours.named_parameters())
        }
        for b, num_tokens in ((1, NUM_TOKENS), (B, NUM_TOKENS), (B, CONTEXT_LENGTH)):
            kept = draw(b, num_tokens, D_IN, seed=1).double().requires_grad_()
            x = kept.clone()
            have = trial.run(mine.double(), x, weights, before="In float64: ")
            want = run(ours.double(), kept, weights)
            if not close(have, want, 1e-4):
                return (
                    f"Each step is right alone, but for {b} x {num_tokens} tokens"
                    f"{' with qkv_bias=True' if qkv_bias else ''} the results differ by "
                    f"{(have - want).abs().max():.3g}: does anything depend on the batch, on the "
                    "length or on earlier calls?"
                )
            if not (have.dtype == want.dtype and close(have, want, 1e-10)):
                return (
                    "Right in float32, but in float64 the digits are lost: a line makes float32 "
                    "numbers whatever x is. Is there a torch.zeros or .float() without "
                    "dtype=x.dtype?"
                )
            if sentence := _wrong_gradient(have, want, {"x": kept, **weights}):
                return sentence
    return None


def _wrong_gradient(have: Tensor, want: Tensor, inputs: Mapping[str, Tensor]) -> str | None:
    cut = "gradient: does .detach(), .data, torch.tensor or no_grad cut it off?"
    if not have.requires_grad:
        return f"The results are right, but no weight gets a {cut}"
    gradients = [
        torch.autograd.grad(result.square().sum(), list(inputs.values()), allow_unused=True)
        for result in (have, want)
    ]
    for name, mine, right in zip(inputs, *gradients, strict=True):
        if mine is None:
            return f"The results are right, but {name} gets no {cut}"
        if not close(mine, right, 1e-8 * max(1.0, float(right.abs().max()))):
            return (
                f"The results are right, but the gradient of {name} is not: does .detach() or "
                "no_grad cut part of it?"
            )
    return None


def more_tokens_than_context_length(trial: Trial) -> str | None:
    """A mask of 1 x 1 fits scores of any size, and hides nothing."""
    mine, _ = trial.build(num_heads=1, context_length=1)
    try:
        attn_weights = trial.attn_weights_of(mine, marked_tokens(), 1)
    except Diagnosis:
        return None  # it refuses, as it should
    if (attn_weights[:, 0, 0, 1:NUM_TOKENS].abs() > 1e-6).any() or attn_weights.isnan().any():
        return (
            "With context_length=1 more than one token passes, and token 1 sees token 2: the mask "
            "is 1 x 1 and broadcasts. Raise a ValueError if num_tokens > context_length."
        )
    return None


def half_precision(trial: Trial) -> str | None:
    """Scores lower than -1e4, all equal: what hides must be lower still."""
    mine, _ = trial.build(num_heads=1)
    x = marked_tokens().half()
    x[:, :, NUM_TOKENS] = 1  # one column is the same for all tokens
    side = (-LOW_SCORE * HEAD_DIM**0.5) ** 0.5
    W_query, W_key = torch.zeros(2, HEAD_DIM, D_IN)
    W_query[0, NUM_TOKENS], W_key[0, NUM_TOKENS] = side, -side
    before = "In half precision: "
    attn_weights = trial.attn_weights_of(mine.half(), x, 1, before, W_query=W_query, W_key=W_key)
    attn_weights = attn_weights[:, 0, :, :NUM_TOKENS].float()
    if close(attn_weights, mean_so_far(NUM_TOKENS).expand_as(attn_weights), 1e-2):
        return None
    if attn_weights[:, 0, 1:].max() > 1e-2:
        return (
            f"{before}scores can be as low as {LOW_SCORE:g}, and then token 1 sees token 2: the "
            "number that hides, such as -1e4, is not the lowest. Use -torch.inf."
        )
    return (
        f"{before}with scores of {LOW_SCORE:g} the weights are wrong: is a score multiplied before "
        "it is divided? Half precision ends at 65504."
    )


def dropout_in_eval(trial: Trial) -> str | None:
    """In eval nothing may be dropped."""
    for num_heads in trial.head_counts:
        mine, _ = trial.build(num_heads, dropout=DROPOUT)
        calm, _ = trial.build(num_heads)
        x = marked_tokens()
        dropped = trial.attn_weights_of(mine, x, num_heads)
        if not close(dropped, trial.attn_weights_of(calm, x, num_heads)):
            return (
                "Dropout is active in eval(): nn.Dropout knows the mode, F.dropout must be told by "
                "training=self.training."
            )
    return None


def dropout_in_training(trial: Trial) -> str | None:
    """In training a weight is 0, or divided by 1 - p."""
    for num_heads in trial.head_counts:
        mine, _ = trial.build(num_heads, dropout=DROPOUT)
        x = marked_tokens(b=8)
        calm = trial.attn_weights_of(mine, x, num_heads)
        dropped = trial.attn_weights_of(mine.train(), x, num_heads)
        if dropped.equal(calm):
            return (
                "In training nothing is dropped: is dropout handed on, and are the weights put "
                "through it, attn_weights = self.dropout(attn_weights)?"
            )
        survived = dropped != 0
        wrong = survived & ~((dropped - calm / (1 - DROPOUT)).abs() < 1e-5)
        if wrong.any():
            # NaN before a number, then the first token, so that all machines say the same
            is_nan = wrong & dropped.isnan()
            places = (is_nan if is_nan.any() else wrong).nonzero().tolist()
            place = min(map(tuple, places), key=lambda at: at[2:])
            return (
                f"In training with p = {DROPOUT} a weight of {calm[place]:.3g} may become 0 or "
                f"{calm[place] / (1 - DROPOUT):.3g}, not {dropped[place]:.3g}: dropout belongs "
                "right after softmax, on attn_weights, once."
            )
        # The last two columns of the result repeat the first two: see attn_weights_of
        if not survived[..., : HEAD_DIM - NUM_TOKENS].equal(survived[..., NUM_TOKENS:]):
            return (
                "In training dropout falls on single numbers of the values or the result: it "
                "belongs on attn_weights, right after softmax."
            )
    return None


def the_weights_returned(trial: Trial) -> str | None:
    """Where forward can return the weights too, they are ours."""
    if not returns_weights(trial.written.forward):
        return None
    mine, ours = trial.build()
    x = draw(B, NUM_TOKENS, D_IN, seed=1)
    weights = dict(ours.named_parameters())
    result = call(mine, x, weights, trial.sizes(), return_weights=True)
    want = call(ours, x, return_weights=True)
    if not (isinstance(result, tuple) and len(result) == 2):
        return "forward(x, return_weights=True) must return two tensors: context_vec, attn_weights."
    for name, tensor, right in zip(("context_vec", "attn_weights"), result, want, strict=True):
        if tensor.shape != right.shape:
            have, shape = (
                name_shape(tuple(shape), trial.sizes()) for shape in (tensor.shape, right.shape)
            )
            return f"return_weights=True gives {name} as {have} where {shape} is right."
        if not close(tensor, right):
            return f"return_weights=True gives another {name} than the one used."
    return None


QUESTIONS: tuple[Question, ...] = (
    it_returns_something,
    it_has_the_parameters,
    it_returns_the_right_shape,
    one_token,
    the_mask,
    equal_keys,
    two_tokens_one_head,
    equal_keys_several_heads,
    two_tokens_several_heads,
    the_whole,
    more_tokens_than_context_length,
    half_precision,
    dropout_in_eval,
    dropout_in_training,
    the_weights_returned,
)


def diagnose(written: type[nn.Module] | None, right: type[nn.Module]) -> str | None:
    """Put all questions in order and return the first sentence, or None if all is right."""
    if written is None:
        return NOT_ATTEMPTED
    if not (isinstance(written, type) and issubclass(written, nn.Module)):
        return f"Give the class itself, a subclass of nn.Module, not {type(written).__name__}."
    if written.forward is nn.Module.forward:
        return NOT_ATTEMPTED
    with seeded(0), one_thread(), torch.enable_grad(), torch.device("cpu"):
        for question in QUESTIONS:
            try:
                sentence = question(Trial(written, right))
            except Diagnosis as diagnosis:
                sentence = str(diagnosis)
            if sentence:
                return sentence
    return None

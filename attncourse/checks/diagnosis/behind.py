"""What lies behind a fault that shows elsewhere: a line or a cause before the one that was found.

An error stops at the line at which a wrong value is used. BEHIND holds rules that look further, in
order; the first that knows more takes the finding's place.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import torch
from torch import Tensor, nn

from attncourse.checks.diagnosis.departure import departure, departure_before_an_error
from attncourse.checks.diagnosis.heads import shape_of_the_result
from attncourse.checks.diagnosis.trial import (
    CONTEXT_LENGTH,
    DROPOUT,
    NUM_TOKENS,
    ODD,
    B,
    Trial,
    close,
    set_mode,
)
from attncourse.checks.findings import Finding, Kind
from attncourse.checks.safe_run import FaultFound, draw, run
from attncourse.tracing.class_text import values_at_the_end
from attncourse.tracing.operations import Operation, SourceLine
from attncourse.tracing.tracer import statements_of
from attnlib.modules import MultiHeadAttentionWrapper

Behind = Callable[[Finding, Trial], Finding | None]
SIZES_MEET = (
    Kind.ERROR_MASK_DIMS,
    Kind.ERROR_SIZES,
    Kind.ERROR_KEEPDIM,
    Kind.ERROR_MASK_CUT,
    Kind.ERROR_NOT_SPLIT,
)


def behind(finding: Finding, trial: Trial) -> Finding:
    """Return what the rules know more of a finding, each of what those before it have said."""
    facts, question = finding.facts, finding.question
    for rule in BEHIND:
        with suppress(*ODD):
            more = rule(finding, trial)
            if more is None:
                continue
            if finding.kind.step == "error" and finding.line:
                kept = {name: facts[name] for name in ("error", "message", "shapes", "sizes")}
                if more.kind.step != "error" or more.line != finding.line:
                    kept["stopped"] = str(finding.line)
                more = more.knowing(**{**kept, **more.facts})
            finding = more
    return replace(finding, question=question)


def heads_that_do_not_run(finding: Finding, trial: Trial) -> Finding | None:
    """Tell a stack of which some heads are not called, or not on x."""
    many = finding.kind is Kind.HEADS_MANY
    if trial.right is not MultiHeadAttentionWrapper or (
        finding.kind.step in MADE_BEFORE and not many
    ):
        return None
    calls = trial.head_calls(finding.facts.get("num_heads", trial.most_heads))
    for call in calls:
        if call.takes_head is not None:
            facts = {"head": call.head, "before": call.takes_head}
            return Finding(Kind.HEADS_CHAINED, call.line, facts)
        if call.takes[:2] == (B, NUM_TOKENS) and not call.is_x and not many:
            return Finding(Kind.HEADS_PART, call.line, {"head": call.head})
    num_heads, ran = trial.most_heads, sorted({call.head for call in calls})
    if not calls or finding.kind.step == "error":
        return None
    if len(ran) < num_heads:
        line = calls[-1].line
        if len(calls) > len(ran):
            return Finding(Kind.MERGE_REPEATED, line)
        loop = trial.text.loop_around(line) if line is not None else None
        if loop is not None and line is not None and isinstance(loop.body[-1], ast.Return):
            return Finding(Kind.LOOP_RETURN, trial.text.line_at(line.function, loop.body[-1]))
        missing = tuple(head for head in range(num_heads) if head not in ran)
        some = {"ran": len(ran), "num_heads": num_heads, "missing": missing}
        return Finding(Kind.HEADS_NOT_RUN, _header_of(trial, loop, line), some)
    if finding.kind.step not in ("merge", "heads"):
        return None
    line, order = calls[-1].line, [call.head for call in calls]
    if len(order) == len(ran) and order != ran and line is not None:
        header = _header_of(trial, trial.text.loop_around(line), line)
        goes_through = header and "range" not in header.text and "heads" in header.text
        return finding.at(header if goes_through else line)
    inside = (
        finding.line is not None and line is not None and finding.line.function != line.function
    )
    return finding.at(line) if inside else None


def heads_made_otherwise(finding: Finding, trial: Trial) -> Finding | None:
    """Tell heads of a stack that are made with another size than the one that was asked for."""
    is_stack = trial.right is MultiHeadAttentionWrapper
    if not is_stack or finding.kind.step not in MADE_SO:
        return None
    if finding.kind is Kind.PARAMETERS_BIAS_NEVER and finding.line:
        calls = trial.text.calls_of(finding.line.function)
        line = next((call for call in calls if "bias" not in call.text), None)
        return line and finding.at(line)
    sizes, mine = trial.sizes() | {"dropout": DROPOUT}, trial.build(dropout=DROPOUT)[0]
    head = next(iter(getattr(mine, trial.make.names.get("heads", "heads"), ())), None)
    query = getattr(head, "W_query", None)
    if head is None or query is None:
        return None
    drops = [part.p for part in head.modules() if isinstance(part, nn.Dropout)]
    made = {
        "dropout": drops[0] if drops else None,
        "d_in": getattr(query, "in_features", None),
        "d_out": getattr(query, "out_features", None),
        "context_length": getattr(head, "context_length", None),
    }
    for argument, have in made.items():
        if isinstance(have, (int, float)) and have != sizes[argument]:
            which = "".join(f", which is {name}" for name, size in sizes.items() if size == have)
            shown = have if isinstance(have, int) else round(have, 4)
            facts = {"argument": argument, "have": shown, "which": which, "why": WHOLE[argument]}
            line = trial.text.line_with(rf"\b{type(head).__name__}\(|\.append\(", among="__init__")
            return Finding(Kind.HEADS_ARGUMENT, line or trial.line_of_parameter("heads"), facts)
    return None


MADE_SO = ("parameters", "error", "result", "dropout", "training")
WHOLE = {
    "dropout": "it is the share that each head drops",
    "d_in": "each head takes x whole",
    "d_out": "it is the width of one head",
    "context_length": "each head takes texts as long as that",
}
MADE_BEFORE = ("parameters", "init", "heads", "stub", "not", "settings", "time")


def _header_of(
    trial: Trial, loop: ast.For | ast.While | None, line: SourceLine | None
) -> SourceLine | None:
    """Return the line of a loop that goes through a part of something, or else the line in it."""
    if line is None or not isinstance(loop, ast.For) or isinstance(loop.iter, (ast.Attribute)):
        return line
    return trial.text.line_at(line.function, loop)


def variables_of_the_notebook(finding: Finding, trial: Trial) -> Finding | None:
    """Tell a line that reads a variable of the notebook where the class has its own."""
    if finding.kind.step not in ("error", "scale", "result", "length", "merge"):
        return None
    line = finding.line or trial.text.last_line(trial.text.forward)
    if line is None:
        return None
    for where in (line, *trial.text.makers(line)):
        read = trial.text.from_outside(where)
        numbers = {name: value for name, value in read.items() if type(value) is int and value > 1}
        if finding.kind.step == "scale":
            factor = finding.facts.get("factor", 0.0)
            named = {n: v for n, v in numbers.items() if factor**-2 - v < 1e-3 or 1 / factor == v}
        else:
            named = {
                n: v for n, v in read.items() if n in numbers or isinstance(v, (Tensor, nn.Module))
            }
        if named:
            return Finding(Kind.OUTSIDE, where, {"variables": named})
    return None


def kept_on_self(finding: Finding, trial: Trial) -> Finding | None:
    """Tell a tensor that forward keeps on self, and the next call meets."""
    if finding.kind.step not in ("error", "state", "length", "merge", "result", "context"):
        return None
    mine, _ = trial.build()
    before = {**vars(mine), **dict(mine.named_buffers())}
    try:
        run(mine, trial.usual_x())
    except FaultFound:
        return None
    for name, value in {**vars(mine), **dict(mine.named_buffers())}.items():
        written = trial.text.line_with(rf"self\.{name}\b[^=(\[]*=(?!=)", "__init__")
        line = written or trial.text.line_with(rf"\b{name}\b", "__init__")
        grows = isinstance(value, list) and any(isinstance(one, Tensor) for one in value)
        state = finding.kind.step == "state"
        changed = isinstance(value, (Tensor, tuple, float)[: 3 if state else 1])
        changed = changed and before.get(name) is not value
        if grows or (changed and finding.kind.step in ("error", "state", "length")):
            return Finding(Kind.STATE_KEPT, line, {"name": name})
    return None


def mask_of_another_size(finding: Finding, trial: Trial) -> Finding | None:
    """Tell the line that gave a mask a size that does not fit the scores."""
    if finding.kind not in SIZES_MEET:
        return None
    for length, size in ((CONTEXT_LENGTH, NUM_TOKENS), (CONTEXT_LENGTH,) * 2, (67, 67)):
        mine, _ = trial.build(context_length=length)
        x = draw(B, size, trial.d_in(), seed=1)
        recording, result = trial.record(mine, x)
        start = recording.number_of(x)
        if result is None and start is not None:
            sizes = trial.sizes() | {"context_length": length, "num_tokens": size}
            return _wrong_mask(recording.operations, start, sizes, finding)
    return None


def _wrong_mask(
    operations: list[Operation], x: int, sizes: dict[str, int], finding: Finding
) -> Finding | None:
    size, length = sizes["num_tokens"], sizes["context_length"]
    from_x, last = {x}, None
    for operation in operations[x + 1 :]:
        shape = operation.values.shape[-2:]
        if from_x.intersection(operation.parents):
            from_x.add(operation.number)
        elif operation.line is None or len(shape) < 2:
            continue
        elif set(shape) <= {size, length} or operation.values.dtype is torch.bool:
            last = operation
    if last is not None and tuple(last.values.shape) == (sizes["b"], size, size):
        return Finding(Kind.ERROR_MASK_DIMS, last.line, {"name": "The mask"})
    if last is None or set(last.values.shape[-2:]) <= {1, size}:
        of_x = [o for o in operations if x in o.parents and o.values.ndim == 3]
        cut = next(
            (o for o in of_x if len(o.values) == sizes["b"] and o.values.shape[1] < size), None
        )
        shapes = {"have": cut.values.shape, "want": (sizes["b"], size)} if cut else {}
        return cut and Finding(Kind.RESULT_CROPPED, cut.line, shapes)
    chain = [last]
    while before := [n for n in chain[-1].parents if operations[n].values.ndim > 1]:
        chain.append(operations[before[0]])
    have = tuple(last.values.shape[-2:])
    made = [operation for operation in chain if operation.number < x]
    full = tuple(made[0].values.shape[-2:]) if made else ()
    if made and full[-1] >= length:
        cuts = [o for o in chain[::-1] if o.number > x and o.values.shape[-2:] != full]
        cuts = cuts or [o for o in chain[::-1] if o.number > x and o.name == "__getitem__"]
        facts = {"have": have, "want": (size, size), "sizes": sizes}
        return Finding(Kind.MASK_CUT, cuts[0].line, facts) if cuts else None
    wrong = {*have, *full} - {1, size} if not made else {full[-1]}
    if len(wrong) != 1 or not wrong & {*finding.facts.get("numbers", wrong)}:
        return None
    (other,) = wrong
    begun = last
    while before := [n for n in begun.parents if other in operations[n].values.shape]:
        if operations[before[0]].line is None:
            break
        begun = operations[before[0]]
    told = {"length": other, "num_tokens": size}
    return Finding(Kind.MASK_LENGTH, begun.line, told)


def departure_before(finding: Finding, trial: Trial) -> Finding | None:
    """Tell the line at which forward had left the path when an error stopped it."""
    if finding.kind.step != "error" or finding.line is None or finding.kind is Kind.ERROR_TURNED:
        return None
    path = trial.usual_path(stopped=True)
    found = departure_before_an_error(path) if path is not None else None
    return found if found is not None and found.sure and found.line is not None else None


def handed_on(finding: Finding, trial: Trial) -> Finding | None:
    """Tell the call of a helper that stops, where an earlier call of it did not."""
    line, calls = finding.line, finding.facts.get("calls", ())
    if line is None or not calls or finding.kind.step != "error":
        return None
    function, number = calls[-1]
    others = trial.text.calls_of(line.function)
    if not any(other.function == function and other.number < number for other in others):
        return None
    call = trial.text.line_of_number(function, number)
    return call and finding.at(call).knowing(stopped=str(line))


def rows_that_are_missing(finding: Finding, trial: Trial) -> Finding | None:
    """Tell where fewer texts or tokens come out than came in."""
    line, have, want = finding.line, *(finding.facts.get(name, ()) for name in ("have", "want"))
    if finding.kind is not Kind.RESULT_SHAPE or len(have) != 3 or have[2] != want[2]:
        return None
    if have[0] > want[0] or have[1] > want[1]:
        return None
    if line and trial.text.loop_around(line) and line.text.startswith("return"):
        return Finding(Kind.LOOP_RETURN, line)
    mine, x = trial.build(trial.most_heads)[0], draw(*want[:2], trial.d_in())
    cut = trial.first(mine, x, lambda made: made.values.shape[:2] == have[:2])
    return cut and Finding(Kind.RESULT_CROPPED, cut.line, dict(finding.facts))


def mask_in_training(finding: Finding, trial: Trial) -> Finding | None:
    """Tell a mask that is there in training only."""
    if finding.kind is not Kind.MASK_NONE:
        return None
    mine, ours = trial.build(trial.most_heads)
    set_mode(mine, training=True)
    weights, x = trial.random_weights(ours), trial.usual_x()
    if not close(trial.run(mine, x, weights, trial.most_heads), run(ours, x, weights), 1e-4):
        return None
    line = trial.text.line_with(r"^(el)?if .*training") or finding.line
    return Finding(Kind.MASK_TRAINING, line, {"there": "training", "other": "eval"})


def reason_of_the_shape(finding: Finding, trial: Trial) -> Finding | None:
    """Tell why a result has another shape."""
    path = trial.usual_path() if finding.kind is Kind.RESULT_SHAPE else None
    found = shape_of_the_result(path) if path is not None else None
    if found is None and path is not None:
        found = departure(path)
        if found is None or found.kind.step not in ("scale", "mask", "split", "merge", "values"):
            return None
    if found is None:
        return None
    shapes = {name: finding.facts[name] for name in ("have", "want", "sizes")}
    if found.kind is Kind.RESULT_OTHER and found.line is not None:
        owner = found.line.function.rpartition(".")[0]
        found = found.at(trial.text.last_line(f"{owner}.forward") or found.line)
    return found.knowing(**shapes)


def end_of_forward(finding: Finding, trial: Trial) -> Finding | None:
    """Tell of what is missing at the end of forward there."""
    forward = trial.text.forward
    if finding.kind is Kind.RESULT_UNWRITTEN and finding.line and finding.facts["apart"]:
        return finding.at(_header_of(trial, trial.text.loop_around(finding.line), finding.line))
    if finding.kind is Kind.ERROR_ARGUMENTS and finding.line is None and forward:
        statements = statements_of(trial.text.functions[forward].__code__)[1]
        return finding.at(SourceLine(forward, 1, statements[1].text))
    if finding.kind not in (Kind.OUT_PROJ_MISSING, Kind.RESULT_TYPE, Kind.RESULT_NONE):
        return None
    owner = finding.line.function if finding.line else forward
    return finding.at(trial.text.last_line(f"{owner.rpartition('.')[0]}.forward"))


MADE = {  # words of the line that made what the quoted one uses
    Kind.SOFTMAX_AXIS: r"Softmax\(",
    Kind.DROPOUT_TOGETHER: r"[Dd]ropout\dd\(",
    Kind.DROPOUT_ACTIVE: r"\btraining\b",
    Kind.DROPOUT_SHARE: r"rand|bernoulli|Dropout\w*\(",
    Kind.ERROR_FLOAT_SIZE: r"= .*/",
    Kind.SCALE_NO_ROOT: r"= 1(\.0)? */",
    Kind.SPLIT_SWAPPED: r"\bshape|\bsize\(",
    Kind.SPLIT_MISSING: r"slice\(|^\w+ = [^@(]*\*",
    Kind.SPLIT_COLUMNS: r"slice\(|^\w+ = [^@(]*\*",
    Kind.SOFTMAX_NO_EXP: r"^\w+ = \w+$",
    Kind.SCALE_SIGN: r"(= |\* |\()-",
    Kind.MASK_LENGTH: r"(shape|size)\W(0|2|-1)\b",
    Kind.MASK_CUT: r"(shape|size)\W(0|2|-1)\b",
    Kind.MERGE_REPEATED: r"slice\(0|\W0\W",
    Kind.MERGE_ORDER: r"insert\(0|reversed|::-1|- 1",
    Kind.SCORES_TRANSPOSED: r"\w\(k\w*, *q",
    Kind.SCORES_PAIR: r"\w\(q\w*, *[qv]|\w\(v|\w\(k\w*, *[kv]",
}


def size_called_otherwise(finding: Finding, trial: Trial) -> Finding | None:
    """Tell the line that gives a name such as num_tokens, or head_dim, to another size."""
    steps = ("error", "result", "split", "merge", "mask", "length")
    if finding.kind.step not in steps or finding.kind is Kind.SPLIT_SWAPPED:
        return None
    mine, sizes = trial.build()[0], trial.sizes()
    with suppress(FaultFound), values_at_the_end(trial.text.functions) as held:
        run(mine, trial.usual_x())
    for function, tree in trial.text.trees.items():
        assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
        for node in sorted(assigned, key=lambda node: -node.lineno):  # the last of a name holds
            for target in node.targets:
                for name in map(ast.unparse, getattr(target, "elts", [target])):
                    short = name.removeprefix("self.")
                    have = (held.get(function, {}) if short == name else vars(mine)).get(short)
                    size = next((s for s in CALLED if re.fullmatch(CALLED[s], short.lower())), "")
                    want = sizes.get(size, have)
                    if type(have) is not int or have == want:
                        continue
                    if have in sizes.values() or "head" in size:
                        facts = {"name": short, "asked": have, "right": want, "sizes": sizes}
                        return Finding(Kind.SIZE_OTHER, trial.text.line_at(function, node), facts)
    return None


CALLED = {  # what a size is usually called
    "b": r"b|bs|bsz|batch(_?size)?|b_size|n_batch",
    "num_tokens": r"t|(num|n)_tok(en)?s|seq(_?len)?|seq_length|n_seq",
    "num_heads": r"h|nh|(num_|n_)?heads?",
    "head_dim": r"hd|dh|d_h|d_head|head_?(dim|size|width)",
}


def made_in_another_line(finding: Finding, trial: Trial) -> Finding | None:
    """Tell the line that computed what the quoted one uses, in __init__ or above."""
    facts, kind = finding.facts, finding.kind
    words, not_yet = MADE.get(kind, "(?!)"), ""
    if kind.step == "scale" and kind not in (*MADE, *USED_WRONGLY):
        by = rf"\b{facts['by']}\b|" if facts.get("by") else ""
        words = rf"^[\w.]+ = [^@,]*({by}shape|size\(|\*\*|sqrt)[^@]*$"
        not_yet = rf"{by}shape|size\(" if by else r"\*\*|sqrt|pow"
    if kind is Kind.ERROR_VIEW_ASKED:
        names = [rf"\b{name}\b" for name, size in facts["sizes"].items() if size == facts["asked"]]
        of_head = ["= .*/"] * (facts["right"] == facts["sizes"]["head_dim"])
        words = "|".join([*(names or of_head), rf"= {facts['asked']}\b"])
        not_yet = rf"{words}|\b{facts['asked']}\b|shape|size\("
    if kind is Kind.ERROR_DTYPE:
        made = trial.line_of_dtype(trial.build()[0], trial.usual_x())
        return made and finding.at(made).knowing(stopped=str(finding.line))
    if kind is Kind.ERROR_TUPLE:
        many = (
            name.rpartition(".")[2]
            for name in trial.text.trees
            if trial.text.returns(name, ast.Tuple)
        )
        words = rf"^\w+ = .*\b({'|'.join(many)})\("
    if finding.line is None or re.search(not_yet or words, finding.line.text):
        return None
    right = CALLED.get(facts.get("by", ""), facts.get("by", "(?!)"))  # num_heads = num_heads
    has_root = re.search(r"\*\*|sqrt|pow", finding.line.text) and kind.step == "scale"
    for made in trial.text.makers(finding.line, levels=1 if has_root else 3):
        names = re.split(r"\W+", made.text.partition(" = ")[0].lower())
        if re.search(words, made.text) and not any(re.fullmatch(right, name) for name in names):
            stopped = {"stopped": str(finding.line)} if "error" in facts else {}
            return finding.at(made).knowing(**stopped)
    return None


USED_WRONGLY = (Kind.SCALE_NONE, Kind.SCALE_TWICE, Kind.SCALE_LATE)


def mistyped(finding: Finding, trial: Trial) -> Finding | None:
    """Tell a name that is nearly one that the module has."""
    found = re.search(r"object has no attribute '(\w+)'", finding.facts.get("message", ""))
    if found is None:
        return None
    mine, _ = trial.build()
    have = [name for name in (*vars(mine), *dict(mine.named_children())) if name[0] != "_"]
    near = difflib.get_close_matches(found[1], have, n=1, cutoff=0.8)
    told = replace(finding, kind=Kind.ERROR_UNKNOWN)
    return told.knowing(name=found[1], near=near[0]) if near else None


LINES = {  # where the line is known by its words alone
    Kind.X_IN_PLACE: r"\bx\b\s*[-+*/@]=|\bx\.\w+_\(|\bx\[.*\]\s*=",
    Kind.PARAMETERS_CHANGED: r"\.data\b|weight\S* [-+*/]=|\.(?!__)\w*[a-z]_\(|no_grad",
    Kind.SETTINGS: r"set_default|set_grad_enabled",
}


def line_by_its_words(finding: Finding, trial: Trial) -> Finding | None:
    """Tell the line of what some words alone can do."""
    if finding.line is not None or finding.kind not in LINES:
        return None
    return finding.at(trial.text.line_with(LINES[finding.kind]))


BEHIND: tuple[Behind, ...] = (
    line_by_its_words,
    heads_made_otherwise,  # or x is told to be too long, where num_heads is context_length
    rows_that_are_missing,  # or only the two shapes are told
    mask_in_training,  # or the learner is told that nothing is hidden
    reason_of_the_shape,
    heads_that_do_not_run,
    variables_of_the_notebook,
    kept_on_self,  # or the second call is told as an error of sizes
    mask_of_another_size,
    departure_before,
    end_of_forward,
    size_called_otherwise,  # head_dim = d_out stops, if at all, far from where it was written
    handed_on,  # or a helper is told to be at fault that works for two of three calls
    mistyped,  # Python's own words do not say which name is there
    made_in_another_line,  # or the line that uses self.scale is quoted, not the one at fault
)

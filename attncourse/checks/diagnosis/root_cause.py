"""A cause that lies before the line at which a fault shows.

A cause is told only after it was put right: a number on self, or a variable of the notebook, is
replaced by the right size, and then forward must give the right result. The other rules read the
recording of a run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import suppress
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from attncourse.checks.diagnosis.comparison import DROPOUT, Comparison, close
from attncourse.checks.diagnosis.first_difference import first_difference_before_an_error
from attncourse.checks.diagnosis.layout_causes import shape_of_the_result
from attncourse.checks.diagnosis.score_causes import DRAWS
from attncourse.checks.findings import Finding
from attncourse.checks.safe_run import FaultFound, draw, run
from attncourse.tracing.operations import Operation, SourceLine

Rule = Callable[[Finding, Comparison], Finding | None]
# Steps of findings that a wrong number may cause
OF_NUMBERS = {"error", "scale", "result", "split", "merge", "order", "length", "wrong", "changed"}
OF_NUMBERS |= {"mask", "heads", "scores"}


def root_cause(finding: Finding, pair: Comparison) -> Finding:
    """Return what a rule knows more of a finding, or the finding itself."""
    if finding.code in ("error.recursion", "time"):
        return finding  # each further run takes long
    for rule in RULES:
        more = rule(finding, pair)
        if more is None:
            continue
        if "error" in finding.facts and finding.line is not None:
            kept = {name: finding.facts[name] for name in ("error", "message", "shapes", "sizes")}
            if more.line != finding.line:
                kept["stopped"] = str(finding.line)
            more = more.knowing(**{**kept, **more.facts})
        return more
    return finding


def written_in_place(finding: Finding, pair: Comparison) -> Finding | None:
    """Find the line that wrote into x, or into a parameter."""
    if finding.line is not None or finding.code not in ("x.in-place", "parameters.in-place"):
        return None
    mine, ours = pair.build()
    x, weights = pair.usual_x(), pair.random_weights(ours)
    recording, _ = pair.record(mine, x, weights)
    changed = [o for o in recording.operations if o.line and o.parents]
    names = {"x"} if finding.step == "x" else {finding.facts["name"]}
    given = [o.number for o in recording.operations if o.given and o.name in names]
    lines = (
        o.line
        for o in changed
        if given and o.parents[0] in given and (o.name.endswith("_") or o.name.startswith("i"))
    )
    return finding.at(next(lines, None))


def number_on_self(finding: Finding, pair: Comparison) -> Finding | None:
    """Find a number on self that makes forward right once it is replaced by another size."""
    if finding.step not in OF_NUMBERS:
        return None
    mine, ours = pair.build()
    # Where the scale is wrong, a size such as self.d_out is used wrongly, and is not itself wrong
    types = (float,) if finding.step == "scale" else (int, float)
    parts = [vars(part) for part in mine.modules() if "torch" not in type(part).__module__]
    numbers = {n: v for part in parts for n, v in part.items() if type(v) in types and n[0] != "_"}
    for name, have in numbers.items():
        held = [part for part in parts if part.get(name) == have]  # in all heads of a stack
        want = _right_number(pair, mine, ours, held, name)
        if want is not None:
            line = pair.text.line_with(rf"self\.{name}\b[^=]*=(?!=)")
            line = line or pair.line_of_parameter(next(iter(dict(mine.named_parameters()))))
            if finding.step == "scale" or finding.code == "error.float-size":
                return finding.at(line)
            facts = {"name": f"self.{name}", "have": have, "want": want}
            return Finding("size.wrong", line, {**facts, "sizes": pair.sizes()})
    return None


def number_of_the_notebook(finding: Finding, pair: Comparison) -> Finding | None:
    """Find a variable of the notebook that forward reads where the class has a size of its own."""
    if finding.step not in OF_NUMBERS:
        return None
    mine, ours = pair.build()
    for function, tree in pair.text.trees.items():
        there, code = (getattr(pair.text.functions[function], k) for k in NAMESPACES)
        own = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
        for node in ast.walk(tree):
            name = node.id if isinstance(node, ast.Name) else ""
            if type(there.get(name)) is not int or name in own:
                continue
            have = there[name]
            if _right_number(pair, mine, ours, [there], name) is not None:
                line = pair.text.line_at(function, node)
                return Finding("outside", line, {"name": name, "value": f", {have},"})
    line = finding.line
    for name, value in pair.text.from_outside(line).items() if line is not None else ():
        if isinstance(value, (Tensor, nn.Module)):
            return Finding("outside", line, {"name": name, "value": ""})
    return None


def _right_number(
    pair: Comparison,
    mine: nn.Module,
    ours: nn.Module,
    held: Sequence[MutableMapping[str, Any]],
    name: str,
) -> float | None:
    """Return the number in place of a variable with which forward is right, if there is one."""
    weights, x, have = pair.random_weights(ours), pair.usual_x(), held[0][name]
    want = run(ours, x, weights)

    def is_right(number: float) -> bool:
        for one in held:
            one[name] = number
        with suppress(FaultFound):
            return close(pair.run(mine, x, weights), want, 1e-4)
        return False

    try:
        numbers = () if is_right(have) else _candidates(pair, name, have)
        return next(filter(is_right, numbers), None)
    finally:
        for one in held:
            one[name] = have


NAMESPACES = ("__globals__", "__code__")


def _candidates(pair: Comparison, name: str, have: float) -> Iterator[float]:
    """Yield the numbers that may be right: sizes in the place of a size, else a scale."""
    sizes = pair.sizes()
    if isinstance(have, int):
        likely = [sizes[name]] if name in sizes else []
        # a number of the module cannot depend on the number of sequences or of tokens
        others = [n for size, n in sizes.items() if size not in ("b", "num_tokens")]
        return (n for n in (*likely, *others) if n != have)
    width = sizes.get("head_dim", sizes["d_out"])
    return iter((width**0.5, width**-0.5, int(have) if have.is_integer() else width**0.5))


def tensor_kept_on_self(finding: Finding, pair: Comparison) -> Finding | None:
    """Find what forward keeps on self, where a new module does what one used before does not."""
    mine, _ = pair.build()
    before = {**vars(mine), **dict(mine.named_buffers())}
    sizes = finding.facts.get("sizes", {})
    if finding.code != "state":
        if finding.step not in ("error", "result") or not {"b", "num_tokens"} <= {*sizes}:
            return None
        x = draw(sizes["b"], sizes["num_tokens"], pair.d_in(), seed=1)
        try:
            pair.run(pair.build()[0], x)
        except FaultFound:
            return None
    try:
        run(mine, pair.usual_x())
    except FaultFound:
        return None
    after = {**vars(mine), **dict(mine.named_buffers())}
    for name, value in after.items():
        if before.get(name) is not value or isinstance(value, list):
            line = pair.text.line_with(rf"self\.{name}\b", "__init__")
            return Finding("state.kept", line or finding.line, {"name": name})
    return None


def difference_before_an_error(finding: Finding, pair: Comparison) -> Finding | None:
    """Find the line at which forward already differed when an error stopped it."""
    if finding.step != "error" or finding.line is None:
        return None
    labeled = pair.usual_run(stopped=True)
    found = first_difference_before_an_error(labeled) if labeled is not None else None
    # a line that splits, turns and multiplies says by its error what does not fit
    return None if found is None or found.line == finding.line else found


def mask_of_another_size(finding: Finding, pair: Comparison) -> Finding | None:
    """Find the line that made a mask whose size is not that of the scores."""
    if finding.code != "error.shapes" or finding.facts["sizes"].get("num_tokens", 1) == 1:
        return None
    sizes, met = finding.facts["sizes"], finding.facts["shapes"].values()
    mine, _ = pair.build(context_length=sizes["context_length"])
    x = draw(sizes["b"], sizes["num_tokens"], pair.d_in(), seed=1)
    recording, _ = pair.record(mine, x)
    from_x = {recording.number_of(x)}
    refused = {*re.findall(r"\d+", finding.facts["message"])} - {str(sizes["num_tokens"])}
    wrong: list[Operation] = []
    for made in recording.operations:
        shape = tuple(made.values.shape)
        if from_x.intersection(made.parents):
            from_x.add(made.number)
        elif made.line and len(shape) > 1 and shape in met and str(shape[-1]) in refused:
            wrong = [made] if made.name in DRAWS or not wrong else wrong
    if not wrong:
        return None
    facts = {"have": tuple(wrong[0].values.shape), "num_tokens": sizes["num_tokens"]}
    return Finding("mask.length", wrong[0].line, facts)


def dropout_of_the_constructor(finding: Finding, pair: Comparison) -> Finding | None:
    """Find a dropout layer that is made with another share, or is another layer."""
    if finding.step != "dropout":
        return None
    mine, _ = pair.build(dropout=DROPOUT)
    drops = {n: m for n, m in mine.named_modules() if isinstance(m, _DropoutNd)}
    wrong = [name for name, m in drops.items() if m.p != DROPOUT or type(m) is not nn.Dropout]
    if not wrong:
        return None
    path = wrong[0].split(".")
    line = pair.text.line_with(rf"self\.{path[-1]}\b[^=]*=(?!=)")
    return finding.at(line or pair.line_of_parameter(path[0]))


def reason_of_the_shape(finding: Finding, pair: Comparison) -> Finding | None:
    """Find why a result has another shape."""
    labeled = pair.usual_run() if finding.code == "result.shape" else None
    found = shape_of_the_result(labeled) if labeled is not None else None
    if found is None:
        return None
    return found.knowing(**{name: finding.facts[name] for name in ("have", "want", "sizes")})


def end_of_forward(finding: Finding, pair: Comparison) -> Finding | None:
    """Tell of what is missing at the end of forward there."""
    if finding.code not in ("out_proj.missing", "result.type"):
        return None
    owner = finding.line.function if finding.line else pair.text.forward
    line: SourceLine | None = pair.text.last_line(f"{owner.rpartition('.')[0]}.forward")
    return line and finding.at(line)


RULES: tuple[Rule, ...] = (
    written_in_place,
    dropout_of_the_constructor,
    tensor_kept_on_self,
    number_on_self,
    number_of_the_notebook,
    reason_of_the_shape,
    mask_of_another_size,
    difference_before_an_error,
    end_of_forward,
)

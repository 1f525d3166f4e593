"""A cause that lies before the line at which a fault shows.

A wrong size on self is told only after it was replaced by the right one, and forward then gave the
right result. The other rules read the recording of a run.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from typing import Any

from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from attncourse.checks.diagnosis.comparison import DROPOUT, Comparison, close
from attncourse.checks.diagnosis.first_difference import first_difference_before_an_error
from attncourse.checks.findings import Finding
from attncourse.checks.safe_run import FaultFound, run

Rule = Callable[[Finding, Comparison], Finding | None]
# Steps of findings that a wrong number may cause
OF_NUMBERS = {"error", "result", "split", "merge", "order", "length", "wrong", "changed"}
OF_NUMBERS |= {"mask", "scores"}


def root_cause(finding: Finding, pair: Comparison) -> Finding:
    """Return what a rule knows more of a finding, or the finding itself."""
    if finding.code in ("error.recursion", "time"):
        return finding  # each further run takes long
    known = (more for rule in RULES if (more := rule(finding, pair)) is not None)
    return next(known, finding)


def written_in_place(finding: Finding, pair: Comparison) -> Finding | None:
    """Find the line that wrote into x."""
    if finding.code != "x.in-place":
        return None
    mine, ours = pair.build()
    x = pair.usual_x()
    recording, _ = pair.record(mine, x, pair.random_weights(ours))
    of_x = [o.number for o in recording.operations if o.given and o.name == "x"]
    for made in recording.operations:
        in_place = made.name.endswith("_") or made.name.startswith("i")
        if made.line and in_place and of_x and made.parents[:1] == (of_x[0],):
            return finding.at(made.line)
    return None


def number_on_self(finding: Finding, pair: Comparison) -> Finding | None:
    """Find an int on self that makes forward right once it is replaced by another size."""
    if finding.step not in OF_NUMBERS:
        return None
    mine, ours = pair.build()
    parts = [vars(part) for part in mine.modules() if "torch" not in type(part).__module__]
    numbers = {n: v for part in parts for n, v in part.items() if type(v) is int and n[0] != "_"}
    for name, have in numbers.items():
        held = [part for part in parts if part.get(name) == have]  # in all heads of a stack
        want = _right_number(pair, mine, ours, held, name)
        if want is not None:
            line = pair.text.line_with(rf"self\.{name}\b[^=]*=(?!=)")
            line = line or pair.line_of_parameter(next(iter(dict(mine.named_parameters()))))
            facts = {"name": f"self.{name}", "have": have, "want": want, "sizes": pair.sizes()}
            return Finding("size.wrong", line, facts)
    return None


def _right_number(
    pair: Comparison,
    mine: nn.Module,
    ours: nn.Module,
    held: Sequence[MutableMapping[str, Any]],
    name: str,
) -> int | None:
    """Return the size in place of a number with which forward is right, if there is one."""
    weights, x, have = pair.random_weights(ours), pair.usual_x(), held[0][name]
    want, sizes = run(ours, x, weights), pair.sizes()

    def is_right(number: int) -> bool:
        for one in held:
            one[name] = number
        with suppress(FaultFound):
            return close(pair.run(mine, x, weights), want, 1e-4)
        return False

    likely = [sizes[name]] if name in sizes else []
    # a number of the module cannot depend on the number of sequences or of tokens
    others = [n for size, n in sizes.items() if size not in ("b", "num_tokens")]
    try:
        numbers = [] if is_right(have) else [n for n in (*likely, *others) if n != have]
        return next(filter(is_right, numbers), None)
    finally:
        for one in held:
            one[name] = have


def difference_before_an_error(finding: Finding, pair: Comparison) -> Finding | None:
    """Find the line at which forward already differed when an error stopped it."""
    if finding.step != "error" or finding.line is None:
        return None
    labeled = pair.usual_run(stopped=True)
    found = first_difference_before_an_error(labeled) if labeled is not None else None
    # a line that splits, turns and multiplies says by its error what does not fit
    return None if found is None or found.line == finding.line else found


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


def end_of_forward(finding: Finding, pair: Comparison) -> Finding | None:
    """Tell of what is missing at the end of forward there."""
    if finding.code not in ("out_proj.missing", "result.type") or not pair.text.forward:
        return None
    return finding.at(pair.text.last_line(pair.text.forward))


RULES: tuple[Rule, ...] = (
    written_in_place,
    dropout_of_the_constructor,
    number_on_self,
    difference_before_an_error,
    end_of_forward,
)

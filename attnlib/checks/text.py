"""What the text of a learner's class shows: where a value was made, and slips that need no run.

A run finds the operation that goes wrong. What it used may come from elsewhere: a number from
__init__, a mask from a loop, an argument from a call. Here are the lines of those.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import NamedTuple

from attnlib.tracing.operations import Line
from attnlib.tracing.tracer import statements_of, text_of

NUMBERS = re.compile(
    r"scale|factor|temper|norm|inv|^d_?k$|head_?(dim|size|width)|d_?head|^h[sd]$|d_out|width|dim$"
)
FACTORS = re.compile(r"scale|factor|temper|norm|inv")
FUTURE = re.compile(r"future|hidden|hide|forbid|block|upper|later")
VISIBLE = re.compile(r"visible|may|keep|allow|causal|see|look|past|lower|tril")
KEYS = re.compile(r"^k\d?$|^ks?_|key|_k$")
ROLES = {
    "query": (r"^(q|quer)", r"W_query|\bq(uer)?"),
    "key": (r"^k", r"W_key|\bk(ey)?"),
    "value": (r"^v", r"W_value|\bv(al)?"),
}


class Slip(NamedTuple):
    """Something that is wrong whenever a run shows that something is."""

    code: str
    cause: str
    line: Line


class Text:
    """The text of some functions.

    Args:
        functions: a learner's own; what has no source is left out.
    """

    def __init__(self, functions: Iterable[FunctionType]) -> None:
        self.trees: dict[str, ast.FunctionDef] = {}
        self._codes = {}
        for function in functions:
            code = function.__code__
            name, _ = statements_of(code)
            try:
                tree = ast.parse(text_of(code))
            except (OSError, SyntaxError):
                continue
            if tree.body and isinstance(tree.body[0], ast.FunctionDef) and name not in self.trees:
                self.trees[name] = tree.body[0]
                self._codes[name] = code

    def line_of(self, function: str, node: ast.AST) -> Line | None:
        """Return the line of a node in a function."""
        statement = statements_of(self._codes[function])[1].get(getattr(node, "lineno", 0))
        return Line(function, statement.line, statement.text) if statement else None

    def statement(self, line: Line) -> ast.stmt | None:
        """Return the innermost statement at a line."""
        tree = self.trees.get(line.function)
        found = [
            node
            for node in (ast.walk(tree) if tree else ())
            if isinstance(node, ast.stmt) and node.lineno == line.number
        ]
        return found[-1] if found else None

    def origin(self, code: str, line: Line) -> Line | None:
        """Return the line that made the value with which a line goes wrong.

        Args:
            code: of the fault, which says what kind of value matters.
            line: where the run left the path.

        Returns:
            None if the line itself is all there is to say.
        """
        statement = self.statement(line)
        if statement is None:
            return None
        if code.startswith(("parts.", "scores.")):
            return self._call_out_of_order(line.function)
        if code == "scale.none":
            return self._never_read(line.function)
        if code.startswith("scale."):
            names_a_width = not code.endswith(("no-root", "half", "times", "one-side", "sign"))
            made = self._of_names(line, statement, NUMBERS if names_a_width else FACTORS)
            right = made and code == "scale.no-root" and re.search(r"\*\*|sqrt", made.text)
            return None if right else made
        if code == "mask.inverted":
            made = self._of_names(line, statement, FUTURE)
            used = ast.unparse(statement)
            if made is not None:
                return None if "~" in used else made
            if "where(~" in used:
                return None
            name = re.search(r"where\((\w+),|~\(?([\w.]+)|([\w.]+)(\[[^]]*\])? == (0|False)", used)
            called = next((part for part in name.groups()[:3] if part), "") if name else ""
            return self.assigned(line, called) if VISIBLE.search(called) else None
        if code == "mask.rows":
            names = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
            named = [name for name in sorted(names) if KEYS.search(name)]
            return self.assigned(line, named[0], True) if len(named) == 1 else None
        if code == "mask.empty":
            return self._cut_of(line, statement)
        if code in ("merge.order", "context_vec.order", "merge.some-heads"):
            return self.turned_loop(line)
        if code.startswith("dropout"):
            made = self._of_keyword(line, statement, ("dropout_p", "p"))
            if made is not None:
                return made if made.function == line.function else None
            return None if code == "dropout.eval" else self._other_layer(statement)
        return None

    def _of_names(self, line: Line, statement: ast.stmt, fits: re.Pattern[str]) -> Line | None:
        """Return the assignment of the one name in a statement that fits, if it computes."""
        reads = {
            ast.unparse(node)
            for node in ast.walk(statement)
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load)
        }
        names = [name for name in reads if fits.search(name.removeprefix("self."))]
        return self.assigned(line, names[0]) if len(names) == 1 else None

    def _other_layer(self, statement: ast.stmt) -> Line | None:
        """Return the line that makes a layer which drops, if it is not nn.Dropout(dropout)."""
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("self."):
                for function, made in self.assignments(ast.unparse(node.func)):
                    text = ast.unparse(made.value)
                    if "Dropout" in text and not re.search(r"\bDropout\((p=)?dropout\)", text):
                        return self.line_of(function, made)
        return None

    def _cut_of(self, line: Line, statement: ast.stmt) -> Line | None:
        """Return the line that cuts the mask which a statement uses."""
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                made = self.assigned(line, node.id)
                if made is not None and re.search(r"self\.\w+\[", made.text):
                    return made
        return None

    def _of_keyword(self, line: Line, statement: ast.stmt, words: tuple[str, ...]) -> Line | None:
        for node in ast.walk(statement):
            if isinstance(node, ast.keyword) and node.arg in words:
                return self.assigned(line, ast.unparse(node.value), True)
        return None

    def assigned(self, line: Line, name: str, also_names: bool = False) -> Line | None:
        """Return the last assignment of a variable before a line, or of an attribute."""
        owner = line.function.rpartition(".")[0]
        last = None
        for function, tree in self.trees.items():
            own = function == line.function
            if not own and not (name.startswith("self.") and function == f"{owner}.__init__"):
                continue
            for node in ast.walk(tree):
                if _registers(node, name):
                    last = self.line_of(function, node)
                if not isinstance(node, ast.Assign) or (own and node.lineno >= line.number):
                    continue
                if name not in [ast.unparse(target) for target in node.targets]:
                    continue
                given_on = ast.unparse(node.value) == name.removeprefix("self.")
                if given_on and not also_names:
                    continue
                last = self.line_of(function, node)
        return last

    def assignments(self, name: str) -> list[tuple[str, ast.Assign]]:
        """Return all assignments of a name or an attribute, with their functions."""
        return [
            (function, node)
            for function, tree in self.trees.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            and name in [ast.unparse(target) for target in node.targets]
        ]

    def uses_value_of(self, name: str) -> bool:
        """Return whether somewhere the value of a function is used, and not only called."""
        alone = {
            id(node.value)
            for tree in self.trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr)
        }
        return any(
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in (name, f"self.{name}")
            and id(node) not in alone
            for tree in self.trees.values()
            for node in ast.walk(tree)
        )

    def line_of_origin(self, code: str, line: Line | None) -> Line | None:
        """Return the line that made a value, or the line itself."""
        return (line and self.origin(code, line)) or line

    def maker_of_a_size(self, line: Line, said: str) -> Line | None:
        """Return the line that made a size or a mask which does not fit at another line."""
        statement = self.statement(line)
        if statement is None:
            return None
        if "is invalid for input of size" in said:
            names = {
                ast.unparse(n)
                for n in ast.walk(statement)
                if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Load)
            }
            made = [m for name in sorted(names) if (m := self.assigned(line, name)) is not None]
            wrong = [m for m in made if re.search(r"=.*(d_in|context_length)|= \d+$", m.text)]
            return wrong[0] if len(wrong) == 1 else None
        if re.search(r"must be int|integers|as an integer", said):
            halves = [
                divided
                for function, tree in self.trees.items()
                for node in ast.walk(tree)
                if isinstance(node, ast.Assign)
                and isinstance(node.value, ast.BinOp)
                and isinstance(node.value.op, ast.Div)
                and re.search("head|^h$", ast.unparse(node.value.right))
                and (divided := self.line_of(function, node)) is not None
            ]
            return halves[0] if len(halves) == 1 else None
        if "must match" in said:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    met = re.search(rf"\b{node.id} \((\w+), (\w+)\)", said)
                    filled = self.assigned(line, node.id)
                    if met and filled and met[1] == met[2] != "num_tokens":
                        return filled
        return None

    def without_gradient(self) -> Line | None:
        """Return a decorator that cuts off the gradients of a function."""
        for function, tree in self.trees.items():
            for decorator in tree.decorator_list:
                text = f"@{ast.unparse(decorator)}"
                if "no_grad" in text or "inference" in text:
                    return Line(function, decorator.lineno, text)
        return None

    def last_line(self, function: str) -> Line | None:
        """Return the last statement of a function."""
        tree = self.trees.get(function)
        return self.line_of(function, tree.body[-1]) if tree is not None else None

    def turned_loop(self, line: Line) -> Line | None:
        """Return a loop that goes backwards, in the function of a line."""
        for node in ast.walk(self.trees.get(line.function, ast.Module([], []))):
            if isinstance(node, (ast.For, ast.comprehension)) and re.search(
                r"reversed\(|\[::-1\]|, -1\)|- 1\)|\[:-1\]|\[1:\]", ast.unparse(node.iter)
            ):
                return self.line_of(line.function, node if isinstance(node, ast.For) else node.iter)
            if isinstance(node, (ast.Expr, ast.Assign)) and re.search(
                r"\.insert\(0,|heads\[-?\d+\]\(", ast.unparse(node)
            ):
                return self.line_of(line.function, node)
        return None

    def loop_of_tokens(self, said: str) -> Line | None:
        """Return the loop over the tokens, where a result has too few or too many of them."""
        shapes = re.findall(r"\((\d+), (\d+), (\d+)\)", said)
        if len(shapes) != 2 or shapes[0][1] == shapes[1][1] or shapes[0][::2] != shapes[1][::2]:
            return None
        loops = [
            (function, node)
            for function, tree in self.trees.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.For) and "range(" in ast.unparse(node.iter)
        ]
        return self.line_of(*loops[0]) if len(loops) == 1 else None

    def _never_read(self, function: str) -> Line | None:
        """Return the one line that divides into a variable that nothing reads."""
        tree = self.trees[function]
        reads = {
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.BinOp)
                and isinstance(node.value.op, (ast.Div, ast.Mult))
                and all(isinstance(t, ast.Name) and t.id not in reads for t in node.targets)
            ):
                return self.line_of(function, node)
        return None

    def _call_out_of_order(self, function: str) -> Line | None:
        """Return the call that hands a helper its own names in another order."""
        owner, _, method = function.rpartition(".")
        own = [arg.arg for arg in self.trees[function].args.args if arg.arg != "self"]
        for caller, tree in self.trees.items():
            if caller == function or caller.rpartition(".")[0] != owner:
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == f"self.{method}":
                    given = [ast.unparse(arg) for arg in node.args]
                    if any(_role_of(*pair) for pair in zip(own, given, strict=False)):
                        return self.line_of(caller, node)
                    common = [name for name in given if name in own]
                    if len(common) > 1 and common != [name for name in own if name in common]:
                        return self.line_of(caller, node)
        return None

    def loop_of(self, line: Line) -> Line | None:
        """Return the innermost loop around a line, if its bounds are more than a plain count.

        Where mask[j, i] is set with the outer loop's variable last, that is the line itself.
        """
        loops = [
            node
            for node in ast.walk(self.trees.get(line.function, ast.Module([], [])))
            if isinstance(node, ast.For) and node.lineno < line.number <= (node.end_lineno or 0)
        ]
        statement = self.statement(line)
        if not loops or not isinstance(statement, ast.Assign):
            return None
        used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        loops = [
            loop
            for loop in loops
            if used & {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
        ]
        if not loops:
            return None
        inner = loops[-1]
        if len(loops) > 1 and isinstance(statement.targets[0], ast.Subscript):
            order = [ast.unparse(loop.target) for loop in loops[-2:]]
            place = statement.targets[0].slice
            if isinstance(place, ast.Tuple) and [ast.unparse(p) for p in place.elts] == order[::-1]:
                return None
        bounds = inner.iter.args if isinstance(inner.iter, ast.Call) else []
        plain = len(bounds) == 1 and isinstance(bounds[0], (ast.Name, ast.Attribute, ast.Subscript))
        return None if plain and len(loops) == 1 else self.line_of(line.function, inner)

    def slip(self) -> Slip | None:
        """Return what a loop over heads or tokens shows: a return, a fresh list, a chain."""
        return next((slip for name in self.trees for slip in self._slips(name)), None)

    def _slips(self, function: str) -> Iterator[Slip]:
        loops = [
            node
            for node in ast.walk(self.trees[function])
            if isinstance(node, (ast.For, ast.While))
        ]
        for loop in loops:
            for code, cause, node in (*_returns(loop), *_fresh_lists(loop), *_chains(loop)):
                line = self.line_of(function, node)
                if line is not None:
                    yield Slip(code, cause, line)


def _registers(node: ast.AST, name: str) -> bool:
    """Return whether a node registers a buffer of this name."""
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "self.register_buffer"
        and bool(node.args)
        and ast.unparse(node.args[0]).strip("'\"") == name.removeprefix("self.")
    )


def _role_of(parameter: str, given: str) -> bool:
    """Return whether an argument is a query, a key or a value, and its parameter another."""
    for role, (called, _) in ROLES.items():
        if re.search(called, parameter):
            others = [made for other, (_, made) in ROLES.items() if other != role]
            return not re.search(ROLES[role][1], given) and any(
                re.search(made, given) for made in others
            )
    return False


Said = Iterator[tuple[str, str, ast.AST]]


def _returns(loop: ast.For | ast.While) -> Said:
    if isinstance(loop.body[-1], ast.Return):
        cause = "The return stands in the loop, and ends it after its first round: indent it less."
        yield "loop.return", cause, loop.body[-1]


def _fresh_lists(loop: ast.For | ast.While) -> Said:
    for node in loop.body:
        if not isinstance(node, ast.Assign) or ast.unparse(node.value) not in ("[]", "list()"):
            continue
        name = ast.unparse(node.targets[0])
        if any(
            ast.unparse(n.func) == f"{name}.append"
            for step in loop.body
            if isinstance(step, ast.Expr)
            for n in ast.walk(step)
            if isinstance(n, ast.Call)
        ):
            cause = (
                f"{name} is made anew in each round of the loop, so only the last round is left: "
                "make it before the loop."
            )
            yield "loop.list", cause, node


def _chains(loop: ast.For | ast.While) -> Said:
    """Find a loop's own head that takes what the round before has made."""
    heads = {ast.unparse(n) for n in ast.walk(loop.target)} if isinstance(loop, ast.For) else set()
    for node in loop.body:
        if not isinstance(node, ast.Assign):
            continue
        made = ast.unparse(node.targets[0])
        for call in ast.walk(node.value):
            if (
                isinstance(call, ast.Call)
                and ast.unparse(call.func) in heads
                and made in [ast.unparse(arg) for arg in call.args]
            ):
                cause = (
                    f"Each head takes {made} as the head before has left it: all heads take the "
                    "same x, and their results stand side by side."
                )
                yield "heads.chained", cause, node

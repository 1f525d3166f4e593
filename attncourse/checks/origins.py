"""Where a value was made that goes wrong elsewhere: a number, a mask, a bound, an argument."""

from __future__ import annotations

import ast
import re

from attncourse.checks.text import FUTURE, VISIBLE, Text
from attncourse.tracing.operations import Line

NUMBERS = re.compile(
    r"scale|factor|temper|norm|inv|^d_?k$|head_?(dim|size|width)|d_?head|^h[sd]$|d_out|width|dim$"
)
FACTORS = re.compile(r"scale|factor|temper|norm|inv")
KEYS = re.compile(r"^k\d?$|^ks?_|key|_k$")
ROLES = {
    "query": (r"^(q|quer)", r"W_query|\bq(uer)?"),
    "key": (r"^k", r"W_key|\bk(ey)?"),
    "value": (r"^v", r"W_value|\bv(al)?"),
}


WHOLE = re.compile(r"^x\.(shape|size\(\))$")
CUTS = {"narrow", "select", "index_select", "slice"}


class Origins(Text):
    """The text of some functions, read back from the line at which a run went wrong."""

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
            return self._call_out_of_order(line.function) or self._handed_out(line, statement)
        if code in ("split.missing", "result.unwritten", "values.one"):
            return self._bound(line, statement, alone=code != "result.unwritten")
        if code == "projection.bias":
            return self._bias_of(line, statement)
        if code == "scale.none":
            return self._never_read(line.function)
        if code == "scale" and not _multiplies(statement, FACTORS):
            return self._of_names(line, statement, FACTORS)
        if code.startswith("scale."):
            names_a_width = not code.endswith(("no-root", "half", "times", "one-side", "sign"))
            made = self._of_names(line, statement, NUMBERS if names_a_width else FACTORS)
            if made is not None and code == "scale.times" and _multiplies(statement, FACTORS):
                return None
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
            cuts = (n.value for n in ast.walk(statement) if isinstance(n, ast.Subscript))
            if any(KEYS.search(ast.unparse(cut)) for cut in cuts):
                return None
            names = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
            named = [name for name in sorted(names) if KEYS.search(name)]
            return self.assigned(line, named[0], True) if len(named) == 1 else None
        if code == "mask.cut":
            return self._size_of_a_cut(line, statement)
        if code == "mask.empty":
            return self._cut_of(line, statement)
        if code in ("merge.order", "context_vec.order", "merge.some-heads"):
            return self.turned_loop(line)
        if code.startswith("dropout"):
            if code == "dropout.eval" and (told := self._told_by_a_call(line, statement)):
                return told
            made = self._of_keyword(line, statement, ("dropout_p", "p"))
            if made is not None:
                computes = not re.search(r"=\s*dropout$", made.text)
                here = made.function == line.function
                return made if here or (computes and code != "dropout.eval") else None
            return None if code == "dropout.eval" else self._other_layer(statement)
        return None

    def _bound(self, line: Line, statement: ast.stmt, alone: bool) -> Line | None:
        """Return the assignment of a bound between which a statement cuts or writes."""
        named: list[str] = []
        for node in ast.walk(statement):
            parts: list[ast.AST | None] = []
            if isinstance(node, ast.Slice):
                parts = [node.lower, node.upper]
            elif isinstance(node, ast.Subscript) and isinstance(node.slice, (ast.Name, ast.Tuple)):
                whole = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                parts = [part for part in whole if isinstance(part, ast.Name)]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                parts = list(node.args) if node.func.attr in CUTS else []
            named += [
                n.id for part in parts if part for n in ast.walk(part) if isinstance(n, ast.Name)
            ]
        made = [pair for name in dict.fromkeys(named) for pair in self._own(line, name)]
        suspects = [pair for pair in made if isinstance(pair[1].value, ast.Name)]
        suspects = suspects or [
            pair for pair in made if re.search(r"[-+] \d\b|\(h \+|//", ast.unparse(pair[1].value))
        ]
        suspects = suspects or (made if alone and len(made) == 1 else [])
        return self.line_of(*suspects[0]) if suspects else None

    def _size_of_a_cut(self, line: Line, statement: ast.stmt) -> Line | None:
        """Return the line that unpacks a size by which a statement cuts, from the wrong place."""
        for node in ast.walk(statement):
            if not isinstance(node, ast.Slice) or not isinstance(node.upper, ast.Name):
                continue
            name = node.upper.id
            made = self.unpacked(line.function, name)
            if made is None:
                plain = self.assigned(line, name)
                return plain if plain and "context_length" in plain.text else None
            assignment, place = made
            value = assignment.value
            told = value.elts[place] if isinstance(value, ast.Tuple) else None
            whole = WHOLE.search(ast.unparse(value))
            wrong_place = whole and place != 1 and not name.lower().startswith("b")
            if wrong_place or (told is not None and "context" in ast.unparse(told)):
                return self.line_of(line.function, assignment)
        return None

    def width_of_x(self, line: Line, said: str) -> Line | None:
        """Return the line that takes the width of x, where a view uses it as another width."""
        statement = self.statement(line)
        if statement is None or "is invalid for input of size" not in said:
            return None
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                made = self.unpacked(line.function, node.id)
                if made is not None and made[1] == 2 and WHOLE.search(ast.unparse(made[0].value)):
                    return self.line_of(line.function, made[0])
        return None

    def _own(self, line: Line, name: str) -> list[tuple[str, ast.Assign]]:
        """Return the assignments of a variable in the function of a line, before it."""
        return [
            (function, node)
            for function, node in self.assignments(name)
            if function == line.function and node.lineno < line.number
        ]

    def _bias_of(self, line: Line, statement: ast.stmt) -> Line | None:
        """Return the line that says what F.linear gets as its bias."""
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("linear"):
                bias = [k.value for k in node.keywords if k.arg == "bias"] + node.args[2:3]
                if bias and isinstance(bias[0], ast.Name):
                    return self.assigned(line, bias[0].id)
        return None

    def _told_by_a_call(self, line: Line, statement: ast.stmt) -> Line | None:
        """Return the call that tells a helper to be in training, whatever the mode is."""
        tree = self.trees.get(line.function)
        own = [arg.arg for arg in tree.args.args if arg.arg != "self"] if tree else []
        for node in ast.walk(statement):
            if not (isinstance(node, ast.keyword) and node.arg == "training"):
                continue
            if not isinstance(node.value, ast.Name) or node.value.id not in own:
                continue
            for caller, call in self.callers(line.function):
                given = dict(zip(own, call.args, strict=False))
                given.update({k.arg: k.value for k in call.keywords if k.arg})
                told = given.get(node.value.id)
                if told is None or isinstance(told, ast.Constant):
                    return self.line_of(caller, call)
        return None

    def _handed_out(self, line: Line, statement: ast.stmt) -> Line | None:
        """Return the return of a helper that hands queries, keys, values out in another order."""
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            return None
        called = ast.unparse(statement.value.func).removeprefix("self.")
        targets = statement.targets[0]
        names = [ast.unparse(t) for t in targets.elts] if isinstance(targets, ast.Tuple) else []
        if [_part(name, 0) for name in names] != ["query", "key", "value"]:
            return None
        for function, tree in self.trees.items():
            if function.rpartition(".")[2] != called:
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
                    parts = [_part(ast.unparse(part), 1) for part in node.value.elts]
                    if None not in parts and parts != ["query", "key", "value"]:
                        return self.line_of(function, node)
            projects = r"(self\.)?\w*(W_?q|W_?k|W_?v|query|key|value|[qkv]_proj)\w*\(\w+\)"
            return self.line_that_fits(function, projects)
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
                if made is not None and re.search(r"self\.[\w.()]+\[", made.text):
                    return made
        return None

    def _of_keyword(self, line: Line, statement: ast.stmt, words: tuple[str, ...]) -> Line | None:
        for node in ast.walk(statement):
            if isinstance(node, ast.keyword) and node.arg in words:
                return self.assigned(line, ast.unparse(node.value), True)
        return None

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
            if not wrong and "d_in" in said.partition("Shapes there")[2]:
                return None
            return wrong[0] if len(wrong) == 1 else None
        if re.search(r"must be int|integers|as an integer|got float", said):
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

    def turned_loop(self, line: Line) -> Line | None:
        """Return a loop that goes backwards, in the function of a line."""
        for node in ast.walk(self.trees.get(line.function, ast.Module([], []))):
            if isinstance(node, (ast.For, ast.comprehension)) and re.search(
                r"reversed\(|\[::-1\]|, -1\)|- 1\)|\[:-1\]|\[1:\]|range\(1,", ast.unparse(node.iter)
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

    def step_of(self, line: Line) -> Line | None:
        """Return what makes the while around a line begin late, or leave rounds out."""
        for loop in ast.walk(self.trees.get(line.function, ast.Module([], []))):
            if not isinstance(loop, ast.While):
                continue
            if not loop.lineno < line.number <= (loop.end_lineno or 0):
                continue
            counters = {node.id for node in ast.walk(loop.test) if isinstance(node, ast.Name)}
            for node in ast.walk(loop):
                if isinstance(node, ast.AugAssign) and ast.unparse(node.target) in counters:
                    if ast.unparse(node.value) != "1":
                        return self.line_of(line.function, node)
                    begins = self._own(line, ast.unparse(node.target))
                    if begins and ast.unparse(begins[0][1].value) != "0":
                        return self.line_of(*begins[0])
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
        if any(isinstance(n, ast.Slice) for n in ast.walk(loops[-1].iter)):
            return self.line_of(line.function, loops[-1])
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


def _role_of(parameter: str, given: str) -> bool:
    """Return whether an argument is a query, a key or a value, and its parameter another."""
    for role, (called, _) in ROLES.items():
        if re.search(called, parameter):
            others = [made for other, (_, made) in ROLES.items() if other != role]
            return not re.search(ROLES[role][1], given) and any(
                re.search(made, given) for made in others
            )
    return False


def _part(text: str, which: int) -> str | None:
    """Return whether a text names queries, keys or values: as a variable, or what makes them."""
    found = [role for role, words in ROLES.items() if re.search(words[which], text)]
    return found[0] if len(found) == 1 else None


def _multiplies(statement: ast.stmt, fits: re.Pattern[str]) -> bool:
    """Return whether a statement multiplies by a name that fits, with *."""
    return any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mult)
        and any(fits.search(ast.unparse(side)) for side in (node.left, node.right))
        for node in ast.walk(statement)
    )

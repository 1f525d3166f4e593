"""Slips that the text of a class shows once a run has failed: where an error really comes from.

An error is raised where a wrong value is used. Here the text is read back from there: to a helper
without return, a layer that is a number, a sum that drops its dimension, arguments that changed
places on their way into a head.
"""

from __future__ import annotations

import ast
import difflib
import itertools
import re
from collections.abc import Iterator

from attncourse.checks.pair import HEAD_DIM, NUM_HEADS
from attncourse.checks.text import ROLES, Slip, Text
from attncourse.tracing.operations import Line

REDUCES = {"sum", "mean", "amax", "max", "norm", "logsumexp", "prod", "min", "amin"}
FILLS = {"ones", "zeros", "full", "arange", "tensor", "empty", "eye", "linspace", "Tensor"}
FILLS |= {"FloatTensor", "tri", "triu", "tril"}
TRANSPOSED = re.compile(r"\.(m?T|t\(\)|transpose\(.*\))$")
HIDING = re.compile(r"mask|-\s*(torch\.|math\.|np\.)?inf|[\"']-inf[\"']|tri[ul]\b")


def slip_of_an_error(text: Text, line: Line, said: str) -> Slip | None:
    """Return what the text shows of an error that was raised at a line.

    Args:
        text: of the learner's class.
        line: where it was raised.
        said: the error.
    """
    statement = text.statement(line)
    if statement is None:
        return None
    if "NoneType" in said:
        return _helper_without_return(text, line, statement)
    if "is not callable" in said:
        return _called_no_layer(text, line, statement)
    if re.search("expected Tensor as element|Tensors, not ModuleList", said):
        return _collected_layers(text, line) or _joined_layers(line, statement)
    if "[ModuleList] is missing" in said:
        return _called_list(text, line, statement)
    if re.search("must match the size|Dimension out of range|Expected size", said):
        slip = _without_heads(line, said)
        if slip is not None:
            return slip
    if "cannot be multiplied" in said:
        return _projected_twice(text, line, statement)
    if re.search(r"must match the size|must match the existing|broadcast", said):
        return _dropped_dimension(text, line, statement)
    return None


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls in a piece of text."""
    return (n for n in ast.walk(node) if isinstance(n, ast.Call))


def _helper_without_return(text: Text, line: Line, statement: ast.stmt) -> Slip | None:
    """Find a function of the learner's whose value is used and which returns none."""
    for function, tree in text.trees.items():
        name = function.rpartition(".")[2]
        if name.startswith("__"):
            continue
        returns = [n for n in _own_nodes(tree) if isinstance(n, ast.Return) and n.value is not None]
        yields = any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in _own_nodes(tree))
        if returns or yields or not text.uses_value_of(name):
            continue
        last = text.line_of(function, tree.body[-1])
        if last is not None:
            return Slip(
                "helper.none",
                f"{name} returns None: its last line computes something and drops it. End it with "
                "return.",
                last,
            )
    return None


def _own_nodes(tree: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the nodes of a function, and not those of functions inside it."""
    new: list[ast.AST] = list(tree.body)
    while new:
        node = new.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            new.extend(ast.iter_child_nodes(node))


def _called_no_layer(text: Text, line: Line, statement: ast.stmt) -> Slip | None:
    """Find the line of __init__ that keeps a number where a layer is called."""
    for call in calls_in(statement):
        called = ast.unparse(call.func)
        if not called.startswith("self.") or called.count(".") != 1:
            continue
        for function, node in text.assignments(called):
            if not isinstance(node.value, ast.Call):
                made = text.line_of(function, node)
                if made is not None:
                    return Slip(
                        "layer.none",
                        f"{called} is {ast.unparse(node.value)} itself, which is not a layer, and "
                        "forward calls it: make a layer of it, such as nn.Dropout(dropout).",
                        made,
                    )
    return None


def _collected_layers(text: Text, line: Line) -> Slip | None:
    """Find a loop over heads that collects the heads, and not what they make."""
    for loop in ast.walk(text.trees.get(line.function, ast.Module([], []))):
        if not isinstance(loop, ast.For):
            continue
        targets = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
        for call in calls_in(loop):
            collects = isinstance(call.func, ast.Attribute) and call.func.attr == "append"
            if collects and len(call.args) == 1 and ast.unparse(call.args[0]) in targets:
                where = text.line_of(line.function, call)
                name = ast.unparse(call.args[0])
                if where is not None:
                    cause = f"{name} itself is collected here, not what it makes of x: {name}(x)."
                    return Slip("heads.not-called", cause[0].upper() + cause[1:], where)
    return None


def _joined_layers(line: Line, statement: ast.stmt) -> Slip | None:
    """Find a list of the heads themselves where one of their results belongs."""
    for node in ast.walk(statement):
        inside = getattr(node, "elt", None)  # of [head for head in self.heads]
        if isinstance(inside, ast.Name):
            cause = f"The heads are joined here, not what they make of x: {inside.id}(x)."
            return Slip("heads.not-called", cause, line)
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "self.heads":
            cause = "The heads are joined here, not what they make of x: head(x) for each head."
            return Slip("heads.not-called", cause, line)
    return None


def _called_list(text: Text, line: Line, statement: ast.stmt) -> Slip | None:
    """Find the call of a list of modules, which calls none of them."""
    for call in calls_in(statement):
        called = ast.unparse(call.func)
        if any("ModuleList" in ast.unparse(made.value) for _, made in text.assignments(called)):
            cause = f"{called} is a list of {called.removeprefix('self.')}: call each of them on x."
            return Slip("heads.called", cause, line)
    return None


def _without_heads(line: Line, said: str) -> Slip | None:
    """Find queries, keys or values that should be split into heads by now, and are not."""
    _, _, shapes = said.partition("Shapes there: ")
    if "num_heads, num_tokens" not in shapes and "Dimension out of range" not in said:
        return None
    width = NUM_HEADS * HEAD_DIM  # of all heads; in a class of one head it is HEAD_DIM
    names = re.findall(rf"(\w+) \(b, num_tokens, d_out\) = \(\d+, \d+, {width}\)", shapes)
    cut = r"\[|\.(view|reshape|unflatten|split|tensor_split|chunk)\b"
    roles = [
        role
        for name in names
        for role, called in ROLES.items()
        if re.search(called, name.lower()) and not re.search(rf"\b{name}({cut})", line.text)
    ]
    if not roles:
        return None
    cause = (
        f"The {' and the '.join(roles)} are not split into heads yet: first view(b, num_tokens, "
        "num_heads, head_dim), then transpose(1, 2)."
    )
    return Slip("split.none", cause, line)


def _dropped_dimension(text: Text, line: Line, statement: ast.stmt) -> Slip | None:
    """Find a sum or a maximum along one dimension without keepdim."""
    sources: list[tuple[Line, ast.AST]] = [(line, statement)]
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            made = text.assigned(line, node.id, also_names=True)
            before = text.statement(made) if made is not None else None
            if made is not None and before is not None:
                sources.append((made, before))
    for where, tree in sources:
        if not isinstance(tree, (ast.Assign, ast.Return, ast.AugAssign, ast.Expr)):
            continue
        for call in calls_in(tree):
            if not isinstance(call.func, ast.Attribute) or call.func.attr not in REDUCES:
                continue
            keywords = {k.arg for k in call.keywords}
            module = ast.unparse(call.func.value) in {"torch", "F"}
            given = len(call.args) - (1 if module else 0)
            if "keepdim" in keywords or given > 1 or not (given or "dim" in keywords):
                continue
            return Slip(
                "keepdim",
                f"{call.func.attr} drops the dimension that it runs over, so that its numbers meet "
                "the wrong rows: add keepdim=True.",
                where,
            )
    return None


def condition_of_the_mask(text: Text) -> Slip | None:
    """Return an if around the line that hides, so that it does not always hide."""
    for function, tree in text.trees.items():
        if function.endswith("__init__"):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.If):
                continue
            body = " ".join(ast.unparse(step) for step in node.body)
            test = ast.unparse(node.test)
            if not HIDING.search(body) or re.search("raise|self.*=", body.partition("masked")[0]):
                continue
            if re.search(r"None|hasattr|self\.(?!training)", test):
                continue
            line = text.line_of(function, node)
            if line is not None:
                cause = (
                    f"the mask is used only if {test}, and otherwise nothing is hidden: each "
                    "head, in training and in eval, needs it."
                )
                return Slip("mask.sometimes", cause[0].upper() + cause[1:], line)
    return None


def _projected_twice(text: Text, line: Line, statement: ast.stmt) -> Slip | None:
    """Find a weight that is transposed for F.linear, or a projection of what a projection made."""
    for call in calls_in(statement):
        function = ast.unparse(call.func)
        weight = ast.unparse(call.args[1]) if len(call.args) > 1 else ""
        if function in {"F.linear", "nn.functional.linear"} and TRANSPOSED.search(weight):
            cause = f"F.linear transposes the weight itself, and {weight} is transposed already."
            return Slip("projection.turned", f"{cause} Pass the weight as it is.", line)
        if not re.fullmatch(r"self\.\w+", function) or len(call.args) != 1:
            continue
        given = ast.unparse(call.args[0])
        for _, made in text.assignments(given):
            before = ast.unparse(made.value)
            if re.match(r"self\.\w*(q|k|v)\w*\(x\)", before, re.IGNORECASE):
                cause = (
                    f"Here {given} is already what {before} made, and {function} projects it "
                    "again: each projection takes x itself."
                )
                return Slip("projection.chained", cause, line)
    return None


def method_never_called(text: Text) -> Slip | None:
    """Find a method that nothing calls, while one of nearly the same name is called."""
    names = {function.rpartition(".")[2] for function in text.trees}
    used = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for tree in text.trees.values()
        for node in ast.walk(tree)
        if isinstance(node, (ast.Attribute, ast.Name))
    }
    for function in text.trees:
        name = function.rpartition(".")[2]
        if name.startswith("__") or name == "forward" or name in used or "." not in function:
            continue
        others = sorted((names & used) - {name})
        near = [o for o in others if o in name or name in o]
        near = near or difflib.get_close_matches(name, others, n=1, cutoff=0.7)
        if near:
            cause = (
                f"Nothing calls {name}: what is called is {near[0]}. A method takes the place of "
                "the base class's if it has the same name."
            )
            return Slip("method.unused", cause, text.head_of(function))
    return None


def kept_in_a_default(text: Text) -> Slip | None:
    """Find an argument whose default is a dict or a list that the function writes into."""
    for function, tree in text.trees.items():
        arguments = tree.args.args[len(tree.args.args) - len(tree.args.defaults) :]
        pairs = [*zip(arguments, tree.args.defaults, strict=True)]
        pairs += [
            (a, d) for a, d in zip(tree.args.kwonlyargs, tree.args.kw_defaults, strict=True) if d
        ]
        for argument, default in pairs:
            if not isinstance(default, (ast.Dict, ast.List, ast.Set)):
                continue
            writes = rf"\b{argument.arg}(\[.*\] =|\.(append|update|setdefault|extend|add)\()"
            if re.search(writes, ast.unparse(tree)):
                cause = (
                    f"The default {ast.unparse(default)} of {argument.arg} is made once, and what "
                    "one call puts in is still there in the next, which may have other tokens: "
                    "make it anew in each call."
                )
                return Slip("state.default", cause, text.head_of(function))
    return None


def collected_after_the_loop(text: Text) -> Slip | None:
    """Find an append that comes after the loop whose parts it should collect."""
    for function, tree in text.trees.items():
        for loop, after in itertools.pairwise(tree.body):
            if not isinstance(loop, ast.For) or not isinstance(after, ast.Expr):
                continue
            made = {
                ast.unparse(target)
                for step in loop.body
                if isinstance(step, ast.Assign)
                for target in step.targets
            }
            call = after.value
            collects = isinstance(call, ast.Call) and ast.unparse(call.func).endswith(".append")
            line = text.line_of(function, after)
            if collects and line is not None and ast.unparse(call.args[0]) in made:  # type: ignore[attr-defined]
                cause = (
                    "This comes after the loop, and collects what the last round made, once: "
                    "indent it, so that each round does it."
                )
                return Slip("loop.append", cause, line)
    return None


def step_that_stands_still(text: Text, loop: Line | None) -> Slip | None:
    """Find, in an endless while, a counter that is set to the same number in each round."""
    tree = text.trees.get(loop.function) if loop is not None else None
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, ast.While) or loop is None or node.lineno != loop.number:
            continue
        counters = {n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)}
        for step in ast.walk(node):
            if not isinstance(step, ast.Assign) or ast.unparse(step.targets[0]) not in counters:
                continue
            try:
                number = ast.literal_eval(step.value)
            except ValueError:
                continue
            line = text.line_of(loop.function, step)
            if line is not None:
                name = ast.unparse(step.targets[0])
                cause = f"{name} is set to {number} in each round, and so the loop never ends: "
                return Slip("time", f"{cause}{name} += 1 counts on.", line)
    return None


def endless_loop(text: Text, line: Line | None) -> Line | None:
    """Return the while at which a run was stopped, or the only one there is."""
    loops = [
        (function, node)
        for function, tree in text.trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.While)
    ]
    for function, node in reversed(loops):
        inside = line is not None and function == line.function
        if inside and line is not None and node.lineno <= line.number <= (node.end_lineno or 0):
            return text.line_of(function, node)
    if len(loops) == 1 and line is None:
        return text.line_of(*loops[0])
    return None

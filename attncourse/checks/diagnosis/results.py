"""Why right parts give another attention in one operation, and right weights another result."""

from __future__ import annotations

import itertools
import math

import torch

from attncourse.checks.diagnosis.masks import mask_maker
from attncourse.checks.diagnosis.path import ASSIGNS, PARTS, Path, cut_at, holds, turned_at
from attncourse.checks.diagnosis.scores import scale_finding
from attncourse.checks.findings import Finding, Kind
from attncourse.tracing.operations import Operation
from attnlib.functional import attention, causal_mask

# Rules: queries, keys and values come in together, as into PyTorch's attention


def scaled_before_pytorch(path: Path, operation: Operation) -> Finding | None:
    """Tell queries or keys that are scaled before PyTorch's attention scales them too."""
    carried = math.prod(found.factor for found in path.held(operation).values())
    if abs(carried - 1) < 1e-4:
        return None
    q, k, v = (path.right(name) for name in PARTS)
    if not holds(operation.values, attention(carried * q, k, v, causal_mask(q.shape[-2]))[0]):
        return None
    for number in sorted(path.leads_here & path.from_x):
        part = path.found.get(number)
        if part and part.name in PARTS and abs(part.factor - 1) > 1e-4:
            return path.at(path.operations[number], Kind.SCALE_TWICE, name=part.name)
    return None


def another_attention(path: Path, operation: Operation) -> Finding | None:
    """Tell the order, the mask or the scale with which three right parts give this result."""
    if "attention" not in operation.name and not path.names(operation) >= set(PARTS):
        return None
    q, k, v = (path.right(name) for name in PARTS)
    ones = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool)
    masks = {
        None: ones.triu(1),
        Kind.MASK_NONE: ~ones,
        Kind.MASK_INVERTED: ones.tril(),
        Kind.MASK_PAST: ones.tril(-1),
        Kind.MASK_DIAGONAL: ones.triu(),
        Kind.MASK_LATE: ones.triu(2),
        Kind.MASK_EVERYTHING: ones,
    }
    carried = math.prod(found.factor for found in path.held(operation).values())
    for given in itertools.product(PARTS, repeat=3):
        a, b, c = map(path.right, given)
        weights = (path.root * a @ b.mT).masked_fill(masks[None], -torch.inf).softmax(dim=-1)
        if given != PARTS and any(holds(operation.values, made) for made in (weights @ c, weights)):
            return path.at(operation, Kind.PARTS_TWICE, given=given)
    others = (scale.factor for scale in path.scales)
    factors = dict.fromkeys([path.root, carried * path.root, carried, 1.0, *others])
    for factor, (kind, mask) in itertools.product(factors, masks.items()):
        weights = (factor * q @ k.mT).masked_fill(mask, -torch.inf).softmax(dim=-1)
        if not any(holds(operation.values, made) for made in (weights @ v, weights)):
            continue
        if kind is None:
            wrong = scale_finding(factor, path.root, path.scales)
            return path.at(operation, wrong.kind, **wrong.facts)
        maker = mask_maker(path, operation) or operation
        if kind is Kind.MASK_INVERTED and maker.line is not None:
            maker = operation if operation.line != maker.line else maker
        return path.at(maker, kind)
    for mask in (ones.tril(), ones.triu(1), ones.triu()):
        weights = (path.root * q @ k.mT + mask).softmax(dim=-1)
        if holds(operation.values, weights @ v):
            return path.at(mask_maker(path, operation) or operation, Kind.MASK_ADDED)
    if operation.values.isnan().all():
        maker = mask_maker(path, operation) or operation
        return path.at(maker, Kind.MASK_EVERYTHING)
    return path.at(operation, Kind.ATTENTION_WRONG, sure=False)


# Rules: the attention weights come in


def weights_changed(path: Path, operation: Operation) -> Finding | None:
    """Tell an operation on the weights alone."""
    held = path.held(operation)
    if path.names(operation) != {"attn_weights"}:
        return None
    number = next(iter(held))
    old, values = path.operations[number].values, operation.values
    if values.shape != old.shape or held[number].layout is None:
        return path.at(operation, Kind.CONTEXT_WRONG, sure=False)
    if torch.equal(values, old.mT):
        return path.at(operation, Kind.WEIGHTS_TRANSPOSED)
    return path.at(operation, Kind.WEIGHTS_CHANGED)


def weights_meet_no_values(path: Path, operation: Operation) -> Finding | None:
    """Tell weights that multiply the keys, the queries or x."""
    others = path.names(operation) - {"attn_weights"}
    other = min(others & {"queries", "keys", "x"}, default=None)
    return path.at(operation, Kind.VALUES_OTHER, name=other) if other else None


def weights_transposed(path: Path, operation: Operation) -> Finding | None:
    """Tell weights that are used with rows and columns exchanged."""
    weights, values = path.right("attn_weights"), path.right("values")
    if not holds(operation.values, weights.mT @ values):
        return None
    number = next(n for n, found in path.held(operation).items() if found.name == "attn_weights")
    return path.at(turned_at(path, number) or operation, Kind.WEIGHTS_TRANSPOSED)


def another_context(path: Path, operation: Operation) -> Finding | None:
    """Tell a product of weights and values that is another."""
    return path.at(operation, Kind.CONTEXT_WRONG, sure=False)


# Rules: the context vectors come in, the result, or x


def one_text_for_all(path: Path, operation: Operation) -> Finding | None:
    """Tell where one text is taken out of x, and no other is."""
    for axis_of in ("context_vec", "attn_weights"):
        if axis_of not in path.names(operation):
            continue
        cuts = {}
        for number in sorted(path.leads_here & path.from_x):
            cut = cut_at(path, number, "b")
            if cut is not None and (found := path.found[cut.number]):
                cuts[cut.number] = set(found.index["b"].flatten().tolist())
        texts = set().union(*cuts.values())
        if len(texts) == 1 < len(path.right("queries")):
            return path.at(path.operations[min(cuts)], Kind.X_TEXT, text=texts.pop())
    return None


def context_changed(path: Path, operation: Operation) -> Finding | None:
    """Tell an operation on context vectors that were right."""
    layer = [n for n in operation.parents if path.given_name(n).startswith("out_proj")]
    if not layer:
        return path.at(operation, Kind.CONTEXT_CHANGED)
    made, right = path.operations[path.result].values, path.right("result")
    if made.shape == right.shape:
        off = (made - right).flatten(0, 1)
        if float(off.abs().max()) > 1e-4 and torch.allclose(off, off[:1], atol=1e-4):
            return path.at(operation, Kind.OUT_PROJ_BIAS)
    what = "the context vectors"
    return path.at(operation, Kind.PROJECTION_WRONG, sure=False, layer="out_proj", what=what)


def result_changed(path: Path, operation: Operation) -> Finding | None:
    """Tell an operation on a result that was complete."""
    again = any("out_proj" in path.given_name(n) for n in operation.parents)
    return path.at(operation, Kind.OUT_PROJ_TWICE if again else Kind.RESULT_CHANGED)


def x_changed(path: Path, operation: Operation) -> Finding | None:
    """Tell x that is changed before it is projected, or a projection that is another."""
    weights = [n for n in operation.parents if path.given_name(n).endswith("weight")]
    if not weights:
        return path.at(operation, Kind.X_CHANGED)
    layer = path.given_name(weights[0]).rpartition(".")[0]
    return path.at(operation, Kind.PROJECTION_WRONG, sure=False, layer=layer, what="x")


# What a whole run shows


def ends_too_early(path: Path) -> Finding | None:
    """Tell a result that is right as far as it goes, and not the end."""
    found, operation = path.found[path.result], path.operations[path.result]
    target = "result" if "result" in path.named else "context_vec"
    if found is None:
        return None
    if found.name == target:
        off = (operation.values - path.right(target)).abs().max() if target == "result" else 0.0
        return path.at(operation, Kind.OUT_PROJ_BIAS) if off > 1e-4 else None
    weighed = any("softmax" in path.operations[n].name for n in path.leads_here)
    if found.name == "values" and weighed:
        return path.at(operation, Kind.CONTEXT_OWN)
    if target == "result" and found.name == "context_vec":
        return path.at(operation, Kind.OUT_PROJ_MISSING)
    return path.at(operation, Kind.RESULT_OTHER, name=found.name)


def unwritten(path: Path) -> Finding | None:
    """Tell rows or columns of the result into which nothing was ever written."""
    writes = [
        number
        for number in sorted(path.leads_here & path.from_x)
        if path.operations[number].name in ASSIGNS
    ]
    again = {path.operations[number].parents[0] for number in writes}
    last = (number for number in writes[::-1] if number not in again)
    return next((found for number in last if (found := _never_written(path, number))), None)


def _never_written(path: Path, number: int) -> Finding | None:
    chain = [path.operations[number]]
    while chain[-1].name in ASSIGNS and chain[-1].parents:
        chain.append(path.operations[chain[-1].parents[0]])
    begun, end = chain[-1], chain[0]
    if len(chain) < 2 or begun.number in path.from_x or begun.values.shape != end.values.shape:
        return None
    same = (begun.values == end.values) | (begun.values.isnan() & end.values.isnan())
    if same.all() or not any(same.movedim(a, 0).flatten(1).all(1).any() for a in range(same.ndim)):
        return None
    writes = [(a.values != b.values).sum() for a, b in itertools.pairwise(chain)]
    apart = bool(sum(writes) <= (begun.values != end.values).sum())  # none overwrites another
    return path.at(end, Kind.RESULT_UNWRITTEN, filler=begun.name, apart=apart)

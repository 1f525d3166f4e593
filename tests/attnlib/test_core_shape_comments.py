"""Every shape comment in attnlib is true: run, and compared with what the variable really has."""

from pathlib import Path

import torch

import attnlib
from attncourse.variants import torch_multihead
from attncourse.variants.torch_multihead import MultiheadAttention
from attnlib.fused import FusedMultiHeadAttention
from support.cases import D_IN, HEAD_DIM, LESSON, B, H, T, tokens
from support.shape_comments import reading

PACKAGE = Path(attnlib.__file__).parent
SINGLE = {"b": B, "num_tokens": T, "d_in": D_IN, "head_dim": HEAD_DIM, "d_out": HEAD_DIM}
SINGLE |= {"num_queries": T, "num_keys": T, "value_dim": HEAD_DIM}
SEVERAL = SINGLE | {"num_heads": H}


def test_in_the_classes_and_their_functions():
    """Each class with and without its weights; attention with queries and keys of its own."""
    found = reading(PACKAGE / "functional.py", PACKAGE / "modules.py")
    assert sum(map(len, found.comments.values())) > 20
    for case in LESSON:
        module, sizes = case.build(dropout=0.5), SEVERAL if case.has_heads else SINGLE
        if case.has_heads and case.d_out_is_total:
            sizes = sizes | {"d_out": H * HEAD_DIM}
        for return_weights in (False, True):
            found.run(sizes, lambda: module(tokens(), return_weights))  # noqa: B023
    cross = SEVERAL | {"num_keys": 17, "value_dim": 19}
    queries, keys, values = (torch.ones(B, H, *size) for size in ((T, 5), (17, 5), (17, 19)))
    is_masked = torch.zeros(T, 17, dtype=torch.bool)
    is_masked[3] = True  # a query without a key
    dropout = torch.nn.Dropout(0.5)
    found.run(cross, lambda: attnlib.attention(queries, keys, values, is_masked, dropout))
    assert found.lies == found.unreached() == []


def test_in_the_module_of_pytorch():
    """With every option that makes a tensor."""
    found = reading(Path(torch_multihead.__file__))
    sizes = {"b": B, "num_queries": T, "num_keys": 17, "num_positions": 19}
    sizes |= {"num_heads": H, "head_dim": HEAD_DIM, "embed_dim": H * HEAD_DIM}
    module = MultiheadAttention(H * HEAD_DIM, H, add_bias_kv=True, add_zero_attn=True)
    query, key = torch.ones(T, B, H * HEAD_DIM), torch.ones(17, B, H * HEAD_DIM)
    masks = torch.zeros(B, 17, dtype=torch.bool), True, torch.zeros(B * H, T, 17)
    found.run(sizes, lambda: module(query, key, key, *masks))
    module.batch_first, query, key = True, query.transpose(0, 1), key.transpose(0, 1)
    found.run(sizes, lambda: module(query, key, key, *masks))
    assert found.lies == found.unreached() == []


def test_in_the_fused_class():
    """Fewer heads of keys than of queries, rotary, with and without a cache and weights."""
    found = reading(PACKAGE / "fused.py", PACKAGE / "rotary.py")
    sizes = {"b": B, "num_tokens": T, "num_queries": T, "num_keys": T, "d_in": D_IN}
    sizes |= {"num_heads": 4, "num_kv_heads": 2, "head_dim": 14, "d_out": 4 * 14}
    rotary = {"num_kv_heads": 2, "rotary_base": 100.0}
    module = FusedMultiHeadAttention(D_IN, 4 * 14, 13, 0.0, 4, **rotary).eval()
    found.run(sizes, lambda: module(tokens(), return_weights=True))
    with torch.no_grad():
        cache = module.new_cache(B, 13)
        module(tokens(num_tokens=3), cache=cache)
        found.run(
            sizes | {"num_tokens": 2, "num_queries": 2, "num_keys": 5},
            lambda: module(tokens(num_tokens=2), cache=cache),
        )
    assert found.lies == found.unreached() == []

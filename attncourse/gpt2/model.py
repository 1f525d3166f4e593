"""GPT-2 around our attention: its four sizes, and the rest of it in as few lines as possible."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncourse.gpt2.weights import (
    ATTENTION,
    GPT2_CONTEXT_LENGTH,
    Weights,
    copy,
    from_gpt2,
    widest,
)
from attnlib.fused import KeyValueCache
from attnlib.modules import MultiHeadAttention

VOCABULARY = 50257
NAMES = {  # ours: the file's
    "token_embedding": "wte",
    "position_embedding": "wpe",
    "final_norm": "ln_f",
}
BLOCK_NAMES = {"norm_1": "ln_1", "norm_2": "ln_2", "widen": "mlp.c_fc", "narrow": "mlp.c_proj"}
MODEL = {  # what config.json says, if it says it, of a GPT-2 that is ours
    **ATTENTION,
    "activation_function": ("gelu_new", "gelu_pytorch_tanh", "gelu_fast"),
}
SIZE_NAMES = {  # ours: config.json's
    "num_layers": "n_layer",
    "width": "n_embd",
    "vocabulary": "vocab_size",
    "context_length": "n_positions",
}
LOGITS = "lm_head.weight"
TRANSPOSED = ("widen", "narrow")  # stored (in, out)


class Gpt2Size(NamedTuple):
    """How large a GPT-2 is.

    >>> Gpt2Size(num_layers=12, num_heads=12, width=768).head_dim
    64
    """

    num_layers: int
    num_heads: int
    width: int
    vocabulary: int = VOCABULARY
    context_length: int = GPT2_CONTEXT_LENGTH

    @property
    def head_dim(self) -> int:
        """The width of one head."""
        return self.width // self.num_heads


SIZES = {
    "small": Gpt2Size(num_layers=12, num_heads=12, width=768),
    "medium": Gpt2Size(num_layers=24, num_heads=16, width=1024),
    "large": Gpt2Size(num_layers=36, num_heads=20, width=1280),
    "XL": Gpt2Size(num_layers=48, num_heads=25, width=1600),
}


class Block(nn.Module):
    """One layer of GPT-2: attention, then a small network for each token, each added to x."""

    def __init__(self, size: Gpt2Size) -> None:
        super().__init__()
        width = size.width
        self.norm_1 = nn.LayerNorm(width)
        self.attention = MultiHeadAttention(
            width, width, size.context_length, 0.0, size.num_heads, qkv_bias=True
        )
        self.norm_2 = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return x, (b, num_tokens, width), after this layer, and the attention weights."""
        context_vec, attn_weights = self.attention(self.norm_1(x), return_weights=True)
        x = x + context_vec  # (b, num_tokens, width)
        x = x + self.mlp(self.norm_2(x))  # (b, num_tokens, width)
        return x, attn_weights

    def mlp(self, x: Tensor) -> Tensor:
        """Let the small network look at each token for itself."""
        hidden = F.gelu(self.widen(x), approximate="tanh")  # (b, num_tokens, 4 * width)
        narrowed: Tensor = self.narrow(hidden)  # (b, num_tokens, width)
        return narrowed


class GPT2(nn.Module):
    """Turn token ids into one vector for each token, as GPT-2 does in eval.

    Equation:
        x_0 = token_embedding[token_ids] + position_embedding[0 .. num_tokens - 1]
        a_l = x_l + attention_l(norm_1(x_l)),  x_(l+1) = a_l + mlp_l(norm_2(a_l))

    Returns:
        forward(token_ids) takes int64, (b, num_tokens), and returns (b, num_tokens, width), after
        the last norm. Its product with token_embedding.weight^T is the scores of the next token.
        forward(token_ids, return_weights=True) also returns the attention weights of all heads,
        (b, num_layers, num_heads, num_tokens, num_tokens).

    Raises:
        TypeError: token_ids are not integers.
        ValueError: they are not (b, num_tokens), too many, or outside the vocabulary.

    >>> model = GPT2(Gpt2Size(num_layers=2, num_heads=3, width=6, vocabulary=5, context_length=4))
    >>> model(torch.tensor([[0, 4, 1]])).shape
    torch.Size([1, 3, 6])

    Source: Radford et al. 2019, section 2.3; the tanh form of GELU and the epsilon of LayerNorm,
    1e-5, are those of its published code.
    """

    def __init__(self, size: Gpt2Size) -> None:
        super().__init__()
        self.size = size
        self.token_embedding = nn.Embedding(size.vocabulary, size.width)
        self.position_embedding = nn.Embedding(size.context_length, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.num_layers))
        self.final_norm = nn.LayerNorm(size.width)

    def forward(
        self, token_ids: Tensor, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return a vector for each token, and on demand the attention weights of all heads."""
        require_token_ids(token_ids, self.size)

        positions = self.position_embedding.weight[: token_ids.shape[1]]  # (num_tokens, width)
        x: Tensor = self.token_embedding(token_ids) + positions  # (b, num_tokens, width)
        maps = []
        for block in self.blocks:
            x, attn_weights = block(x)
            maps.append(attn_weights)
        x = self.final_norm(x)  # (b, num_tokens, width)
        return (x, torch.stack(maps, dim=1)) if return_weights else x

    def logits(self, token_ids: Tensor) -> Tensor:
        """Return the scores of every possible next token, (b, num_tokens, vocabulary)."""
        x: Tensor = self(token_ids)  # (b, num_tokens, width)
        return x @ self.token_embedding.weight.T


def require_token_ids(token_ids: Tensor, size: Gpt2Size) -> None:
    """Raise unless token_ids is a batch of tokens in the vocabulary, and not too long."""
    if not isinstance(token_ids, Tensor) or token_ids.dtype not in (torch.int32, torch.int64):
        kind = getattr(token_ids, "dtype", type(token_ids).__name__)
        raise TypeError(f"token_ids must be a tensor of int64, not {kind}")
    shape = tuple(token_ids.shape)
    if token_ids.ndim != 2:
        remedy = "; for one text try token_ids[None]" if token_ids.ndim == 1 else ""
        raise ValueError(f"token_ids must be (b, num_tokens), not {shape}{remedy}")
    if shape[1] > size.context_length:
        raise ValueError(
            f"token_ids has {shape[1]} tokens, more than context_length={size.context_length}"
        )
    outside = (token_ids < 0) | (token_ids >= size.vocabulary)
    if outside.any():
        raise ValueError(
            f"token id {int(token_ids[outside][0])} is not in the vocabulary, "
            f"0 to {size.vocabulary - 1}"
        )


def load_gpt2(state_dict: Mapping[str, Tensor], num_heads: int | None = None) -> GPT2:
    """Build a GPT2 of any size from the weights of a file.

    Args:
        state_dict: what read_gpt2 returns, or the state_dict of a Hugging Face GPT-2.
        num_heads: how many heads a layer has. None means what a config.json beside the file
            says, or else heads of width 64.

    Returns:
        A GPT2 in eval, with copies of the weights, in the widest dtype of the file. It has the
        epsilon of config.json.

    Raises:
        TypeError, ValueError: as from_gpt2, for every tensor of the model; or config.json wants
            another activation than the tanh form of GELU, other sizes than the weights have, or
            norms that cannot be; or the file has an lm_head.weight that is not wte.weight.

    Source: the names are those of Hugging Face's GPT-2.
    """
    weights = Weights(state_dict)
    tokens = weights.read("wte.weight")
    rows, width = tokens.shape[:1].numel(), tokens.shape[-1:].numel()
    weights.read("wte.weight", (rows, width))
    num_heads = weights.head_count(width, num_heads)
    size = Gpt2Size(weights.num_layers, num_heads, width, rows, weights.rows("wpe.weight"))
    weights.require_config(MODEL)
    _require_sizes(weights, size)
    epsilon = _epsilon(weights)
    _require_tied(weights, tokens)
    with torch.device("meta"):
        model = GPT2(size)
    state = {}
    for ours, entry in model.state_dict().items():
        if ".attention." not in ours:
            theirs, is_transposed = in_file(ours)
            shape = tuple(entry.shape)
            found = weights.read(theirs, shape[::-1] if is_transposed else shape)
            state[ours] = copy(found.T if is_transposed else found)
    for layer in range(size.num_layers):
        attention = from_gpt2(state_dict, layer, num_heads)
        if attention.d_in != width:
            raise ValueError(
                f"{weights.prefix}h.{layer}.attn of {weights.origin} has width {attention.d_in}, "
                f"and wte.weight has {width}"
            )
        for name, found in attention.state_dict().items():
            state[f"blocks.{layer}.attention.{name}"] = found
    dtype = widest(state)
    model.load_state_dict({name: entry.to(dtype) for name, entry in state.items()}, assign=True)
    for part in model.modules():
        if isinstance(part, nn.LayerNorm):
            part.eps = epsilon
    return model.eval()


def _require_sizes(weights: Weights, size: Gpt2Size) -> None:
    """Raise if the config.json beside a file tells of another size than its weights have."""
    for ours, theirs in SIZE_NAMES.items():
        found = getattr(size, ours)
        said = weights.config.get(theirs, found)
        if said != found:
            raise ValueError(
                f"the config.json of {weights.origin} says {theirs}={said!r}, and its "
                f"weights have {found}: the two are not of one model, or the file is incomplete"
            )


def _epsilon(weights: Weights) -> float:
    """Return what config.json says of the norms, which must be a positive number."""
    epsilon = weights.config.get("layer_norm_epsilon", 1e-5)
    rule = f"layer_norm_epsilon in the config.json of {weights.origin} must be a positive number"
    if isinstance(epsilon, bool) or not isinstance(epsilon, (int, float)):
        raise TypeError(f"{rule}, not {epsilon!r}")
    if not 0 < epsilon < math.inf:  # also true for NaN
        raise ValueError(f"{rule}, not {epsilon!r}; GPT-2 has 1e-5")
    return epsilon


def _require_tied(weights: Weights, tokens: Tensor) -> None:
    """Raise if a file turns vectors into logits by another matrix than token_embedding."""
    head = weights.state_dict.get(LOGITS)
    if head is not None and not torch.equal(head.to(tokens.dtype), tokens):
        raise ValueError(
            f"{weights.origin} has an {LOGITS} of its own, not that of wte.weight "
            "(tie_word_embeddings=False), and GPT2 makes its logits with wte.weight: they would "
            "be another model's; take a file without it, or from_gpt2 for its attention alone"
        )


def parameter_parts(size: Gpt2Size) -> list[tuple[str, int]]:
    """Return where the parameters of a GPT-2 are, in the order of the computation.

    >>> parts = parameter_parts(SIZES["small"])
    >>> parts[2], sum(number for _, number in parts)
    (('attention', 2362368), 124439808)
    """
    d = size.width
    layer = [("attention", 4 * d**2 + 4 * d), ("MLP", 8 * d**2 + 5 * d), ("norms", 4 * d)]
    tables = [("token embedding", size.vocabulary * d), ("positions", size.context_length * d)]
    return [*tables, *size.num_layers * layer, ("norms", 2 * d)]


def cache_bytes(size: Gpt2Size, dtype: torch.dtype) -> int:
    """Return how many bytes one token adds to the caches of all layers.

    >>> cache_bytes(SIZES["small"], torch.float32)
    73728
    """
    cache = KeyValueCache(1, size.num_heads, 1, size.head_dim, dtype, "meta")
    return size.num_layers * (cache.keys.nbytes + cache.values.nbytes)


def in_file(ours: str) -> tuple[str, bool]:
    """Return the file's name of one of our weights, and whether it is stored transposed."""
    module, _, kind = ours.rpartition(".")
    if not module.startswith("blocks."):
        return f"{NAMES[module]}.{kind}", False
    _, layer, part = module.split(".")
    return f"h.{layer}.{BLOCK_NAMES[part]}.{kind}", part in TRANSPOSED and kind == "weight"

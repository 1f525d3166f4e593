"""The smallest model around our attention: embeddings, attention layers, a read-out."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from attnlib.modules import MultiHeadAttention

EVERYWHERE = slice(None)
Module = TypeVar("Module", bound=nn.Module)


class AttentionModel(nn.Module):
    """Name tokens by attention alone: no normalization, and no layers between those of attention.

    Equation:
        x = token_embedding[tokens] + position_embedding[0, 1, 2, ...]
        x = x + attention(x), for each layer
        logits = x W_read_out^T + b_read_out

    There are vocabulary different tokens; num_answers of them are predicted at each position.

    forward takes tokens, int64, (b, num_tokens). Its attn_weights are (b, num_layers, num_heads,
    num_tokens, num_tokens).

    >>> model = AttentionModel(vocabulary=12, context_length=16, width=8, num_heads=2)
    >>> model(torch.zeros(5, 7, dtype=torch.int64)).shape
    torch.Size([5, 7, 1, 12])

    Source: Elhage et al. 2021, "Attention-Only Transformers"; their W_E and W_U are our
    token_embedding and read_out.
    """

    def __init__(
        self,
        vocabulary: int,
        context_length: int,
        width: int,
        num_heads: int,
        num_layers: int = 1,
        num_answers: int = 1,
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.num_answers = num_answers
        self.context_length = context_length
        self.token_embedding = nn.Embedding(vocabulary, width)
        self.position_embedding = nn.Embedding(context_length, width)
        self.layers = nn.ModuleList(
            MultiHeadAttention(width, width, context_length, 0.0, num_heads)
            for _ in range(num_layers)
        )
        self.read_out = nn.Linear(width, num_answers * vocabulary)

    def forward(
        self, tokens: Tensor, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return logits, (b, num_tokens, num_answers, vocabulary), and on demand the weights."""
        b, num_tokens = tokens.shape
        if num_tokens > self.context_length:
            raise ValueError(f"{num_tokens} tokens, but context_length={self.context_length}")
        position = torch.arange(num_tokens, device=tokens.device)  # (num_tokens)
        x = self.token_embedding(tokens)  # (b, num_tokens, width)
        x = x + self.position_embedding(position)  # (b, num_tokens, width)

        weights = []
        for layer in self.layers:
            context_vec, attn_weights = layer(x, return_weights=True)
            x = x + context_vec  # (b, num_tokens, width)
            weights.append(attn_weights)

        logits: Tensor = self.read_out(x)  # (b, num_tokens, num_answers * vocabulary)
        logits = logits.view(b, num_tokens, self.num_answers, self.vocabulary)
        return (logits, torch.stack(weights, dim=1)) if return_weights else logits


@cache
def stored_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file by name, in float32."""
    from safetensors.torch import load_file

    return {name: values.float() for name, values in load_file(path).items()}


def load_stored(model: Module, path: Path, key: object) -> Module:
    """Give a model the parameters that a file stores under this key, and return it in eval."""
    stored = stored_tensors(path)
    model.load_state_dict({name: stored[f"{key}/{name}"] for name in model.state_dict()})
    return model.eval()


def ablate_head(
    model: AttentionModel, layer: int, head: int, positions: slice = EVERYWHERE
) -> AttentionModel:
    """Return a copy of a model in which one head adds nothing.

    The head still has its attention weights, but its columns of what out_proj takes are 0.

    Layers and heads are counted from 0, and positions too: slice(25) is 0 to 24.

    >>> model = AttentionModel(vocabulary=3, context_length=2, width=4, num_heads=1)
    >>> attention = ablate_head(model, layer=0, head=0).layers[0]
    >>> torch.equal(attention(torch.ones(1, 1, 4))[0, 0], attention.out_proj.bias)
    True

    Source: Michel et al. 2019, section 2.3, where a mask variable of a head is set to 0.
    """
    if not 0 <= layer < len(model.layers):
        raise ValueError(f"layer={layer}, but the model has layers 0 to {len(model.layers) - 1}")
    ablated = copy.deepcopy(model)
    attention = ablated.layers[layer]
    assert isinstance(attention, MultiHeadAttention)
    if not 0 <= head < attention.num_heads:
        raise ValueError(f"head={head}, but layer {layer} has heads 0 to {attention.num_heads - 1}")
    columns = slice(head * attention.head_dim, (head + 1) * attention.head_dim)

    def without(_module: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        context_vec = inputs[0].clone()  # (b, num_tokens, width)
        context_vec[:, positions, columns] = 0
        return (context_vec,)

    attention.out_proj.register_forward_pre_hook(without)
    return ablated


def ov_circuit(model: AttentionModel, layer: int, head: int) -> Tensor:
    """Return what a head adds to the logit of each token when it attends to one token alone.

    Equation:
        W_E W_V^T W_O^T W_U^T, each for this head alone: (vocabulary) attended to, by (vocabulary)
        predicted

    Source: Elhage et al. 2021, "Splitting attention head terms into circuits", the OV circuit.
    """
    attention = model.layers[layer]
    assert isinstance(attention, MultiHeadAttention)
    assert isinstance(model.read_out, nn.Linear)
    own = slice(head * attention.head_dim, (head + 1) * attention.head_dim)
    values = model.token_embedding.weight @ attention.W_value.weight[own].T
    written = values @ attention.out_proj.weight[:, own].T
    logits: Tensor = written @ model.read_out.weight.T  # (vocabulary, vocabulary)
    return logits.detach()

"""PyTorch's MultiheadAttention in twenty lines, and each of its options as a change of a few.

The text that an option changes is that of CoreAttention; what comes out is compiled, so a
difference that a reader sees is a difference that has run.
"""

from __future__ import annotations

import html
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: F401  # options call it
from torch import Tensor, nn

from attncourse.examples import seeded
from attncourse.tracing.diffs import Diff
from attncourse.variants.changes import compile_class, stored_lines, with_lines
from attnlib.functional import causal_mask, merge_heads, split_heads


class CoreAttention(nn.Module):
    """Attend as PyTorch's module does with bias=False: no options, the weights of each head."""

    def __init__(self, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.head_dim = embed_dim // num_heads
        self.in_proj_weight = nn.Parameter(torch.randn(3 * embed_dim, embed_dim))
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=False)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        W_query, W_key, W_value = self.in_proj_weight.chunk(3)
        queries = split_heads(query @ W_query.T, self.head_dim)
        keys = split_heads(key @ W_key.T, self.head_dim)
        values = split_heads(value @ W_value.T, self.head_dim)

        attn_scores = queries @ keys.mT / queries.shape[-1] ** 0.5
        if attn_mask is not None:
            attn_scores = attn_scores.masked_fill(attn_mask, -torch.inf)
        attn_weights = attn_scores.softmax(dim=-1)
        context_vec = attn_weights @ values
        return self.out_proj(merge_heads(context_vec)), attn_weights


@dataclass(frozen=True, repr=False)
class Option:
    """An option of PyTorch's module, as changes to the text of CoreAttention.

    The changes say by a line of the text what stands there instead. PyTorch's module is made with
    bias=False, batch_first=True and made_with, and its forward is called with called_with.
    """

    name: str
    changes: Mapping[str, str]
    made_with: Mapping[str, Any] = field(default_factory=dict)
    called_with: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text of the class with the option."""
        return with_lines(inspect.getsource(CoreAttention), self.changes)

    @property
    def diff(self) -> Diff:
        """The lines that go and the lines that come, to be shown."""
        return Diff(inspect.getsource(CoreAttention), self.text, context=0)

    def __repr__(self) -> str:
        return f"{self.name}\n{self.diff}\n{self.compare_with_pytorch()}"

    def _repr_html_(self) -> str:
        name, said = html.escape(self.name), html.escape(self.compare_with_pytorch())
        return f"<p><b>{name}</b></p>{self.diff._repr_html_()}<p>{said}</p>"

    def compare_with_pytorch(self) -> str:
        """Run PyTorch's module and these lines with the same parameters on two texts.

        >>> print(OPTIONS["bias"].compare_with_pytorch())
        Same output and same weights as PyTorch's.
        """
        made = {"bias": False, "batch_first": True, **self.made_with}
        own = {name: made[name] for name in ("dropout", "kdim", "vdim") if name in made}
        lengths = {"query": 4, "key": own.get("kdim", 4), "value": own.get("vdim", 4)}
        with seeded(1), torch.no_grad():
            theirs = nn.MultiheadAttention(4, 2, **made)
            for parameter in theirs.parameters():  # the biases too, which are zeros in a new one
                nn.init.normal_(parameter)
            ours = self.cls(4, 2, **own)
            ours.load_state_dict(theirs.state_dict())
            inputs = [torch.rand(2, 8, width) for width in lengths.values()]
            if not made["batch_first"]:
                inputs = [x.transpose(0, 1) for x in inputs]
            call: dict[str, Any] = {"attn_mask": causal_mask(8)}
            if self.name == "key_padding_mask":
                call["key_padding_mask"] = torch.tensor([[False] * 8, [False] * 6 + [True] * 2])
            asked = {"average_attn_weights": False, **self.called_with}
            state = torch.get_rng_state()
            output, weights = theirs(*inputs, **call, **asked)
            torch.set_rng_state(state)  # so that dropout draws the same again
            our_output, our_weights = ours(*inputs, **call)
        torch.testing.assert_close(our_output, output, rtol=0, atol=1e-5)
        if weights is None and our_weights is None:
            return "Same output as PyTorch's, and no weights."
        torch.testing.assert_close(our_weights, weights, rtol=0, atol=1e-5)
        return "Same output and same weights as PyTorch's."

    @cached_property
    def cls(self) -> type[nn.Module]:
        """The class with the option; its source is known to the tracer."""
        return cast(
            "type[nn.Module]", compile_class(self.text, "CoreAttention", self.name, globals())
        )


OPTIONS = {name: Option(name, **told) for name, told in stored_lines("torch_options").items()}

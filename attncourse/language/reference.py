"""What Hugging Face's implementation of the same model answers, stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from attncourse.language.runs import Run

DATA = Path(__file__).parent / "data" / "reference.json"


class Reference(NamedTuple):
    """A text's ten largest logits of the next token."""

    text: str
    token_ids: Tensor  # (num_tokens)
    likeliest: Tensor  # token ids, (10), the likeliest first
    logits: Tensor  # theirs, (10)

    def largest_difference(self, run: Run) -> float:
        """Return how far a run's logits of these ten tokens are from theirs, at most."""
        return float((run.next_logits[self.likeliest] - self.logits).abs().max())

    def agrees(self, run: Run) -> bool:
        """Say whether the same ten are a run's likeliest, each logit within 0.001 of theirs."""
        likeliest = run.next_logits.topk(10).indices
        return torch.equal(likeliest, self.likeliest) and self.largest_difference(run) < 1e-3


def reference_logits() -> list[Reference]:
    """Return them, computed by LlamaForCausalLM of transformers from the same file.

    >>> [len(reference.token_ids) for reference in reference_logits()]
    [5, 6, 14]
    """
    texts = json.loads(DATA.read_text("utf-8"))["texts"]
    return [
        Reference(text, *(torch.tensor(found[name]) for name in Reference._fields[1:]))
        for text, found in texts.items()
    ]

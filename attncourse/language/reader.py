"""A language model that reads and writes texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from attncourse.language.files import file_tensors
from attncourse.language.hooks import share_weights
from attncourse.language.interventions import Intervention
from attncourse.language.model import Block, Head, Llama, OwnBlock
from attncourse.language.runs import Run
from attncourse.language.tokenizer import TextTokenizer
from attncourse.renamed import explain_renamed

Text = str | Sequence[int] | Tensor
OwnArithmetic = Callable[[Tensor, Any], Tensor]  # of a block: from x and a layer to the new x
HALF = "\N{REPLACEMENT CHARACTER}"  # how a tokenizer shows a character that is not complete yet


class LanguageModel:
    """A Llama with its tokenizer: it reads a text, with interventions, and writes on.

    Args:
        llama: the model.
        tokenizer: from texts to token ids, and back.
        end: id of the token that ends a text, or None.
        origin: what it is and where it is from, shown by its repr.
    """

    def __init__(
        self, llama: Llama, tokenizer: TextTokenizer, end: int | None, origin: str
    ) -> None:
        self.llama = llama
        self.tokenizer = tokenizer
        self.end = end
        self.origin = origin
        self.size = llama.size

    def __repr__(self) -> str:
        return f"<{self.origin}: {self.size.num_layers} layers of {self.size.num_heads} heads>"

    @property
    def heads(self) -> tuple[Head, ...]:
        """All heads, layer by layer."""
        return self.size.heads

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of all tensors in the model's file, by their names there."""
        found = file_tensors(self.size, self.llama.state_dict())
        return {name: tuple(tensor.shape) for name, tensor in found.items()}

    def tensor(self, name: str) -> Tensor:
        """Return a tensor of the model's file by its name there, unpacked; a matrix is (out, in).

        Raises:
            ValueError: no tensor has this name.
        """
        found = file_tensors(self.size, self.llama.state_dict())
        if name not in found:
            raise ValueError(f"the file has no tensor {name!r}; model.shapes has all names")
        return found[name]

    def read(self, text: Text, *changes: Intervention) -> Run:
        """Read a text, or token ids, with any number of Ablate, Patch and PathPatch."""
        return Run(self.llama, self.tokenizer, self.token_ids(text), changes)

    def with_attention(
        self, make: Callable[[], nn.Module], block: OwnArithmetic | None = None
    ) -> LanguageModel:
        """Return the same model around another attention class, with the same weights.

        Args:
            make: returns a new module; called once for each layer. It has W_query, W_key, W_value
                (or W_qkv) and out_proj of the model's sizes, and takes x, (b, num_tokens, width).
                If its forward also takes return_weights, a run shows its weights; if it takes
                cache, the model writes with one: of its new_cache, or an empty dictionary.
            block: the arithmetic of a block: takes x and a layer with attention, norm_1, norm_2,
                gate_proj, up_proj and down_proj, and returns the new x; None means ours.
        """
        with torch.device("meta"):
            llama = Llama(self.size)
        llama.load_state_dict(self.llama.state_dict(), assign=True, strict=False)
        for new, old in zip(llama.blocks, self.llama.blocks, strict=True):
            new.attention = share_weights(make(), old.get_submodule("attention"), self.size)
        if block is not None:
            llama.blocks = nn.ModuleList(OwnBlock(cast(Block, own), block) for own in llama.blocks)
        llama.eval().requires_grad_(False)
        return LanguageModel(llama, self.tokenizer, self.end, self.origin)

    def token_ids(self, text: Text) -> Tensor:
        """Return the token ids of a text, (num_tokens), or raise if it cannot be read."""
        if isinstance(text, str):
            text = self.tokenizer.encode(text)
        found = text.tolist() if isinstance(text, Tensor) else list(text)
        if not found:
            raise ValueError("text is empty: write at least one word")
        vocabulary, most = self.size.vocabulary, self.size.context_length
        if any(type(i) is not int or not 0 <= i < vocabulary for i in found):
            raise ValueError(f"token ids must be whole numbers in one row, 0 to {vocabulary - 1}")
        if len(found) > most:
            raise ValueError(f"text has {len(found)} tokens, and the model reads {most} at most")
        return torch.tensor(found)

    def generate(
        self,
        text: Text,
        num_tokens: int = 20,
        temperature: float = 0.0,
        top_k: int | None = None,
        seed: int = 0,
    ) -> str:
        """Write on, and return the text with what was added.

        Args:
            text: the beginning.
            num_tokens: how many tokens are added at most. Writing also stops at the token that
                ends a text, and at the context length. A character that is not complete then is
                left out: one character can take several tokens.
            temperature: 0 takes the likeliest token each time; above, it draws, the more evenly
                the higher.
            top_k: draw among so many of the likeliest; None or 0 means all.
            seed: of the draws.
        """
        token_ids = self.token_ids(text).tolist()
        added = self.generate_ids(token_ids, num_tokens, temperature, top_k, seed)
        return self.tokenizer.decode([*token_ids, *added]).rstrip(HALF)

    @torch.inference_mode()
    def generate_ids(
        self,
        token_ids: Sequence[int],
        num_tokens: int,
        temperature: float = 0.0,
        top_k: int | None = None,
        seed: int = 0,
    ) -> Iterator[int]:
        """Yield one token id after the other, each as soon as it is known."""
        if not temperature >= 0:
            raise ValueError(f"temperature={temperature} must be 0, for the likeliest, or more")
        how_many = min(top_k or self.size.vocabulary, self.size.vocabulary) if temperature else 1
        length = min(len(token_ids) + num_tokens, self.size.context_length)
        generator = torch.Generator().manual_seed(seed)
        caches = self.llama.new_caches(length)
        text = new = torch.tensor([list(token_ids)])
        while text.shape[1] < length:
            x = self.llama(self.llama.token_embedding(new if caches else text), caches)
            likeliest = self.llama.logits(x[0, -1]).topk(how_many)
            chances = (likeliest.values / (temperature or 1.0)).softmax(dim=-1)
            drawn = torch.multinomial(chances, 1, generator=generator)  # of one, that one
            new = likeliest.indices[drawn].view(1, 1)
            if new == self.end:
                return
            yield int(new)
            text = torch.cat((text, new), dim=1)


explain_renamed(LanguageModel)

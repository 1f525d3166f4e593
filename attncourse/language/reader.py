"""A language model that reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from attncourse.language.hooks import adopt
from attncourse.language.interventions import Intervention
from attncourse.language.model import Block, Head, Llama, attention_weights, with_blocks
from attncourse.language.runs import Run, Trace

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Text = str | Sequence[int] | Tensor


class LanguageModel:
    """A Llama with its words: it reads a text, with interventions, and writes on.

    Args:
        llama: the model.
        tokenizer: cuts texts into tokens; None if only token ids are read.
        end: id of the token that ends a text, or None.
        origin: what it is and where it is from, shown by its repr.

    >>> model.read("The capital of France is", Mute(23, 4)).next_words(3)  # doctest: +SKIP
    Paris 0.14   the 0.13   a 0.05
    """

    def __init__(
        self, llama: Llama, tokenizer: Tokenizer | None, end: int | None, origin: str
    ) -> None:
        self.llama = llama
        self.tokenizer = tokenizer
        self.end = end
        self.origin = origin
        self.size = llama.size

    def __repr__(self) -> str:
        size = self.size
        return f"<{self.origin}: {size.num_layers} layers of {size.num_heads} heads>"

    @property
    def heads(self) -> tuple[Head, ...]:
        """All heads, layer by layer."""
        return self.size.heads

    def read(self, text: Text, *changes: Intervention) -> Run:
        """Read a text, or token ids, and keep what the heads did.

        Args:
            text: at least one token, and at most context_length.
            changes: any number of Mute, Put and Cut.
        """
        return Run(self, Trace(self.llama, self.token_ids(text), changes))

    def mute_each(self, text: Text, word: str | None = None) -> Tensor:
        """Mute all heads in turn; return what is left of a word's probability each time.

        Args:
            text: what is read.
            word: of one token; None means the one that is likeliest when none is muted.

        Returns:
            (num_layers, num_heads).
        """
        return self.read(text).mute_each(word)

    def with_attention(self, make: Callable[[], nn.Module]) -> LanguageModel:
        """Return the same model around another attention class, with the same weights.

        Args:
            make: returns a new module; called once for each layer. It has W_query, W_key, W_value
                and out_proj of the model's sizes, or W_qkv in the place of three. It takes x,
                (b, num_tokens, width). If its forward also takes return_weights, a run shows its
                weights; if it has new_cache, and takes cache, the model writes with it.
        """
        attentions = []
        for block in self.llama.blocks:
            attention = make()
            adopt(attention, attention_weights(cast(Block, block).attention, self.size))
            attentions.append(attention.eval().requires_grad_(False))
        llama = with_blocks(self.llama, attentions)
        return LanguageModel(llama, self.tokenizer, self.end, self.origin)

    # Words

    def token_ids(self, text: Text) -> Tensor:
        """Return the token ids of a text, (num_tokens), or raise if it cannot be read."""
        if isinstance(text, str):
            found = self._words().encode(text).ids
        elif isinstance(text, Tensor):
            found = text.reshape(-1).tolist()
        else:
            found = list(text)
        if not found:
            raise ValueError("text is empty: write at least one word")
        if any(type(i) is not int or not 0 <= i < self.size.vocabulary for i in found):
            raise ValueError(
                "token ids must be whole numbers of the vocabulary, "
                f"0 to {self.size.vocabulary - 1}"
            )
        if len(found) > self.size.context_length:
            raise ValueError(
                f"text has {len(found)} tokens, more than context_length="
                f"{self.size.context_length}; read a shorter one"
            )
        return torch.tensor(found)

    def pieces(self, token_ids: Sequence[int]) -> tuple[str, ...]:
        """Return the text of each token, spaces included."""
        if self.tokenizer is None:
            return tuple(str(i) for i in token_ids)
        return tuple(self._text([i]) for i in token_ids)

    def token_of(self, word: str) -> int:
        """Return the id of a word of one token; it stands after a space, unless it begins so."""
        found = self._words().encode(word if word[:1].isspace() else f" {word}").ids
        if len(found) != 1:
            parts = ", ".join(repr(piece) for piece in self.pieces(found))
            raise ValueError(
                f"{word!r} is {len(found)} tokens for this model, {parts}; give a word of one, "
                "such as the first of these"
            )
        return int(found[0])

    def _words(self) -> Tokenizer:
        if self.tokenizer is None:
            raise ValueError("this model has no tokenizer for texts; give token ids")
        return self.tokenizer

    def _text(self, token_ids: Sequence[int]) -> str:
        return self._words().decode(list(token_ids), skip_special_tokens=False)

    # Writing

    def write(
        self,
        text: Text,
        num_tokens: int = 20,
        temperature: float = 0.0,
        top_k: int | None = None,
        seed: int = 0,
    ) -> str:
        """Write on, and return the text with what was added.

        It stops at the token that ends a text and at the context length. Interrupted, it returns
        what has been written so far.

        Args:
            text: the beginning.
            num_tokens: how many tokens are added at most.
            temperature: 0 takes the likeliest token each time; above, it draws, the more evenly
                the higher.
            top_k: draw among so many of the likeliest; None means all.
            seed: of the draws.
        """
        token_ids = self.token_ids(text).tolist()
        begun = len(token_ids)
        try:
            for token in self.tokens_after(token_ids, num_tokens, temperature, top_k, seed):
                token_ids.append(token)
        except KeyboardInterrupt:
            pass
        before = text if isinstance(text, str) else self._text(token_ids[:begun])
        return before + self._text(token_ids)[len(self._text(token_ids[:begun])) :]

    @torch.no_grad()
    def tokens_after(
        self,
        token_ids: Sequence[int],
        num_tokens: int,
        temperature: float = 0.0,
        top_k: int | None = None,
        seed: int = 0,
    ) -> Iterator[int]:
        """Yield one token id after the other, each as soon as it is known."""
        if temperature < 0:
            raise ValueError(f"temperature={temperature} is below 0; 0 takes the likeliest token")
        if top_k is not None and top_k < 1:
            raise ValueError(f"top_k={top_k} leaves no token to draw; give 1 or more, or None")
        length = min(len(token_ids) + num_tokens, self.size.context_length)
        generator = torch.Generator().manual_seed(seed)
        caches: list[Any] = self.llama.new_caches(length)
        read, new = list(token_ids), list(token_ids)
        while len(read) < length:
            x = self.llama(torch.tensor([new if caches else read]), caches)
            logits = self.llama.logits(x[0, -1])
            token = _chosen(logits, temperature, top_k, generator)
            if token == self.end:
                return
            yield token
            read, new = [*read, token], [token]


def _chosen(
    logits: Tensor, temperature: float, top_k: int | None, generator: torch.Generator
) -> int:
    """Return the likeliest token, or draw one."""
    if temperature == 0.0:
        return int(logits.argmax())
    likeliest = logits.topk(min(top_k or len(logits), len(logits)))
    probabilities = (likeliest.values / temperature).softmax(dim=-1)
    drawn = torch.multinomial(probabilities, 1, generator=generator)
    return int(likeliest.indices[drawn])

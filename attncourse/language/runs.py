"""One reading of a text, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from attncourse.language.hooks import Attended, Instead, attend, gives_weights, projected
from attncourse.language.interventions import Cut, Intervention, Mute, require_fits
from attncourse.language.model import Block, Llama, by_head, turned
from attncourse.language.words import NextWords

if TYPE_CHECKING:
    from attncourse.language.reader import LanguageModel


class Trace:
    """What a model computed while it read token ids, with interventions.

    Args:
        llama: the model.
        token_ids: int64, (num_tokens).
        changes: the interventions.
        start: an earlier trace of the same model and tokens, whose layers below the first changed
            one are taken over; they must not differ there.

    residual holds the residual stream before each layer and after the last, (1, num_tokens,
    width) each; numbers holds, for each layer, what its heads handed over, (1, num_tokens,
    num_heads, head_dim).
    """

    def __init__(
        self,
        llama: Llama,
        token_ids: Tensor,
        changes: Iterable[Intervention] = (),
        start: Trace | None = None,
    ) -> None:
        self.llama = llama
        self.token_ids = token_ids
        self.changes = tuple(changes)
        for change in self.changes:
            require_fits(change, llama.size, len(token_ids))
        first = 0
        if start is not None:
            first = min(self._first(change) for change in (*self.changes, *start.changes, None))
        self.residual: list[Tensor] = [] if start is None else start.residual[: first + 1]
        self.numbers: list[Tensor] = [] if start is None else start.numbers[:first]
        with torch.no_grad():
            if start is None:
                self.residual.append(llama.token_embedding(token_ids)[None])
            for layer in range(first, llama.size.num_layers):
                attended = self.attended(layer)
                after = self._block(layer).after_attention(self.residual[layer], attended.written)
                self.residual.append(after)
                self.numbers.append(attended.numbers)

    def attended(self, layer: int, return_weights: bool = False) -> Attended:
        """Run the attention of a layer once more, as it was changed."""
        block = self._block(layer)
        read = block.norm_1(self.residual[layer])
        edits = [c for c in self.changes if not isinstance(c, Cut) and c.layer == layer]

        def edit(numbers: Tensor) -> Tensor:
            numbers = numbers.clone()
            for change in edits:
                numbers[:, :, change.head] = change.edited(numbers[:, :, change.head])
            return numbers

        sizes = block.attention, self.llama.size
        return attend(*sizes, read, edit, self.instead(layer), return_weights)

    def instead(self, layer: int) -> Instead:
        """Return what the cut parts of a layer's heads read: the stream without the writes."""
        streams: dict[int, dict[str, Tensor]] = {}
        for change in self.changes:
            if isinstance(change, Cut) and change.reader[0] == layer:
                parts = streams.setdefault(change.reader[1], {})
                stream = parts.get(change.part, self.residual[layer])
                parts[change.part] = stream - self.write(*change.writer)
        norm = self._block(layer).norm_1
        return {h: {part: norm(s) for part, s in parts.items()} for h, parts in streams.items()}

    def write(self, layer: int, head: int) -> Tensor:
        """Return what a head wrote into the residual stream, (1, num_tokens, width)."""
        columns = by_head(self.columns(layer), self.llama.size.head_dim)[:, head]
        written: Tensor = self.numbers[layer][:, :, head] @ columns.T
        return written

    def columns(self, layer: int) -> Tensor:
        """Return the matrix that turns the heads' numbers into writes, (width, width)."""
        return cast(Tensor, self._block(layer).attention.get_submodule("out_proj").weight)

    def _block(self, layer: int) -> Block:
        return cast(Block, self.llama.blocks[layer])

    def _first(self, change: Intervention | None) -> int:
        """Return the first layer that a change touches; of no change, the one after the last."""
        if change is None:
            return self.llama.size.num_layers
        return change.reader[0] if isinstance(change, Cut) else change.layer


class Run:
    """A text as a model read it.

    Args:
        model: which read it.
        trace: what it computed.

    tokens are the pieces of the text, token_ids their numbers. All tokens, layers and heads are
    counted from 0; -1 is the last token.
    """

    def __init__(self, model: LanguageModel, trace: Trace) -> None:
        self.model = model
        self.trace = trace
        self.token_ids = trace.token_ids
        self.tokens = model.pieces(trace.token_ids.tolist())

    def __repr__(self) -> str:
        changes = "".join(f", {change}" for change in self.trace.changes)
        return f"<Run of {len(self.tokens)} tokens{changes}>"

    def again(self, *changes: Intervention) -> Run:
        """Return a run of the same text with other interventions, which replace those of this one.

        The layers below the first that either of them changes are taken from this run.
        """
        trace = Trace(self.trace.llama, self.token_ids, changes, start=self.trace)
        return Run(self.model, trace)

    # What it says

    @cached_property
    def logits(self) -> Tensor:
        """The logits of the next token at every token, (num_tokens, vocabulary)."""
        return self.trace.llama.logits(self.trace.residual[-1])[0]

    @cached_property
    def probabilities(self) -> Tensor:
        """The probability of each token to be the next one, (vocabulary)."""
        return self.trace.llama.logits(self.trace.residual[-1][0, -1]).softmax(dim=-1)

    @cached_property
    def losses(self) -> Tensor:
        """How surprised the model was by each token but the first, (num_tokens - 1), in nats."""
        return F.cross_entropy(self.logits[:-1], self.token_ids[1:], reduction="none")

    def next_words(self, how_many: int = 5) -> NextWords:
        """Return the likeliest next tokens with their probabilities."""
        likeliest = self.probabilities.topk(how_many)
        words = [word.strip() for word in self.model.pieces(likeliest.indices.tolist())]
        return NextWords(zip(words, likeliest.values.tolist(), strict=True))

    def probability(self, word: str) -> float:
        """Return the probability that the text goes on with a word of one token."""
        return float(self.probabilities[self.model.token_of(word)])

    # What its heads did

    @property
    def numbers(self) -> Tensor:
        """What all heads handed over, (num_layers, num_heads, num_tokens, head_dim)."""
        return torch.cat(self.trace.numbers).transpose(1, 2)

    def head(self, layer: int, head: int, at: int | None = -1) -> Tensor:
        """Return what a head handed over at a token, (head_dim); at all of them if at is None."""
        self._require(layer, head, at)
        numbers = self.trace.numbers[layer][0, :, head]
        return numbers.clone() if at is None else numbers[at].clone()

    def write(self, layer: int, head: int, at: int | None = -1) -> Tensor:
        """Return what a head wrote into the residual stream of a token, (width); or of all."""
        self._require(layer, head, at)
        written = self.trace.write(layer, head)[0]
        return written if at is None else written[at]

    def writes(self, at: int = -1) -> Tensor:
        """Return the writes of all heads at a token, (num_layers, num_heads, width)."""
        self._require(0, 0, at)
        size = self.model.size
        columns = [self.trace.columns(layer) for layer in range(size.num_layers)]
        matrices = by_head(torch.stack(columns), size.head_dim)
        return torch.einsum("lhd,lwhd->lhw", self.numbers[:, :, at], matrices)

    def weights(self, layer: int, head: int | None = None) -> Tensor:
        """Return the attention weights of a head, (num_tokens, num_tokens); or of all its layer.

        They are the weights that the attention module itself returns.
        """
        self._require(layer, head or 0, None)
        attention = cast(Block, self.model.llama.blocks[layer]).attention
        if not gives_weights(attention):
            raise TypeError(
                f"the forward of {type(attention).__name__} takes no return_weights=True, so its "
                "weights are not known; let it return context_vec and attn_weights then"
            )
        with torch.no_grad():
            found = cast(Tensor, self.trace.attended(layer, return_weights=True).weights)[0]
        return found if head is None else found[head]

    def scores(self, layer: int, head: int | None = None) -> Tensor:
        """Return queries times keys of a head, (num_tokens, num_tokens); or of all its layer.

        They are neither divided by sqrt(head_dim) nor masked yet.
        """
        self._require(layer, head or 0, None)
        block, size = cast(Block, self.model.llama.blocks[layer]), self.model.size
        with torch.no_grad():
            read = block.norm_1(self.trace.residual[layer])
            made = projected(block.attention, size, read, self.trace.instead(layer))
            queries, keys = turned(made["queries"], size)[0], turned(made["keys"], size)[0]
        found = queries @ keys.transpose(-2, -1)  # (num_heads, num_tokens, num_tokens)
        return found if head is None else found[head]

    def read_aloud(self, layer: int, head: int, how_many: int = 6, at: int = -1) -> list[str]:
        """Return the tokens that a head's write speaks for, the loudest first.

        The write goes through the scale of the final norm and the embedding, as the residual
        stream does at the end.
        """
        llama = self.model.llama
        written = self.write(layer, head, at) * llama.final_norm.weight
        loudest = (llama.unembedding @ written).topk(how_many).indices
        return [word.strip() for word in self.model.pieces(loudest.tolist())]

    def mute_each(self, word: str | None = None) -> Tensor:
        """Mute all heads in turn, and return what is left of a word's probability each time.

        The layers below the muted head are taken from this run, which must be without
        interventions; the heads of a layer are muted side by side.

        Args:
            word: of one token; None means the word that is likeliest now.

        Returns:
            (num_layers, num_heads).
        """
        from tqdm.auto import tqdm

        if self.trace.changes:
            raise ValueError("mute_each asks for a run without interventions; try again()")
        token = int(self.probabilities.argmax()) if word is None else self.model.token_of(word)
        llama, size = self.model.llama, self.model.size
        heads, left = torch.arange(size.num_heads), []

        def mute_one_each(numbers: Tensor) -> Tensor:
            numbers = numbers.clone()
            numbers[heads, :, heads] = 0.0
            return numbers

        with torch.no_grad(), tqdm(total=size.num_layers, desc="muting each head") as bar:
            for layer, x in enumerate(self.trace.residual[:-1]):
                x = x.expand(size.num_heads, -1, -1)  # (num_heads, num_tokens, width)
                blocks = [cast(Block, block) for block in llama.blocks[layer:]]
                read = blocks[0].norm_1(x)
                attended = attend(blocks[0].attention, size, read, mute_one_each)
                x = blocks[0].after_attention(x, attended.written)
                for block in blocks[1:]:
                    x = block(x)
                left.append(llama.logits(x[:, -1]).softmax(dim=-1)[:, token])
                bar.update()
        return torch.stack(left)

    def _require(self, layer: int, head: int, at: int | None) -> None:
        """Raise unless a head and a token are there."""
        require_fits(Mute(layer, head, at), self.model.size, len(self.tokens))

"""One reading of a text, and what can be asked of it."""

from __future__ import annotations

import sys
from functools import cached_property
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from attncourse.language.hooks import AttentionResult, Inputs, run_attention
from attncourse.language.interventions import (
    Ablate,
    Intervention,
    PathPatch,
    places_of,
    require_fits,
)
from attncourse.language.model import Block, Llama, apply_rotary, matrix_of, split_last
from attncourse.language.tokenizer import TextTokenizer
from attncourse.next_words import NextWords
from attncourse.renamed import explain_renamed


class Run:
    """A text as a model read it. Tokens, layers and heads are counted from 0; -1 is the last token.

    Args:
        llama: the model that reads it.
        tokenizer: the model's.
        token_ids: int64, (num_tokens).
        changes: the interventions.
        below: an earlier run of the same tokens: what both have in common is taken from it.
    """

    @torch.no_grad()
    def __init__(
        self,
        llama: Llama,
        tokenizer: TextTokenizer,
        token_ids: Tensor,
        changes: tuple[Intervention, ...] = (),
        below: Run | None = None,
    ) -> None:
        for change in changes:
            require_fits(change, llama.size, len(token_ids))
        self.llama, self.size = llama, llama.size
        self.tokenizer = tokenizer
        self.token_ids = token_ids
        self.tokens = tokenizer.token_texts(token_ids.tolist())
        self.changes = changes
        # the residual stream before each layer and after the last, (1, num_tokens, width)
        self.residual = [llama.token_embedding(token_ids)[None]]
        # what the attention of each layer read, (1, num_tokens, width)
        self.inputs: list[Tensor] = []
        # the output of the heads of each layer, (1, num_tokens, num_heads, head_dim)
        self.head_outputs: list[Tensor] = []
        if below is not None:
            first = min([_layer(change) for change in (*changes, *below.changes)], default=None)
            self.residual, self.head_outputs = below.residual[:first], below.head_outputs[:first]
            self.inputs = below.inputs[:first]
            if first is not None:
                self.residual.append(below.residual[first])
        for layer in range(len(self.head_outputs), self.size.num_layers):
            self.residual.append(self._after(layer))
            if len(self.inputs) == layer:
                raise ValueError("the block never calls layer.attention, so no head reads anything")

    def __repr__(self) -> str:
        return f"<Run of {len(self.tokens)} tokens{''.join(f', {c}' for c in self.changes)}>"

    def rerun(self, *changes: Intervention) -> Run:
        """Return a run of the same text with other interventions, in the place of this one's."""
        return Run(self.llama, self.tokenizer, self.token_ids, changes, below=self)

    # What the model says

    @cached_property
    def logits(self) -> Tensor:
        """The logits of the next token at every token, (num_tokens, vocabulary)."""
        return self.llama.logits(self.residual[-1][0])

    @cached_property
    def next_logits(self) -> Tensor:
        """The logits of the token after the text, (vocabulary)."""
        return self.llama.logits(self.residual[-1][0, -1])

    @cached_property
    def probabilities(self) -> Tensor:
        """The probability of each token to be the next one, (vocabulary)."""
        return self.next_logits.softmax(dim=-1)

    @cached_property
    def losses(self) -> Tensor:
        """How surprised the model was by each token but the first, (num_tokens - 1), in nats."""
        return F.cross_entropy(self.logits[:-1], self.token_ids[1:], reduction="none")

    def next_words(self, how_many: int = 5) -> NextWords:
        """Return the likeliest next tokens with their probabilities."""
        likeliest = self.probabilities.topk(how_many)
        words = [word.strip() for word in self.tokenizer.token_texts(likeliest.indices.tolist())]
        return NextWords(zip(words, likeliest.values.tolist(), strict=True))

    def probability(self, word: str) -> float:
        """Return the probability that the text goes on with a word of one token."""
        return float(self.probabilities[self.tokenizer.token_id(word)])

    # What its heads did

    def head_output(self, layer: int, head: int, at: int | None = -1) -> Tensor:
        """Return a head's output at a token, before out_proj, (head_dim); at each if at is None."""
        self._require(layer, head, at)
        numbers = self.head_outputs[layer][0, :, head].clone()
        return numbers if at is None else numbers[at]

    def attention_input(self, layer: int) -> Tensor:
        """Return what the heads of a layer read, the stream after its norm, (num_tokens, width)."""
        self._require(layer, 0)
        return self.inputs[layer][0]

    def head_write(self, layer: int, head: int) -> Tensor:
        """Return what a head wrote into the residual stream, (num_tokens, width)."""
        self._require(layer, head)
        out_proj = matrix_of(self._block(layer).attention, "out_proj")
        columns = split_last(out_proj, self.size.head_dim)[:, head]
        return self.head_outputs[layer][0, :, head] @ columns.T

    def logit_attribution(self, word: str) -> Tensor:
        """Return what each head's write at the last token adds to a word's logit by itself.

        The scale of the final norm is taken as it is in this run; what later layers make of a write
        is not in it. Returns (num_layers, num_heads).
        """
        scale = self.residual[-1][0, -1].square().mean().add(self.size.epsilon).rsqrt()
        writes = torch.stack([self.head_write(*head)[-1] for head in self.size.heads])
        added: Tensor = writes @ self._readers()[self.tokenizer.token_id(word)] * scale
        return added.view(self.size.num_layers, self.size.num_heads)

    def attn_weights(self, layer: int, head: int | None = None) -> Tensor:
        """Return a head's attention weights, (num_tokens, num_tokens); or those of its layer.

        They are what the attention module itself returns.
        """
        self._require(layer, head or 0)
        found = self._attended(layer, return_weights=True).maps["weights"][0]
        return found if head is None else found[head]

    def attn_scores(self, layer: int, head: int | None = None) -> Tensor:
        """Return a head's queries times keys, (num_tokens, num_tokens); or those of its layer.

        They are neither divided by sqrt(head_dim) nor masked yet.
        """
        self._require(layer, head or 0)
        maps = self._attended(layer).maps
        queries, keys = (apply_rotary(maps[part], self.size)[0] for part in ("queries", "keys"))
        found = queries @ keys.transpose(-2, -1)  # (num_heads, num_tokens, num_tokens)
        return found if head is None else found[head]

    def queries(self, layer: int, head: int, rotated: bool = True) -> Tensor:
        """Return a head's queries, (num_tokens, head_dim), with or without rotary positions."""
        return self._part("queries", layer, head, rotated)

    def keys(self, layer: int, head: int) -> Tensor:
        """Return the keys of a head with rotary positions, (num_tokens, head_dim)."""
        return self._part("keys", layer, head)

    def values(self, layer: int, head: int) -> Tensor:
        """Return the values of a head, (num_tokens, head_dim)."""
        return self._part("values", layer, head, rotated=False)

    def attention_on(self, marked: Tensor) -> Tensor:
        """Return how much of its weight each head has on marked keys, (num_layers, num_heads).

        Args:
            marked: bool, (num_tokens, num_tokens), queries down, keys across; the mean is over the
                queries that have any.
        """
        layers = [self.attn_weights(layer) for layer in range(self.size.num_layers)]
        on_marked = (torch.stack(layers) * marked).sum(dim=-1)
        return on_marked[..., marked.any(dim=-1)].mean(dim=-1)

    def logit_lens(self, layer: int, head: int, how_many: int = 6) -> list[str]:
        """Return the tokens whose logits a head's write at the last token raises most by itself.

        The write goes through the scale of the final norm and the unembedding, as the residual
        stream does at the end.
        """
        raised = self._readers() @ self.head_write(layer, head)[-1]
        tokens = raised.topk(how_many).indices.tolist()
        return [word.strip() for word in self.tokenizer.token_texts(tokens)]

    def _readers(self) -> Tensor:
        """Return for each token what the residual stream is multiplied with for its logit."""
        return self.llama.unembedding * self.llama.final_norm.weight  # (vocabulary, width)

    def ablate_each(self, word: str | None = None) -> Tensor:
        """Ablate all heads in turn, and return what is left of a word's probability each time.

        Args:
            word: of one token; None means the one that is likeliest now.

        Returns:
            (num_layers, num_heads).
        """
        from tqdm import tqdm

        layers = tqdm(range(self.size.num_layers), "each head", file=sys.stdout, leave=False)
        return torch.stack([self.ablate_layer(layer, word) for layer in layers])

    @torch.no_grad()
    def ablate_layer(self, layer: int, word: str | None = None) -> Tensor:
        """Ablate the heads of one layer in turn, in one batch, as ablate_each; (num_heads)."""
        if self.changes:
            raise ValueError("heads are ablated in turn in a run without changes; try run.rerun()")
        self._require(layer, 0)
        token = int(self.probabilities.argmax()) if word is None else self.tokenizer.token_id(word)
        llama, size = self.llama, self.size
        heads = torch.arange(size.num_heads)

        def ablate_one_each(numbers: Tensor) -> None:
            numbers[heads, :, heads] = 0.0

        x = self.residual[layer].expand(size.num_heads, -1, -1)
        block = self._block(layer)

        def attention(read: Tensor) -> Tensor:
            return run_attention(block.attention, size, read, ablate_one_each).written

        x = llama(block.around(attention, x), first=layer + 1)
        probabilities = llama.logits(x[:, -1]).softmax(dim=-1)  # (num_heads, vocabulary)
        return probabilities[:, token].clone()  # a view would keep all of them

    # How it is computed

    def _after(self, layer: int) -> Tensor:
        """Return the stream after a layer; keep its attention's input and its heads' outputs."""

        def attention(read: Tensor) -> Tensor:
            self.inputs[layer:] = [read]
            attended = self._attended(layer)
            self.head_outputs[layer:] = [attended.numbers]
            return attended.written

        return self._block(layer).around(attention, self.residual[layer])

    @torch.no_grad()
    def _attended(self, layer: int, **options: Any) -> AttentionResult:
        """Run the attention of a layer on what it read, with this run's interventions.

        The module runs once more for each head that reads something else, and only that head is
        taken from there: others that share keys with it keep theirs.
        """
        attention, x = self._block(layer).attention, self.inputs[layer]
        others = {
            head: run_attention(attention, self.size, x, reads=reads, **options)
            for head, reads in self._patched_inputs(layer).items()
        }

        def edit(numbers: Tensor) -> None:
            for head, other in others.items():
                numbers[:, :, head] = other.numbers[:, :, head]
            for c in self.changes:
                if not isinstance(c, PathPatch) and c.layer == layer:
                    places = slice(None) if c.at is None else places_of(c.at)
                    numbers[:, places, c.head] = c.numbers.to(numbers)

        attended = run_attention(attention, self.size, x, edit, **options)
        for head, other in others.items():
            for kind, own in attended.maps.items():
                own[:, head] = other.maps[kind][:, head]
        return attended

    def _part(self, part: str, layer: int, head: int, rotated: bool = True) -> Tensor:
        self._require(layer, head)
        found = self._attended(layer).maps[part]
        return (apply_rotary(found, self.size) if rotated else found)[0, head]

    def _patched_inputs(self, layer: int) -> dict[int, Inputs]:
        """Return what patched parts of heads read: the stream without the writes of other heads."""
        streams: dict[int, dict[str, Tensor]] = {}  # by head and part
        for c in self.changes:
            if isinstance(c, PathPatch) and c.reader[0] == layer:
                own = streams.setdefault(c.reader[1], {})
                own[c.part] = own.get(c.part, self.residual[layer]) - self.head_write(*c.writer)
        norm = self._block(layer).norm_1
        return {head: {part: norm(own[part]) for part in own} for head, own in streams.items()}

    def _block(self, layer: int) -> Block:
        return cast(Block, self.llama.blocks[layer])

    def _require(self, layer: int, head: int, at: int | None = None) -> None:
        require_fits(Ablate(layer, head, at), self.size, len(self.tokens))


def _layer(change: Intervention) -> int:
    """Return the first layer that a change touches."""
    return change.reader[0] if isinstance(change, PathPatch) else change.layer


explain_renamed(Run)

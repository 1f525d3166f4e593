"""Time the language model side by side with Hugging Face's of the same weights."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.language import LanguageModel, LlamaSize, ModelMissingError, installed_model
from attncourse.speed.clock import in_turns, require_equal, run_python

FOLDER = str(Path(__file__).parent)
OURS, THEIRS = "ours", "transformers"
SENTENCE = "As the spaceship was approaching the"  # six tokens
PARTS = ("norm_1", "attention.W_qkv", "attention.out_proj", "norm_2", "widen", "narrow")
LOAD = f"""
import json, sys, time
import torch, tqdm.auto
sys.path.insert(0, {FOLDER!r})
from peak import peak_bytes
begin = time.perf_counter()
from attncourse.language import installed_model
model = installed_model()
loaded = time.perf_counter()
model.read({SENTENCE!r}).mute_each()
print(json.dumps([loaded - begin, time.perf_counter() - loaded, peak_bytes()]))
"""


def theirs(size: LlamaSize, state: dict[str, Tensor]) -> nn.Module:
    """Return Hugging Face's Llama with our weights: in theirs, halves turn together, not pairs."""
    import transformers  # here: it takes seconds, and not all that import this file need it
    from transformers.initialization import no_init_weights

    config = transformers.LlamaConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.width,
        intermediate_size=size.hidden,
        num_hidden_layers=size.num_layers,
        num_attention_heads=size.num_heads,
        num_key_value_heads=size.num_kv_heads,
        max_position_embeddings=size.context_length,
        rms_norm_eps=size.epsilon,
        rope_parameters={"rope_type": "default", "rope_theta": size.rotary_base},
        tie_word_embeddings=size.is_tied,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )

    def halves(rows: Tensor) -> Tensor:
        pairs = rows.view(-1, size.head_dim // 2, 2, size.width)
        return pairs.transpose(1, 2).reshape(rows.shape)

    names = {
        "model.embed_tokens.weight": state["token_embedding.weight"],
        "model.norm.weight": state["final_norm.weight"],
        "lm_head.weight": state.get("read_out.weight", state["token_embedding.weight"]),
    }
    for layer in range(size.num_layers):
        own = {part: state[f"blocks.{layer}.{part}.weight"] for part in PARTS}
        queries, keys, values = own["attention.W_qkv"].split(size.widths)
        gate, up = own["widen"].chunk(2)
        names |= {
            f"model.layers.{layer}.{name}.weight": weight
            for name, weight in {
                "input_layernorm": own["norm_1"],
                "self_attn.q_proj": halves(queries),
                "self_attn.k_proj": halves(keys),
                "self_attn.v_proj": values,
                "self_attn.o_proj": own["attention.out_proj"],
                "post_attention_layernorm": own["norm_2"],
                "mlp.gate_proj": gate,
                "mlp.up_proj": up,
                "mlp.down_proj": own["narrow"],
            }.items()
        }
    with no_init_weights():  # all are loaded
        model = transformers.LlamaForCausalLM(config)
    model.load_state_dict(names)
    return model.eval()


@torch.no_grad()
def read_by_ours(model: LanguageModel, token_ids: Tensor) -> Tensor:
    """Return the logits of the token after the last."""
    x = model.llama(model.llama.token_embedding(token_ids[None]))
    return model.llama.logits(x[0, -1])


@torch.no_grad()
def read_by_theirs(model: Any, token_ids: Tensor) -> Tensor:
    """Return the same of theirs."""
    logits: Tensor = model(token_ids[None], use_cache=False, logits_to_keep=1).logits[0, -1]
    return logits


def write_by_ours(model: LanguageModel, token_ids: Tensor, num_tokens: int) -> Tensor:
    """Return the likeliest next tokens, written with the cache."""
    return torch.tensor(list(model.tokens_after(token_ids.tolist(), num_tokens)))


@torch.no_grad()
def write_by_theirs(model: Any, token_ids: Tensor, num_tokens: int) -> Tensor:
    """Return the same of theirs, with their cache."""
    written, new, cache = [], token_ids[None], None
    for _ in range(num_tokens):
        found = model(new, past_key_values=cache, use_cache=True, logits_to_keep=1)
        new, cache = found.logits[:, -1].argmax(dim=-1, keepdim=True), found.past_key_values
        written.append(new[0])
    return torch.cat(written)


def side_by_side(
    model: LanguageModel, read: int, written: int, budget: float
) -> dict[str, dict[str, list[float]]]:
    """Return the seconds of each round: reading a text, and writing after its first tokens."""
    endless = LanguageModel(model.llama, model.tokenizer, None, model.origin)
    other = theirs(model.size, model.llama.state_dict())
    generator = torch.Generator().manual_seed(3)
    text = torch.randint(model.size.vocabulary, (read,), generator=generator)
    start = text[: max(1, read // 32)]
    reading = {
        OURS: lambda: read_by_ours(endless, text),
        THEIRS: lambda: read_by_theirs(other, text),
    }
    writing = {
        OURS: lambda: write_by_ours(endless, start, written),
        THEIRS: lambda: write_by_theirs(other, start, written),
    }
    require_equal(reading, 1e-3)
    require_equal(writing, 0.0)
    return {
        f"{read} tokens read": in_turns(reading, budget, label=f"{read} tokens read"),
        f"{written} tokens written": in_turns(writing, budget, label=f"{written} tokens written"),
    }


def speaking(read: int, written: int, budget: float) -> dict[str, Any]:
    """Return all measurements of the installed model; nothing where it is not installed."""
    try:
        model = installed_model()
    except ModelMissingError as missing:
        print(missing)
        return {}
    with tempfile.TemporaryDirectory() as folder:
        cache = {"XDG_CACHE_HOME": folder, "LOCALAPPDATA": folder}
        printed = (run_python(LOAD, **cache).splitlines() for _ in range(4))
        first, *later = (json.loads(lines[-1]) for lines in printed)  # the others are the bar's
    return {
        "samples": side_by_side(model, read, written, budget),
        "first load, s": [first[0]],
        "later load, s": [load[0] for load in later],
        "270 heads muted in turn, s": [load[1] for load in (first, *later)],
        "peak, MB": [load[2] / 1e6 for load in (first, *later)],
    }

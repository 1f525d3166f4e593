"""Hugging Face's Llama with the weights of ours."""

from __future__ import annotations

from torch import Tensor, nn

from attncourse.language import LlamaSize

PARTS = ("norm_1", "attention.W_qkv", "attention.out_proj", "norm_2")
PARTS += ("gate_proj", "up_proj", "down_proj")


def theirs(size: LlamaSize, state: dict[str, Tensor]) -> nn.Module:
    """Return Hugging Face's Llama with our weights: in theirs, halves turn together, not pairs."""
    import transformers  # here: it takes seconds, and not all that import this file need it
    from transformers.initialization import no_init_weights

    config = transformers.LlamaConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.width,
        intermediate_size=size.mlp_width,
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
        "lm_head.weight": state.get("lm_head.weight", state["token_embedding.weight"]),
    }
    for layer in range(size.num_layers):
        own = {part: state[f"blocks.{layer}.{part}.weight"] for part in PARTS}
        queries, keys, values = own["attention.W_qkv"].split(size.widths)
        names |= {
            f"model.layers.{layer}.{name}.weight": weight
            for name, weight in {
                "input_layernorm": own["norm_1"],
                "self_attn.q_proj": halves(queries),
                "self_attn.k_proj": halves(keys),
                "self_attn.v_proj": values,
                "self_attn.o_proj": own["attention.out_proj"],
                "post_attention_layernorm": own["norm_2"],
                "mlp.gate_proj": own["gate_proj"],
                "mlp.up_proj": own["up_proj"],
                "mlp.down_proj": own["down_proj"],
            }.items()
        }
    with no_init_weights():  # all are loaded
        model = transformers.LlamaForCausalLM(config)
    model.load_state_dict(names)
    return model.eval()

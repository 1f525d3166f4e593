"""Heads divided over processes: what the processes make adds up to what one makes."""

import copy

import pytest
import torch

from attncourse.language import Ablate
from attncourse.language.model import LlamaSize, new_attention
from attncourse.language.parallel import alone, keep_own_heads, own_part
from support.small_llama import small_model

SIZE = LlamaSize(1, 15, 5, width=30, mlp_width=7, vocabulary=11, context_length=13)


@pytest.mark.parametrize("num_processes", [1, 2, 5])
def test_the_parts_add_up_to_the_whole_and_so_do_their_gradients(num_processes):
    torch.manual_seed(5)
    attention = new_attention(SIZE).double()
    x = torch.randn(2, 7, 30, dtype=torch.float64, requires_grad=True)
    parts = []
    for process in range(num_processes):
        part = copy.deepcopy(attention)
        keep_own_heads(
            part,
            lambda rows, process=process: own_part(rows, SIZE, process, num_processes),
            lambda out: out,
        )
        parts.append(part)
    whole, summed = attention(x), sum(part(x) for part in parts)
    torch.testing.assert_close(summed, whole)
    gradients = [torch.autograd.grad(out.square().sum(), x)[0] for out in (summed, whole)]
    torch.testing.assert_close(*gradients)
    assert sum(len(part.W_qkv.weight) for part in parts) == len(attention.W_qkv.weight)


def test_a_process_alone_says_what_its_own_heads_make_of_the_text():
    model, text = small_model(), [17, 3, 89]
    whole = model.read(text)
    assert alone(model, text, 0, 1) == str(int(whole.next_logits.argmax()))
    mine = whole.rerun(*(Ablate(layer, head) for layer in range(3) for head in (4, 5)))
    assert alone(model, text, 0, 2) == str(int(mine.next_logits.argmax()))


@pytest.mark.parametrize("num_processes", [0, 6])
def test_each_process_needs_a_head_of_keys(num_processes):
    with pytest.raises(ValueError, match=f"num_processes={num_processes} must be 1 to 5"):
        own_part(torch.arange(15), SIZE, 0, num_processes)

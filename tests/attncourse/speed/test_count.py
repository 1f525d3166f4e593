"""What a module costs, against formulas worked out by hand."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from attncourse.speed.count import count_matrix_products, count_parameters
from support.cases import CASES, D_IN, HEAD_DIM, name, tokens

WIDTHS = (1, 2, 3, 12)


@pytest.mark.parametrize("case", CASES, ids=name)
@pytest.mark.parametrize("qkv_bias", [False, True])
@pytest.mark.parametrize("num_heads", WIDTHS)
def test_parameters(case, qkv_bias, num_heads):
    """Projections from d_in to the width of all their heads, and out_proj where there is one."""
    module = case.build(num_heads=num_heads, qkv_bias=qkv_bias)
    width = case.width(num_heads)
    kv_width = case.width(case.num_kv_heads or num_heads)
    projections = (width + 2 * kv_width) * (D_IN + qkv_bias)
    out_proj = width * (width + 1) if hasattr(module, "out_proj") else 0
    assert count_parameters(module) == projections + out_proj


@pytest.mark.parametrize("case", CASES, ids=name)
@pytest.mark.parametrize("num_heads", WIDTHS)
def test_matrix_products(case, num_heads):
    """Three projections, scores, context: per head where each head runs, else once for all.

    A fused class multiplies by W_qkv and out_proj; the rest happens inside the kernel.
    """
    module = case.build(num_heads=num_heads)
    expected = 5 * (num_heads if hasattr(module, "heads") else 1) + hasattr(module, "out_proj")
    expected = 2 if case.in_kernel else expected
    assert count_matrix_products(module, tokens()) == expected


class Products(nn.Module):
    """Compute products in every spelling, and things that are not products."""

    def forward(self, x):
        x = x @ x.mT
        x = torch.matmul(x, x)
        x = x.matmul(x)
        x = torch.bmm(x, x)
        x = torch.einsum("bqd,bkd->bqk", x, x)
        x = nn.functional.linear(x, torch.ones(7, 7))
        return torch.softmax(x * x + x.sum(), dim=-1)


def test_every_spelling_of_a_product_counts():
    assert count_matrix_products(Products(), torch.ones(2, 7, HEAD_DIM)) == 6


WITHOUT_TRITON = """
import sys, torch
torch.version.cuda = "13.0"  # a build for GPUs, on a machine that has no triton
sys.modules["triton"] = None
from attncourse.speed import count_work
print(count_work(torch.nn.Linear(3, 2, bias=False), torch.ones(5, 3)).flops)
"""


def test_counting_says_nothing_of_triton():
    """PyTorch does, on stderr, and a line there turns a notebook red."""
    command = [sys.executable, "-c", WITHOUT_TRITON]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("60\n", "")

"""What alt texts say of attention weights is what the weights are."""

import pytest
import torch

from attncourse.pictures.alt_text import MOST_ROWS, describe_row, describe_weights, format_number

WORDS = ["Your", " journey", " starts", " with", " one"]


def rows(*keys: int, weight: float = 0.75) -> torch.Tensor:
    weights = torch.full((len(keys), max(5, len(keys))), 0.01)
    weights[range(len(keys)), list(keys)] = weight
    return weights


@pytest.mark.parametrize(
    ("keys", "clause"),
    [
        ((0, 0, 1, 2, 3), "each word attends most to the word just before it, with 0.75"),
        ((0, 1, 2, 3, 4), "each word attends most to itself, with 0.75"),
        ((0, 0, 0, 0, 0), "each word attends most to Your, the first, with 0.75"),
    ],
)
def test_what_all_queries_do_is_one_clause(keys, clause):
    weights = rows(*keys)
    weights[0] = torch.tensor([1.0, 0, 0, 0, 0])  # it has no choice, and is not told
    assert describe_weights(weights, WORDS) == clause


def test_else_each_row_is_told_but_of_many_rows_some():
    clause = describe_weights(rows(2, 0, 1, 0, 2), WORDS)
    assert clause.startswith("Your attends most to starts (0.75), journey attends most to Your")
    size = 2 * MOST_ROWS
    many = rows(*(min(7 * n % size, n) if n % 3 else n // 2 for n in range(size)))
    clause = describe_weights(many, [f"w{n}" for n in range(size)])
    assert clause.count(" most to ") <= MOST_ROWS
    assert clause.endswith(" more")


def test_fewer_queries_than_keys_are_the_last_words_and_nan_has_nothing_to_say():
    assert describe_weights(rows(1), WORDS) == "one attends most to journey (0.75)"
    assert describe_weights(torch.full((5, 5), torch.nan), WORDS) == "no weights"


def test_a_row_is_told_with_the_most_first():
    row = torch.tensor([0.25, 0.04, 0.5, 0.21, 0.0])
    told = describe_row(row, ["a", "b", "a", "c", "d"], 3, 0.05)
    assert told == "c attends to a (2) (0.50), a (0.25), c (0.21)"


def test_a_number_keeps_off_the_boundaries_of_rounding():
    assert [format_number(x) for x in (0.2468, 0.2451, 0.625)] == ["0.25", "0.245", "0.625"]

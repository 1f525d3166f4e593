"""What alt texts say of attention weights is what the weights are."""

import pytest
import torch

from attncourse.pictures.seen import MOST_ROWS, largest_weights, tell_apart, whole_row

WORDS = ["Your", " journey", " starts", " with", " one"]


def rows(*keys: int, weight: float = 0.75) -> torch.Tensor:
    weights = torch.full((len(keys), max(5, len(keys))), 0.01)
    weights[range(len(keys)), list(keys)] = weight
    return weights


def test_words_that_come_again_are_told_apart():
    assert tell_apart(["the", " a", " the", "the"]) == ["the", "a", "the (2)", "the (3)"]


@pytest.mark.parametrize(
    ("keys", "clause"),
    [
        ((0, 0, 1, 2, 3), "each word looks most at the word just before it, with 0.75"),
        ((0, 1, 2, 3, 4), "each word looks most at itself, with 0.75"),
        ((0, 0, 0, 0, 0), "each word looks most at Your, the first, with 0.75"),
        (
            (0, 0, 1, 2, 0),
            "each word looks most at the word just before it, with 0.75; "
            "but one most at Your (0.75)",
        ),
    ],
)
def test_what_all_or_most_queries_do_is_one_clause(keys, clause):
    weights = rows(*keys)
    weights[0] = torch.tensor([1.0, 0, 0, 0, 0])  # it has no choice, and is not told
    assert largest_weights(weights, WORDS) == clause


def test_else_each_row_is_told():
    weights = rows(2, 0, 1, 0, 2)
    weights[3, 0] = 0.5
    assert largest_weights(weights, WORDS) == (
        "Your most at starts (0.75), journey most at Your (0.75), starts most at journey (0.75), "
        "with most at Your (0.50), one most at starts (0.75)"
    )


def test_a_range_of_weights_is_told_by_its_ends():
    weights = rows(0, 1, 2, 3, 4)
    weights[3, 3] = 0.5
    clause = largest_weights(weights, WORDS)
    assert clause == "each word looks most at itself, with 0.50 to 0.75"


def test_of_many_rows_some_are_told():
    size = 2 * MOST_ROWS
    words = [f"w{n}" for n in range(size)]
    weights = rows(*(min(7 * n % size, n) if n % 3 else n // 2 for n in range(size)))
    clause = largest_weights(weights, words)
    assert clause.count(" most at ") <= MOST_ROWS
    assert ", and " in clause
    assert clause.endswith(" more")


def test_fewer_queries_than_keys_are_the_last_words():
    assert largest_weights(rows(1), WORDS) == "one most at journey (0.75)"


def test_nothing_to_tell():
    assert largest_weights(torch.full((5, 5), torch.nan), WORDS) == "no weights"
    assert largest_weights(torch.ones(1, 1), ["Your"]) == "one word, which sees itself"


def test_a_row_is_told_with_the_most_first():
    row = torch.tensor([0.25, 0.04, 0.5, 0.21, 0.0])
    assert whole_row(row, WORDS, 3, 0.05) == (
        "with looks at starts (0.50), Your (0.25), with (0.21)"
    )
    assert whole_row(torch.zeros(5), WORDS, 3, 0.05) == "with looks at nothing"

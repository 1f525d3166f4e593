"""The twin: one head looks at one country and names its capital; two heads name both."""

import pytest
import torch

from attncourse.learning.mini import COUNTRIES
from attncourse.learning.two_answers import (
    QUESTIONS,
    TwoAnswerModel,
    correct_journeys,
    journeys,
    two_answer_model,
)
from train_mini import right_of

TEXT = "A train from France to Italy runs"


def right_ends(model: TwoAnswerModel) -> list[int]:
    named = [(model.read(text).named, both) for text, both in journeys()]
    return [sum(said[i] == both[i] for said, both in named) for i in range(len(QUESTIONS))]


def test_the_journeys_are_all_ordered_pairs():
    assert len(journeys()) == len({both for _, both in journeys()}) == 8 * 7
    assert journeys()[0] == (TEXT, ("Paris", "Rome"))
    assert {name for both in journeys() for name in both[1]} == {c.capital for c in COUNTRIES}


def test_one_head_looks_at_one_country_and_two_heads_at_one_each():
    one, two = two_answer_model(num_heads=1), two_answer_model(num_heads=2)
    assert sum(w.numel() for w in one.parameters()) == 212
    assert sum(w.numel() for w in two.parameters()) == 212
    assert (right_of(one), right_of(two)) == (correct_journeys(1)[5], 56) == (8, 56)
    assert right_ends(one) == [56, 8]
    assert right_ends(two) == [56, 56]
    assert one.read(TEXT).weights[0, -1, 3] > 0.99
    from_france, to_italy = two.read(TEXT).weights[:, -1]
    assert from_france[3] > 0.85
    assert to_italy[5] > 0.95


def test_what_is_read_is_what_forward_says():
    model = TwoAnswerModel(num_heads=2, has_mlp=True).eval()
    ids = torch.tensor([[model.words.index(word) for word in TEXT.split()]])
    read = model.read(TEXT)
    likeliest = model(ids)[0].softmax(dim=-1).max(dim=-1)
    assert read.probabilities == pytest.approx(likeliest.values.tolist())
    assert read.named == tuple(model.words[i] for i in likeliest.indices)


def test_what_is_not_there_is_refused():
    with pytest.raises(
        ValueError,
        match="num_heads=3, seed=5 is not stored; stored are ",
    ):
        two_answer_model(num_heads=3)
    with pytest.raises(ValueError, match="num_heads=2, seed=3 is not stored"):
        two_answer_model(num_heads=2, seed=3)
    with pytest.raises(ValueError, match="'plane' is not among the words of this model"):
        two_answer_model(num_heads=2).read("A plane from France to Italy runs")

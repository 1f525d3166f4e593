"""The mini model: do its two numbers bring the country, in every pair, and only they?"""

import json

import pytest
import torch

from attncourse.learning.mini import (
    COUNTRIES,
    DATA,
    MiniModel,
    answer_about,
    mini_model,
    page_data,
    sentences,
    words_of,
)
from support.reference import Matrix, Vector, dot, one_head

CLEAN = "The capital of France is"
MIXED = "In Warsaw in Poland people speak"


@pytest.fixture(scope="module")
def mini() -> MiniModel:
    return mini_model()


def first_word(reading) -> str:
    return reading.next_words(1)[0][0]


def check_experiments(model: MiniModel) -> None:
    """Assert that every experiment of the lessons succeeds, for every pair of sentences."""
    asked = sentences()
    readings = [model.read(sentence.text) for sentence in asked]
    for sentence, reading in zip(asked, readings, strict=True):
        assert reading.probabilities[model.words.index(sentence.answer)] > 0.9
        own = (sentence.country.name, sentence.country.capital)
        looks = zip(reading.tokens, reading.weights[-1].tolist(), strict=True)
        assert sum(weight for token, weight in looks if token in own) > 0.85
    ablated = [first_word(model.read_ablated(sentence.text)) for sentence in asked]
    right = sum(word == sentence.answer for word, sentence in zip(ablated, asked, strict=True))
    assert right <= len(asked) / len(COUNTRIES)

    put, pairs = 0, 0
    with torch.no_grad():
        writes = model.out_proj(torch.stack([reading.numbers for reading in readings]))
        for host, reading in zip(asked, readings, strict=True):
            logits = (reading.before + writes) @ model.embedding.weight.T  # (donors, words)
            named = logits.argmax(dim=-1).tolist()
            for donor, word in zip(asked, named, strict=True):
                if donor.country != host.country:
                    pairs += 1
                    put += model.words[word] == answer_about(donor.country, host.text)
    assert put == pairs == 12_600


def test_the_stored_model_passes_every_experiment(mini):
    check_experiments(mini)
    assert sum(weight.numel() for weight in mini.parameters()) == 200
    assert len(mini.words) == 42
    assert DATA.stat().st_size < 8_000


def test_two_numbers_of_another_sentence_bring_its_country(mini):
    italy = mini.read("People who live in Italy speak").numbers
    assert italy.shape == (2,)
    host = mini.read_patched(CLEAN, italy)
    assert first_word(mini.read(CLEAN)) == "Paris"
    assert first_word(host) == "Rome"
    assert torch.equal(host.numbers, italy)
    assert first_word(mini.read_patched(CLEAN, italy.tolist())) == "Rome"
    assert first_word(mini.read_ablated(CLEAN)) != "Paris"
    assert torch.equal(mini.read_ablated(CLEAN).after, mini.read_ablated(CLEAN).before)


@pytest.mark.parametrize("text", [CLEAN, MIXED, "is", "speak People In is Oslo Rome of"])
def test_a_reading_is_what_the_formula_says(mini, text):
    """Written with loops, on plain numbers."""
    reading = mini.read(text)
    rows = {name: weight.tolist() for name, weight in mini.state_dict().items()}
    vectors = [rows["embedding.weight"][mini.words.index(word)] for word in text.split()]

    def times(matrix: Matrix, vector: Vector) -> Vector:
        return [dot(row, vector) for row in matrix]

    queries, keys, values = (
        [times(rows[f"head.W_{part}.weight"], vector) for vector in vectors]
        for part in ("query", "key", "value")
    )
    scores = [times(keys, query) for query in queries]
    context_vec, weights = one_head(queries, keys, values)
    numbers = context_vec[-1]
    written = times(rows["out_proj.weight"], numbers)
    after = [a + b for a, b in zip(vectors[-1], written, strict=True)]
    logits = times(rows["embedding.weight"], after)
    expected = {
        "queries": queries, "keys": keys, "values": values, "scores": scores, "weights": weights,
        "numbers": numbers, "before": vectors[-1], "after": after, "logits": logits,
    }  # fmt: skip
    for name, numbers in expected.items():
        found = getattr(reading, name)
        torch.testing.assert_close(found, torch.tensor(numbers), rtol=1e-4, atol=1e-4)
    ids = torch.tensor([[mini.words.index(word) for word in text.split()]])
    torch.testing.assert_close(mini(ids)[0, -1], reading.logits)
    assert reading.probabilities.sum().item() == pytest.approx(1)


def test_a_page_gets_all_of_it_as_plain_data(mini):
    page = json.loads(json.dumps(page_data(mini)))
    assert tuple(page["words"]) == mini.words
    assert page["sentences"][0] == [CLEAN, "Paris"]
    assert len(page["sentences"]) == 120
    assert set(page["parameters"]) == set(mini.state_dict())
    for name, rows in page["parameters"].items():
        assert torch.equal(torch.tensor(rows), mini.state_dict()[name])


def test_words_are_told_apart_and_refused_in_words(mini):
    assert words_of("c", "a b", "b c") == ("c", "a", "b")
    with pytest.raises(ValueError, match=r"'Atlantis' is not among the words .*: France, Italy"):
        mini.read("The capital of Atlantis is")
    with pytest.raises(ValueError, match="text='  ' has no words: give at least one"):
        mini.read("  ")
    with pytest.raises(ValueError, match="x has 13 tokens, more than context_length=12"):
        mini.read("is " * 13)
    with pytest.raises(ValueError, match=r"numbers must be two, not \(3,\)"):
        mini.read_patched(CLEAN, [1.0, 2.0, 3.0])

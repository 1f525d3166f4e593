"""Arcs over words: one for each weight, from the query to the key, as strong as the weight."""

import pytest
import torch

from attncourse.pictures.arcs import LEAST, arcs_picture
from attncourse.pictures.palette import FAINT, head_color
from attncourse.pictures.scene import BOOK, Line, Scene
from support.pictures import boxes, causal_weights, check_readable, text_in, words

WORDS = ("The", " cat", " saw", " the", " dog")
LONG = tuple(f" word{place}" for place in range(23))


def arcs(scene: Scene) -> list[Line]:
    return [item for item in scene.items if isinstance(item, Line)]


def place_of(scene: Scene, word: str) -> float:
    return next(item.x for item in words(scene) if item.text == word)


EVERY = {
    "one head": arcs_picture(WORDS, causal_weights()),
    "two heads": arcs_picture(WORDS, causal_weights(2)),
    "names": arcs_picture(
        WORDS, causal_weights(3), names=("4.11", "5.5", "a long name"), hues=(11, 5, 0)
    ),
    "a query": arcs_picture(WORDS, causal_weights(2), query=3),
    "many words": arcs_picture(LONG, causal_weights(2, size=23)),
    "many words, a query": arcs_picture(LONG, causal_weights(size=23), query=19),
    "one word": arcs_picture(("Your",), torch.ones(1, 1)),
    "a long first word": arcs_picture(("<|endoftext|>", *LONG), causal_weights(size=24)),
    "no weights": arcs_picture(WORDS, torch.full((5, 5), torch.nan)),
}
PICTURES = pytest.mark.parametrize("scene", EVERY.values(), ids=EVERY)


@PICTURES
def test_everything_fits_on_a_page(scene):
    check_readable(scene)
    assert scene.width <= BOOK


def test_an_arc_for_each_weight_that_is_large_enough():
    weights = causal_weights()
    scene = arcs_picture(WORDS, weights)
    assert len(arcs(scene)) == (weights >= LEAST).sum() < (weights > 0).sum()
    assert any(f"at least {LEAST}" in item.text for item in words(scene))


def test_an_arc_goes_from_the_query_back_to_the_key():
    weights = torch.zeros(5, 5)
    weights[4, 1] = 0.75
    scene = arcs_picture(WORDS, weights)
    (arc,) = arcs(scene)
    (start, foot), *_, (end, other) = arc.points
    assert foot == pytest.approx(other)
    assert end < start
    assert abs(start - place_of(scene, "dog")) <= 5
    assert abs(end - place_of(scene, "cat")) <= 5
    assert min(y for _, y in arc.points) < foot - 20
    assert arc.stroke == head_color(0)


def test_more_weight_is_a_thicker_and_stronger_arc():
    weights = torch.tensor([[0.0, 0, 0], [0.1, 0, 0], [0.4, 1.0, 0]])
    found = arcs(arcs_picture(WORDS[:3], weights))
    assert len(found) == 3
    for look in ("width", "opacity"):
        sizes = [getattr(arc, look) for arc in found]  # in the order of drawing
        assert sizes == sorted(sizes)
        assert len(set(sizes)) == 3


def test_a_look_at_itself_is_a_loop_over_the_word():
    scene = arcs_picture(WORDS, torch.eye(5))
    for loop, word in zip(arcs(scene), ("The", "cat", "saw", "the", "dog"), strict=True):
        across = [x for x, _ in loop.points]
        assert (min(across) + max(across)) / 2 == pytest.approx(place_of(scene, word), abs=0.1)
        assert max(across) - min(across) == pytest.approx(16, abs=0.1)


def test_each_head_has_its_name_and_its_color():
    scene = arcs_picture(WORDS, causal_weights(2), names=("4.11", "5.5"), hues=(11, 5))
    tags = [box for box in scene.items if hasattr(box, "radius")]
    assert [text_in(scene, tag) for tag in tags] == ["4.11", "5.5"]
    assert [tag.fill for tag in tags] == [head_color(11), head_color(5)]
    assert {arc.stroke for arc in arcs(scene)} == {head_color(11), head_color(5)}
    assert [item.text for item in words(scene)].count("cat") == 2
    assert boxes(arcs_picture(WORDS, causal_weights()), 1, 1) == []


def test_of_a_query_the_weights_stand_there_as_numbers():
    weights = causal_weights()
    scene = arcs_picture(WORDS, weights, query=3)
    shown = [item.text for item in words(scene) if item.text[0] == "0"]
    assert shown == [f"{weight:.2f}" for weight in weights[3].tolist() if weight >= LEAST]
    colored = [arc for arc in arcs(scene) if arc.stroke != FAINT]
    assert len(colored) == len(shown)
    assert colored == arcs(scene)[-len(colored) :]  # above all others
    assert [item.text for item in words(scene) if item.bold] == ["the"]


def test_the_alt_text_says_who_looks_where():
    before = torch.eye(5).roll(1, dims=0)
    before[0] = torch.tensor([1.0, 0, 0, 0, 0])
    start = "Arcs from each word to the words it looks at"
    scene = arcs_picture(WORDS, before)
    assert scene.alt == (f"{start}: each word looks most at the word just before it, with 1.00.")
    two = arcs_picture(WORDS, torch.stack([before, torch.eye(5)]), names=("4.11", "5.5"))
    assert two.alt == (
        f"{start}. 4.11: each word looks most at the word just before it, with 1.00. "
        "5.5: each word looks most at itself, with 1.00."
    )
    before[3] = torch.tensor([0.0, 0.625, 0.25, 0, 0])
    assert arcs_picture(WORDS, before, query=3).alt == (
        f"{start}: the looks at cat (0.625), saw (0.25)."
    )


@pytest.mark.parametrize(
    ("weights", "how", "message"),
    [
        (torch.ones(4, 5), {}, r"weights must be \(5, 5\).* got \(4, 5\): pass as many words"),
        (torch.ones(2, 3, 5, 5), {}, r"got \(2, 3, 5, 5\)"),
        (torch.ones(5, 5), {"query": 5}, "query must be 0 to 4, the place of a word, got 5"),
        (torch.ones(2, 5, 5), {"names": ["one"]}, "each of the 2 heads, got 1 and 2"),
    ],
)
def test_what_does_not_fit_is_refused(weights, how, message):
    with pytest.raises(ValueError, match=message):
        arcs_picture(WORDS, weights, **how)

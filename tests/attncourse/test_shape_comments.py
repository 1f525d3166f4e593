"""Every shape comment in attncourse is true."""

import inspect
from pathlib import Path

import torch

import attncourse
from attncourse.examples import traceable_example
from attncourse.language.reference import reference_logits
from attncourse.learning.mini import mini_model
from attncourse.learning.two_answers import TwoAnswerModel, journeys
from attncourse.panels import live
from attncourse.pictures import arcs_picture
from attncourse.pictures.weights import weights_picture
from attncourse.variants.inlined import InlinedAttention
from support.cases import ALL_PANELS, H, T
from support.shape_comments import reading
from support.small_llama import small_model

COURSE = Path(attncourse.__file__).parent
DRAWN = [COURSE / f"{name}.py" for name in ("pictures/weights", "pictures/arcs", "learning/record")]
DRAWN += [COURSE / "variants" / "inlined.py"]
DRAWN += [Path(inspect.getfile(panel.compute)) for panel in ALL_PANELS]
OWN_SIZES = {
    "online softmax": {"head_dim": 2},
    "stacked heads": {"head_dim": 2, "d_in": 5},
    "weight split": {"d_out": 12},
    "gallery": {"num_heads": 2, "d_out": 8},
}


def test_in_the_pictures_and_panels():
    """Their sizes are those of their examples; the fields of their results count too."""
    found = reading(*DRAWN)
    weights = torch.full((H, T, T), 1 / T)
    sizes = {"num_layers": 2, "num_heads": H, "num_tokens": T}
    found.run(sizes, lambda: weights_picture(weights, "abcdefg"))
    found.run(sizes, lambda: arcs_picture("abcdefg", weights.tril()))
    module, x = traceable_example(InlinedAttention)
    sizes = {"b": 1, "num_tokens": 5, "num_heads": 2, "head_dim": 3}
    found.run(sizes, lambda: module(x))
    for panel in ALL_PANELS:
        for state in (panel.states()[0], panel.states()[-1]):
            sizes = {"b": 1, "num_tokens": 6, "d_in": 3, "embed_dim": 12}
            sizes |= OWN_SIZES.get(panel.name, {}) | state
            data = found.run(sizes, lambda: panel.compute(**state))  # noqa: B023
            found.fields(sizes | {"head_dim": getattr(data, "head_dim", 2)}, data)
    assert found.lies == found.unreached() == []


def test_in_the_mini_model_and_its_twin():
    found = reading(COURSE / "learning" / "mini.py", COURSE / "learning" / "two_answers.py")
    mini = mini_model()
    sizes = {"b": 3, "num_tokens": 7, "n": 5, "width": 4, "words": mini.words}
    found.run(sizes, lambda: mini(torch.zeros(3, 7, dtype=torch.long)))
    found.fields(sizes, found.run(sizes, lambda: mini.read("The capital of France is")))
    twin = TwoAnswerModel(2, has_mlp=True)
    sizes = {"b": 1, "n": 7, "num_heads": 2, "head_dim": 2, "width": 4, "words": twin.words}
    text = journeys()[0][0]
    found.fields(sizes, found.run(sizes, lambda: twin.read(text)))
    assert found.lies == found.unreached() == []


def test_in_the_language_model():
    found = reading(COURSE / "language" / "model.py", COURSE / "language" / "runs.py")
    model = small_model()
    sizes = {"b": 1, "num_tokens": 5, **vars(model.size)}
    run = found.run(sizes, lambda: model.read([1, 2, 3, 4, 5]))
    found.run(sizes, lambda: run.attn_scores(0))
    vocabulary = model.llama.unembedding.shape[0]
    found.run(sizes | {"vocabulary": vocabulary}, lambda: run.logit_lens(0, 0))
    found.run(sizes | {"b": 6}, lambda: run.ablate_layer(0))  # a head of the six each
    found.run(sizes, lambda: model.llama(torch.ones(1, 5, model.size.width)))
    assert found.lies == found.unreached() == []


def test_in_the_stored_answers_of_another_implementation():
    found = reading(COURSE / "language" / "reference.py")
    references = found.run({}, reference_logits)
    found.fields({"num_tokens": 5}, references[0])
    assert found.lies == []


def test_in_the_panels_that_compute():
    found = reading(COURSE / "panels" / "live.py")
    found.run({"num_tokens": 6, "d_in": 3}, live.LEAK_DETECTOR.draw)
    found.run({"num_layers": 12, "num_heads": 12}, live.PAINTED_PATTERN.draw)
    assert found.lies == found.unreached() == []

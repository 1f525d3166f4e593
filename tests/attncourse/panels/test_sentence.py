"""The panel of one's own sentence: its answers are the model's, and those recorded are too."""

import base64
import json
from functools import cache

import pytest
import torch

from attncourse.language import Ablate, LanguageModel, LlamaSize, Patch
from attncourse.language.model import load_llama
from attncourse.language.tokenizer import TextTokenizer, new_tokenizer
from attncourse.panels import sentence
from attncourse.panels.sentence import (
    COUNTRY_HEAD,
    MOST_TOKENS,
    TEXTS,
    SentenceWidget,
    answer,
    cached_reader,
    recorded_answers,
    recorded_requests,
    recorded_sheet,
    request_key,
)
from support.model_tools import the_model
from support.small_llama import random_state

SIZE = LlamaSize(3, 7, 1, width=14, mlp_width=11, vocabulary=95, context_length=101)
TEXT, OTHER = "in so far", "as"
HEAD = list(COUNTRY_HEAD)


@cache
def small() -> LanguageModel:
    llama = load_llama(SIZE, random_state(SIZE))
    letters = [*map(chr, range(33, 127)), "Ġ"]
    words = new_tokenizer(letters, [], special=[])
    return LanguageModel(llama, TextTokenizer(words), None, "small")


def asked(**request: object) -> dict:
    return answer(cached_reader(small()), request)


def sent(*messages: object) -> list[dict]:
    """Return what the panel sends to the browser after these messages."""
    told: list[dict] = []
    box = SentenceWidget(small(), TEXT)
    box.send = lambda content, buffers=None: told.append(content)
    for message in messages:
        box._handle_custom_msg(message, [])
    return told


# What is answered


def test_a_reading_has_the_next_words_and_the_weights_of_all_heads():
    run, said = small().read(TEXT), asked(text=TEXT)
    assert said["tokens"] == [*TEXT]
    for (word, share), (likely, probability) in zip(said["words"], run.next_words(10), strict=True):
        assert word == (likely or "(blank)")
        assert share == pytest.approx(probability, abs=6e-4)
    rows, columns = torch.tril_indices(len(TEXT), len(TEXT))
    weights = torch.stack([run.attn_weights(layer) for layer in range(3)])[..., rows, columns]
    percent = torch.tensor(list(base64.b64decode(said["weights"])))
    torch.testing.assert_close(percent / 100, weights.flatten(), atol=5.1e-3, rtol=0)
    assert said["line"].startswith(f"The model goes on with {said['words'][0][0]}, 0.")


def test_changes_are_those_of_the_model():
    run = small().read(TEXT)
    numbers = small().read(OTHER).head_output(1, 3)
    for extra, change in (
        ({"ablated": True}, Ablate(1, 3)),
        ({"from": OTHER}, Patch(1, 3, numbers)),
    ):
        said, changed = asked(text=TEXT, head=[1, 3], **extra), run.rerun(change)
        shares = [share for _, share in changed.next_words(9)]
        assert [share for _, share in said["words"][:9]] == pytest.approx(shares, abs=6e-4)
        left = float(changed.probabilities[run.probabilities.argmax()])
        was = next(iter(run.next_words(1)))[0]
        assert dict(said["words"])[was] == pytest.approx(left, abs=6e-4)
        assert f" {left:.2f}." in said["line"]
        assert said["line"].startswith("L1H3 ")
    for layer in range(SIZE.num_layers):
        left = asked(text=TEXT, layer=layer)["left"]
        word = run.probabilities.argmax()
        each = [float(run.rerun(Ablate(layer, h)).probabilities[word]) for h in range(7)]
        assert left == pytest.approx(each, abs=6e-4)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"text": "a" * (MOST_TOKENS + 1)}, "has 65 tokens, and the panel shows 64 at most"),
        ({"text": "  "}, "text is empty"),
        ({"text": TEXT, "head": [3, 0], "ablated": True}, "there is no head"),
        ({"text": TEXT, "layer": 3}, "there is no head"),
        ({"text": TEXT, "head": [0, 0], "from": ""}, "text is empty"),
        ({"head": [0, 0]}, "which it never should"),
    ],
)
def test_what_cannot_be_answered_is_said_in_a_sentence(request_, message):
    with pytest.raises(ValueError, match=message):
        asked(**request_)
    ((number, said),) = [each.values() for each in sent({"number": "7", "request": request_})]
    assert number == "7"
    assert message in said["error"]


def test_the_box_answers_the_browser_and_nothing_else():
    told = sent({}, "text", {"number": "1"}, {"number": "1", "request": {"text": OTHER}})
    assert told == [{"number": "1", "answer": asked(text=OTHER)}]


# What a page without Python carries


def test_the_recording_answers_all_that_the_page_can_be_asked():
    sheet = recorded_sheet()
    assert sheet["answers"].keys() == {request_key(request) for request in recorded_requests()}
    assert len(json.dumps(sheet)) < 300_000
    assert "Apache-2.0" in sheet["source"]
    assert "SmolLM2-135M-Instruct" in sheet["source"]
    weights = sentence.unpack_weights(recorded_answers()[request_key({"text": TEXTS[0]})])
    torch.testing.assert_close(weights.sum(-1), torch.ones(30, 9, 5), atol=0.03, rtol=0)


@pytest.mark.parametrize("extra", [{}, {"head": HEAD, "from": TEXTS[1]}, {"layer": 23}], ids=str)
def test_the_recording_is_what_the_installed_model_says(extra):
    request = {"text": TEXTS[4], **extra}
    now, then = (
        answer(cached_reader(the_model()), request),
        recorded_answers()[request_key(request)],
    )
    assert now.keys() == then.keys()
    assert now.get("tokens") == then.get("tokens")
    assert dict(now.get("words", [])) == pytest.approx(dict(then.get("words", [])), abs=5e-3)
    assert now.get("left", []) == pytest.approx(then.get("left", []), abs=5e-3)
    if "weights" in now:
        gap = sentence.unpack_weights(now) - sentence.unpack_weights(then)
        assert gap.abs().max() <= 0.0101


# The widget


def test_the_widget_has_one_line_and_a_picture_of_the_telling_states():
    box = SentenceWidget(small(), TEXT)
    assert repr(box) == f"<your sentence: {TEXT}>"
    data, _ = box._repr_mimebundle_()
    assert data["text/plain"] == repr(box)
    assert f"base64,{data['image/png']}" in data["text/html"]
    scene = sentence.static_picture()
    for part in ("France (0.90)", "L23H4 is ablated: Paris falls from 0.77 to 0.14", "Rome, 0.47"):
        assert part in scene.alt
    assert scene.width <= 720
    assert box.sheet["head"] == [0, 0]  # the small model has no layer 23
    assert SentenceWidget(the_model()).sheet["head"] == HEAD
    assert [*box.sheet["answers"]] == [request_key({"text": TEXT})]
    assert "http" not in f"{box._esm}{box._css}".replace("http://www.w3.org/", "")  # two names

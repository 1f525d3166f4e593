"""The panel of the reader's own sentence: what a language model says next, and which heads matter.

Its browser asks and Python answers, both in JSON: `answer` is all that a kernel does. A page
without Python carries the answers about twelve countries instead, and sentence.js draws both.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import torch
import traitlets

from attncourse.language import Ablate, Head, LanguageModel, Patch, Run
from attncourse.panels.live import RECORDING, in_percent
from attncourse.panels.widgets import PANEL_STYLE, WidgetWithPicture
from attncourse.pictures.alt_text import format_number
from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import FAINT, PAPER, head_color
from attncourse.pictures.scene import Box, Item, Line, Scene, Text
from attncourse.renamed import explain_renamed

HERE = Path(__file__).parent
MODULE, STYLE = (HERE.joinpath(f"sentence.{kind}").read_text("utf-8") for kind in ("js", "css"))
COUNTRY_HEAD = Head(23, 4)  # the head that carries a country to the last word
COUNTRIES: tuple[str, ...] = ("France", "Italy", "Japan", "Germany", "Spain", "Russia")
COUNTRIES += ("Norway", "Greece", "Cuba", "England", "Canada", "China")
TEXTS = tuple(f"The capital of {country} is" for country in COUNTRIES)
DONOR_TEXT = "The capital of Germany is"  # at the start: lesson 01 has not answered this one
NUM_LAYERS = 30
MOST_TOKENS = 64
HOW_MANY, ALOUD = 10, 3  # next words; words that a head's write is read as

Request = Mapping[str, Any]
Answer = dict[str, Any]
Reader = Callable[[str], Run]


def answer(read: Reader, request: Request) -> Answer:
    """Return what a model says to a request of the panel, in the types of JSON.

    Args:
        read: returns the run of a text.
        request: a text; with a layer, what is left of the likeliest word when each of its heads
            is ablated; with a head, what its write is read as; with a head that is ablated, or gets
            its numbers from another text, the next words then.
    """
    match request:
        case {"text": str(text), "layer": int(layer)}:
            left = read(text).ablate_layer(layer).tolist()
            return {"left": [round(share, 3) for share in left]}
        case {"text": str(text), "head": [int(layer), int(head)], "ablated": True}:
            return _changed(read(text), Ablate(layer, head), f"{Head(layer, head)} is ablated")
        case {"text": str(text), "head": [int(layer), int(head)], "from": str(other)}:
            numbers = read(other).head_output(layer, head)
            what = f"{Head(layer, head)} has its numbers from “{other}”"
            return _changed(read(text), Patch(layer, head, numbers), what)
        case {"text": str(text), "head": [int(layer), int(head)]}:
            words = read(text).logit_lens(layer, head)
            return {"aloud": [word for word in dict.fromkeys(words) if "�" not in word][:ALOUD]}
        case {"text": str(text)}:
            run = read(text)
            likely = next_words(run)
            line = f"The model goes on with {_said(likely[0])}."
            layers = torch.stack([run.attn_weights(i) for i in range(run.size.num_layers)])
            weights = in_percent(layers)  # layer by layer, head by head, row by row
            return {"line": line, "words": likely, "tokens": [*run.tokens], "weights": weights}
    raise ValueError(f"the panel asks for {request!r}, which it never should; run its cell again")


def next_words(run: Run) -> list[tuple[str, float]]:
    """Return the likeliest next words with their probabilities; one that is all blank has a name.

    A word that comes twice, with and without a space in front, is told apart.
    """
    words: dict[str, float] = {}
    for word, share in run.next_words(HOW_MANY):
        name = word or "(blank)"
        while name in words:
            name += "*"
        words[name] = round(share, 5)  # shown with two decimals: no rounding twice
    return list(words.items())


def _changed(run: Run, change: Ablate | Patch, what: str) -> Answer:
    """Return the next words with a change, among them the word that was likeliest without."""
    changed = run.rerun(change)
    (was, before), *_ = next_words(run)
    words = next_words(changed)
    left = float(changed.probabilities[run.probabilities.argmax()])
    if was not in dict(words):
        words[-1] = (was, round(left, 5))
    moved = "falls" if left < before else "rises"
    name = was if was[:1].isupper() else f"“{was}”"
    fate = f"{name} {moved} from {before:.2f} to {left:.2f}"
    if f"{left:.2f}" == f"{before:.2f}":
        fate = f"{name} keeps its {left:.2f}"
    new = "" if words[0][0] == was else f" The model goes on with {_said(words[0])}."
    return {"line": f"{what}: {fate}.{new}", "words": words}


def _said(word: tuple[str, float]) -> str:
    return f"{word[0]}, {format_number(word[1])}"


def cached_reader(model: LanguageModel) -> Reader:
    """Return what reads a text of the panel, and remembers the last few."""

    @lru_cache(maxsize=16)
    def read(text: str) -> Run:
        ids = model.token_ids(text)
        if len(ids) > MOST_TOKENS:
            raise ValueError(
                f"The sentence has {len(ids)} tokens, and the panel shows {MOST_TOKENS} at most; "
                "shorten it."
            )
        return model.read(ids)

    return lambda text: read(text.strip())


def recorded_requests() -> Iterator[Request]:
    """Yield all that a page without Python can be asked."""
    carrier = list(COUNTRY_HEAD)
    for text in TEXTS:
        yield {"text": text}
        yield {"text": text, "head": carrier}
        yield {"text": text, "head": carrier, "ablated": True}
        yield from ({"text": text, "head": carrier, "from": o} for o in TEXTS if o != text)
        yield from ({"text": text, "layer": layer} for layer in range(NUM_LAYERS))


def request_key(request: Request) -> str:
    """Return a request as the text under which its answer is recorded; sentence.js does the same.

    >>> request_key({"text": "The", "layer": 3})
    '{"text":"The","layer":3}'
    """
    return json.dumps(request, ensure_ascii=False, separators=(",", ":"))


@cache
def _recording() -> dict[str, Any]:
    recording: dict[str, Any] = json.loads(RECORDING.read_text("utf-8"))
    return recording


def recorded_answers() -> dict[str, Answer]:
    """Return the answers that come with the course."""
    answers: dict[str, Answer] = _recording()["answers"]
    return answers


def recorded_sheet() -> dict[str, Any]:
    """Return all that a browser needs for the twelve countries, without a kernel."""
    layer, head = COUNTRY_HEAD
    return {
        **{key: _recording()[key] for key in ("source", "layers", "heads", "answers")},
        "name": "your sentence",
        "head": [layer, head],
        "carrier": [layer, head],
        "texts": list(TEXTS),
        "other": DONOR_TEXT,
        "note": f"Here are twelve countries, with {COUNTRY_HEAD}, head {head} of layer {layer}, "
        "ablated or given another country's numbers. In the notebook, with the model, you can type "
        "any sentence and change any head.",
    }


# The picture that stays where nothing can be moved
SIZE = 24.0  # of the letters of the sentence, in pixels
ROWS = 64.0, 128.0, 192.0  # the middles of the three lines
WHAT = 466.0  # where a line says what was done


def static_picture() -> Scene:
    """Return what the model says as it is, with the carrier ablated, and with Italy's numbers."""
    answers, head, (text, other) = recorded_answers(), list(COUNTRY_HEAD), TEXTS[:2]
    plain = answers[request_key({"text": text})]
    ablated = answers[request_key({"text": text, "head": head, "ablated": True})]
    put = answers[request_key({"text": text, "head": head, "from": other})]
    weights = unpack_weights(plain)[COUNTRY_HEAD][-1].tolist()
    most = max(range(len(weights)), key=weights.__getitem__)
    looks = f"{COUNTRY_HEAD} looks at {plain['tokens'][most].strip()} ({weights[most]:.2f})"
    what = (looks, f"{COUNTRY_HEAD} is ablated", f"{COUNTRY_HEAD} has {COUNTRIES[1]}'s numbers")
    items: list[Item] = []
    for y, said, done in zip(ROWS, (plain, ablated, put), what, strict=True):
        middles, end, x = [], 4.0, 4.0
        for word in text.split():
            wide = text_width(word, SIZE)
            items.append(Text(x + wide / 2, y, word, size=SIZE))
            middles.append(x + wide / 2)
            end, x = x + wide, x + wide + 0.28 * SIZE
        word, share = said["words"][0]
        color = head_color(0) if said is put else FAINT
        items += [
            Box(end + 14, y - 19, 104, 38, color, radius=8),
            Text(end + 66, y, word, color=PAPER, size=22, bold=True),
            Text(end + 126, y, f"{share:.2f}", "start", size=15),
            Text(WHAT, y, done, "start", FAINT, size=15),
        ]
    for middle, weight in zip(middles[:-1], weights[:-1], strict=True):
        if weight >= 0.05:
            items.append(_arc(middle, middles[-1], ROWS[0] - 20, weight))
    alt = f"{plain['line']} {looks}. {ablated['line']} {put['line']}"
    return Scene(684, ROWS[-1] + 30, alt, tuple(items))


def _arc(left: float, right: float, y: float, weight: float) -> Line:
    """Return the half of an ellipse over two words, the wider the larger the weight."""
    angles = [math.pi * i / 24 for i in range(25)]
    middle, far = (left + right) / 2, (right - left) / 2
    high = 12 + 0.2 * far
    points = tuple((middle + far * math.cos(a), y - high * math.sin(a)) for a in angles)
    return Line(points, head_color(0), 1 + 6 * weight)


def unpack_weights(reading: Answer) -> torch.Tensor:
    """Return the weights of an answer, (num_layers, num_heads, num_tokens, num_tokens)."""
    size = len(reading["tokens"])
    queries, keys = torch.tril_indices(size, size)
    percent = torch.tensor(list(base64.b64decode(reading["weights"])))
    weights = torch.zeros(NUM_LAYERS, len(percent) // NUM_LAYERS // len(keys), size, size)
    weights[:, :, queries, keys] = percent.view(*weights.shape[:2], -1) / 100
    return weights


class SentenceWidget(WidgetWithPicture):
    """A line to type a sentence in, the next words, and all heads of a language model."""

    _esm = MODULE
    _css = PANEL_STYLE + STYLE
    static_picture = staticmethod(static_picture)
    sheet = traitlets.Dict().tag(sync=True)

    def __init__(self, model: LanguageModel, text: str = TEXTS[0]) -> None:
        self._read = cached_reader(model)
        request = {"text": text}
        sheet = recorded_sheet() | {
            "source": model.origin,
            "layers": model.size.num_layers,
            "heads": model.size.num_heads,
            "head": list(COUNTRY_HEAD if COUNTRY_HEAD in model.heads else Head(0, 0)),
            "texts": [text, DONOR_TEXT],
            "answers": {request_key(request): answer(self._read, request)},
            "note": "",
        }
        super().__init__(sheet=sheet)
        self.on_msg(self._tell)

    def _tell(self, _widget: object, message: object, _buffers: object) -> None:
        """Answer the browser; what went wrong is told in one sentence."""
        match message:
            case {"number": str(number), "request": dict(request)}:
                try:
                    said = answer(self._read, request)
                except Exception as error:  # it would go to a log, where nobody looks
                    said = {"error": str(error) or type(error).__name__}
                self.send({"number": number, "answer": said})

    def __repr__(self) -> str:
        return f"<{self.sheet['name']}: {self.sheet['texts'][0]}>"


explain_renamed(__name__)

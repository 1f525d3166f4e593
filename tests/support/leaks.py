"""What a students' copy gives away of a solution."""

import json
import re

from exercises import Exercise, Notebook, source

FOLD = re.compile(r"<details>.*?</details>", re.DOTALL)
ASSIGNED = re.compile(r"^(?:[\w.,\[\]:\"]+=(?!=)|return)")
SHORT = 12  # letters: less, such as `module(x)`, is no answer to copy


def squash(text: str) -> str:
    return re.sub(r"\s", "", text)


def shown(cell: dict) -> str:
    """Return what a cell says, and what is stored below it: text, pictures, alt texts."""
    outputs = json.dumps(cell.get("outputs", []), ensure_ascii=False)
    return source(cell) + outputs.replace(r"\n", "").replace(r"\"", '"')


def own_lines(exercise: Exercise) -> list[str]:
    """Return what the lines of a solution compute, but for those that the stub has."""
    given, lines = (
        [squash(line.partition("  #")[0]) for line in text.splitlines()]
        for text in (exercise.stub, exercise.solution)
    )
    values = [ASSIGNED.sub("", line) for line in lines if line not in given]
    return [value for value in values if len(value) >= SHORT]


def leaks(copy: Notebook, exercise: Exercise) -> list[str]:
    """Return the lines of a solution that a fold, or a cell from the stub on, gives away.

    What a cell above the stub shows openly is what the lesson teaches there.
    """
    place = [cell["id"] for cell in copy["cells"]].index(exercise.cell)
    above = [source(cell) for cell in copy["cells"][:place]]
    folds = [fold for text in above for fold in FOLD.findall(text)]
    taught = squash("\n".join(FOLD.sub("", text) for text in above))
    said = squash("\n".join([*folds, *map(shown, copy["cells"][place:])]))
    return [line for line in own_lines(exercise) if line in said and line not in taught]

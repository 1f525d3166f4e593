"""Cells that have run; a small lesson, and copies of it that learners might hand in."""

from nbformat.v4 import new_code_cell, new_output

STUB = (
    "def check(double):\n    try:\n"
    "        return 'Right.' if double(3) == 6 and double(2) == 4 else 'Is it twice?'\n"
    "    except NotImplementedError:\n        return 'not attempted yet'\n"
    "    except Exception as error:\n        return type(error).__name__\n\n"
    "\ndef double(number):\n    raise NotImplementedError\n\n\nprint(check(double))"
)
CELLS = {
    "setup": "import math\n",
    "slow": "train = 'never needed'\nraise RuntimeError",
    "helper": "def twice(number):\n    return number * 2\n",
    "stub": STUB,
}
SOLUTION = """<details><summary>Solution</summary>

```python
def double(number):
    return twice(number)
```

</details>"""
RIGHT = "def double(number):\n    return number + number"


def cell(name: str, code: str, printed: str = "") -> dict:
    outputs = [{"output_type": "stream", "name": "stdout", "text": [printed]}] if printed else []
    return {"cell_type": "code", "id": name, "source": code, "outputs": outputs, "metadata": {}}


def showing(code: str, text: str) -> dict:
    """Return a cell that has run: it prints a text that ends its line, and shows another."""
    stream = new_output("stream", name="stdout", text=text)
    result = new_output("execute_result", {"text/plain": text}, execution_count=1)
    outputs = [stream if text.endswith("\n") else result] if text else []
    return new_code_cell(code, execution_count=1, outputs=outputs)


def lesson(another: str = "") -> dict:
    """Return the lesson; another exercise like its first may stand below that."""
    cells = [cell(*one, "not attempted yet\n" if one[0] == "stub" else "") for one in CELLS.items()]
    text = f"Words.\n\n{SOLUTION}\n\nMore words."
    cells.append({"cell_type": "markdown", "id": "folded", "metadata": {}, "source": text})
    if another:
        for one in cells[3:]:
            code = one["source"].replace("double", another)
            cells.append(one | {"id": f"{one['id']} of {another}", "source": code})
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def answered(code: str, another: str = "") -> dict:
    """Return a copy whose first exercise has this answer, above its check."""
    mine = lesson(another)
    check, _, shown = STUB.split("\n\n\n")
    mine["cells"][3]["source"] = f"{check}\n\n\n{code}\n\n\n{shown}"
    return mine

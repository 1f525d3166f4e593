"""The stored results of `make bench`: read, and put into words."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from attnlib.speed.clock import (
    MATRIX_PRODUCT,
    Quartiles,
    machine,
    machine_name,
    products_of_floor,
    quartiles,
    ratio,
)

SCHEMA = 1
MEASURED = Path(__file__).with_name("measured")


def stored_results() -> dict[str, dict[str, Any]]:
    """Return the results of every machine on which `make bench` was run and stored, by name."""
    found = {}
    for path in sorted(MEASURED.glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        if result.get("schema") == SCHEMA and not result["quick"]:
            found[path.stem] = result
    return found


def title(result: dict[str, Any]) -> str:
    """Return one line about the machine that a result is from."""
    found = result["machine"]
    name, threads = found["gpu"] or found["processor"], found["threads"]
    plural = "" if threads == 1 else "s"
    return (
        f"{name}, {found['cores']} cores, {threads} thread{plural}, "
        f"torch {found['torch']}, {result['date']}"
    )


def over_floor(entry: dict[str, Any], name: str) -> Quartiles:
    """Return the quartiles of a variant's time over the floor, each pair from the same round."""
    sizes = entry["b"], entry["num_tokens"], entry["width"], entry["product_size"]
    products = products_of_floor(*sizes, entry["pass"])
    found = ratio(entry["samples"], name, MATRIX_PRODUCT)
    return Quartiles(*(share / products for share in found))


def floor_seconds(entry: dict[str, Any]) -> float:
    """Return the floor at the matrix product's median time."""
    sizes = entry["b"], entry["num_tokens"], entry["width"], entry["product_size"]
    product = quartiles(entry["samples"][MATRIX_PRODUCT]).median
    return products_of_floor(*sizes, entry["pass"]) * product


def medians(entry: dict[str, Any]) -> dict[str, float]:
    """Return each variant's median seconds, the matrix product left out."""
    samples = entry["samples"].items()
    return {name: quartiles(some).median for name, some in samples if name != MATRIX_PRODUCT}


def times_table(samples: dict[str, list[float]], products: float) -> str:
    """Return a line of quartiles for each variant, in milliseconds, and its median over the floor.

    Args:
        samples: seconds by variant, the matrix product's among them.
        products: how many of these products the floor is.

    >>> print(times_table({"slow": [0.004], "matrix product": [0.001]}, products=2.0))
                    quarter   median   three quarters  x floor
    slow               4.00     4.00     4.00             2.00
    """
    wide = max(map(len, samples))
    lines = [f"{'':{wide}}  quarter   median   three quarters  x floor"]
    for name in samples:
        if name != MATRIX_PRODUCT:
            lower, median, upper = (1e3 * value for value in quartiles(samples[name]))
            over = ratio(samples, name, MATRIX_PRODUCT).median / products
            lines.append(f"{name:{wide}}{lower:9.2f}{median:9.2f}{upper:9.2f}        {over:9.2f}")
    return "\n".join(lines)


@cache
def grid_result() -> dict[str, Any]:
    """Return the stored result of this machine if it has one, else the first that has a grid."""
    results = {name: found for name, found in stored_results().items() if found["grid"]}
    if not results:
        raise FileNotFoundError("no measured grid is stored; `make bench` measures one")
    return results.get(machine_name(machine())) or next(iter(results.values()))

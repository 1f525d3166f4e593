"""`import attnlib` costs next to nothing over `import torch`."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"matplotlib", "ipywidgets", "IPython", "PIL", "traitlets", "safetensors"}
LIMIT = 0.050  # seconds, in the best of three runs: other programs may slow one down
SCRIPT = """
import sys, time, torch
before = set(sys.modules)
start = time.perf_counter()
import attnlib
print(time.perf_counter() - start)
print(*{name.partition(".")[0] for name in set(sys.modules) - before})
from attnlib import panels
panels.ONE_HEAD.picture().svg()
print(*{name.partition(".")[0] for name in sys.modules})
"""


def run() -> tuple[float, set[str], set[str]]:
    """Return the seconds, the packages that the import loads, and those a slider's picture has."""
    command = [sys.executable, "-W", "error", "-c", SCRIPT]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, loaded, drawn = ran.stdout.splitlines()
    return float(seconds), set(loaded.split()), set(drawn.split())


def test_it_is_quick_and_loads_nothing_heavy():
    """Nor does a slider's picture, which must be there at once."""
    seconds, loaded, drawn = run()
    assert "attnlib" in loaded
    assert loaded & HEAVY == set()
    assert drawn & HEAVY == set()
    for _ in range(2):
        if seconds > LIMIT:
            seconds = run()[0]
    assert seconds < LIMIT

"""`import attnlib` loads little besides torch; how long it takes is a goal of `make bench`."""

import subprocess
import sys

HEAVY = {"matplotlib", "anywidget", "ipywidgets", "IPython"}
HEAVY |= {"PIL", "traitlets", "safetensors", "tqdm"}
SCRIPT = """
import sys, torch
before = set(sys.modules)
import attnlib
print(*(set(sys.modules) - before))
from attncourse import panels
import attncourse.gpt2
panels.STACKED_HEADS.page({"num_heads": 2})
print(*(set(sys.modules) - before))
"""


def test_it_loads_nothing_heavy_and_nothing_of_the_course():
    """Nor does a slider's picture, which must be there at once, or what reads GPT-2."""
    command = [sys.executable, "-W", "error", "-c", SCRIPT]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    names = [line.split() for line in ran.stdout.splitlines()]
    loaded, drawn = ({tuple(name.split(".")) for name in some} for some in names)
    assert ("attnlib", "modules") in loaded
    assert {first for first, *_ in loaded | drawn} & HEAVY == set()
    assert "attncourse" not in {first for first, *_ in loaded}
    assert {("attncourse", "panels"), ("attncourse", "gpt2", "model")} <= drawn
    assert ("torch", "distributed", "tensor", "parallel") not in drawn
    assert ("torch", "distributed", "run") not in drawn

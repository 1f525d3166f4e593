"""Shared by all tests. Nothing is seeded here: a test that draws numbers sets its own seed."""

import os
import tempfile
from pathlib import Path

import torch

os.environ.pop("MPLBACKEND", None)  # a kernel chooses its own

# What torch.compile has built is kept under a key that does not name the instruction set
BUILT_FOR = f"attnlib-inductor-{torch.__version__}-{torch.backends.cpu.get_cpu_capability()}"
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(tempfile.gettempdir()) / BUILT_FOR))

pytest_plugins = ["support.nbval_plugin"]

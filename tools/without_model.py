"""Run the lessons that read the language model as where it is not installed: they print the same.

    python tools/without_model.py [NB ...]

NB is how a notebook's name begins, 09 for example; without it, all of them. What they print comes
from the recording then, and nbval compares it with what is stored.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from attncourse.language.load import PACKAGE

ROOT = Path(__file__).parents[1]
NBVAL = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval", "--nbval-current-env")
HIDE = f"import sys\nsys.modules[{PACKAGE!r}] = None\n"  # to look for it says: there is none


def read_it() -> list[Path]:
    """Return the notebooks that read the model."""
    every = sorted((ROOT / "notebooks").glob("*.ipynb"))
    return [path for path in every if "language_model()" in path.read_text(encoding="utf-8")]


def main(wanted: Sequence[str]) -> int:
    """Return pytest's exit code."""
    chosen = [path for path in read_it() if path.name.startswith(tuple(wanted or [""]))]
    if not chosen:
        raise SystemExit(f"no lesson that reads the model begins with {' or '.join(wanted)}")
    with TemporaryDirectory() as folder:
        Path(folder, "sitecustomize.py").write_text(HIDE, encoding="utf-8")
        paths = [folder, str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        command = [sys.executable, *NBVAL, "--nbval-cell-timeout=120", *map(str, chosen)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

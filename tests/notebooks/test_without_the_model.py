"""Where the language model is not installed, every page that reads it prints the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from attncourse.language.load import PACKAGE
from support.notebook_tools import NOTEBOOKS, ROOT, code_cells, read, source

READ_IT = [
    path
    for path in NOTEBOOKS
    if any("language_model()" in source(cell) for _, cell in code_cells(read(path)))
]


def test_these_are_all_lessons_that_read_the_model():
    assert [path.stem[:2] for path in READ_IT] == ["01", "02", "03", "08", "09"]


@pytest.mark.parametrize("path", READ_IT, ids=lambda path: path.stem)
def test_it_prints_the_same_from_the_recording(path: Path, tmp_path: Path):
    hidden = f"import sys\nsys.modules[{PACKAGE!r}] = None\n"  # find_spec says: there is none
    (tmp_path / "sitecustomize.py").write_text(hidden)
    places = [str(tmp_path), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval"]
    ran = subprocess.run(
        [*command, "--nbval-current-env", "--nbval-cell-timeout=120", str(path)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-3000:]
    assert f"{len(code_cells(read(path)))} passed" in ran.stdout

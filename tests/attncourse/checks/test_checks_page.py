"""What docs/checks.md shows is what the checks do."""

import re
import subprocess
import sys

from attncourse import checks
from attncourse.checks.diagnosis.examine import NAMES as ASKED
from attncourse.variants.mistakes import MISTAKES
from support.notebook_tools import ROOT, broken_links

PAGE = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_its_code_prints_what_it_says(tmp_path):
    code = [text for language, text in BLOCKS if language == "python"]
    said = [text for language, text in BLOCKS if language == "text"]
    assert [language for language, _ in BLOCKS] == ["python", "text"] * len(code)
    file = tmp_path / "page.py"
    file.write_text("\n".join(code), encoding="utf-8")
    command = [sys.executable, "-W", "error", str(file)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.stderr, ran.returncode) == ("", 0)
    assert ran.stdout == "".join(said)


def test_it_names_every_check():
    there = {name for name in vars(checks) if name.startswith("check_")}
    assert there == set(re.findall(r"`(check_\w+)\b", PAGE))


def test_it_counts_the_mistakes():
    assert len(MISTAKES) == 20
    assert "`attncourse.checks.MISTAKES` holds twenty classes" in PAGE


def test_it_names_every_question():
    table = PAGE[PAGE.index("### What is asked") : PAGE.index("## Checks of a module")]
    first = "".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE))
    assert re.findall(r"`([^`]+)`", first.replace("``", "` `")) == list(ASKED)


def test_it_names_what_a_verdict_carries():
    shown = re.findall(
        r"`(\w+)`", PAGE[PAGE.index("| Of a verdict") : PAGE.index("## The options")]
    )
    carried = "holds sentence more code question line faults notes"
    assert set(carried.split()) <= set(shown)


def test_its_links_resolve():
    assert list(broken_links(PAGE, ROOT / "docs", set())) == []

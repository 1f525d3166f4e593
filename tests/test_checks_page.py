"""What docs/checks.md shows is what the checks do."""

from __future__ import annotations

import re
import subprocess
import sys

from attnlib import checks
from attnlib.checks.mistakes import MISTAKES
from support.notebook_tools import ROOT, broken_links
from support.wrong_classes import CASES, change

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
    assert "`attnlib.checks.MISTAKES` holds twenty classes" in PAGE


def test_the_sentences_of_its_table_are_real():
    shown = re.findall(r"\| \"(.*)\" \|$", PAGE, re.MULTILINE)
    assert len(shown) == 12
    answers = {checks.check_weight_split(mistake.cls).sentence for mistake in MISTAKES}
    for check, text, _, right, wrong, _ in CASES:
        answers.add(check(change(text, right, wrong)).sentence)
    assert set(shown) - answers == set()


def test_its_links_resolve():
    assert list(broken_links(PAGE, ROOT / "docs", set())) == []

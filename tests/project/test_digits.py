"""`make digits` names what a page shows and another numerics would print differently."""

import pytest
from nbformat.v4 import new_notebook, writes

import digits
from support.class_tools import showing

OTHER = "('MKL_CBWR' in os.environ)"
CELLS = {  # and what it shows
    "import os, torch": "",
    f"x = torch.tensor([0.12 + 0.02 * {OTHER}, 0.12341])": "",
    "kept, moves = f'{x[1]:.3f}', f'{x[0]:.2f}'": "",
    "print(f'{x[0] * 0:.2f}', kept)": "0.00 0.123\n",
    "moves[:0]": "''",
    "print('a', moves)": "a 0.12\n",
    "# NBVAL_IGNORE_OUTPUT\nprint(moves)": "0.12\n",
    f"if {OTHER}: raise ValueError('no such number')": "",
    f"print('grows' if {OTHER} else 'falls')": "falls\n",
}
MOVED = ["cell 6: 0.12 became 0.14", "cell 8: nothing became no such number"]
MOVED += ["cell 9: falls became grows"]


def test_what_is_shown_and_moves_is_named_and_nothing_else(tmp_path, monkeypatch, capsys):
    """A number that is only rounded, and a cell that nbval ignores, are not."""
    tried = {name: digits.NUMERICS[name] for name in ("as it is", "MKL and oneDNN with SSE")}
    monkeypatch.setattr(digits, "NUMERICS", tried)
    page = tmp_path / "11_page.ipynb"
    page.write_text(writes(new_notebook(cells=[*map(showing, CELLS, CELLS.values())])))
    assert digits.main([str(page)]) == 1
    *moved, own, other = capsys.readouterr().out.splitlines()
    assert moved == [f"11_page.ipynb, {found}, MKL and oneDNN with SSE" for found in MOVED]
    assert own == "as it is: 3 numbers, the largest shift 0.0000 (0.12, 11, cell 6)"
    assert other.endswith("SSE: 2 numbers, the largest shift 0.0000 (0.123, 11, cell 4)")


def test_a_page_that_says_the_same_is_no_news(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(digits, "NUMERICS", {"as it is": {}, "own": {"is_own": ""}})
    monkeypatch.setattr(digits, "is_own", bool)
    notebook = new_notebook(cells=[showing("print('1 of 2')", "1 of 2\n")])
    monkeypatch.setattr(digits, "run", lambda *_: digits.Run(digits.shown(notebook), {}))
    page = tmp_path / "11_page.ipynb"
    page.write_text(writes(notebook))
    assert digits.main([str(page)]) == 0
    said = ["as it is: 0 numbers, the largest shift no number", "own: this machine's own"]
    assert capsys.readouterr().out.splitlines() == said


@pytest.mark.parametrize(("capability", "own"), [("AVX2", True), ("AVX512", False)])
def test_a_numerics_that_is_the_machines_own_is_not_run_twice(monkeypatch, capability, own):
    monkeypatch.setattr(digits.torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert digits.is_own(digits.NUMERICS["ATen with AVX2"]) == own
    assert not digits.is_own(digits.NUMERICS["as it is"])

"""What runs in the sandbox: the cells of a notebook, one after the other, in a fresh kernel.

    python inside.py

reads job.json in its folder, and writes what each cell printed as a line of told.jsonl, at once, so
that what a kernel did before it died is known.
"""

from __future__ import annotations

import json
from pathlib import Path


def run_job(folder: Path) -> None:
    """Run the cells of job.json: a list of [id, code]; and the seconds that each may take."""
    import nbformat
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    make = nbformat.v4
    cells = [make.new_code_cell(code) for _, code in job["cells"]]  # type: ignore[no-untyped-call]
    notebook = make.new_notebook(cells=cells)  # type: ignore[no-untyped-call]
    # unix sockets: in the sandbox not even the loopback network is up
    manager = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=str(folder / "kernel"))
    client = NotebookClient(notebook, km=manager, allow_errors=True, timeout=job["seconds"])
    with client.setup_kernel(), (folder / "told.jsonl").open("w", encoding="utf-8") as told:
        for (name, _), (place, cell) in zip(job["cells"], enumerate(cells), strict=True):
            try:
                client.execute_cell(cell, place)
                kind, said = "raised" if _raised(cell) else "ran", _said(cell)
            except CellTimeoutError:
                kind, said = "slow", f"took longer than {job['seconds']:g} seconds"
            except DeadKernelError:
                kind, said = "dead", "the kernel died"
            told.write(json.dumps([name, kind, said]) + "\n")
            told.flush()
            if kind in ("slow", "dead"):
                break


def _raised(cell: object) -> bool:
    """Return whether a cell ended with an error."""
    return any(output.output_type == "error" for output in cell.outputs)  # type: ignore[attr-defined]


def _said(cell: object) -> str:
    """Return what a cell printed and showed, and the error that ended it, without tracebacks."""
    parts = []
    for output in cell.outputs:  # type: ignore[attr-defined]
        match output.output_type:
            case "stream" if output.name == "stdout":
                parts.append(output.text)
            case "execute_result" | "display_data":
                parts.append(output.data.get("text/plain", ""))
            case "error":
                parts.append(f"{output.ename}: {output.evalue}")
    return "".join(parts)[-4000:].strip()


if __name__ == "__main__":
    run_job(Path.cwd())

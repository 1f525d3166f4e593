"""What runs in the sandbox: the cells of a notebook, one after the other, in a fresh kernel.

    python inside.py

reads job.json in its folder, and writes what each cell printed as a line of told.jsonl, at once, so
that what a kernel did before it died is known. It imports nothing of attnlib, and of Jupyter the
client alone, so that it starts quickly.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from queue import Empty
from time import monotonic
from typing import Any

START = 60.0  # seconds that the kernel may take to start
MEMORY = 8 << 30  # bytes: a slip of the pen must not use up the machine
MOST = 100_000  # letters of what a cell prints
OFTEN = 0.3  # seconds after which a silent kernel is asked whether it lives


def run_job(folder: Path) -> None:
    """Run the cells of job.json: a list of [id, code]; and the seconds that each may take."""
    from jupyter_client.manager import KernelManager

    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    # unix sockets: in the sandbox not even the loopback network is up
    manager = KernelManager(kernel_name="python3", transport="ipc", ip=str(folder / "kernel"))
    manager.start_kernel(extra_arguments=["--HistoryManager.enabled=False"])
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=START)
    with (folder / "told.jsonl").open("w", encoding="utf-8") as told:
        for name, code in job["cells"]:
            kind, said = _run_cell(manager, client, code, job["seconds"])
            told.write(json.dumps([name, kind, said]) + "\n")
            told.flush()
            if kind in ("slow", "dead"):
                break
    manager.shutdown_kernel(now=True)


def _run_cell(manager: Any, client: Any, code: str, seconds: float) -> tuple[str, str]:
    """Return how a cell ended (ran, raised, slow, dead), and what it printed, showed or raised."""
    request = client.execute(code, allow_stdin=False)
    end, kind = monotonic() + seconds, "ran"
    said = ""
    while monotonic() < end:
        try:
            message = client.get_iopub_msg(timeout=OFTEN)
        except Empty:
            if not manager.is_alive():
                return "dead", "the kernel died"
            continue
        if message["parent_header"].get("msg_id") != request:
            continue
        content = message["content"]
        match message["msg_type"]:
            case "status" if content["execution_state"] == "idle":
                return kind, said[-4000:].strip()
            case "stream" if content["name"] == "stdout":
                said = (said + content["text"])[-MOST:]
            case "execute_result" | "display_data":
                said = (said + content["data"].get("text/plain", ""))[-MOST:]
            case "error":
                kind = "raised"
                said += f"{content['ename']}: {content['evalue']}"
    return "slow", f"took longer than {seconds:g} seconds"


def limit_memory() -> None:
    """Limit the memory of this process and of all that it starts, where the system can."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


if __name__ == "__main__":
    limit_memory()
    run_job(Path.cwd())

"""What a machine is, in words and as a name for its results."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any

import torch


def machine() -> dict[str, Any]:
    """Describe this machine, without its network name."""
    cuda = torch.cuda.is_available()
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if cuda else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def processor() -> str:
    """Return the model of the CPU, if the system tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return " ".join(line.split(":", 1)[1].split())
    return platform.processor() or platform.machine()


def machine_name(found: dict[str, Any]) -> str:
    """Return a name for a machine: its GPU or CPU, not its network name.

    >>> machine_name({"gpu": None, "processor": "Acme(R) Core(TM) 7 CPU @ 2.20GHz", "cores": 2})
    'acme-core-7-2-20ghz-2-cores-cpu'
    """
    chip = found["gpu"] or f"{found['processor']} {found['cores']} cores cpu"
    words = re.sub(r"\((r|tm)\)|\b(cpu|processor)\b(?!$)", " ", chip.lower())
    return "-".join(re.findall(r"[a-z0-9]+", words))

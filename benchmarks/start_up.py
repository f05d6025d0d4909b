"""Time of `heed train` to the first update: `python benchmarks/start_up.py CONFIG.yaml [section.key=value ...]`.

Starts new processes in turn, with a cache folder that is empty the first time. Each reports the times at which Python
started, torch was imported and the first update was done; the first start trains the tokenizers and encodes the data.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NoReturn


def start(words: list[str], cache: Path) -> dict[str, float]:
    """Run a new process up to its first update.

    Returns:
        Seconds from its start to each event, and processor seconds.
    """
    began = time.time()
    command = [sys.executable, __file__, "--measure", str(began), *words]
    environment = {**os.environ, "HEED_CACHE": str(cache)}
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True).stdout
    moments: dict[str, float] = json.loads(said.splitlines()[-1])
    return moments


def measure(began: float, words: list[str]) -> None:
    """Train until the first update is done, then print the times."""
    moments = {"interpreter": time.time() - began}
    import torch

    assert torch.__version__
    moments |= {"torch": time.time() - began, "torch, processor": time.process_time()}
    from heed.cli.settings import settings_from
    from heed.runs.train import train_config
    from heed.training.progress import Quiet

    class FirstUpdate(Quiet):
        def update(self, message: str) -> NoReturn:
            moments.update({"update": time.time() - began, "update, processor": time.process_time()})
            print(json.dumps(moments), flush=True)
            os._exit(0)

    with tempfile.TemporaryDirectory() as folder:
        train_config(settings_from(words, []), Path(folder) / "run", FirstUpdate())


def main() -> None:
    """Measure three starts with each of two new caches."""
    if sys.argv[1:2] == ["--measure"]:
        measure(float(sys.argv[2]), sys.argv[3:])
        return
    from machine import print_machine

    print_machine()
    print(f"{'start':8}{'to torch imported':>20}{'from there to the first update':>34}{'its processor time':>26}")
    for _ in range(2):
        with tempfile.TemporaryDirectory() as cache:
            for name in ("first", "second", "third"):
                at = start(sys.argv[1:], Path(cache))
                took, used = at["update"] - at["torch"], at["update, processor"] - at["torch, processor"]
                print(f"{name:8}{at['torch']:18.2f} s{took:32.2f} s{used:24.2f} s", flush=True)


if __name__ == "__main__":
    main()

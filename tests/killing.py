"""Program for tests/test_resume.py: trains one run repeatedly, each time killed at a different point, then resumed.

    python tests/killing.py FOLDER CONFIG

heed and torch are imported once; each training is a fork, so that restarting is cheap. Kills are real (SIGKILL, or
SIGALRM, whose default action also ends a process at once). Prints one JSON object.
"""

import gc
import importlib
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import safetensors.torch
import torch

from heed.config import read_config
from heed.runs.train import train_config
from heed.tasks import check_config
from heed.training import callbacks, cost, weights
from heed.training.checkpoint import latest_checkpoint
from heed.training.progress import Quiet

OPERATIONS = [(os, "fsync"), (os, "replace"), (os, "unlink"), (shutil, "rmtree"), (weights, "save_file")]


def forked(action):
    """Run `action` in a child process; return its exit status."""
    child = os.fork()
    if child == 0:
        try:
            action()
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def before_each(act):
    """Patch the disk operations used for saving to call `act(name)` first."""
    for home, name in OPERATIONS:
        real = getattr(home, name)

        def instead(*args, real=real, name=name, **kwargs):
            act(name)
            return real(*args, **kwargs)

        setattr(home, name, instead)


def import_what_is_used(train, folder):
    """Import the modules that a training imports on demand, so that no fork does."""
    names = folder / "modules"

    def listed():
        train(folder / "first")
        names.write_text("\n".join(sys.modules))

    assert forked(listed) == 0
    for name in names.read_text().split("\n"):
        if name.partition(".")[0] in ("heed", "torch", "numpy", "yaml", "scipy", "sacrebleu"):
            importlib.import_module(name)


def main(folder: Path, config_path: Path) -> None:
    torch.set_num_threads(1)
    os.fsync = lambda number: None  # the machine goes on, and so do its files
    cost._ENOUGH = 0.0  # as in conftest.py
    config = check_config(read_config(config_path), str(config_path))

    def train(out):
        train_config(config, out, Quiet(), resume=True)

    def in_save(number, what):
        """During save number `number`, call `what` before each disk operation."""
        saves, inside = [], []
        real = callbacks.Save.run

        def write(saver):
            saves.append(1)
            inside[:] = [len(saves) == number]
            real(saver)
            inside.clear()

        callbacks.Save.run = write
        before_each(lambda name: inside and inside[0] and what(name))

    import_what_is_used(train, folder)
    gc.freeze()  # the forks then share these objects
    start = time.perf_counter()
    assert forked(lambda: train(folder / "whole")) == 0
    seconds = time.perf_counter() - start
    whole = (folder / "whole" / "model.safetensors").read_bytes()

    names = folder / "names"

    def note(name):
        with names.open("a") as file:
            file.write(name + "\n")

    def counted():
        in_save(3, note)
        train(folder / "counted")

    assert forked(counted) == 0
    steps = names.read_text().split()

    def killed_in_save(out, place):
        seen = []

        def kill(name):
            if len(seen) == place:
                os.kill(os.getpid(), signal.SIGKILL)
            seen.append(name)

        in_save(3, kill)
        train(out)

    def killed_after(out, delay):
        signal.setitimer(signal.ITIMER_REAL, delay)
        train(out)

    draw = random.Random(1)
    kills = [(f"save {place} ({name})", killed_in_save, place) for place, name in enumerate(steps)]
    moments = [draw.uniform(0.0, seconds) for _ in range(max(4, 20 - len(kills)))]
    kills += [(f"after {moment:.3f} s", killed_after, moment) for moment in moments]
    results = []
    for number, (name, kill, value) in enumerate(kills):
        out = folder / f"run-{number}"
        status = forked(lambda kill=kill, out=out, value=value: kill(out, value))
        newest = latest_checkpoint(out / "checkpoints") if out.exists() else None
        again = forked(lambda out=out: train(out))
        weights = out / "model.safetensors"
        results.append(
            {
                "kill": name,
                "signal": os.WTERMSIG(status),
                "left": None if newest is None else newest.name,
                "resumed": again,
                "same": weights.is_file() and weights.read_bytes() == whole,
                "leftovers": [p.name for p in (out / "checkpoints").glob(".*")],
            }
        )
        shutil.rmtree(out)
    print(json.dumps({"seconds": seconds, "steps": steps, "results": results}))


if __name__ == "__main__":
    assert safetensors.torch  # imported before the forks
    main(Path(sys.argv[1]), Path(sys.argv[2]))

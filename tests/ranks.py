"""Program for tests/test_processes.py: imports heed once, then runs commands in several forked processes.

    python tests/ranks.py

Reads one JSON object a line from standard input ("folder", "count" and "words": a Python file or "heed", and its
arguments), sets the environment as torchrun does, and answers with a line of exit codes and outputs of the processes.
"""

import gc
import importlib
import json
import os
import runpy
import signal
import sys
import tempfile
import traceback

from torch.distributed import TCPStore

from heed.cli import main
from heed.training import cost

USED = [
    *("heed.cli.app", "heed.runs.train", "heed.tasks.translation", "heed.tasks.classification"),
    *("heed.tasks.tagging", "torch._dynamo", "sklearn.linear_model", "sklearn.feature_extraction.text"),
]
"""Modules that the commands import on demand; loaded here once for all forks."""


def store():
    """Host the rendezvous store of the processes, as torchrun's agent does; return its process and port."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        hosted = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        os.write(writing, f"{hosted.port}\n".encode())
        signal.pause()
    port = os.read(reading, 20).decode().strip()
    os.close(reading)
    os.close(writing)
    return child, port


def become(rank, count, port, folder, words, output):
    """Run the command as process number `rank`; return its exit code."""
    os.environ |= {
        **{"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)},
        **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"},
        **{"GROUP_WORLD_SIZE": "1", "TORCHELASTIC_RESTART_COUNT": "0"},
    }
    os.chdir(folder)
    os.dup2(output, 1)
    os.dup2(output, 2)
    try:
        if words[0] == "heed":
            main(words[1:])
        else:
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as ended:
        return ended.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def run(folder, count, words):
    """Run the command in `count` processes."""
    hosting, port = store()
    with tempfile.TemporaryFile("a+") as output:
        children = []
        for rank in range(count):
            if (child := os.fork()) == 0:
                code = become(rank, count, port, folder, words, output.fileno())
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        os.kill(hosting, signal.SIGKILL)
        os.waitpid(hosting, 0)
        output.seek(0)
        return {"codes": codes, "said": output.read()}


if __name__ == "__main__":
    cost._ENOUGH = 0.0  # as in conftest.py
    for name in USED:
        importlib.import_module(name)
    gc.freeze()  # the forks then share these objects
    for line in sys.stdin:
        print(json.dumps(run(**json.loads(line))), flush=True)

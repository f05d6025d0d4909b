"""`heed serve` under load: predictions beside `heed predict`, the first map, the first token.

    python benchmarks/serving.py RUN LINES [--clients 16] [--seconds 20]

LINES is a file with an input on each line. The server and `heed predict` are processes of their own; the clients are
threads of this one, each with its own connection. The time of `heed predict` is that of all lines less that of one.
Processor time is that of the server or the command alone, so other programs disturb it less.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import json
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from machine import print_machine

At = tuple[int, dict[str, str], int]
HEED = (sys.executable, "-m", "heed")


@contextlib.contextmanager
def server(run: str, *words: str) -> Iterator[At]:
    """The port, the headers of a request, and the number of the process."""
    started = subprocess.Popen([*HEED, "serve", run, *words], stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    link = re.search(r":(\d+)/#(\S+)", started.stdout.readline())
    assert link is not None
    yield int(link[1]), {"Authorization": f"Bearer {link[2]}", "Content-Type": "application/json"}, started.pid
    started.send_signal(signal.SIGINT)
    started.wait()


def processor_time(process: int) -> float:
    """Seconds of a process, of Linux."""
    fields = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(at: At, lines: list[str], size: int, clients: int, seconds: float) -> None:
    """Clients that ask for `size` lines at a time; prints lines/s and the times of requests."""
    took, given, lock = [], itertools.cycle(lines), threading.Lock()
    begun, before = time.perf_counter(), processor_time(at[2])

    def client() -> None:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", at[0])) as connection:
            while (start := time.perf_counter()) < begun + seconds:
                with lock:
                    inputs = list(itertools.islice(given, size))
                connection.request("POST", "/v1/predict", json.dumps({"inputs": inputs}), at[1])
                answer = connection.getresponse()
                answered = json.loads(answer.read())
                assert len(answered.get("outputs", ())) == size, answered
                took.append(time.perf_counter() - start)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    speed, used = len(took) * size / (time.perf_counter() - begun), processor_time(at[2]) - before
    half, most = (1000 * statistics.quantiles(took, n=100)[n] for n in (49, 98))
    print(f"{clients} clients, {size} lines a request: {speed:,.0f} lines/s; ", end="")
    print(f"{1000 * used / len(took) / size:.2f} ms of processor a line; p50 {half:.0f} ms, p99 {most:.0f} ms")


def command(run: str, lines: list[str], folder: Path) -> tuple[float, float]:
    """Seconds that `heed predict` takes, and of processor."""
    (folder / "lines.txt").write_text("".join(f"{one}\n" for one in lines), encoding="utf-8")
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [*HEED, "predict", run, "--input", folder / "lines.txt", "--out", folder / "out.txt", "--json"],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def asked(at: At, path: str, body: dict[str, Any]) -> float:
    """Seconds until the whole answer, or the first line of a stream."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", at[0])) as connection:
        start = time.perf_counter()
        connection.request("POST", path, json.dumps(body), at[1])
        answer = connection.getresponse()
        assert answer.status == 200 and (answer.readline() if path == "/api/write" else answer.read())
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("lines")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=20)
    print_machine()
    given = parser.parse_args()
    lines = [one for one in Path(given.lines).read_text("utf-8").splitlines() if one.strip()]
    with tempfile.TemporaryDirectory() as folder:
        every, one = command(given.run, lines, Path(folder)), command(given.run, lines[:1], Path(folder))
    took, used = every[0] - one[0], every[1] - one[1]
    print(f"heed predict, {len(lines):,} lines: {len(lines) / took:,.0f} lines/s; ", end="")
    print(f"{1000 * used / len(lines):.2f} ms of processor a line")
    with server(given.run) as at:
        for size in (1, 50):
            load(at, lines, size, given.clients, given.seconds)
        load(at, lines, 1, 1, given.seconds / 4)
        for path, name in (("/api/save", "a look"), ("/api/write", "the first piece of an output")):
            bodies = ({"input": line} for line in lines[:20])
            looks = ({"look": body, "format": "html"} if path == "/api/save" else body for body in bodies)
            took = sorted(asked(at, path, body) for body in looks)
            print(f"{name}: median {1000 * statistics.median(took):.0f} ms, largest {1000 * took[-1]:.0f} ms")


if __name__ == "__main__":
    main()

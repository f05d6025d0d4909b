"""Time and memory until the first update of each task, with many generated examples.

    python benchmarks/size.py [--rows 100000 1000000 5000000] [--tasks classification tagging] [--limit 300]

For each task and number of examples: a data set is written into a temporary folder, a process trains on it with the
task's defaults and an empty cache until its first update, and the folder is deleted. Words follow Zipf's law. A row of
a series is one point of time, a picture has 8 x 8 pixels. Seconds by the clock depend on other work on the machine,
those of the processor do not. The memory is the peak of the process. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from machine import print_machine
from numpy.typing import NDArray

WORDS = 30_000
TOGETHER = 100_000  # rows generated at once
_rng = np.random.default_rng(1)
_letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
VOCABULARY = np.array(["".join(_rng.choice(_letters, 2 + n % 9)) for n in range(WORDS)], dtype=object)
FOREIGN = np.array([word[::-1] for word in VOCABULARY], dtype=object)
_CUMULATED = np.cumsum(1 / np.arange(1, WORDS + 1))


def chunks(rows: int, longest: int) -> Iterator[tuple[list[NDArray[np.int64]], NDArray[np.int64]]]:
    """Texts of 4 to `longest` words, as numbers of words, and a label of each, which its words decide."""
    for start in range(0, rows, TOGETHER):
        lengths = _rng.integers(4, longest + 1, min(TOGETHER, rows - start))
        drawn = np.searchsorted(_CUMULATED, _rng.random(lengths.sum()) * _CUMULATED[-1])
        texts = np.split(drawn, np.cumsum(lengths)[:-1])
        yield texts, np.array([text[:3].sum() % 4 for text in texts])


def text(numbers: NDArray[np.int64], vocabulary: NDArray[np.object_] = VOCABULARY) -> str:
    return " ".join(vocabulary[numbers])


def classification(folder: Path, rows: int) -> list[Path]:
    with (folder / "texts.tsv").open("w") as file:
        for texts, labels in chunks(rows, 24):
            file.writelines(f"{text(one)}\tlabel{label}\n" for one, label in zip(texts, labels, strict=True))
    return [folder / "texts.tsv"]


def tagging(folder: Path, rows: int) -> list[Path]:
    with (folder / "tagged.conll").open("w") as file:
        for texts, _ in chunks(rows, 24):
            for one in texts:
                tags = zip(VOCABULARY[one], one % 7, strict=True)
                file.write("\n".join(f"{word}\t{'B-X' if kind == 1 else 'O'}" for word, kind in tags) + "\n\n")
    return [folder / "tagged.conll"]


def translation(folder: Path, rows: int) -> list[Path]:
    with (folder / "my.aa").open("w") as source, (folder / "my.bb").open("w") as target:
        for texts, _ in chunks(rows, 24):
            source.writelines(text(one) + "\n" for one in texts)
            target.writelines(text(one, FOREIGN) + "\n" for one in texts)
    return [folder / "my.aa", folder / "my.bb"]


def summarisation(folder: Path, rows: int) -> list[Path]:
    with (folder / "my.doc").open("w") as source, (folder / "my.sum").open("w") as target:
        for texts, _ in chunks(rows, 80):
            source.writelines(text(one) + "\n" for one in texts)
            target.writelines(text(one[:8]) + "\n" for one in texts)
    return [folder / "my.doc", folder / "my.sum"]


def dialogue(folder: Path, rows: int) -> list[Path]:
    with (folder / "talks.jsonl").open("w") as file:
        for texts, _ in chunks(rows, 40):
            for one in texts:
                turns = [text(one[:8]), text(one[2:6]), text(one[4:])] if len(one) > 6 else [text(one), text(one[:2])]
                file.write(json.dumps({"turns": turns}) + "\n")
    return [folder / "talks.jsonl"]


def language_modelling(folder: Path, rows: int) -> list[Path]:
    with (folder / "documents.jsonl").open("w") as file:
        for texts, _ in chunks(rows, 80):
            file.writelines(json.dumps({"text": text(one)}) + "\n" for one in texts)
    return [folder / "documents.jsonl"]


def images(folder: Path, rows: int) -> list[Path]:
    names = folder / "train-images-idx3-ubyte", folder / "train-labels-idx1-ubyte"
    with names[0].open("wb") as pictures, names[1].open("wb") as labels:
        pictures.write(bytes([0, 0, 8, 3]) + np.array([rows, 8, 8], ">i4").tobytes())
        labels.write(bytes([0, 0, 8, 1]) + np.array([rows], ">i4").tobytes())
        for start in range(0, rows, TOGETHER):
            drawn = _rng.integers(0, 256, (min(TOGETHER, rows - start), 64), dtype=np.uint8)
            pictures.write(drawn.tobytes())
            labels.write((drawn[:, 0] // 64).tobytes())
    return [names[0]]


def numbers(file: Path, rows: int, label: bool) -> list[Path]:
    with file.open("w") as out:
        out.write("a,b,c,d" + (",label\n" if label else "\n"))
        for start in range(0, rows, TOGETHER):
            drawn = _rng.standard_normal((min(TOGETHER, rows - start), 4)).round(4)
            last = [f",{'yes' if row[0] > row[1] else 'no'}\n" if label else "\n" for row in drawn.tolist()]
            out.writelines(",".join(map(str, row)) + end for row, end in zip(drawn.tolist(), last, strict=True))
    return [file]


TASKS: dict[str, Callable[[Path, int], list[Path]]] = {
    "classification": classification,
    "tagging": tagging,
    "translation": translation,
    "summarisation": summarisation,
    "dialogue": dialogue,
    "language_modelling": language_modelling,
    "pretraining": language_modelling,
    "images": images,
    "table": lambda folder, rows: numbers(folder / "rows.csv", rows, True),
    "series": lambda folder, rows: numbers(folder / "series.csv", rows, False),
}


def train(task: str, files: list[str]) -> None:
    """Train until the first update, print seconds and peak memory, and exit at once."""
    import heed

    def first(event: heed.TrainingEvent) -> None:
        if event.kind == "update":
            field = next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
            seconds = time.time() - float(os.environ["BEGAN"]), time.process_time()
            print(json.dumps([*seconds, int(field.split()[1]) / 2**20]), flush=True)
            os._exit(0)

    given = files if len(files) > 1 else files[0]
    heed.train(task, train=given, callback=first, settings={"training.device": "cpu"})


def measured(task: str, files: list[Path], limit: float) -> tuple[float, float, float] | str:
    """Seconds, and those of the processor, until the first update, and peak GiB of a process; or why there was none."""
    folder = files[0].parent
    given = {**os.environ, "HEED_CACHE": str(folder / "cache"), "BEGAN": str(time.time())}
    command = [sys.executable, __file__, "--measure", task, *map(str, files)]
    try:
        done = subprocess.run(
            command, env=given, cwd=folder, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return f"none after {limit:.0f} s"
    if "--verbose" in sys.argv:
        print(done.stderr)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["?"])[-1]
    seconds, processor, memory = json.loads(done.stdout.splitlines()[-1])
    return seconds, processor, memory


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 5_000_000])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which a run is given up")
    parser.add_argument("--again", action="store_true", help="also a second time, with what the first has cached")
    parser.add_argument("--verbose", action="store_true", help="print what heed prints")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        train(given.measure[0], given.measure[1:])
        return
    print_machine()
    print("| task | examples | files | first update | processor time | memory |\n|---|---|---|---|---|---|", flush=True)
    for task in given.tasks:
        for rows in given.rows:
            folder = Path(tempfile.mkdtemp())
            try:
                files = TASKS[task](folder, rows)
                size = sum(file.stat().st_size for file in folder.iterdir()) / 2**20
                for again in range(1 + given.again):
                    found = measured(task, files, given.limit)
                    said = (
                        found if isinstance(found, str) else f"{found[0]:.0f} s | {found[1]:.0f} s | {found[2]:.1f} GiB"
                    )
                    name = f"{task}{', cached' * again}"
                    print(f"| {name} | {rows:,} | {size:,.0f} MiB | {said} |", flush=True)
            finally:
                shutil.rmtree(folder)


if __name__ == "__main__":
    main()

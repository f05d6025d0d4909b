"""Make the sentiment files that the recipes use from files of labelled sentences (lines `label text`).

    python examples/sentiment_split.py data/sentiment

writes next to these files
- sst/sst3.{train,dev,test}: the fine-grained SST as negative (0, 1), neutral (2) and positive (3, 4);
- mr/fold0.{train,test} ... fold9: MR in ten random parts, each the test set of one fold.
"""

from __future__ import annotations

import gzip
import random
import sys
from pathlib import Path

NAMES = ("negative", "negative", "neutral", "positive", "positive")
FOLDS = 10


def main() -> None:
    folder = Path(sys.argv[1])
    for split in ("train", "dev", "test"):
        lines = read(folder / "sst" / f"stsa.fine.{split}.gz")
        named = [f"{NAMES[int(label)]} {text}" for label, text in (line.split(maxsplit=1) for line in lines)]
        write(folder / "sst" / f"sst3.{split}", named)
    reviews = read(folder / "mr" / "rt-polarity.all.gz")
    random.Random(1).shuffle(reviews)
    for fold in range(FOLDS):
        write(folder / "mr" / f"fold{fold}.test", reviews[fold::FOLDS])
        write(folder / "mr" / f"fold{fold}.train", [line for i, line in enumerate(reviews) if i % FOLDS != fold])
    print(f"wrote sst3.* and {FOLDS} folds of {len(reviews) // FOLDS} reviews")


def read(path: Path) -> list[str]:
    """Read the lines that have a label and a text."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.strip() for line in file if len(line.split()) > 1]


def write(path: Path, lines: list[str]) -> None:
    """Write one line for each string."""
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()

"""What the scripts of this folder share: their arguments, files of JSON lines, the days of the week."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from heed.data.embedded import SPLITS, Split

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def arguments(description: str | None, train: int, valid: int, test: int) -> argparse.ArgumentParser:
    """A parser of the folder to write to, the examples of each split, by default these, and the seed."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    for split, count in zip(SPLITS, (train, valid, test), strict=True):
        parser.add_argument(f"--{split}", type=int, default=count, help=f"examples of this split ({count:,})")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def sizes_of(options: argparse.Namespace) -> dict[Split, int]:
    """The number of examples of each split; makes the folder."""
    options.folder.mkdir(parents=True, exist_ok=True)
    return {split: getattr(options, split) for split in SPLITS}


def write_json_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write each row as a line of JSON."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")

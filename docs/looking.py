"""Draw the pictures of docs/looking.md: `python docs/looking.py [FOLDER]`, a few minutes on one core.

It trains two small translators on the embedded grammar and draws looks at them into docs/looking/. With FOLDER, runs
are kept there, and used again. Budgets are given in updates, so the pictures are reproducible on one machine.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import heed

PICTURES = Path(__file__).parent / "looking"
STEPS = {"bahdanau": 700, "transformer": 700}
"""Updates of each model."""
GRAMMAR = {"data.name": "grammar", "data.valid": 100, "data.test": 100, "model.size": "tiny"}
TEXT = "My friend saw the small goat."
OTHER = "My friend saw the small dog."
HIDDEN = {"edit": "block", "mechanism": "cross", "keys": [4]}
"""The edit that hides the fifth token of the source, small."""
LARGEST = 60_000
"""Most bytes of a picture."""


def trained(name: str, folder: Path) -> heed.Run:
    """The run of a model in `folder`, trained unless it is there."""
    if (folder / name / "checksums.json").exists():
        return heed.load(folder / name)
    settings = GRAMMAR | {"model.name": name, "training.steps": STEPS[name], "training.threads": 1}
    return heed.train("translation", settings=settings, out=folder / name, quiet=True)


def draw(folder: Path) -> None:
    """Make the pictures with the runs in `folder`."""
    runs = {name: trained(name, folder) for name in STEPS}
    gru, transformer = runs["bahdanau"], runs["transformer"]
    pictures = {
        "map": gru.look(TEXT),
        "edited": gru.look(TEXT, edits=[HIDDEN]),
        "beside": gru.look(TEXT, beside=["untrained", transformer]),
        "patched": transformer.patch(TEXT, OTHER),
        "overview": transformer.look(TEXT, overview=True),
        "curves": transformer.curves(),
    }
    PICTURES.mkdir(exist_ok=True)
    for name, shown in pictures.items():
        path = PICTURES / f"{name}.svg"
        shown.save(path)
        assert path.stat().st_size <= LARGEST, f"{path} has {path.stat().st_size:,} bytes"


def main() -> None:
    """Make the pictures, in a temporary folder unless one is given."""
    if len(sys.argv) > 1:
        draw(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        draw(Path(folder))


if __name__ == "__main__":
    main()

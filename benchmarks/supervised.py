"""Supervised attention against plain attention, where the true alignment is known: dates and the small grammar.

    python benchmarks/supervised.py                      everything, three seeds
    python benchmarks/supervised.py few --seeds 1        500 pairs in five languages: plain, guided, shuffled links
    python benchmarks/supervised.py all                  23 languages, 500 pairs
    python benchmarks/supervised.py grammar              the reordering grammar: do maps follow the gold links?

Prints a line for each run: updates until 95 % of the validation set are exactly right, and, of the best weights loaded
afresh with the loss off, the share of 1,000 test examples exactly right and the alignment error.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import heed
from heed.data.embedded.dates import DateSource
from heed.data.examples import Pair
from heed.runs.train import train_config
from heed.tasks import check_config
from heed.training.progress import Quiet

FEW = {"name": "dates", "languages": ["en", "fr", "de", "es", "it"], "train": 500, "valid": 200}
ALL = {"name": "dates", "train": 500, "valid": 200}
GRAMMAR = {"name": "grammar", "language": "de"}
STEPS, GRAMMAR_STEPS = 1_985, 1_200
ENOUGH = 0.95


def settings(data: dict[str, Any], seed: int, steps: int, guided: bool) -> dict[str, Any]:
    """The configuration of one run."""
    training: dict[str, Any] = {"steps": steps, "seed": seed, "threads": 1, "device": "cpu", "validate_every": 105}
    if data["name"] == "grammar":
        training |= {"learning_rate": 0.005, "validate_every": 200}
    if guided:
        training["alignment"] = {"data": True}
    model = {"name": "bahdanau", "size": "tiny"}
    return {"task": "translation", "data": data, "model": model, "training": training}


def shuffled(sample: Callable[..., list[Pair]]) -> Callable[..., list[Pair]]:
    """Examples whose links lead to the source of another link of the same pair."""

    def drawn(*args: Any) -> list[Pair]:
        chance, pairs = random.Random(0), []
        for pair in sample(*args):
            links = list(pair.links or ())
            turn = chance.randrange(1, len(links))
            sources = [link.source for link in links[turn:] + links[:turn]]
            mixed = tuple(replace(link, source=source) for link, source in zip(links, sources, strict=True))
            pairs.append(replace(pair, links=mixed) if args[1] == "train" else pair)
        return pairs

    return drawn


def measured(name: str, how: str, seed: int, values: dict[str, Any], folder: Path) -> None:
    """Train once and print what came of it."""
    run = folder / f"{name}-{how}-{seed}"
    with (
        mock.patch.object(DateSource, "sample", shuffled(DateSource.sample)) if how == "shuffled" else mock.MagicMock()
    ):
        train_config(check_config(values, name), run, Quiet())
    courses = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    exact = {one["step"]: one["exact_match"] for one in courses if "exact_match" in one}
    reached = next((step for step, score in exact.items() if score >= ENOUGH), None)
    trained = heed.load(run)
    scores = {measure.name: measure.score() for measure in trained.outcomes(trained.examples("test")).measures}
    print(
        f"{name} {how} seed {seed}: {reached or 'never'} updates to {ENOUGH:.0%}; of {values['training']['steps']} "
        f"updates: exact {scores['exact_match']:.1%}, alignment error {scores['alignment_error']:.1%}",
        flush=True,
    )


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["few", "all", "grammar"])
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--how", nargs="*", default=["plain", "guided", "shuffled"])
    parser.add_argument("--steps", type=int, help="updates of each run")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "supervised")
    options = parser.parse_args()
    kinds = {"few": (FEW, STEPS), "all": (ALL, STEPS), "grammar": (GRAMMAR, GRAMMAR_STEPS)}
    for seed in options.seeds:
        for name in options.what:
            data, steps = kinds[name]
            for how in options.how:
                if how != "shuffled" or name == "few":
                    values = settings(data, seed, options.steps or steps, how != "plain")
                    measured(name, how, seed, values, options.out)


if __name__ == "__main__":
    main()

"""Supervised against plain attention on data with a known alignment: dates and the small grammar.

    python benchmarks/supervised.py                      everything, three seeds
    python benchmarks/supervised.py few --seeds 1        500 pairs in five languages: plain, guided, shuffled links
    python benchmarks/supervised.py all                  23 languages, 500 pairs
    python benchmarks/supervised.py grammar              the reordering grammar: do maps follow the gold links?
    python benchmarks/supervised.py grammar --language de --seeds 1 --how guided

Prints one line for each run: updates until exact match on the validation set reaches 95 %, and, with the best weights
loaded again and the alignment loss off, exact match on 1,000 test examples and the alignment error. For the grammar
also the share of linked rows that follow the links: of the target words with gold links, those whose largest weight is
on a source word that they are linked with.
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

from machine import print_machine

import heed
from heed.data.embedded.dates import DateSource
from heed.data.examples import Link, Pair
from heed.runs.train import train_config
from heed.tasks import check_config
from heed.tasks.translation.links import aligned_counts
from heed.training.progress import Quiet

FEW = {"name": "dates", "languages": ["en", "fr", "de", "es", "it"], "train": 500, "valid": 200}
ALL = {"name": "dates", "train": 500, "valid": 200}
GRAMMAR = {"name": "grammar", "test": 1_000}
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
    """Examples with shuffled links: each leads to the source of another link of the same pair."""

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


def following(run: Any, pairs: list[Pair]) -> tuple[int, int]:
    """Number of target words whose largest weight is on a word that they are linked with, and of all with gold links.

    A link of the grammar belongs to one target word, whose first character gives the row.
    """
    first = [tuple(Link((one.target[0], one.target[0] + 1), one.source) for one in pair.links or ()) for pair in pairs]
    rows = [replace(pair, links=links) for pair, links in zip(pairs, first, strict=True)]
    right, linked = aligned_counts(run.task, run.model, rows) or ([], [])
    return sum(right), sum(linked)


def measured(name: str, how: str, seed: int, values: dict[str, Any], folder: Path) -> None:
    """Train once and print the results."""
    run = folder / f"{name}-{how}-{seed}".replace(" ", "-")
    with (
        mock.patch.object(DateSource, "sample", shuffled(DateSource.sample)) if how == "shuffled" else mock.MagicMock()
    ):
        train_config(check_config(values, name), run, Quiet())
    courses = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    exact = {one["step"]: one["exact_match"] for one in courses if "exact_match" in one}
    reached = next((step for step, score in exact.items() if score >= ENOUGH), None)
    trained = heed.load(run)
    scores = {measure.name: measure.score() for measure in trained.outcomes(trained.examples("test")).measures}
    line = (
        f"{name} {how} seed {seed}: {reached or 'never'} updates to {ENOUGH:.0%}; of {values['training']['steps']} "
        f"updates: exact {scores['exact_match']:.1%}, alignment error {scores['alignment_error']:.1%}"
    )
    if name.startswith("grammar"):
        right, linked = following(trained, trained.examples("test"))
        line += f", linked rows that follow the links {right / linked:.1%} of {linked:,}"
    print(line, flush=True)


def main() -> None:
    """Run the requested parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["few", "all", "grammar"])
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--how", nargs="*", default=["plain", "guided", "shuffled"])
    parser.add_argument("--language", nargs="*", default=["de", "es"], help="languages of the grammar")
    parser.add_argument("--steps", type=int, help="updates of each run")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "supervised")
    options = parser.parse_args()
    print_machine()
    kinds = {"few": (FEW, STEPS), "all": (ALL, STEPS)}
    kinds |= {f"grammar {code}": (GRAMMAR | {"language": code}, GRAMMAR_STEPS) for code in options.language}
    for seed in options.seeds:
        for name in [kind for what in options.what for kind in kinds if kind.split()[0] == what]:
            data, steps = kinds[name]
            for how in options.how:
                if how != "shuffled" or name == "few":
                    values = settings(data, seed, options.steps or steps, how != "plain")
                    measured(name, how, seed, values, options.out)


if __name__ == "__main__":
    main()

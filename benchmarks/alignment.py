"""Word aligners scored on gold links: IBM model 1, eflomal, and attention trained with half of the gold links.

    python benchmarks/alignment.py counts data/alignment/enfr [--more train.en train.fr] [--eflomal eflomal-align]
    python benchmarks/alignment.py halves data/alignment/roen [--splits 5] [--steps 400] [--model bahdanau]

`counts`: IBM model 1 and eflomal, estimated on the scored pairs and, with --more, also on further pairs. eflomal (GPL)
runs as a program: `pip install 'heed-attention[align]'`, optionally in a separate environment.

`halves`: attention is trained with the gold links of one half of the pairs and scored on the other half. Runs read the
texts of all pairs, as a statistical aligner does: "plain" without links, "automatic" with links of IBM model 1 for all
pairs, "gold" with gold links for one half and none for the other, "both" with gold links for one half and links of IBM
model 1 for the other. "held out" trains on the pairs of the first half only.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from machine import print_machine

import heed
from heed.data.batch.pairs import TokenPair
from heed.data.read.lines import good_lines
from heed.data.read.links import WordLink, read_links, written_links
from heed.data.tokens.word_alignment import align_tokens
from heed.evaluation.alignment import Cell, alignment_measures, symmetrize
from heed.evaluation.significance import intervals

Texts = tuple[list[str], list[str]]
Gold = list[list[WordLink]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    counts_parser = commands.add_parser("counts")
    counts_parser.add_argument("folder", type=Path)
    counts_parser.add_argument("--more", nargs=2, type=Path, metavar=("SOURCE", "TARGET"))
    counts_parser.add_argument("--eflomal", default="eflomal-align", help="path of the eflomal program")
    counts_parser.set_defaults(run=counts)
    halves_parser = commands.add_parser("halves")
    halves_parser.add_argument("folder", type=Path)
    halves_parser.add_argument("--splits", type=int, default=5)
    halves_parser.add_argument("--steps", type=int, default=400)
    halves_parser.add_argument("--model", default="bahdanau")
    halves_parser.add_argument("--weight", type=float, default=1.0)
    halves_parser.add_argument("--ways", default="plain,automatic,gold,both,held out")
    halves_parser.set_defaults(run=halves)
    options = parser.parse_args()
    print_machine()
    options.run(options)


def read(folder: Path) -> tuple[Texts, Gold]:
    """Read the pairs and gold links of a folder of `data/alignment`."""
    pairs = [line.split(" ||| ") for line in good_lines(folder / f"{folder.name}.src-tgt.gz")]
    gold = read_links(folder / f"{folder.name}.gold.gz", base=1)
    return ([source.strip() for source, _ in pairs], [target.strip() for _, target in pairs]), gold


def show(name: str, links: Sequence[Sequence[Cell]], gold: Gold) -> float:
    """Print the scores of some links; return their AER."""
    scores = intervals(alignment_measures(links, gold))
    names = ("AER", "precision", "recall")
    print(f"  {name:<34}" + ", ".join(f"{label} {one}" for label, one in zip(names, scores, strict=True)), flush=True)
    return scores[0].value


def counts(options: argparse.Namespace) -> None:
    """Score the statistical aligners."""
    texts, gold = read(options.folder)
    corpora = {f"the {len(gold):,} scored pairs": texts}
    if options.more:
        more = [list(good_lines(path)) for path in options.more]
        both = [[*ours, *theirs] for ours, theirs in zip(texts, more, strict=True)]
        corpora[f"and {len(more[0]):,} further ones"] = (both[0], both[1])
    for name, corpus in corpora.items():
        print(f"{options.folder.name}, {name}:")
        show("IBM model 1, both directions", ibm(corpus)[: len(gold)], gold)
        if shutil.which(options.eflomal) is None:
            print(f"  program '{options.eflomal}' not found")
            continue
        forward, reverse = (links[: len(gold)] for links in eflomal(options.eflomal, corpus))
        show("eflomal", forward, gold)
        show("eflomal, back", reverse, gold)
        for how in ("intersection", "gd", "gdfa"):
            show(f"eflomal, {how}", symmetrize(forward, reverse, how), gold)


def ibm(texts: Texts, stem: int = 5, least: float = 0.3) -> list[list[Cell]]:
    """The links of `training.alignment.automatic`: words reduced to their first letters, links above the threshold."""
    sides = []
    for side in texts:
        numbers: dict[str, int] = {}
        words = [[word.lower()[:stem] for word in text.split()] for text in side]
        sides.append([[numbers.setdefault(word, len(numbers)) for word in line] for line in words])
    strengths = align_tokens([TokenPair(*pair) for pair in zip(*sides, strict=True)])
    return [[(int(i), int(j)) for j, i in (strength > least).nonzero()] for strength in strengths]


def eflomal(program: str, texts: Texts) -> tuple[list[list[Cell]], list[list[Cell]]]:
    """Links of both directions by eflomal, all as (source word, target word)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side, lines in zip(("source", "target"), texts, strict=True):
            (folder / side).write_text("".join(line.lower() + "\n" for line in lines), encoding="utf-8")
        words = ["-s", folder / "source", "-t", folder / "target", "-f", folder / "forward", "-r", folder / "reverse"]
        subprocess.run([program, *map(str, words)], check=True, capture_output=True)
        forward, reverse = (read_links(folder / side) for side in ("forward", "reverse"))
    return [[link[:2] for link in line] for line in forward], [[link[:2] for link in line] for line in reverse]


def halves(options: argparse.Namespace) -> None:
    """Train attention with half of the gold links; score it on the other half."""
    texts, gold = read(options.folder)
    automatic = [[WordLink(i, j) for i, j in line] for line in ibm(texts)]
    errors: dict[str, list[float]] = {}
    for split in range(1, options.splits + 1):
        order = list(range(len(gold)))
        random.Random(split).shuffle(order)
        taught, scored = set(order[: len(order) // 2]), sorted(order[len(order) // 2 :])
        print(f"{options.folder.name}, split {split}: {len(taught)} pairs for training, {len(scored)} for scoring")
        of_scored = [gold[n] for n in scored]
        statistical = show("IBM model 1", [[link[:2] for link in automatic[n]] for n in scored], of_scored)
        errors.setdefault("IBM model 1", []).append(statistical)
        given = {
            "automatic": automatic,
            "gold": [gold[n] if n in taught else [] for n in range(len(gold))],
            "both": [gold[n] if n in taught else automatic[n] for n in range(len(gold))],
            "held out": gold,
        }
        for way in options.ways.split(","):
            kept = [n for n in range(len(gold)) if way != "held out" or n in taught]
            with tempfile.TemporaryDirectory() as name:
                links = [given[way][n] for n in kept] if way in given else None
                run = taught_run(Path(name), [[side[n] for n in kept] for side in texts], links, options, split)
                found = run.align([texts[0][n] for n in scored], [texts[1][n] for n in scored]).links
            errors.setdefault(way, []).append(show(f"attention, {way}", found, of_scored))
    for way, values in errors.items():
        print(
            f"{way:<12} AER over {len(values)} splits: {np.mean(values):.1%} ({min(values):.1%} to {max(values):.1%})"
        )


def taught_run(
    folder: Path,
    texts: Sequence[Sequence[str]],
    links: Sequence[Sequence[WordLink]] | None,
    options: argparse.Namespace,
    seed: int,
) -> heed.Run:
    """A run trained on the texts, with links if given."""
    for side, lines in zip(("source", "target"), texts, strict=True):
        (folder / side).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    settings = {
        "data.duplicates": "keep",
        "data.max_length": 1000,
        "tokenizer.kind": "bpe",
        "tokenizer.vocab_size": 1500,
    }
    settings |= {"tokenizer.lowercase": True, "training.threads": 1, "training.patience": None, "model.size": "tiny"}
    if links is not None:
        (folder / "links").write_text("".join(written_links(line) + "\n" for line in links), encoding="utf-8")
        settings |= {"training.alignment.files": [str(folder / "links")], "training.alignment.weight": options.weight}
        settings |= {"training.alignment.base": 0}
    files = (folder / "source", folder / "target")
    return heed.train(
        "translation",
        train=files,
        valid=files,
        model=options.model,
        steps=options.steps,
        seed=seed,
        out=folder / "run",
        settings=settings,
        quiet=True,
    )


if __name__ == "__main__":
    main()

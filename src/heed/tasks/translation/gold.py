"""Gold links: reading them, checking them against the pairs, and scoring an aligner on them.

If layer or head is left open, every second pair chooses it, and the others are scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from heed.data.examples import Pair
from heed.data.read.links import read_links
from heed.errors import DataError
from heed.evaluation.report import shown
from heed.tasks.base.report import counted
from heed.tasks.translation.aligning import Aligner, Gold


def read_gold(path: str | Path, pairs: Sequence[Pair], base: Literal[0, 1] = 0) -> tuple[Gold, list[str]]:
    """The gold links of pairs.

    Links to words beyond the end of a text are kept: no aligner can find them, but published scores count them.

    Args:
        path: File in Pharaoh format, a line for each pair.
        pairs: The texts.
        base: Number of the first word in the file.

    Returns:
        The links, and remarks on them.

    Raises:
        DataError: The file has a different number of lines or no links, or counts words from 1 although `base` is 0.
    """
    gold = read_links(path, base=base)
    if len(gold) != len(pairs):
        raise DataError(
            f"'{path}' has {counted(len(gold), 'line')}, but there are {counted(len(pairs), 'pair')}; line N must have "
            "the links of pair N (a blank line if it has none)"
        )
    links = [link for line in gold for link in line]
    if not links:
        raise DataError(f"'{path}' has no links")
    beyond = [
        (number, link)
        for number, (line, pair) in enumerate(zip(gold, pairs, strict=True), start=1)
        for link in line
        if link.source >= len(pair.source.split()) or link.target >= len(pair.target.split())
    ]
    if not beyond:
        return gold, []
    number, first = beyond[0]
    where = f"the first on line {number}: {first.written(base)}"
    if base == 0 and not any(0 in link[:2] for link in links):
        raise DataError(
            f"'{path}' has no link to a word 0, but {counted(len(beyond), 'link')} to a word after the last ({where}); "
            "it seems to count words from 1 (use --gold-base 1 of `heed align`, --alignment-base 1 of `heed evaluate`)"
        )
    is_one = len(beyond) == 1
    what = f"{counted(len(beyond), 'link')} {'names' if is_one else 'name'} a word after the last one"
    return gold, [f"'{path}': {what}, {where}; {'it counts' if is_one else 'they count'} as missed"]


def settle(
    aligner: Aligner, pairs: Sequence[Pair], gold: Gold | None, resamples: int
) -> tuple[dict[str, Any], list[str]]:
    """Choose the place that an aligner reads links from, by gold links or by the agreement of two directions; score it.

    Returns:
        The report (see `choose_and_score`; without gold links, no scores), and lines for people.
    """
    why, scores = "", []
    if gold is not None:
        report = choose_and_score(aligner, pairs, gold, resamples)
        scores = score_lines(report)
        if report["choices"]:
            why = f" (chosen among {report['choices']} on every second pair)"
    else:
        agreed = aligner.agree(pairs)
        report = {"places": [place.values() for place in aligner.places]}
        if agreed > 1:
            why = f" (the layers that agree best, among {agreed} pairs of layers)"
    lines = [f"{one.run.folder}: {one.place}{why}" for one in aligner.directions]
    if len(lines) > 1:
        lines.append(f"links of both directions: {aligner.how}")
    return report, [*lines, *scores]


def choose_and_score(aligner: Aligner, pairs: Sequence[Pair], gold: Gold, resamples: int) -> dict[str, Any]:
    """Choose the place to read links from on every second pair and score the others; if nothing is open, score all.

    Returns:
        `choices`, the number of places to choose from; `places` of each direction; `symmetrize` of two; "test", the
        scores with intervals and the number of `pairs`; and "valid", the scores of the choosing pairs, if any.
    """
    halves = {"valid": slice(0, None, 2), "test": slice(1, None, 2)}
    choices = 0
    if len(pairs) > 1:
        choices = aligner.choose(pairs[halves["valid"]], gold[halves["valid"]])
    if choices <= len(aligner.directions):
        halves, choices = {"test": slice(None)}, 0
    report: dict[str, Any] = {"choices": choices, "places": [place.values() for place in aligner.places]}
    if len(aligner.directions) > 1:
        report["symmetrize"] = aligner.how
    for name, half in halves.items():
        some = pairs[half]
        report[name] = {"pairs": len(some), **shown(aligner.measures(some, gold[half]), resamples)}
    return report


NAMES = {"aer": "AER", "alignment_precision": "precision", "alignment_recall": "recall"}


def score_lines(report: dict[str, Any]) -> list[str]:
    """A report of `choose_and_score`, for people."""
    lines = []
    for name, scores in ((name, report[name]) for name in ("valid", "test") if name in report):
        what = counted(scores["pairs"], "pair")
        if "valid" in report:
            what += " used to choose (1, 3, 5, ...)" if name == "valid" else " not used to choose (2, 4, 6, ...)"
        values = (
            f"{label} {scores[key]['value']:.1%} [{scores[key]['low']:.1%}, {scores[key]['high']:.1%}]"
            for key, label in NAMES.items()
        )
        lines.append(f"{what}: {', '.join(values)}")
    return lines

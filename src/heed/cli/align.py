"""`heed align`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument

from heed.cli.options import ForceOption, RunArgument, complete_run, option
from heed.errors import ConfigError

_TOGETHER = 2_000
"""Pairs aligned and written at a time, so that output appears continuously."""


def align(
    run: RunArgument,
    files: Annotated[list[str], Argument(metavar="FILE...", help="Two parallel files, or one with both sides.")],
    reverse: Annotated[
        str | None,
        option("Links", metavar="RUN", help="A run that translates in the reverse direction.", complete=complete_run),
    ] = None,
    symmetrize: Annotated[
        Literal["intersection", "gd"] | None,
        option(
            "Links",
            metavar="intersection|gd",
            help="With --reverse: how to combine both directions; gd (grow-diag) by default.",
        ),
    ] = None,
    layer: Annotated[
        int | None, option("Links", metavar="N", help="Layer from 0, negative from the end; see docs/alignment.md.")
    ] = None,
    head: Annotated[str | None, option("Links", metavar="N", help="Head from 0, or mean (over the heads).")] = None,
    state: Annotated[
        Literal["read", "written"] | None,
        option("Links", metavar="read|written", help="Use the state after reading a target word, or while writing it."),
    ] = None,
    gold: Annotated[
        Path | None,
        option(
            "Scores",
            metavar="FILE",
            help="Correct links, one line per pair, to score the links.",
        ),
    ] = None,
    gold_base: Annotated[
        int, option("Scores", metavar="0|1", help="Number of the first word in --gold.", min=0, max=1)
    ] = 0,
    scores: Annotated[
        bool, option("Output", "--scores", help="Write a score for each pair, a tab, and links with their weights.")
    ] = False,
    out: Annotated[Path | None, option("Output", metavar="FILE", help="Write to this file instead of stdout.")] = None,
    force: ForceOption = False,
) -> None:
    """Link the words of given translations.

    Writes a line for each pair: i-j links source word i with target word j, counted from 0; spaces separate words.
    """
    base: Literal[0, 1] = 1 if gold_base else 0
    run_align(run, files, AlignOptions(reverse, symmetrize, layer, head, state, gold, base, scores, out, force))


@dataclass(frozen=True)
class AlignOptions:
    """The options of `heed align`."""

    reverse: str | None
    symmetrize: str | None
    layer: int | None
    head: str | None
    state: str | None
    gold: Path | None
    gold_base: Literal[0, 1]
    scores: bool
    out: Path | None
    force: bool = False


def run_align(name: str, files: list[str], options: AlignOptions) -> None:
    """Write the links between the words of pairs, one line per pair; notes on reading, and scores, go to stderr."""
    import heed
    from heed.cli.terminal import open_output
    from heed.tasks.base.capabilities import capability
    from heed.threads import sparing

    run: Any = heed.load(name, force=options.force)
    aligns = capability(run, "align")
    if options.symmetrize is not None and options.reverse is None:
        raise ConfigError(
            f"--symmetrize {options.symmetrize} needs the links of both directions; give a run that translates in the "
            "reverse direction with --reverse"
        )
    if options.gold is None and options.gold_base:
        raise ConfigError("--gold-base applies only with --gold; give both or neither")
    pairs = run.read(files)
    for line in run.reading:
        print(f"heed: {line}", file=sys.stderr)
    back = None if options.reverse is None else heed.load(options.reverse, force=options.force)
    if back is not None:
        capability(back, "align")
    with sparing():
        aligner = aligns.aligner(
            pairs,
            reverse=back,
            symmetrize=options.symmetrize,
            layer=options.layer,
            head=_head(options.head),
            state=options.state,
            gold=options.gold,
            gold_base=options.gold_base,
        )
    for line in aligner.notes:
        print(f"heed: {line}", file=sys.stderr)
    with sparing(), open_output(options.out) as file:
        for start in range(0, len(pairs), _TOGETHER):
            for one in aligner.align(pairs[start : start + _TOGETHER], scores=options.scores):
                file.write(f"{one.scored() if options.scores else one}\n")
            file.flush()


def _head(text: str | None) -> int | str | None:
    if text is None or text == "mean":
        return text
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"--head is '{text}'; give a number or mean") from None

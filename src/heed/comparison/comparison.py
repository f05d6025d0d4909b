"""`heed.compare`: runs scored on the same examples in one session, and everything that is made of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from heed.comparison import files, page, tables
from heed.comparison.compared import Compared, Conditions
from heed.comparison.entries import Entry, common_examples, find_entry, group_by_seed, open_runs
from heed.comparison.results import Resampling, results_of
from heed.errors import ConfigError
from heed.evaluation.measures import Outcomes
from heed.evaluation.significance import SEED
from heed.tasks.base.capabilities import Compares, capability
from heed.tasks.base.comparison import Examiner, Speed, predict_timed
from heed.tasks.base.run import Run, check_one_task
from heed.training.device import choose_device

_TRIALS = 10_000
"""Of the tests: p-values are then known down to 0.0001."""


class Comparison(Compared):
    """Several runs on the same examples; a notebook displays it as its tables."""

    rows = property(files.rows)
    text = tables.tables_text
    to_latex = files.to_latex
    to_csv = files.to_csv
    to_json = files.to_json
    to_html = page.to_html
    _repr_html_ = tables.tables_html

    def save(self, folder: str | Path, sentences: int = 15) -> list[Path]:
        """Write compare.html, .tex, .csv and .json into a folder; returns the files."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        texts = {"html": self.to_html(sentences), "tex": self.to_latex(), "csv": self.to_csv(), "json": self.to_json()}
        for ending, text in texts.items():
            # As it stands: the CSV's line ends are its own.
            (folder / f"compare.{ending}").write_text(text, encoding="utf-8", newline="")
        return [folder / f"compare.{ending}" for ending in texts]

    def __repr__(self) -> str:
        labels = ", ".join(entry.label for entry in self.entries)
        return f"<comparison of {labels} on {len(self.examples):,} examples; print it>"

    def __str__(self) -> str:
        return self.text()


def compare(
    runs: Sequence[Run[Any, Any] | str | os.PathLike[str] | Entry],
    *,
    split: str | None = None,
    baseline: str | None = None,
    beam_size: int | None = None,
    threads: int | None = None,
    device: str = "auto",
    resamples: int | None = None,
    seed: int = SEED,
    say: Callable[[str], None] = lambda message: None,
) -> Comparison:
    """Score runs on the examples they share, and test their differences.

    Every run predicts the examples in this session, one after the other, on the same device with the same threads and
    batches. Runs that differ in their seed only are one row: the mean over seeds.

    Args:
        runs: Runs of one task, or their folders; or the rows of the tables, whose labels are settled.
        split: Which examples: "test" by default, "valid" where no run has a test set.
        baseline: Label or folder of the run that the others are tested against besides the best; the first by default.
        beam_size: One beam for all; each run's own by default (translation only).
        threads: Processor threads; by default the largest number that a run was trained with.
        device: Where to predict.
        resamples: Resamples of intervals, and trials of the tests. By default intervals are resampled as often as the
            runs' own reports do (`evaluation.bootstrap`), so that both show the same; the tests have 10,000 trials.
        seed: Their seed; the reports' is 1.
        say: Told what happens.

    Raises:
        ConfigError: Fewer than two runs, or an option that does not fit them.
        DataError: The runs do not have the same examples.
        RunError: A run cannot be opened.
    """
    entries = [one for one in runs if isinstance(one, Entry)]
    if not entries:
        given = [run if isinstance(run, Run) or run == "last" else Path(run) for run in runs]  # type: ignore[arg-type]
        entries = group_by_seed(open_runs(given))
    opened = [run for entry in entries for run in entry.runs]
    first = find_entry(entries, baseline) if baseline is not None else 0
    where = choose_device(device)
    if resamples is None:
        resampling = Resampling(max(run.config.evaluation.bootstrap for run in opened), _TRIALS, seed)
    else:
        resampling = Resampling(resamples, resamples, seed)
    if resampling.count < 1 or (threads is not None and threads < 1) or (beam_size is not None and beam_size < 1):
        raise ConfigError("resamples, threads and beam_size must be at least 1")
    check_one_task(opened, "can be compared")
    kind = capability(opened[0], Compares).examiner()
    if beam_size is not None and not kind.has_beam:
        raise ConfigError(f"beam_size {beam_size} does not apply to runs of {opened[0].config.task}")
    name, examples = common_examples(opened, split, kind)
    examiner = kind(opened, examples)
    count = threads or max(run.report.get("training", {}).get("threads", 1) for run in opened)
    outcomes: list[tuple[Outcomes, ...]] = []
    speeds: list[tuple[Speed, ...]] = []
    with _threads(count):
        for entry in entries:
            found = []
            for run in entry.runs:
                say(f"{run.folder}: {len(examples):,} {name} examples")
                with _on(run, where):
                    outputs, speed = predict_timed(examiner, run, beam_size)
                    found.append((examiner.outcomes(run, outputs), speed))
            outcomes.append(tuple(outcome for outcome, _ in found))
            speeds.append(tuple(speed for _, speed in found))
    say(f"drawing {resampling.count:,} resamples")
    results, buckets = results_of(outcomes, examiner.lengths, first, resampling)
    passes = [speed.passes for group in speeds for speed in group]
    return Comparison(
        tuple(entries),
        tuple(results),
        outcomes[0][0].measures,
        tuple(buckets),
        name,
        examiner,
        tuple(outcomes),
        tuple(speeds),
        first,
        resampling,
        Conditions(str(where), count, beam_size, (min(passes), max(passes))),
        (*_remarks(examiner, name, beam_size), *_uneven(entries)),
    )


def _remarks(examiner: Examiner[Any, Any, Any], split: str, beam_size: int | None) -> tuple[str, ...]:
    remarks, runs = [], examiner.runs
    if split == "valid":
        remarks.append("This is the set that each run's weights were selected on: the scores flatter.")
    remarks += examiner.remarks
    beams = sorted({run.task.config.generation.beam_size for run in runs}) if examiner.has_beam else []
    if beam_size is None and len(beams) > 1:
        remarks.append(f"Each run decodes with its own beam ({', '.join(map(str, beams))}); --beam gives all the same.")
    for name, what in (("threads", "with different numbers of threads"), ("device", "of different devices")):
        found = sorted({run.report["training"][name] for run in runs if "training" in run.report})
        if len(found) > 1:
            remarks.append(f"Training speeds are {what} ({', '.join(map(str, found))}).")
    if any(not run.report for run in runs):
        remarks.append("A run without a report has no numbers of its training.")
    return tuple(remarks)


def _uneven(entries: Sequence[Entry]) -> Iterator[str]:
    """Under a time budget a busy machine trains less: seeds of one model should have had about the same work."""
    for entry in entries:
        updates = [run.report["training"]["updates"] for run in entry.runs if "training" in run.report]
        if updates and min(updates) < 0.8 * max(updates):
            yield (
                f"The seeds of {entry.label} were trained for very different numbers of updates "
                f"({', '.join(map(str, updates))}): their spread is not only that of seeds."
            )


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _on(run: Run[Any, Any], device: torch.device) -> Iterator[None]:
    """A run's model on a device, and then where it was."""
    before = next(run.model.parameters()).device
    run.model.to(device)
    try:
        yield
    finally:
        run.model.to(before)

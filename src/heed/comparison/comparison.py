"""`heed.compare`: runs scored on the same examples in one session, and everything that is made of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from heed.comparison import files, page, tables
from heed.comparison.compared import Compared
from heed.comparison.entries import Entry, find_entry, group_by_seed, open_runs
from heed.comparison.examined import Conduct, predict_all, remarks_on
from heed.comparison.results import results_of
from heed.evaluation.significance import SEED
from heed.tasks.base.run import Run


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
    first = find_entry(entries, baseline) if baseline is not None else 0
    conduct = Conduct(split, beam_size, threads, device, resamples, seed)
    found = predict_all(entries, conduct, say)
    say(f"drawing {found.resampling.count:,} resamples")
    results, buckets = results_of(found.outcomes, found.examiner.lengths, first, found.resampling)
    return Comparison(
        tuple(entries),
        tuple(results),
        found.outcomes[0][0].measures,
        tuple(buckets),
        found.split,
        found.examiner,
        found.outcomes,
        found.speeds,
        first,
        found.resampling,
        found.conditions,
        (*remarks_on(found.examiner, found.split, beam_size), *_uneven(entries)),
    )


def _uneven(entries: Sequence[Entry]) -> Iterator[str]:
    """Under a time budget a busy machine trains less: seeds of one model should have had about the same work."""
    for entry in entries:
        updates = [run.report["training"]["updates"] for run in entry.runs if "training" in run.report]
        if updates and min(updates) < 0.8 * max(updates):
            yield (
                f"The seeds of {entry.label} were trained for very different numbers of updates "
                f"({', '.join(map(str, updates))}): their spread is not only that of seeds."
            )

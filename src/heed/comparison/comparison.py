"""A comparison of runs on the same examples, and its output as text, files and a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from heed.comparison import files, page, tables
from heed.comparison.compared import Compared
from heed.comparison.entries import Entry, find_entry
from heed.comparison.examined import Conduct, predict_all, remarks_on
from heed.comparison.files import save_texts
from heed.comparison.results import results_of


class Comparison(Compared):
    """Several runs on the same examples; a notebook displays it as its tables."""

    rows = property(files.rows)
    """One dictionary per entry."""
    text = tables.tables_text
    """The tables as text."""
    to_latex = files.to_latex
    """The tables in LaTeX; needs the package booktabs."""
    to_csv = files.to_csv
    """`rows` with a header."""
    to_json = files.to_json
    """`rows`, notes on them, and every example with every output."""
    to_html = page.to_html
    """One self-contained page; `sentences` (15) is the number of examples on it."""
    _repr_html_ = tables.tables_html

    def save(self, folder: str | Path, sentences: int = 15) -> list[Path]:
        """Write compare.html, .tex, .csv and .json into a folder; returns the files.

        Raises:
            ConfigError: The folder cannot be made.
            DiskError: The disk is full or writing fails; older files stay.
        """
        texts = {"html": self.to_html(sentences), "tex": self.to_latex(), "csv": self.to_csv(), "json": self.to_json()}
        return save_texts(Path(folder), texts)

    def __repr__(self) -> str:
        labels = ", ".join(entry.label for entry in self.entries)
        return f"<comparison of {labels} on {len(self.examples):,} examples; print it>"

    def __str__(self) -> str:
        return self.text()


def compare_entries(
    entries: Sequence[Entry], conduct: Conduct, baseline: str | None, say: Callable[[str], None]
) -> Comparison:
    """Score the rows of a comparison on their common examples, and test their differences.

    Raises:
        ConfigError: An option does not fit the runs.
        DataError: The runs do not have the same examples.
    """
    first = find_entry(entries, baseline) if baseline is not None else 0
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
        (*remarks_on(found.examiner, found.split, conduct.beam_size), *_uneven(entries)),
    )


def _uneven(entries: Sequence[Entry]) -> Iterator[str]:
    """Remarks on seeds with very different numbers of updates, which a time budget on a busy machine may cause."""
    for entry in entries:
        trained = [run.report.get("training", {}) for run in entry.runs]
        updates = [training["updates"] for training in trained if "updates" in training]
        if updates and min(updates) < 0.8 * max(updates):
            yield (
                f"The seeds of {entry.label} were trained for very different numbers of updates "
                f"({', '.join(map(str, updates))}): their spread is not due to the seeds alone."
            )

"""A comparison as CSV, JSON and LaTeX."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from heed import visible
from heed.comparison.compared import Compared
from heed.comparison.drawn_tables import csv_text, in_latex
from heed.comparison.tables import caption, costs, tables
from heed.storage.outputs import make_folder, write_outputs


def save_texts(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write `compare.ENDING` for each ending; older files are replaced only when all new ones are complete.

    Raises:
        ConfigError: The folder cannot be made.
        DiskError: The disk is full or writing fails; older files stay.
    """
    make_folder(folder)
    files = {folder / f"compare.{ending}": text for ending, text in texts.items()}
    write_outputs(files)
    return list(files)


def rows(comparison: Compared) -> list[dict[str, Any]]:
    """One dictionary per entry; shares are of 1, p-values at least 1 / (1 + trials), None where there is no number."""
    made = []
    labels = [entry.label for entry in comparison.entries]
    for i, (entry, result) in enumerate(zip(comparison.entries, comparison.results, strict=True)):
        row: dict[str, Any] = {
            "run": entry.label,
            "model": entry.runs[0].config.model.name,
            "folders": " ".join(str(run.folder) for run in entry.runs),
            "seeds": " ".join(map(str, entry.seeds)),
        }
        for measure in comparison.measures:
            name, score = measure.name, result.scores[measure.name]
            row |= {name: score.value, f"{name}_low": score.low, f"{name}_high": score.high}
            if any(len(other.runs) > 1 for other in comparison.entries):
                row |= {f"{name}_sd": score.deviation, f"{name}_min": min(score.runs), f"{name}_max": max(score.runs)}
            for what, other in (("best", comparison.best(name)), ("baseline", comparison.baseline)):
                found = next((d for d in result.against[name] if d.other == other), None)
                row |= {
                    f"{name}_{what}": None if other is None else labels[other],
                    f"{name}_minus_{what}": found and found.value,
                    f"{name}_minus_{what}_low": found and found.low,
                    f"{name}_minus_{what}_high": found and found.high,
                    f"{name}_p_{what}": found and found.p,
                }
        main = comparison.measures[0].name
        for bucket, score in zip(comparison.buckets, result.by_length, strict=True):
            at = f"{main}_length_{bucket.first}_{bucket.last}"
            row |= {at: score.value, f"{at}_low": score.low, f"{at}_high": score.high}
        row |= costs(comparison, i)
        made.append({key: _known(value) for key, value in row.items()})
    return made


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def to_csv(comparison: Compared) -> str:
    """`rows` with a header; an empty cell where there is no number."""
    return csv_text(rows(comparison))


def to_json(comparison: Compared) -> str:
    """`rows`, notes on them, and every example with every output."""
    content = {
        "split": comparison.split,
        "rows": rows(comparison),
        "buckets": [asdict(bucket) for bucket in comparison.buckets],
        "length_unit": comparison.length_unit,
        "resampling": asdict(comparison.resampling),
        "conditions": asdict(comparison.conditions),
        "notes": caption(comparison),
        "examples": [
            {
                "source": source,
                "reference": comparison.references[i],
                "outputs": {
                    entry.label: [run.outputs[i] for run in runs]
                    for entry, runs in zip(comparison.entries, comparison.outcomes, strict=True)
                },
            }
            for i, source in enumerate(comparison.examiner.sources)
        ],
    }
    return visible.to_json(content, indent=1) + "\n"


def to_latex(comparison: Compared) -> str:
    """A `table` each for scores, differences, scores by length and cost, with notes in the captions."""
    head = "% made by heed compare; needs \\usepackage{booktabs}"
    return "\n\n".join([head, *map(in_latex, tables(comparison))]) + "\n"

"""A comparison as CSV, JSON and LaTeX."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import asdict
from typing import Any

from heed.comparison.compared import Compared
from heed.comparison.tables import Table, caption, costs, tables


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
    table = rows(comparison)
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(table[0]))
    writer.writeheader()
    writer.writerows(table)
    return out.getvalue()


def to_json(comparison: Compared) -> str:
    """`rows`, what must be known about them, and every example with every output."""
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
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def to_latex(comparison: Compared) -> str:
    """One `table` each for scores, differences, scores by length and cost; each caption says how it was made."""
    head = "% made by heed compare; needs \\usepackage{booktabs}"
    return "\n\n".join([head, *map(_latex, tables(comparison))]) + "\n"


def _latex(table: Table) -> str:
    text = ". ".join([table.title[:1].upper() + table.title[1:], " ".join(table.notes)])
    lines = [
        _command("begin", "table"),
        "\\centering",
        _command("begin", "tabular", "l" + "r" * len(table.columns)),
        "\\toprule",
        " & ".join(["", *map(_escape, table.columns)]) + " \\\\",
        "\\midrule",
    ]
    for label, cells in table.rows:
        shown = (_command("textbf", _escape(c.text)) if c.best else _escape(c.text) for c in cells)
        # After the end of a row "[" and "*" would be taken for an option of it.
        start = "{}" if label[:1] in ("[", "*") else ""
        lines.append(" & ".join([start + _escape(label), *shown]) + " \\\\")
    lines += ["\\bottomrule", _command("end", "tabular")]
    lines += [_command("caption", _escape(text)), _command("end", "table")]
    return "\n".join(lines)


def _command(name: str, *arguments: str) -> str:
    return f"\\{name}" + "".join("{" + argument + "}" for argument in arguments)


_SPECIAL = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "\\": "\\textbackslash{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
}
_MINUS = re.compile(r"(?<![\w.-])([+-])(?=\d)")


def _escape(text: str) -> str:
    """Text for LaTeX; signs of numbers as mathematics sets them."""
    escaped = "".join(_SPECIAL.get(character, character) for character in text)
    return _MINUS.sub(r"$\1$", escaped)

"""The scores of a run's parent, shown next to the run's own where both are of the same examples.

The numbers are those of the parent's report. They are left out where validation or test data are not the same, as far
as the configurations and the dates of the files show, and scores per token where the tokenizers differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from heed import folder as folders
from heed.config import RunConfig
from heed.errors import HeedError
from heed.tasks import check_config
from heed.tasks.base.run import Run
from heed.visible import escaped

_PER_TOKEN = ("loss", "perplexity")
"""Scores that depend on the tokenizer."""
_OF_TRAINING = ("train", "extra")
"""Fields of the data section that do not affect validation and test sets given as files."""


def add_parent_scores(run: Run[Any, Any], scores: dict[str, dict[str, Any]], say: Callable[[str], None]) -> None:
    """Add the parent's scores to the run's in each set that both were scored on; warn where the parent is better.

    Nothing is computed: the numbers are those of the parent's report. They are left out where the parent is of another
    task, has no report, or was scored on other examples, as far as the two configurations and the dates of the files
    show.

    Args:
        run: The trained run.
        scores: Its report for each set. "parent" is added to each: the folder, and the parent's measures by name.
        say: Called with a warning where the parent is better in the score that weights are selected by.
    """
    if (parent := run.config.model.from_) is None:
        return
    for split, theirs in _reports(Path(parent), run):
        own = scores.get(split, {})
        names = [name for name in theirs if _value(own.get(name)) is not None and _value(theirs[name]) is not None]
        if not names:
            continue
        own["parent"] = {"run": str(parent), **{name: theirs[name] for name in names}}
        chosen = run.config.evaluation.select_by
        name = chosen if chosen in names else names[0]
        before, now = _value(theirs[name]), _value(own[name])
        assert before is not None and now is not None
        if name == chosen and (now > before if name == "loss" else now < before):
            say(
                f"warning: on the same {split} set this run is worse than its parent: {name.replace('_', ' ')} "
                f"{now:.4g} against {before:.4g} of {_shown(parent)}"
            )


def parent_line(report: Mapping[str, Any]) -> list[str]:
    """The parent's scores of one set as a line of text; no line if the report has none."""
    if "parent" not in report:
        return []
    values = {name: one for name, one in report["parent"].items() if name != "run"}
    scores = ", ".join(f"{name.replace('_', ' ')} {_text(one)}" for name, one in values.items())
    return [f"  its parent {_shown(report['parent']['run'])}: {scores}"]


def _shown(folder: str) -> str:
    """A folder relative to the current directory, if it is inside it."""
    path = Path(folder)
    return escaped(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))


def _text(one: Any) -> str:
    if not isinstance(one, dict):
        return f"{one:.4g}"
    span = f" [{one['low']:.4g}, {one['high']:.4g}]" if {"low", "high"} <= one.keys() else ""
    return f"{one['value']:.4g}{span}"


def _value(one: Any) -> float | None:
    """The number of a score with or without interval; None for anything else."""
    numbers = [one.get("value"), one.get("low", 0.0), one.get("high", 0.0)] if isinstance(one, dict) else [one]
    return numbers[0] if all(isinstance(number, float) for number in numbers) else None


def _reports(parent: Path, run: Run[Any, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each set that has the same examples, with the parent's measures of it by name."""
    try:
        config = check_config(*folders.read_settings(parent))
        folders.verify(parent, [folders.CONFIG, folders.REPORT])
        report = folders.read_report(parent)
    except HeedError:  # moved, removed or altered since: no reason to stop a run
        return
    if config.task != run.config.task:
        return
    alike = _same_tokens(parent, run.folder)
    for split, scores in report.get("scores", {}).items():
        if _same_examples(config, run.config, split) and not _changed_since(parent, run.config):
            yield (
                split,
                {
                    name: one
                    for name, one in scores.items()
                    if _value(one) is not None and (alike or name not in _PER_TOKEN)
                },
            )


def _same_examples(one: RunConfig, other: RunConfig, split: str) -> bool:
    """True if two configurations have the same examples in a split."""
    first, second = (config.data.model_dump(mode="json", by_alias=True) for config in (one, other))
    if first == second:
        return True
    if "memory" in first and "memory" in second:
        held = [data["memory"].get(split) for data in (first, second)]
        return held[0] is not None and held[0] == held[1]
    if not all(isinstance(data.get(split), list) for data in (first, second)):
        return False
    return all(first.get(k) == second.get(k) for k in {*first, *second} - {*_OF_TRAINING})


def _changed_since(parent: Path, config: RunConfig) -> bool:
    """True if a data file is newer than the parent's report."""
    data, scored = config.data, (parent / folders.REPORT).stat().st_mtime_ns
    named = [getattr(data, split, None) for split in ("train", "valid", "test")]
    files = [Path(name) for names in named if isinstance(names, list) for name in names]
    return any(path.exists() and path.stat().st_mtime_ns > scored for path in files)


def _same_tokens(one: Path, other: Path) -> bool:
    """True if two runs have the same tokenizers."""
    names = sorted(path.name for path in one.glob("tokenizer*.json"))
    return names == sorted(path.name for path in other.glob("tokenizer*.json")) and all(
        (one / name).read_bytes() == (other / name).read_bytes() for name in names
    )

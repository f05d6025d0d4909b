"""`heed evaluate` and `heed align`: scores of a run, and links between the words of given translations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heed.cli.options import AlignOptions, EvaluateOptions, HeadsOptions
from heed.cli.terminal import open_output, say, show, write_output
from heed.data.examples import Example
from heed.errors import ConfigError, suggest
from heed.runs.card import scores_text
from heed.runs.heads import score_heads
from heed.runs.loading import load, open_together
from heed.tasks import capability, languages_in, options_of, spec_of
from heed.tasks.base.report import error_lines
from heed.tasks.heads.alignment import alignment_scores, alignments, place_of
from heed.tasks.run import Run, examples_of
from heed.threads import prediction_threads
from heed.visible import to_json
from heed.watch.interventions import equal_weights


@prediction_threads()
def run_evaluate(names: list[str], files: list[str], asked: EvaluateOptions, flags: dict[str, Any]) -> None:
    """Score a run, or an ensemble on the data of its first run, and print the report."""
    split = asked.split
    if files and split is not None:
        raise ConfigError("give either files or --split, not both")
    run: Run = open_together(names, asked.force, asked.device)
    options = options_of(run.config.task, "evaluate", flags)
    run = run.between(*languages_in(options))
    num_errors, page = options.get("errors", 0), options.get("page")
    if page is not None and (not num_errors or asked.as_json):
        raise ConfigError("--page writes the wrong examples that --errors N lists; give both, without --json")
    alignment = options.get("alignment")
    if alignment is not None and not files:
        raise ConfigError("--alignment needs the test pairs that it aligns; name their files after the run")
    if files:
        examples = run.read(files)
        say([*run.reading, _seen_in_training(run, examples)])
        sets = {" ".join(files): examples}
    else:
        tests = [s for s in run.task.split_names if s not in ("train", "valid")] or ["valid"]
        sets = {s: examples_of(run, s) for s in ([split] if split is not None else tests)}
    weighted = {name: equal_weights(run, examples) for name, examples in sets.items() if asked.equal_weights}
    reports = {name: run.score(examples) for name, examples in sets.items()}
    if alignment is not None:
        scores, notes = alignment_scores(capability(run, "align"), examples, alignment)
        say(notes)
        reports[" ".join(files)] |= scores
    if "valid" in reports:
        reports["valid"]["note"] = "the weights were selected on this set, so its scores are optimistic"
    for name, result in weighted.items():
        reports[name]["equal_weights"] = result.to_json()
    if asked.as_json:
        print(to_json(reports, indent=1))
        return
    show("\n\n".join([scores_text(run, reports), *(f"{name}: {result}" for name, result in weighted.items())]))
    if num_errors:
        capability(run, "errors")
        for report in reports.values():
            show("\n" + "\n".join(error_lines(report, num_errors)))
    if page is not None:
        wrong = {name: report["errors"][:num_errors] for name, report in reports.items()}
        write_output(capability(run, "errors_page").task.task.errors_page(run, wrong), Path(page))


def run_heads(name: str, files: list[str], options: HeadsOptions) -> None:
    """Score a run without each of its heads; progress goes to stderr."""
    if files and options.split is not None:
        raise ConfigError("give either files or --split, not both")
    split = options.split or "valid"
    run = load(name, force=options.force, device=options.device)
    if not files and split not in run.task.split_names:
        raise ConfigError(f"this run has no set '{split}'{suggest(split, run.task.split_names)}")
    heads = score_heads(run, split, options.examples, files=files, say=lambda line: say([line]))
    if options.as_json:
        print(to_json(heads.to_json(), indent=1))
    else:
        show(str(heads))


def _seen_in_training(run: Run, examples: Sequence[Any]) -> str:
    """Say how many of the examples are training examples of the run; empty if none are, or if that is unknown."""
    if not all(isinstance(example, Example) for example in examples) or (training := run.training_examples()) is None:
        return ""
    seen = {example.keys for example in training} & {example.keys for example in examples}
    count = sum(example.keys in seen for example in examples)
    if not count:
        return ""
    are, whose = ("are", "their") if count > 1 else ("is", "its")
    unit = f"{spec_of(run.config.task).unit}s"
    return f"{count:,} of {len(examples):,} {unit} {are} also in the training set, so {whose} scores are optimistic"


_TOGETHER = 2_000
"""Pairs aligned and written at a time, so that output appears continuously."""


@prediction_threads()
def run_align(name: str, files: list[str], flags: dict[str, Any], options: AlignOptions) -> None:
    """Write the links between the words of pairs, one line per pair; notes go to stderr."""
    run = load(name, force=options.force, device=options.device)
    first = capability(run, "align").members[0]
    pairs = run.read(files)
    say(run.reading)
    place = place_of(first, **flags)
    say([f"{run.folder}: {place}"])
    with open_output(options.out) as file:
        for start in range(0, len(pairs), _TOGETHER):
            for links in alignments(first, place, pairs[start : start + _TOGETHER], options.scores):
                file.write(f"{links.scored() if options.scores else links}\n")
            file.flush()

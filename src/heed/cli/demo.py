"""`heed demo`: train a model that converts dates in many languages to ISO, and show its attention."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from heed.cli.predict import ask, outputs_of
from heed.cli.terminal import interactive, show_drawing, use_color, width
from heed.data.embedded.pairs import LANGUAGES
from heed.evaluation.significance import Interval
from heed.runs.train import TrainingEvent, train_config
from heed.tasks import capability, check_config
from heed.tasks.base.predictions import TextOutputs
from heed.training.progress import TerminalReporter
from heed.visible import shell_word

_EXAMPLE, _ANSWER = "sábado, 9 de mayo de 1998", "1998-05-09"


def run_demo(minutes: float, seed: int, out: Path | None) -> None:
    """Train, show a map within seconds, and report the results."""
    settings = {"data": {"name": "dates"}, "training": {"minutes": minutes, "seed": seed}}
    config = check_config({"task": "translation", **settings}, "command line")
    print(
        f"heed learns to read dates as people write them in {len(LANGUAGES)} languages and to write them as "
        f"YYYY-MM-DD.\nIt is never told which characters are the year, the month or the day. "
        f"This takes about {minutes:g} minutes.\n",
        flush=True,
    )
    shown: list[bool] = []

    def early_map(event: TrainingEvent) -> None:
        run, scores = event.run, event.scores
        if shown or run is None:
            return
        shown.append(True)
        print(
            f"\nAfter {event.seconds:.0f} s (including set-up) it writes {scores['exact_match']:.0%} of held-out dates "
            f"and {scores['token_accuracy']:.0%} of their characters correctly.\n"
            f"Its attention now, as it is made to write {_ANSWER} (later the matching field should have most weight):\n"
        )
        show_drawing(capability(run, "look").look(_EXAMPLE, target=_ANSWER).text(width(), use_color()) + " \n")

    run, result = train_config(config, out, TerminalReporter(), callback=early_map)
    if run is None:
        print(f"\nStopped and saved. Resume with:  heed train {shell_word(result.folder)} --resume")
        raise SystemExit(130)
    _tell(run)
    if interactive():
        print("\nTry one of your own, in any of these languages:", ", ".join(LANGUAGES))
        outputs = outputs_of(run, {})
        assert isinstance(outputs, TextOutputs)
        ask(outputs)
    folder = shell_word(run.folder)
    print(
        f"\nThe run is in {run.folder}. Next:\n"
        f"  heed look {folder} '{_EXAMPLE}' --steps\n"
        f"  heed look {folder} '{_EXAMPLE}' --open\n"
        f"  heed predict {folder} '3 mars 2024'\n"
        f"  heed evaluate {folder}\n"
        f"  heed train CONFIG.yaml        (configurations to start from: examples/)"
    )


def _tell(run: Any) -> None:
    scores = run.report["scores"]
    test, unseen = scores["test"], scores.get("unseen")
    print(f"\nExactly right on {test['examples']} held-out dates: {_interval(test['exact_match'])}")
    if unseen is not None:
        languages = ", ".join(sorted({p.origin.split(":")[1] for p in run.task.splits.examples["unseen"]}))
        print(f"In languages it never saw ({languages}): {_interval(unseen['exact_match'])}")
    print(
        f"Characters of year, month and day whose largest weight is outside the matching part of the input: "
        f"{_interval(test['alignment_error'])}"
    )
    pairs = run.task.splits.examples["test"]
    outputs = run.predict([pair.source for pair in pairs])
    right = [pair for pair, out in zip(pairs, outputs, strict=True) if pair.target == out.text]
    if right:
        example = max(right, key=lambda pair: (pair.origin.endswith("full"), pair.origin.split(":")[1] == "es"))
        print("\nA held-out date that it reads correctly:\n")
        show_drawing(run.look(example.source).text(width(), use_color()))
    print(f"\n{run.equal_weights()}")
    misses = [(pair, out) for pair, out in zip(pairs, outputs, strict=True) if pair.target != out.text]
    if misses:
        worst, out = max(misses, key=lambda miss: miss[1].log_prob)
        print(f"\nIts most confident error ({len(misses)} in total):")
        print(f"  {worst.source}  ({worst.origin})\n  should be {worst.target}, but it wrote {out.text}")
    else:
        print("\nIt got every held-out date right.")


def _interval(values: dict[str, float]) -> Interval:
    return Interval(*(values.get(name, math.nan) for name in ("value", "low", "high")))

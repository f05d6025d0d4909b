"""Commands that look inside a run at one input: `heed look`, `attribute`, `patch`, `lens`, `beams`."""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from heed import folder
from heed.cli.options import Drawing, Weight, read_as_texts
from heed.cli.terminal import drawing_form, say, write_drawing, write_output
from heed.errors import ConfigError, HeedWarning, RunError
from heed.tasks import MissingCapabilityError, capability, languages_in, missing_in, options_of, spec_of, task_names


def _check_weight(weight: Weight, drawing: Drawing) -> None:
    """Refuse options without `--number`, and files that no Python can be written to."""
    if weight.number is None and (weight.numpy or weight.every):
        raise ConfigError(f"--{'numpy' if weight.numpy else 'all'} goes with --number QUERY KEY")
    if weight.numpy and (drawing.form or drawing.open_it or (drawing.out or Path("x.py")).suffix != ".py"):
        raise ConfigError("--numpy prints Python: omit --as and --open, and end --out in .py")


def _weight_of(shown: Any, place: tuple[str, str], every: bool) -> Any:
    """The weight of a look and what it came from."""
    if not hasattr(shown, "number"):
        raise ConfigError("--number opens one weight of an attention, which this look does not show")
    try:
        return shown.number(*place, every=every)
    except ConfigError as error:
        raise ConfigError(f"--number {' '.join(place)}: {error}") from None


def run_look(name: str, texts: list[str], flags: dict[str, Any], weight: Weight, drawing: Drawing) -> None:
    """Draw a look, or without a text the curves of training; `flags` has the options that were given."""
    _check_weight(weight, drawing)
    if not weight.numpy:
        drawing_form(drawing)
    if not texts:
        from heed.tasks.base.curves import curves_of

        _refuse_options_of_a_text([*flags, *(["number"] if weight.number else [])])
        write_drawing(drawing, curves_of(folder.find(name, folder.State.BEGUN), force=drawing.force))
        return
    shown = _look(name, texts, flags, drawing)
    if weight.number is not None:
        shown = _weight_of(shown, weight.number, weight.every)
    if weight.numpy:
        write_output(shown.numpy(), drawing.out)
    else:
        write_drawing(drawing, shown)


def _look(name: str, texts: list[str], flags: dict[str, Any], drawing: Drawing) -> Any:
    with warnings.catch_warnings(action="ignore", category=HeedWarning):  # opening the run says it again
        _refuse_task_without_looks(folder.find(name))
    from heed.runs.loading import load  # a refusal needs no torch
    from heed.tasks.base.looking import names_no_run, other_of
    from heed.threads import prediction_threads

    with prediction_threads():
        run, inputs = _opened(name, texts, drawing)
        of_picture = run.looks.look is not None
        if len(inputs) != 1:
            unit, hint = ("picture", "") if of_picture else ("text", "; put a text with spaces in quotes")
            raise ConfigError(f"look takes one {unit}, but {len(inputs)} were given{hint}")
        if thumbnails := [option for option in ("overview", "sort") if option in flags and not run.input.is_text]:
            raise ConfigError(f"--{thumbnails[0]} is for texts; the page of a picture (--out look.html) has every map")
        if "steps" in flags and of_picture:
            raise ConfigError("--steps is for texts and series; of a picture, --layer all shows every layer")
        options = options_of(run.config.task, "look", flags)
        run = run.between(*languages_in(options))
        for n, other in enumerate(others := [*options.get("beside", ())]):
            if not names_no_run(other):
                if other != "last" and not os.path.exists(other):
                    other_of(run, other)  # names what there is
                others[n] = load(other, force=drawing.force, device=drawing.device)
        if others:
            options["beside"] = others
        return run.look(inputs[0], **options)


def run_inside(command: str, name: str, texts: list[str], flags: dict[str, Any], drawing: Drawing) -> None:
    """Draw what `attribute`, `patch`, `lens` or `beams` shows of a text, or `patch` of two texts."""
    drawing_form(drawing)
    from heed.threads import prediction_threads

    with prediction_threads():
        run, inputs = _opened(name, texts, drawing)
        num_texts = 2 if command == "patch" else 1
        if len(inputs) != num_texts and run.can(command):
            texts_of = "two texts, TEXT and OTHER" if num_texts == 2 else "one text"
            raise ConfigError(
                f"{command} takes {texts_of}, but {len(inputs)} were given; put a text with spaces in quotes"
            )
        capability(run, command)
        options = options_of(run.config.task, command, flags)
        run = run.between(*languages_in(options))
        keywords = {name: value for name, value in options.items() if value is not None}
        shown = getattr(run, command)(*inputs, **keywords)
    write_drawing(drawing, shown)


def _opened(name: str, texts: list[str], drawing: Drawing) -> tuple[Any, list[Any]]:
    """A run, and its inputs from the texts of a command."""
    from heed.runs.loading import load
    from heed.tasks.base.predictions import typed

    run: Any = load(folder.find(name), force=drawing.force, device=drawing.device)
    if not run.input.is_text:
        return run, list(texts)
    say(line for _, line in read_as_texts(texts))
    return run, typed(run, texts)


def _refuse_task_without_looks(path: Path) -> None:
    """Refuse a run whose task has no looks before anything else of it is read."""
    with suppress(RunError):  # a damaged folder is reported when the run is opened
        task = folder.read_settings(path)[0].get("task")
        if task in task_names() and "look" in spec_of(task).why_not:
            raise MissingCapabilityError(missing_in(task, "look"))


def _refuse_options_of_a_text(names: list[str]) -> None:
    """Refuse options that need a text."""
    if names:
        raise ConfigError(
            f"--{names[0]} needs a text to look at (without one, the training curves are drawn); give the text after "
            "the run"
        )

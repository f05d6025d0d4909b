"""Commands that look inside a run at one input: `heed look`, `attribute`, `patch`, `lens`, `beams`."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from heed import folder
from heed.cli.options import Drawing, Weight, read_as_texts
from heed.cli.terminal import drawing_form, number, say, write_drawing, write_output
from heed.errors import ConfigError, RunError
from heed.tasks import MissingCapabilityError, capability, missing_in, options_of, spec_of, task_names


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


def run_look(
    name: str, texts: list[str], view: dict[str, Any], flags: dict[str, Any], weight: Weight, drawing: Drawing
) -> None:
    """Draw a look, or without a text the curves of training; `view` and `flags` have the options that were given."""
    _check_weight(weight, drawing)
    if not weight.numpy:
        drawing_form(drawing)
    if not texts:
        from heed.tasks.base.curves import curves_of

        _refuse_options_of_a_text([*view, *(["number"] if weight.number else []), *flags])
        write_drawing(drawing, curves_of(folder.find(name, folder.State.BEGUN), force=drawing.force))
        return
    shown = _look(name, texts, view, flags, drawing)
    if weight.number is not None:
        shown = _weight_of(shown, weight.number, weight.every)
    if weight.numpy:
        write_output(shown.numpy(), drawing.out)
    else:
        write_drawing(drawing, shown)


def _look(name: str, texts: list[str], view: dict[str, Any], flags: dict[str, Any], drawing: Drawing) -> Any:
    _refuse_task_without_looks(folder.find(name))
    from heed.runs.loading import load  # a refusal needs no torch
    from heed.tasks.base.looking import names_no_run, other_of
    from heed.threads import sparing

    with sparing():
        run, inputs = _opened(name, texts, drawing)
        of_picture = run.looks.look is not None
        if len(inputs) != 1:
            unit, hint = ("picture", "") if of_picture else ("text", "; put a text with spaces in quotes")
            raise ConfigError(f"look takes one {unit}, but {len(inputs)} were given{hint}")
        view = dict(view)
        for option, words in (("layer", ("all",)), ("head", ("mean", "all"))):
            if view.get(option, "all") not in words:
                view[option] = number(option, view[option], f"a number{', mean' * ('mean' in words)} or all")
        if pictures := [option for option in ("overview", "sort") if option in view and not run.input.is_text]:
            raise ConfigError(f"--{pictures[0]} is for texts; the page of a picture (--out look.html) has every map")
        if "steps" in view and of_picture:
            raise ConfigError("--steps is for texts and series; of a picture, --layer all shows every layer")
        options = options_of(run.config.task, "look", flags)
        for n, beside in enumerate(others := [*options.get("beside", ())]):
            if not names_no_run(beside):
                if beside != "last" and not os.path.exists(beside):
                    other_of(run, beside)  # names what there is
                others[n] = load(beside, force=drawing.force, device=drawing.device)
        if others:
            options["beside"] = others
        return run.look(inputs[0], **view, **options)


def run_inside(
    command: str, name: str, texts: list[str], given: dict[str, Any], flags: dict[str, Any], drawing: Drawing
) -> None:
    """Draw what `attribute`, `patch`, `lens` or `beams` shows of a text, or `patch` of two texts."""
    drawing_form(drawing)
    from heed.threads import sparing

    with sparing():
        run, inputs = _opened(name, texts, drawing)
        wanted = 2 if command == "patch" else 1
        if len(inputs) != wanted and run.can(command):
            texts_of = "two texts, TEXT and OTHER" if wanted == 2 else "one text"
            raise ConfigError(
                f"{command} takes {texts_of}, but {len(inputs)} were given; put a text with spaces in quotes"
            )
        capability(run, command)
        options = options_of(run.config.task, command, flags)
        shown = getattr(run, command)(
            *inputs, **given, **{name: value for name, value in options.items() if value is not None}
        )
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
        name = "edit" if names[0] == "edits" else names[0]
        raise ConfigError(
            f"--{name} needs a text to look at (without one, the training curves are drawn); give the text after the "
            "run"
        )

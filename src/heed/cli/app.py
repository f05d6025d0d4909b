"""The commands and their options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from heed.cli.flags import with_flags
from heed.tasks import task_names

app = typer.Typer(
    name="heed",
    help="Train, compare, run and look inside attention models on your own data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

RunArgument = Annotated[str, Argument(metavar="RUN", help="Run folder, or 'last' for the newest under runs/.")]
WithOption = Annotated[
    list[str] | None, Option("--with", metavar="RUN", help="Another run, to average probabilities; repeatable.")
]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"heed {version('heed-attention')}")
        raise typer.Exit


@app.callback()
def _heed(
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


@app.command()
def demo(
    minutes: Annotated[float, Option(help="Time for training and scoring.", min=0.1)] = 2.0,
    seed: Annotated[int, Option(help="Seed of weights, order and dropout.")] = 1,
    out: Annotated[Path | None, Option(help="Run folder; runs/dates-bahdanau-N by default.")] = None,
) -> None:
    """First contact: train on dates in many languages, and see where the model looks."""
    from heed.cli.demo import run_demo

    run_demo(minutes, seed, out)


WordsArgument = Annotated[
    list[str],
    Argument(
        metavar="CONFIG | TASK FILE...",
        help=f"A YAML file; or a task ({', '.join(task_names())}) and its training files, "
        "source before target, or hub:USER/NAME, a data set of the Hugging Face Hub. Any further SECTION.KEY=VALUE "
        "changes a field. "
        "With --resume a run folder goes on.",
    ),
]
FilesOption = Annotated[list[str] | None, Option(help="Files as those of training, two as a,b.")]
ValidOption = Annotated[list[str] | None, Option(help="As training files; or how many to hold out.")]


@app.command()
def train(
    words: WordsArgument,
    model: Annotated[str | None, Option(help="Name of the model.")] = None,
    size: Annotated[str | None, Option(help="auto, tiny, small or base (the paper's).")] = None,
    minutes: Annotated[float | None, Option(help="Time budget, scoring included.")] = None,
    seed: Annotated[int | None, Option(help="Seed of weights, order and dropout.")] = None,
    parent: Annotated[str | None, Option("--from", metavar="RUN", help="Start from this run's weights.")] = None,
    valid: ValidOption = None,
    test: FilesOption = None,
    device: Annotated[str | None, Option(help="auto, cpu, cuda, cuda:N, mps.")] = None,
    out: Annotated[Path | None, Option(help="Run folder; runs/<data>-<model>-N by default.")] = None,
    resume: Annotated[bool, Option("--resume", help="Go on from the last checkpoint.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Print settings, counts and predicted cost only.")] = False,
    verbose: Annotated[bool, Option("--verbose", help="Print all settings, not only those that were changed.")] = False,
) -> None:
    """Train a model on your files, or as a configuration says."""
    from heed.cli.train import run_train

    given = {
        "model.name": model,
        "model.size": size,
        "model.from": parent,
        "training.minutes": minutes,
        "training.seed": seed,
        "training.device": device,
        "data.valid": _held_out(valid),
        "data.test": _split_files(test),
    }
    run_train(words, _fields(given), out, resume, dry_run, verbose)


@app.command()
def check(words: WordsArgument, valid: ValidOption = None, test: FilesOption = None) -> None:
    """Read all the data and say what is in it: counts, lengths, unknown tokens, samples. Trains nothing.

    Of a run folder (or last): whether every file is there as it was written.
    """
    from heed.cli.check import run_check

    run_check(words, _fields({"data.valid": _held_out(valid), "data.test": _split_files(test)}))


def _fields(given: dict[str, Any]) -> list[str]:
    """Options as `section.key=value` words."""
    return [f"{name}={json.dumps(value)}" for name, value in given.items() if value is not None]


def _split_files(files: list[str] | None) -> list[str] | None:
    """`--valid a --valid b` and `--valid a,b` are the same."""
    if files is None:
        return None
    return [name for given in files for name in ([given] if Path(given).exists() else given.split(","))]


def _held_out(files: list[str] | None) -> list[str] | int | None:
    """Validation files, or how many examples to hold out."""
    names = _split_files(files)
    is_number = names is not None and len(names) == 1 and names[0].isdecimal() and not Path(names[0]).exists()
    return int(names[0]) if names and is_number else names


@app.command()
@with_flags
def predict(
    run: RunArgument,
    text: Annotated[list[str] | None, Argument(metavar="[TEXT]...", help="Texts; else --input.")] = None,
    input: Annotated[Path | None, Option("--input", "-i", help="File, one text a line; or folder of files.")] = None,
    out: Annotated[Path | None, Option(help="Write here; for a folder of input, a folder.")] = None,
    others: WithOption = None,
    *,
    flags: dict[str, Any],
) -> None:
    """Write the output for each line of input; without text on a terminal, ask for it."""
    from heed.cli.predict import run_predict

    run_predict([run, *(others or [])], text or [], input, out, flags)


@app.command()
def export(
    run: RunArgument,
    to: Annotated[Literal["ctranslate2"], Option(help="The program that shall run the model.")],
    quantization: Annotated[Literal["float32", "int8"], Option(help="int8: smaller, faster.")] = "float32",
) -> None:
    """Write a run for another program, into RUN/export, and compare what both write."""
    import heed

    print(heed.export(run, to, quantization))


@app.command()
@with_flags
def evaluate(
    run: RunArgument,
    files: Annotated[list[str] | None, Argument(metavar="[FILE]...", help="Test files; else the run's own.")] = None,
    split: Annotated[str | None, Option(help="test, valid or, for dates, unseen.")] = None,
    others: WithOption = None,
    as_json: Annotated[bool, Option("--json", help="The whole report as JSON.")] = False,
    *,
    flags: dict[str, Any],
) -> None:
    """Score a run on its test set, else on its validation set, or on files."""
    from heed.cli.evaluate import run_evaluate

    run_evaluate([run, *(others or [])], files or [], split, as_json, flags)


@app.command()
def compare(
    words: Annotated[
        list[str],
        Argument(
            metavar="RUN... | CONFIG | TASK FILE...",
            help="Run folders; or, with --models, what `heed train` takes: a YAML file, or a task and its training "
            "files. Any further SECTION.KEY=VALUE changes a field of all.",
        ),
    ],
    models: Annotated[
        str | None, Option(help="Train and compare, as: bahdanau,luong:score=dot:training.clip=1")
    ] = None,
    minutes: Annotated[float | None, Option(help="With --models: time budget of each run.")] = None,
    seeds: Annotated[int, Option(help="With --models: trainings of each, with seeds 1, 2, ...", min=1)] = 1,
    size: Annotated[str | None, Option(help="With --models: auto, tiny, small or base (the paper's).")] = None,
    valid: ValidOption = None,
    test: FilesOption = None,
    out: Annotated[Path | None, Option(help="Folder for compare.html, .tex, .csv, .json and new runs.")] = None,
    split: Annotated[str | None, Option(help="test by default, valid where there is none; or unseen.")] = None,
    baseline: Annotated[str | None, Option(help="Test against this run too; the first by default.")] = None,
    beam: Annotated[int | None, Option(help="One beam for all; each run's own by default.", min=1)] = None,
    threads: Annotated[int | None, Option(help="Threads to decode with; as in training by default.", min=1)] = None,
    device: Annotated[str, Option(help="Where to train and decode: auto, cpu, cuda, cuda:N, mps.")] = "auto",
    resamples: Annotated[
        int | None,
        Option(help="Resamples of intervals (the runs' evaluation.bootstrap), trials of the tests (10,000).", min=1),
    ] = None,
    sentences: Annotated[int, Option(help="Sentences on the page.", min=0)] = 15,
    open_it: Annotated[bool, Option("--open", help="Show the page in a browser.")] = False,
    as_json: Annotated[bool, Option("--json", help="Everything as JSON.")] = False,
) -> None:
    """Compare runs on the test set they share: scores, significance, speed; or train several models and compare."""
    from heed.cli.compare import CompareOptions, run_compare

    given = {
        "model.size": size,
        "training.minutes": minutes,
        "data.valid": _held_out(valid),
        "data.test": _split_files(test),
    }
    drawn = (resamples, sentences, open_it, as_json)
    options = CompareOptions(models, seeds, out, split, baseline, beam, threads, device, *drawn)
    run_compare(words, _fields(given), options)


@app.command()
@with_flags
def look(
    run: RunArgument,
    text: Annotated[str, Argument(metavar="TEXT", help="What the model reads.")],
    steps: Annotated[bool, Option("--steps", help="One frame per token read and per token written.")] = False,
    form: Annotated[Literal["text", "html", "svg", "json"], Option("--as", help="How to write it.")] = "text",
    out: Annotated[Path | None, Option(help="Write to a file; its ending may say how.")] = None,
    open_it: Annotated[bool, Option("--open", help="Show the page in a browser.")] = False,
    mechanism: Annotated[str | None, Option(help="Only this attention: cross, encoder or decoder.")] = None,
    layer: Annotated[str, Option(help="Which layer, from 0, from the end where negative, or all.")] = "-1",
    head: Annotated[str, Option(help="Which head, from 0, the mean of all, or all one by one.")] = "mean",
    *,
    flags: dict[str, Any],
) -> None:
    """See where a model looked while it wrote."""
    from heed.cli.look import Drawing, run_look

    run_look(run, text, flags, Drawing(steps, form, out, open_it, mechanism, layer, head))


@app.command()
def lesson(
    name: Annotated[
        str | None, Argument(metavar="[NAME|FILE.yaml]", help="Lesson or own matrices; none: list.")
    ] = None,
    row: Annotated[str | None, Option(help="Token, or its number from 0, whose row is worked out alone.")] = None,
    stage: Annotated[list[str] | None, Option(help="Only this stage; may be given several times.")] = None,
    form: Annotated[Literal["text", "html", "json"], Option("--as", help="How to write it.")] = "text",
    out: Annotated[Path | None, Option(help="Write to a file; its ending may say how.")] = None,
) -> None:
    """Work attention out by hand, every number shown."""
    from heed.cli.lesson import run_lesson_command

    run_lesson_command(name, row, stage or [], form, out)


@app.command()
def models(scores: Annotated[bool, Option("--scores", help="List the attention scores.")] = False) -> None:
    """List the models, their fields and their sizes."""
    from heed.cli.models import list_models_text, list_scores_text

    print(list_scores_text() if scores else list_models_text())

"""The commands and their options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from heed.cli.options import (
    CHECKED,
    COMPARED,
    RUN,
    WORDS,
    AlignOptions,
    Command,
    Commands,
    CompareOptions,
    DataOptions,
    Drawing,
    EvaluateOptions,
    Figure,
    HeadsOptions,
    LessonOptions,
    PredictOptions,
    ServeOptions,
    TrainOptions,
    Weight,
    argument,
    complete_model,
    complete_run,
    option,
    spread,
)

app = typer.Typer(
    name="heed",
    cls=Commands,
    help="Train, compare, run and look inside attention models on your own data.",
    epilog="heed COMMAND -h shows the arguments and options of a command.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_dev = typer.Typer(help="Tools for contributors.", no_args_is_help=True)
app.add_typer(_dev, name="dev", hidden=True)


def _command(name: str | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a function as a command."""
    return lambda function: app.command(name, cls=Command)(spread(function))


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        print(f"heed {version('heed-attention')}")
        raise typer.Exit


@app.callback()
def _heed(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@_command()
def demo(
    minutes: float = option("Time budget in minutes, including scoring.", default=2.0, metavar="N", limits=(0.1, None)),
    seed: int = option("Seed of weights, order and dropout.", default=1),
    out: Path | None = option("Run folder; runs/dates-bahdanau-N by default.", metavar="DIR"),
) -> None:
    """Train on dates in many languages and show the attention."""
    from heed.cli.train import run_demo

    run_demo(minutes, seed, out)


@_command()
def train(words: list[str] = WORDS, *, options: TrainOptions) -> None:
    """Train a model on your files."""
    from heed.cli.train import run_train

    run_train(words, options)


@_command()
def check(
    words: list[str] = CHECKED,
    *,
    data: DataOptions,
    out: Path | None = option("Also write an HTML page of samples as the model sees them."),
) -> None:
    """Check your data, or the files of a run.

    Reads all the data and shows counts, lengths, unknown tokens and samples; trains nothing. Given a run folder (or
    last), checks that no file is missing or altered.
    """
    from heed.cli.train import run_check

    run_check(words, data, out)


@_command()
def predict(
    run: str = RUN,
    text: list[str] | None = argument("Texts; without texts and --input, stdin is read.", "TEXT", default=None),
    *,
    options: PredictOptions,
    flags: dict[str, Any],
) -> None:
    """Write the output for each text or line of input.

    Answers each line as it arrives. On a terminal, without texts and --input, asks for texts.
    """
    from heed.cli.predict import run_predict

    run_predict([run, *(options.others or [])], text or [], options, flags)


@_command("import")
def import_(
    source: str = argument(
        "Folder of a checkpoint, or its name on the Hugging Face Hub (your cache is tried first).", "FOLDER|NAME"
    ),
    settings: list[str] | None = argument(
        "How to read data, such as data.columns.text=body.", "SECTION.KEY=VALUE", default=None
    ),
    out: Path | None = option("Run folder to create; runs/<name>-<model>-N by default.", metavar="DIR"),
    trim: list[str] | None = option(
        "Keep only the tokens that these text files need, a sentence on each line.", metavar="FILE..."
    ),
) -> None:
    """Import a Hugging Face checkpoint as a run.

    BERT, RoBERTa, DistilBERT, GPT-2, Marian, ViT and more, with their heads (docs/huggingface.md).
    """
    from heed.cli.terminal import show
    from heed.config import apply_overrides
    from heed.runs.checkpoints import import_checkpoint

    fields = [word for word in settings or [] if "=" in word or not trim]
    files = [*(trim or []), *(word for word in settings or [] if word not in fields)]
    show(import_checkpoint(source, out, apply_overrides({}, fields), files))


@_command()
def export(
    run: str = RUN,
    *,
    to: Literal["ctranslate2", "huggingface"] = option("The program to export for.", default=...),
    quantization: Literal["float32", "int8"] = option("Precision; int8 is smaller and faster.", default="float32"),
    out: Path | None = option("Folder of the checkpoint (huggingface only); RUN/export by default.", metavar="DIR"),
    force: bool = option("Export despite missing or altered files."),
) -> None:
    """Export a run for another program, and compare the outputs.

    Writes into RUN/export.
    """
    import heed

    print(heed.export(run, to, quantization, out, force=force))


@_command()
def pack(
    run: str = RUN,
    out: Path | None = option("The zip file; the run folder's name and .zip by default."),
) -> None:
    """Pack a finished run into one zip file to hand over.

    The file has the model and its card, without checkpoints and paths of this machine. Every command takes it in place
    of a run folder: heed predict FILE.zip TEXT.
    """
    import heed

    print(heed.pack(run, out))


@_command()
def serve(
    runs: list[str] | None = argument(
        "Run folders; last by default, or example.", "RUN", complete=complete_run, default=None
    ),
    *,
    options: ServeOptions,
) -> None:
    """Serve a page to try a model, and predictions over HTTP.

    Only this machine is served, and only with the token in the printed address (docs/serving.md).
    """
    from heed.cli.serve import run_serve

    run_serve(runs or [], options)


@_command()
def evaluate(
    run: str = RUN,
    files: list[str] | None = argument(
        "Test files; by default the run's test or validation set.", "FILE", default=None
    ),
    *,
    options: EvaluateOptions,
    flags: dict[str, Any],
) -> None:
    """Score a run on its test set, or on files."""
    from heed.cli.evaluate import run_evaluate

    run_evaluate([run, *(options.others or [])], files or [], options, flags)


@_command()
def heads(
    run: str = RUN,
    files: list[str] | None = argument("Files to score; by default the run's validation set.", "FILE", default=None),
    *,
    options: HeadsOptions,
) -> None:
    """Score a run without each of its heads.

    Prints a line for each head: the change of score and loss without it, and what it attends to.
    """
    from heed.cli.evaluate import run_heads

    run_heads(run, files or [], options)


@_command()
def align(
    run: str = RUN,
    files: list[str] = argument("Two parallel files, or one with both sides.", "FILE"),
    *,
    flags: dict[str, Any],
    options: AlignOptions,
) -> None:
    """Link the words of given translations.

    Writes a line for each pair: i-j links source word i with target word j, counted from 0; spaces separate words.
    """
    from heed.cli.evaluate import run_align

    run_align(run, files, flags, options)


@_command()
def compare(words: list[str] = COMPARED, *, options: CompareOptions, figure: Figure) -> None:
    """Compare runs, or train several models and compare them.

    Reports scores with intervals, significance, speed and memory.
    """
    from heed.cli.compare import run_compare

    run_compare(words, options, figure.figure())


_INPUT = "Input of the model: for pairs, two texts; for pictures, a file, or test:N of the test set"
_PROMPT = argument("Input of the model.", "TEXT")


@_command()
def look(
    run: str = RUN,
    texts: list[str] | None = argument(f"{_INPUT}. Without it, the training curves are shown.", "TEXT", default=None),
    *,
    flags: dict[str, Any],
    weight: Weight,
    drawing: Drawing,
) -> None:
    """Show a model's attention, or its training curves.

    With TEXT, shows its attention while it reads and writes; without, loss, scores, learning rate and speed.
    """
    from heed.cli.look import run_look

    run_look(run, texts or [], flags, weight, drawing)


@_command()
def attribute(
    run: str = RUN,
    texts: list[str] = argument(f"{_INPUT}.", "TEXT"),
    *,
    flags: dict[str, Any],
    drawing: Drawing,
) -> None:
    """Show what each word adds to a score.

    For a picture: what each patch, or each cell of an 8 x 8 grid, adds.
    """
    from heed.cli.look import run_inside

    run_inside("attribute", run, texts, flags, drawing)


@_command()
def patch(
    run: str = RUN,
    texts: list[str] = argument("A text, and another with as many tokens.", "TEXT OTHER"),
    *,
    flags: dict[str, Any],
    drawing: Drawing,
) -> None:
    """Show which states carry the difference between two texts.

    Puts states of OTHER in place of those of TEXT, at one layer and word at a time.
    """
    from heed.cli.look import run_inside

    run_inside("patch", run, texts, flags, drawing)


@_command()
def lens(run: str = RUN, texts: list[str] = _PROMPT, *, flags: dict[str, Any], drawing: Drawing) -> None:
    """Show the most probable token after each block of a decoder."""
    from heed.cli.look import run_inside

    run_inside("lens", run, texts, flags, drawing)


@_command()
def beams(run: str = RUN, texts: list[str] = _PROMPT, *, flags: dict[str, Any], drawing: Drawing) -> None:
    """Show the candidates of the beam search behind an output."""
    from heed.cli.look import run_inside

    run_inside("beams", run, texts, flags, drawing)


@_command()
def lesson(
    name: str | None = argument(
        "A lesson, or your own matrices; without it, the lessons are listed.", "NAME|FILE.yaml", default=None
    ),
    *,
    options: LessonOptions,
    figure: Figure,
) -> None:
    """Compute attention step by step, showing every number."""
    from heed.cli.show import run_lesson_command

    run_lesson_command(name, options, figure.figure())


@_command()
def models(
    name: str | None = argument(
        "Show the fields and sizes of this model.", "NAME", complete=complete_model, default=None
    ),
    scores: bool = option("List the attention scores (model.score)."),
) -> None:
    """List the models by task, or the fields and sizes of one."""
    from heed.cli.show import models_text

    print(models_text(name, scores))


@_dev.callback()
def _tools() -> None:
    """Tools for contributors, in a checkout of heed."""


@_dev.command("check")
def dev_check(name: Annotated[str, typer.Argument(metavar="NAME", help="A task, a model or a score.")]) -> None:
    """Test one task, model or score, and list what is missing."""
    from heed.cli.dev import run_dev_check

    raise typer.Exit(run_dev_check(name))

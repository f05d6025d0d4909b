"""The commands and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument

from heed.cli.options import (
    SIZES,
    BadLinesOption,
    CheckedArgument,
    ComparedArgument,
    DeviceOption,
    FilesOption,
    ForceOption,
    ModelOption,
    PageOption,
    ParentOption,
    RunArgument,
    SizeOption,
    ValidOption,
    WindowOption,
    WithOption,
    WordsArgument,
    called,
    complete_model,
    complete_run,
    complete_size,
    fields,
    held_out,
    option,
    split_files,
    with_drawing,
    with_figure,
    with_flags,
)

app = typer.Typer(
    name="heed",
    help="Train, compare, run and look inside attention models on your own data.",
    epilog="heed COMMAND -h shows the arguments and options of a command.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_dev = typer.Typer(help="Tools for contributors.", rich_markup_mode=None, no_args_is_help=True)
app.add_typer(_dev, name="dev", hidden=True)


def _version(wanted: bool) -> None:
    if wanted:
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


@app.command(cls=called(""))
def demo(
    minutes: Annotated[float, option(metavar="N", help="Time budget in minutes, including scoring.", min=0.1)] = 2.0,
    seed: Annotated[int, option(metavar="N", help="Seed of weights, order and dropout.")] = 1,
    out: Annotated[Path | None, option(metavar="DIR", help="Run folder; runs/dates-bahdanau-N by default.")] = None,
) -> None:
    """Train on dates in many languages and show the attention."""
    from heed.cli.demo import run_demo

    run_demo(minutes, seed, out)


@app.command(cls=called("TASK FILE... [SECTION.KEY=VALUE]...", "CONFIG.yaml [SECTION.KEY=VALUE]...", "RUN --resume"))
def train(
    words: WordsArgument,
    model: ModelOption = None,
    size: SizeOption = None,
    parent: ParentOption = None,
    valid: ValidOption = None,
    test: FilesOption = None,
    minutes: Annotated[
        float | None, option("Training", metavar="N", help="Time budget in minutes, including scoring; 2 by default.")
    ] = None,
    epochs: Annotated[
        float | None, option("Training", metavar="N", help="Passes over the data, instead of --minutes.")
    ] = None,
    train_size: Annotated[
        int | None,
        option("Training", "--train-size", metavar="N", help="Train on a random subset of N examples."),
    ] = None,
    seed: Annotated[
        int | None, option("Training", metavar="N", help="Seed of weights, order and dropout; 1 by default.")
    ] = None,
    device: Annotated[str | None, option("Training", metavar="NAME", help="auto, cpu, cuda, cuda:N or mps.")] = None,
    out: Annotated[
        Path | None, option("Run folder", metavar="DIR", help="Folder to create; runs/<data>-<model>-N by default.")
    ] = None,
    resume: Annotated[bool, option("Run folder", "--resume", help="Resume from the run's last checkpoint.")] = False,
    dry_run: Annotated[bool, option("--dry-run", help="Print only settings, counts and predicted cost.")] = False,
    verbose: Annotated[bool, option("--verbose", help="Print all settings, including defaults.")] = False,
) -> None:
    """Train a model on your files."""
    from heed.cli.train import run_train

    given = {
        "model.name": model,
        "model.size": size,
        "model.from": parent,
        "training.minutes": minutes,
        "training.epochs": epochs,
        "training.train_size": train_size,
        "training.seed": seed,
        "training.device": device,
        "data.valid": held_out(valid),
        "data.test": split_files(test),
    }
    run_train(words, fields(given), out, resume, dry_run, verbose)


@app.command(cls=called("TASK FILE...", "CONFIG.yaml", "RUN"))
def check(words: CheckedArgument, valid: ValidOption = None, test: FilesOption = None, out: PageOption = None) -> None:
    """Check your data, or the files of a run.

    Reads all the data and shows counts, lengths, unknown tokens and samples; trains nothing. Given a run folder (or
    last), checks that no file is missing or altered.
    """
    from heed.cli.train import run_check

    run_check(words, fields({"data.valid": held_out(valid), "data.test": split_files(test)}), out)


@app.command(cls=called("RUN [TEXT]...", "RUN --input FILE"))
@with_flags
def predict(
    run: RunArgument,
    text: Annotated[
        list[str] | None, Argument(metavar="TEXT", help="Texts; without texts and --input, stdin is read.")
    ] = None,
    input: Annotated[
        Path | None,
        option("Files", "--input", "-i", metavar="PATH", help="A file with one text per line, or a folder of files."),
    ] = None,
    out: Annotated[
        Path | None, option("Files", metavar="PATH", help="Write to this file, or to this folder if the input is one.")
    ] = None,
    bad_lines: BadLinesOption = None,
    window: WindowOption = 2_000,
    others: WithOption = None,
    device: DeviceOption = "auto",
    force: ForceOption = False,
    *,
    flags: dict[str, Any],
) -> None:
    """Write the output for each text or line of input.

    Answers each line as it arrives. On a terminal, without texts and --input, asks for texts.
    """
    from heed.cli.predict import Given, run_predict

    run_predict([run, *(others or [])], Given(text or [], input, out, bad_lines, window, force, device), flags)


@app.command("import", cls=called("FOLDER|NAME [SECTION.KEY=VALUE]..."))
def import_(
    source: Annotated[
        str,
        Argument(
            metavar="FOLDER|NAME",
            help="Folder of a checkpoint, or its name on the Hugging Face Hub (your cache is tried first).",
        ),
    ],
    settings: Annotated[
        list[str] | None,
        Argument(metavar="SECTION.KEY=VALUE", help="How to read data, such as data.columns.text=[premise,hypothesis]."),
    ] = None,
    out: Annotated[
        Path | None, option(metavar="DIR", help="Run folder to create; runs/<name>-<model>-N by default.")
    ] = None,
) -> None:
    """Import a Hugging Face checkpoint as a run.

    BERT, RoBERTa, DistilBERT, GPT-2, Marian, ViT and more, with their heads (docs/huggingface.md).
    """
    from heed.cli.terminal import show
    from heed.config import apply_overrides
    from heed.runs.checkpoints import import_checkpoint

    show(import_checkpoint(source, out, apply_overrides({}, settings or [])))


@app.command(cls=called("RUN --to PROGRAM", "RUN --to huggingface --out FOLDER"))
def export(
    run: RunArgument,
    to: Annotated[
        Literal["ctranslate2", "huggingface"],
        option(metavar="ctranslate2|huggingface", help="The program to export for."),
    ],
    quantization: Annotated[
        Literal["float32", "int8"], option(metavar="float32|int8", help="Precision; int8 is smaller and faster.")
    ] = "float32",
    out: Annotated[
        Path | None, option(metavar="DIR", help="Folder of the checkpoint (huggingface only); RUN/export by default.")
    ] = None,
    force: ForceOption = False,
) -> None:
    """Export a run for another program, and compare the outputs.

    Writes into RUN/export.
    """
    import heed

    print(heed.export(run, to, quantization, out, force=force))


@app.command(cls=called("RUN [--out FILE.zip]"))
def pack(
    run: RunArgument,
    out: Annotated[
        Path | None, option(metavar="FILE", help="The zip file; the run folder's name and .zip by default.")
    ] = None,
) -> None:
    """Pack a finished run into one zip file to hand over.

    The file has the model and its card, without checkpoints and paths of this machine. Every command takes it in place
    of a run folder: heed predict FILE.zip TEXT.
    """
    import heed

    print(heed.pack(run, out))


@app.command(cls=called("[RUN]..."))
def serve(
    runs: Annotated[
        list[str] | None, Argument(metavar="RUN", help="Run folders; last by default.", autocompletion=complete_run)
    ] = None,
    open_it: Annotated[bool, option("--open", help="Open the page in a browser.")] = False,
    port: Annotated[int, option(metavar="N", help="Port; by default a free one.", min=0, max=65_535)] = 0,
    minutes: Annotated[
        float | None, option(metavar="N", help="Stop after N minutes without a request.", min=0.01)
    ] = None,
    host: Annotated[str, option("Other machines", metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    token_file: Annotated[
        Path | None,
        option("Other machines", "--token-file", metavar="FILE", help="File with the token that requests must carry."),
    ] = None,
    names: Annotated[
        list[str] | None,
        option("Other machines", "--name", metavar="HOST[:PORT]", help="Host name that requests may use; repeatable."),
    ] = None,
    device: DeviceOption = "auto",
    force: ForceOption = False,
) -> None:
    """Serve a page to try a model, and predictions over HTTP.

    Only this machine is served, and only with the token in the printed address (docs/serving.md).
    """
    from heed.cli.serve import Place, run_serve

    place = Place(host, port, tuple(names or ()), token_file, open_it, minutes)
    run_serve(runs or [], place, force, device)


@app.command(cls=called("RUN [FILE]..."))
@with_flags
def evaluate(
    run: RunArgument,
    files: Annotated[
        list[str] | None, Argument(metavar="FILE", help="Test files; by default the run's test or validation set.")
    ] = None,
    split: Annotated[str | None, option(metavar="NAME", help="Split: test, valid or, for dates, unseen.")] = None,
    others: WithOption = None,
    equal: Annotated[
        bool, option("--equal-weights", help="Also score the run while each attention weights its keys equally.")
    ] = False,
    as_json: Annotated[bool, option("--json", help="Print the whole report as JSON.")] = False,
    device: DeviceOption = "auto",
    force: ForceOption = False,
    *,
    flags: dict[str, Any],
) -> None:
    """Score a run on its test set, or on files."""
    from heed.cli.evaluate import run_evaluate

    run_evaluate([run, *(others or [])], files or [], split, equal, as_json, flags, force, device)


@app.command(cls=called("RUN [FILE]..."))
def heads(
    run: RunArgument,
    files: Annotated[
        list[str] | None, Argument(metavar="FILE", help="Files to score; by default the run's validation set.")
    ] = None,
    split: Annotated[str | None, option(metavar="NAME", help="Set to score: valid (the default) or test.")] = None,
    most: Annotated[int, option("--examples", metavar="N", help="At most N examples, evenly chosen.", min=1)] = 500,
    as_json: Annotated[bool, option("--json", help="Print everything as JSON.")] = False,
    device: DeviceOption = "auto",
    force: ForceOption = False,
) -> None:
    """Score a run without each of its heads.

    Prints a line for each head: the change of score and loss without it, and what it attends to.
    """
    from heed.cli.evaluate import run_heads

    run_heads(run, files or [], split, most, as_json, force, device)


@app.command(cls=called("RUN SOURCE TARGET", "RUN FILE"))
def align(
    run: RunArgument,
    files: Annotated[list[str], Argument(metavar="FILE...", help="Two parallel files, or one with both sides.")],
    layer: Annotated[
        int | None, option("Links", metavar="N", help="Layer from 0, negative from the end; see docs/alignment.md.")
    ] = None,
    head: Annotated[str | None, option("Links", metavar="N", help="Head from 0, or mean (over the heads).")] = None,
    state: Annotated[
        Literal["read", "written"] | None,
        option("Links", metavar="read|written", help="Use the state after reading a target word, or while writing it."),
    ] = None,
    scores: Annotated[
        bool, option("Output", "--scores", help="Write a score for each pair, a tab, and links with their weights.")
    ] = False,
    out: Annotated[Path | None, option("Output", metavar="FILE", help="Write to this file instead of stdout.")] = None,
    device: DeviceOption = "auto",
    force: ForceOption = False,
) -> None:
    """Link the words of given translations.

    Writes a line for each pair: i-j links source word i with target word j, counted from 0; spaces separate words.
    """
    from heed.cli.evaluate import run_align

    run_align(run, files, {"layer": layer, "head": head, "state": state}, scores, out, force, device)


@app.command(
    cls=called("RUN RUN...", "TASK FILE... --models NAME,NAME [SECTION.KEY=VALUE]...", "CONFIG.yaml --models NAME,NAME")
)
@with_figure
def compare(
    words: ComparedArgument,
    models: Annotated[
        str | None,
        option(
            "Training",
            metavar="NAMES",
            help="Models to train, such as bahdanau,luong:score=dot:training.clip=1; NAME@RUN starts from a run.",
            complete=complete_model,
        ),
    ] = None,
    train_size: Annotated[
        str | None,
        option(
            "Training",
            "--train-size",
            metavar="N,N,all",
            help="Numbers of training examples, such as 100,1000,all; several give learning curves.",
        ),
    ] = None,
    minutes: Annotated[
        float | None, option("Training", metavar="N", help="Time budget of each run in minutes.")
    ] = None,
    seeds: Annotated[
        int,
        option(
            "Training", metavar="N", help="Runs per model, seeds 1 to N; tests then cover seeds too.", min=1, max=1_000
        ),
    ] = 1,
    size: Annotated[
        str | None,
        option("Training", metavar="SIZE", help=f"Named size: {SIZES}", complete=complete_size),
    ] = None,
    jobs: Annotated[
        int | None,
        option("Training", metavar="N", help="Train N runs at a time, spread over the GPUs.", min=1, max=1_000),
    ] = None,
    valid: ValidOption = None,
    test: FilesOption = None,
    split: Annotated[
        str | None,
        option("Comparison", metavar="NAME", help="test by default, valid if there is none; for dates also unseen."),
    ] = None,
    baseline: Annotated[
        str | None,
        option("Comparison", metavar="RUN", help="Run to test the others against; the first by default."),
    ] = None,
    beam: Annotated[
        int | None,
        option("Comparison", metavar="N", help="Beam size for all runs; each run's own by default.", min=1, max=1_000),
    ] = None,
    threads: Annotated[
        int | None,
        option("Comparison", metavar="N", help="Threads to decode with; as in training by default.", min=1, max=1_024),
    ] = None,
    device: Annotated[
        str,
        option("Comparison", metavar="NAME", help="Where to train and decode: auto, cpu, cuda, cuda:N or mps."),
    ] = "auto",
    resamples: Annotated[
        int | None,
        option(
            "Comparison",
            metavar="N",
            help="Resamples of the examples (evaluation.bootstrap by default).",
            min=1,
            max=1_000_000,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        option(
            "Output",
            metavar="PATH",
            help="Folder for compare.html, .tex, .csv, .json and new runs; for trained runs, also a .svg or .png.",
        ),
    ] = None,
    sentences: Annotated[int, option("Output", metavar="N", help="Examples on the page.", min=0)] = 15,
    look: Annotated[
        str | None, option("Output", metavar="TEXT", help="Also show the attention of every run for this text.")
    ] = None,
    open_it: Annotated[bool, option("Output", "--open", help="Show the page in a browser.")] = False,
    as_json: Annotated[bool, option("Output", "--json", help="Print everything as JSON.")] = False,
    force: ForceOption = False,
    *,
    figure: dict[str, Any],
) -> None:
    """Compare runs, or train several models and compare them.

    Reports scores with intervals, significance, speed and memory.
    """
    from heed.cli.compare import CompareOptions, run_compare

    given = {
        "model.size": size,
        "training.minutes": minutes,
        "data.valid": held_out(valid),
        "data.test": split_files(test),
    }
    drawn = (resamples, sentences, open_it, as_json, look, force, figure)
    options = CompareOptions(models, train_size, seeds, out, split, baseline, beam, threads, device, *drawn, jobs=jobs)
    run_compare(words, fields(given), options)


_INPUT = "Input of the model: for pairs, two texts; for pictures, a file, or test:N of the test set"
InputArgument = Annotated[list[str], Argument(metavar="TEXT", help=f"{_INPUT}.")]
PromptArgument = Annotated[list[str], Argument(metavar="TEXT", help="Input of the model.")]
EditsOption = Annotated[
    list[str] | None,
    option("View", "--edit", metavar="JSON|FILE", help="Change attention weights (docs/looking.md); repeatable."),
]
ScoreOption = Annotated[
    str | None,
    option("Score", "--for", metavar="NAME", help="A label, TAG:WORD or TOKEN:POSITION; by default the answer."),
]
RatherThanOption = Annotated[
    str | None, option("Score", "--rather-than", metavar="NAME", help="Subtract the score of this label, tag or token.")
]


def _typed(**values: Any) -> dict[str, Any]:
    """The options that were typed, by their names in Python."""
    return {name: value for name, value in values.items() if value not in (None, False, [])}


@app.command(cls=called("RUN [TEXT]"))
@with_drawing
@with_flags
def look(
    run: RunArgument,
    texts: Annotated[
        list[str] | None,
        Argument(metavar="[TEXT]", help=f"{_INPUT}. Without it, the training curves are shown."),
    ] = None,
    steps: Annotated[bool, option("View", "--steps", help="One frame per token read or written.")] = False,
    mechanism: Annotated[
        str | None,
        option("View", metavar="NAME", help="Only this attention: cross, encoder, decoder, or an encoder's rollout."),
    ] = None,
    layer: Annotated[
        str | None,
        option("View", metavar="N", help="Layer from 0, negative from the end (default -1), or all."),
    ] = None,
    head: Annotated[
        str | None, option("View", metavar="N", help="Head from 0, mean (over the heads; default) or all.")
    ] = None,
    overview: Annotated[
        bool, option("View", "--overview", help="Thumbnails of all layers and heads, or of the chosen ones.")
    ] = False,
    sort: Annotated[
        str | None,
        option(
            "View",
            metavar="MEASURE",
            help="Order of the overview: entropy (smallest first) or untrained (largest distance).",
        ),
    ] = None,
    edits: EditsOption = None,
    number: Annotated[
        tuple[str, str] | None,
        option(
            "View", metavar="QUERY KEY", help="Show how one weight is computed; its row and column in the map, from 0."
        ),
    ] = None,
    every: Annotated[bool, option("View", "--all", help="With --number: list every component and key.")] = False,
    numpy: Annotated[
        bool, option("View", "--numpy", help="With --number: print only the Python that computes it.")
    ] = False,
    *,
    flags: dict[str, Any],
    drawing: Any,
) -> None:
    """Show a model's attention, or its training curves.

    With TEXT, shows its attention while it reads and writes; without, loss, scores, learning rate and speed.
    """
    from heed.cli.look import Weight, run_look

    view = _typed(steps=steps, mechanism=mechanism, layer=layer, head=head, overview=overview, sort=sort, edits=edits)
    run_look(run, texts or [], view, flags, Weight(number, every, numpy), drawing)


@app.command(cls=called("RUN TEXT"))
@with_drawing
@with_flags
def attribute(
    run: RunArgument,
    texts: InputArgument,
    method: Annotated[
        Literal["ig", "grad", "gradxinput", "loo"] | None,
        option("Method", metavar="ig|grad|gradxinput|loo", help="Integrated gradients (the default), or another."),
    ] = None,
    target: ScoreOption = None,
    rather_than: RatherThanOption = None,
    baseline: Annotated[
        str | None, option("Method", metavar="NAME", help="With ig: mean (the default), zero or unknown.")
    ] = None,
    steps: Annotated[
        int | None, option("Method", metavar="N", help="With ig: steps; by default enough for an error of 1 %.", min=1)
    ] = None,
    without: Annotated[
        Literal["deleted", "unknown", "mean"] | None,
        option("Method", metavar="deleted|unknown|mean", help="With loo: how a word is left out; deleted by default."),
    ] = None,
    edits: EditsOption = None,
    *,
    flags: dict[str, Any],
    drawing: Any,
) -> None:
    """Show what each word adds to a score.

    For a picture: what each patch, or each cell of an 8 x 8 grid, adds.
    """
    from heed.cli.look import run_inside

    method_of = {"method": method, "baseline": baseline, "steps": steps, "without": without}
    asked = _typed(target=target, rather_than=rather_than, edits=edits, **method_of)
    run_inside("attribute", run, texts, asked, flags, drawing)


@app.command(cls=called("RUN TEXT OTHER"))
@with_drawing
def patch(
    run: RunArgument,
    texts: Annotated[list[str], Argument(metavar="TEXT OTHER", help="A text, and another with as many tokens.")],
    target: ScoreOption = None,
    rather_than: RatherThanOption = None,
    edits: EditsOption = None,
    *,
    drawing: Any,
) -> None:
    """Show which states carry the difference between two texts.

    Puts states of OTHER in place of those of TEXT, at one layer and word at a time.
    """
    from heed.cli.look import run_inside

    run_inside("patch", run, texts, _typed(target=target, rather_than=rather_than, edits=edits), {}, drawing)


@app.command(cls=called("RUN TEXT"))
@with_drawing
def lens(run: RunArgument, texts: PromptArgument, edits: EditsOption = None, *, drawing: Any) -> None:
    """Show the most probable token after each block of a decoder."""
    from heed.cli.look import run_inside

    run_inside("lens", run, texts, _typed(edits=edits), {}, drawing)


@app.command(cls=called("RUN TEXT"))
@with_drawing
@with_flags
def beams(
    run: RunArgument,
    texts: PromptArgument,
    beam: Annotated[
        int | None, option("View", metavar="N", help="Beam size; the run's by default.", min=1, max=1_000)
    ] = None,
    every: Annotated[bool, option("View", "--all", help="Also the candidates that were dropped.")] = False,
    edits: EditsOption = None,
    *,
    flags: dict[str, Any],
    drawing: Any,
) -> None:
    """Show the candidates of the beam search behind an output."""
    from heed.cli.look import run_inside

    run_inside("beams", run, texts, _typed(beam_size=beam, every=every, edits=edits), flags, drawing)


@app.command(cls=called("[NAME|FILE.yaml]"))
@with_figure
def lesson(
    name: Annotated[
        str | None,
        Argument(metavar="NAME|FILE.yaml", help="A lesson, or your own matrices; without it, the lessons are listed."),
    ] = None,
    row: Annotated[
        str | None, option(metavar="TOKEN", help="Compute only the row of this token (or row N from 0).")
    ] = None,
    stage: Annotated[list[str] | None, option(metavar="NAME", help="Show only this stage; repeatable.")] = None,
    form: Annotated[
        Literal["text", "html", "svg", "json"] | None,
        option("--as", metavar="text|html|svg|json", help="Format; by default from the ending of --out, else text."),
    ] = None,
    out: Annotated[
        Path | None, option(metavar="FILE", help="Write to a file: .html, .svg, .png, .pdf, .json, .txt.")
    ] = None,
    slides: Annotated[
        bool, option("--slides", help="One stage a page, 16:9: .html; .svg, .png or .pdf, a file for each.")
    ] = False,
    no_remarks: Annotated[bool, option("--no-remarks", help="Leave out a file's remarks and notes.")] = False,
    *,
    figure: dict[str, Any],
) -> None:
    """Compute attention step by step, showing every number."""
    from heed.cli.show import run_lesson_command

    run_lesson_command(name, row, stage or [], form, out, slides, not no_remarks, figure)


@app.command(cls=called("[NAME]"))
def models(
    name: Annotated[
        str | None,
        Argument(metavar="NAME", help="Show the fields and sizes of this model.", autocompletion=complete_model),
    ] = None,
    scores: Annotated[bool, option("--scores", help="List the attention scores (model.score).")] = False,
) -> None:
    """List the models by task, or the fields and sizes of one."""
    from heed.cli.show import list_scores_text, model_text, models_table

    print(list_scores_text() if scores else models_table() if name is None else model_text(name))


@_dev.callback()
def _tools() -> None:
    """Tools for contributors, in a checkout of heed."""


@_dev.command("check")
def dev_check(name: Annotated[str, Argument(metavar="NAME", help="A task, a model or a score.")]) -> None:
    """Test one task, model or score, and list what is missing."""
    from heed.cli.dev import run_dev_check

    raise typer.Exit(run_dev_check(name))

"""Arguments and options shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument

from heed.cli.complete import complete_model, complete_run, complete_run_or_task, complete_size, complete_task
from heed.cli.help import option
from heed.tasks import task_names

RunArgument = Annotated[
    str,
    Argument(metavar="RUN", help="Run folder, or 'last' for the newest under runs/.", autocompletion=complete_run),
]
WithOption = Annotated[
    list[str] | None,
    option(
        "--with", metavar="RUN", help="Another run to average probabilities with; repeatable.", complete=complete_run
    ),
]
_TASKS = f"{', '.join(task_names()[:-1])} or {task_names()[-1]}"
_FILES = (
    f"A task ({_TASKS}) and its training files, source before target; or hub:USER/NAME, a data set of the Hugging Face "
    "Hub; or a YAML file with all settings. SECTION.KEY=VALUE sets any field (docs/configuration.md)."
)
WordsArgument = Annotated[
    list[str],
    Argument(metavar="TASK FILE...", help=f"{_FILES} With --resume, a run folder.", autocompletion=complete_task),
]
CheckedArgument = Annotated[
    list[str],
    Argument(metavar="TASK FILE...", help=f"{_FILES} Or a run folder.", autocompletion=complete_task),
]
ComparedArgument = Annotated[
    list[str],
    Argument(
        metavar="RUN...",
        help="Run folders, or the folder of a comparison. With --models: a task and its training files, or a YAML "
        "file, as for `heed train`.",
        autocompletion=complete_run_or_task,
    ),
]
FilesOption = Annotated[
    list[str] | None,
    option("Data", metavar="FILE", help="Test files, in the same form as the training files; two as a,b."),
]
ValidOption = Annotated[
    list[str] | None,
    option("Data", metavar="FILE|N", help="Validation files (two as a,b), or the number of examples to hold out."),
]
SIZES = "auto, tiny, small or base; for some models also scarce and large (heed models NAME)."
ModelOption = Annotated[
    str | None, option("Model", metavar="NAME", help="Name of the model (heed models).", complete=complete_model)
]
SizeOption = Annotated[str | None, option("Model", metavar="SIZE", help=f"Named size: {SIZES}", complete=complete_size)]
ParentOption = Annotated[
    str | None,
    option("Model", "--from", metavar="RUN", help="Start from this run's weights.", complete=complete_run),
]
BadLinesOption = Annotated[
    Literal["error", "skip"] | None,
    option(
        "Files",
        "--bad-lines",
        metavar="error|skip",
        help="For an unusable line: stop (the default, unless the run was trained with skip), or write an empty line.",
    ),
]
WindowOption = Annotated[
    int,
    option(
        "Files",
        "--sort-window",
        metavar="N",
        help="Number of lines sorted by length and computed together; 2,000 by default.",
        min=1,
    ),
]
ForceOption = Annotated[
    bool, option("--force", help="Use a run despite missing or altered files; heed check lists them.")
]
FormOption = Annotated[
    Literal["text", "html", "svg", "json"] | None,
    option(
        "Output", "--as", metavar="text|html|svg|json", help="Format; by default from the ending of --out, else text."
    ),
]
OutOption = Annotated[
    Path | None,
    option("Output", metavar="FILE", help="Write to a file: .html, .svg, .json, .txt; for pictures also .png."),
]
PageOption = Annotated[
    Path | None, option(metavar="FILE", help="Also write an HTML page of samples as the model sees them.")
]

"""`heed compare`."""

from __future__ import annotations

import sys
import webbrowser
from dataclasses import replace
from typing import Any

from heed.cli.options import CompareOptions
from heed.cli.terminal import show_drawing, use_color, width
from heed.cli.train import settings_from
from heed.comparison.comparison import FORMS, check_folder, compare_entries
from heed.comparison.entries import ComparisonOptions
from heed.comparison.page import UNWRAPPED
from heed.comparison.training import default_folder, open_entries, read_sizes, refuse_training, train_and_compare
from heed.errors import ConfigError
from heed.show.scene import check_figure
from heed.storage import disk
from heed.tasks import task_names
from heed.training.progress import TerminalReporter


def run_compare(words: list[str], options: CompareOptions, figure: dict[str, Any]) -> None:
    """Train missing runs, compare, print the tables, write the files."""
    reporter = TerminalReporter()
    out, fields = options.out, options.fields()
    is_file = out is not None and out.suffix in FORMS
    device = options.device or "auto"
    how = ComparisonOptions(options.split, options.beam, options.threads, device, options.resamples, look=options.look)
    sizes = [] if options.sizes is None else read_sizes(options.sizes)
    if options.models is None and words[0] not in task_names() and not words[0].endswith((".yaml", ".yml")):
        if options.open_it and out is None:
            raise ConfigError("--open shows the page that --out DIR writes; give both")
        how = replace(how, files=tuple(fields.pop("data.test", ())))
        fields.pop("training.device", None)
        refuse_training({**fields, "--seeds": None if options.seeds == 1 else options.seeds, "--jobs": options.jobs})
        entries = open_entries(words, sizes, options.force)
        check_figure(figure, "text" if out is None else out.suffix[1:] if is_file else "svg")
        if out is not None:
            (disk.check_output if is_file else check_folder)(out)
        comparison = compare_entries(entries, how, options.baseline, reporter.say)
    else:
        _refuse_model_fields(words)
        settings = settings_from(words, fields)
        if is_file and out is not None:
            raise ConfigError(f"--out: '{out}' must be a folder, for the runs; compare them again for one {out.suffix}")
        check_figure(figure, "svg")
        out, models = out or default_folder(settings), (options.models or "", options.seeds, sizes)
        trained = train_and_compare(settings, *models, out, how, options.baseline, reporter, options.jobs)
        if trained is None:
            print("interrupted; saved. Resume with the same command", file=sys.stderr)
            raise SystemExit(130)
        comparison = trained
    if options.as_json:
        sys.stdout.write(comparison.to_json())
    else:
        show_drawing(comparison.text(width() if sys.stdout.isatty() else UNWRAPPED, use_color()))
    if out is not None:
        written = comparison.save(out, options.sentences, **figure)
        print(f"wrote {', '.join(map(str, written))}", file=sys.stderr)
        if options.open_it:
            webbrowser.open(written[0].absolute().as_uri())


def _refuse_model_fields(words: list[str]) -> None:
    """Refuse model fields given for all models: they belong to one model and would be ignored."""
    for word in words[1:]:
        name, equals, _ = word.partition("=")
        if equals and name.startswith("model.") and name != "model.size":
            key = word.removeprefix("model.")
            raise ConfigError(f"'{word}': give the fields of a model in --models: --models NAME:{key}")

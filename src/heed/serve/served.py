"""The runs that are served: their inputs, capabilities and options, and their answers as plain values."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from heed import folder
from heed.errors import ConfigError, DataError, HeedError, HeedWarning
from heed.runs.loading import load
from heed.serve import requests
from heed.show.document import Shown
from heed.show.shown import ShownLook
from heed.storage.files import CHECKSUMS
from heed.tasks import CAPABILITIES, DEFAULT, languages_in, options_of, spec_of
from heed.tasks.base import Flag
from heed.tasks.base.predictions import TextOutputs
from heed.tasks.run import Run

_CACHED = 8
"""Number of looks that are cached."""


class Served:
    """A run of the server; its model is used by the worker's thread alone."""

    def __init__(self, name: str, path: Path, force: bool = False, device: str = "auto") -> None:
        self._packed = path if os.path.isfile(path) else None
        self.name, self.path, self._force, self._device = name, folder.find(path, folder.State.BEGUN), force, device
        self.task: str = folder.read_settings(self.path)[0].get("task", DEFAULT)
        self._run: Run | None = None
        self._loaded: object = None  # checksums and checkpoints of the loaded run
        self._looks: dict[str, Shown] = {}  # the cache, oldest first
        self.others: list[Served] = []  # all runs of the server; `run-N` of `beside` is one of them

    def run(self) -> Run:
        """The run, loaded again if its folder or zip file has changed; of a run in training, the best weights so far.

        Raises:
            RunError: It has no weights yet, is damaged, or was removed.
        """
        if self._packed is not None:
            self.path = folder.find(self._packed)
        files = (self.path / CHECKSUMS, *sorted(self.path.glob("checkpoints/step-*")))
        state = [(str(file), file.stat().st_ino, file.stat().st_mtime_ns) for file in files if file.exists()]
        if self._run is None or self._loaded != state:
            with warnings.catch_warnings(action="ignore", category=HeedWarning):  # they are in `so_far`
                self._run = load(self.path, force=self._force, device=self._device)
            self._loaded, self.task = state, self._run.config.task
            self._looks.clear()
        return self._run

    def facts(self) -> dict[str, Any]:
        """The facts that a client needs to ask, or why it cannot ask yet; loads the run."""
        training = folder.state_of(self.path) is not folder.State.FINISHED
        facts = {"name": self.name, "task": self.task, "training": training}
        try:
            run: Any = self.run()
        except HeedError as error:
            return {**facts, "error": str(error)}
        outputs = self._outputs({})
        return {
            **facts,
            "title": run.title,
            "summary": spec_of(self.task).summary,
            "model": run.config.model.name,
            "input": self.kind,
            "columns": [*run.task.axes()["columns"]] if self.kind in ("row", "columns") else [],
            "view": [_fact(flag) for flag in requests.VIEW if flag.pictures or self.kind != "picture"],
            "can": [name for name in CAPABILITIES if run.can(name)],
            "streams": outputs is not None and outputs.streams,
            "options": {name: [*map(_fact, requests.flags_of(self.task, name))] for name in ("predict", "look")},
            "note": run.so_far,
        }

    @property
    def kind(self) -> str:
        """Kind of the input: text, pair, turns, picture, row or columns."""
        kind = spec_of(self.task).input
        return "pair" if kind == "text" and getattr(self.run().task, "pairs", False) else kind

    def read(self, value: Any, where: str = "input") -> Any:
        """An input as `look` takes it.

        Raises:
            DataError: It is of another kind, or too long; the message begins with `where`.
        """
        return requests.read_input(self.kind, value, where)

    def _options(self, command: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a command, by keyword, with their defaults."""
        checked = requests.checked_options(options, self.task, command)
        flags = {flag.word: flag.name for flag in requests.flags_of(self.task, command)}
        return options_of(self.task, command, {flags[word]: value for word, value in checked.items()})

    def _outputs(self, options: Mapping[str, Any], as_json: bool = False) -> TextOutputs | None:
        """The writer of `heed predict`; None for tasks whose inputs are no texts."""
        run: Any = self.run()
        if self.kind in ("picture", "row", "columns"):
            return None
        outputs = run.outputs({**self._options("predict", options), "json": as_json})
        assert isinstance(outputs, TextOutputs)
        return outputs

    def predict(self, inputs: list[Any], options: Mapping[str, Any]) -> list[Any]:
        """The predictions for inputs as `read` returns them, as values of JSON.

        Raises:
            HeedError: An option or an input cannot be used.
        """
        outputs = self._outputs(options, as_json=True)
        if outputs is None:
            run: Any = self.run()
            chosen = requests.checked_options(options, self.task, "predict")
            if self.kind == "columns":
                return [np.asarray(run.predict(columns, **chosen)).tolist() for columns in inputs]
            return [prediction.as_json() for prediction in run.predict(inputs, **chosen)]
        texts = [_line(outputs, text) for text in inputs]
        outputs.expect(texts, None)
        return [_json_of(written) for written in outputs.write(texts)]

    def write(self, text: Any, options: Mapping[str, Any]) -> Iterator[str]:
        """An output while it is being written; all at once where the search does not write from left to right.

        Raises:
            HeedError: An option or the input cannot be used.
        """
        outputs = self._outputs(options)
        if outputs is None:
            raise ConfigError(f"a run of {self.task} writes no text")
        text = _line(outputs, text)
        outputs.expect([text], None)
        if outputs.streams:
            yield from outputs.grow(text)
        else:
            yield from ("\n".join(written.lines) for written in outputs.write([text]))

    def look(self, body: requests.LookAt) -> Shown:
        """A look as a request describes it; the last ones are cached, so that saving one, or one weight, is quick.

        Raises:
            HeedError: An option or the input cannot be used.
        """
        run: Any = self.run()
        options, served = self._options("look", body.options), {f"run-{n}": run for n, run in enumerate(self.others)}
        names = options.get("beside") or ()
        if names:
            options["beside"] = [served[name].run() if name in served else name for name in names]
        key = f"{body.model_dump_json()} {[served[name]._loaded for name in names if name in served]}"
        if key not in self._looks:
            view = body.model_dump(exclude={"run", "input", "options"}, exclude_none=True, exclude_defaults=True)
            chosen = {name: value for name, value in view.items() if value is not False}
            wrong = [flag.word for flag in requests.VIEW if flag.word in chosen and not flag.pictures]
            if self.kind == "picture" and wrong:
                raise ConfigError(f"{wrong[0]}: looks at texts and series have it, those at pictures do not")
            look = run.between(*languages_in(options)).look(self.read(body.input), **chosen, **options)
            self._looks = {**dict([*self._looks.items()][1 - _CACHED :]), key: look}
        return self._looks[key]

    def number(self, cell: requests.Cell) -> dict[str, Any]:
        """One weight of a look: its breakdown as a page and as NumPy, and the edit that would set it.

        Raises:
            ConfigError: There is no such map, row or column.
        """
        look = self.look(cell.look)
        if not isinstance(look, ShownLook):
            raise ConfigError("the weights of this look cannot be opened")
        shown = look.number(cell.row, cell.column, map=cell.map)
        edit = look.setting(cell.row, cell.column, shown.weight, map=cell.map)
        forms = {"weight": shown.weight, "html": shown.html(), "numpy": shown.numpy()}
        return {"head": shown.breakdown.head, **forms, "edit": None if edit is None else json.loads(str(edit))}


def _line(outputs: TextOutputs, text: Any) -> Any:
    """An input of a run of texts, as a line of a file; turns are one line."""
    return outputs.read(outputs.arguments(text)[0] if isinstance(text, list) else text, "input")


def _json_of(written: Any) -> Any:
    if written.problem:
        raise DataError(written.problem)
    values = [json.loads(line) for line in written.lines]
    return values[0] if len(values) == 1 else values


def _fact(flag: Flag) -> dict[str, Any]:
    kind = "choice" if flag.choices and flag.type is str else "str" if flag.choices else flag.type.__name__
    choices = {"choices": list(flag.choices)} if kind == "choice" else {}
    fact = {"name": flag.word, "type": kind, "help": flag.help, "several": flag.several, **choices}
    return {**fact, "default": None if flag.several else flag.usual, "least": flag.limits[0], "most": flag.limits[1]}


def open_runs(names: list[str], force: bool = False, device: str = "auto") -> list[Served]:
    """The runs to serve, in order; their models stay on the device.

    Raises:
        RunError: One cannot be found or opened; one that has just begun to train is opened when asked for.
    """
    paths = [
        folder.find(name, folder.State.BEGUN) if name in ("last", folder.EXAMPLE) else Path(name) for name in names
    ]
    short = [path.absolute().name for path in paths]
    shown = short if len({*short}) == len(short) else names
    runs = [Served(name, path, force, device) for name, path in zip(shown, paths, strict=True)]
    for served in runs:
        served.others = runs
        if folder.state_of(served.path) is not folder.State.BEGUN:
            served.run()
    return runs

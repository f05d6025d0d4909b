"""Runs: training into a run folder, and everything a user does with one afterwards."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, overload

import torch

from heed import folder as folders
from heed.config import FilesData, RunConfig, check_section, read_config, with_paths_from, write_config
from heed.data.examples import Pair
from heed.data.tokenizer import UNKNOWN
from heed.errors import ConfigError, RunError, suggest
from heed.evaluation.metrics import PairScores, summarise
from heed.models.base import PairDecoder
from heed.observe.choice import Choice
from heed.observe.edits import Edit
from heed.observe.look import aligned_counts, look_at, word_links
from heed.observe.shown import ShownLook
from heed.tasks.translation import Prediction, Translation
from heed.training.checkpoint import load_weights, save_weights
from heed.training.contracts import TrainResult
from heed.training.device import choose_device, peak_memory
from heed.training.loop import Trainer
from heed.training.progress import Quiet, Reporter, TerminalReporter, duration

__all__ = ["Run", "load", "train", "train_config"]


Files = str | Path | Sequence[str | Path]
"""Two parallel files, or one."""


class Run:
    """A trained model with everything it needs; made by `train` and `load`.

    Attributes:
        folder: The run folder.
        config: Its effective configuration.
        task: Turns text into tensors and back.
        model: The torch module, in evaluation mode.
        report: Scores, counts, speed and versions, as in `report.json`.
    """

    def __init__(
        self, folder: Path, config: RunConfig, task: Translation, model: PairDecoder, report: dict[str, Any]
    ) -> None:
        self.folder = folder
        self.config = config
        self.task = task
        self.model = model.eval()
        self.report = report

    def __repr__(self) -> str:
        test = self.report.get("scores", {}).get("test", {})
        score = f", test exact match {test['exact_match']['value']:.1%}" if "exact_match" in test else ""
        return f"<heed run {self.folder}: {self.config.model.name} on {self.config.data.name}{score}>"

    @overload
    def predict(self, text: str, **options: Any) -> Prediction: ...

    @overload
    def predict(self, text: Sequence[str], **options: Any) -> list[Prediction]: ...

    def predict(self, text: str | Sequence[str], **options: Any) -> Prediction | list[Prediction]:
        """Write the output for a text, or for each of several.

        Args:
            text: One text, or several.
            options: `beam_size`, `length_penalty`, `min_length`, `max_length` (the configuration's by default),
                `sampling` (`heed.generation.SamplingOptions`), `prefix`.
        """
        texts = [text] if isinstance(text, str) else list(text)
        best = [candidates[0] for candidates in self.candidates(texts, **options)]
        return best[0] if isinstance(text, str) else best

    def candidates(self, texts: Sequence[str], num_best: int = 1, **options: Any) -> list[list[Prediction]]:
        """The `num_best` best outputs for each text, best first; unknown words replaced where the run says so."""
        if isinstance(texts, str):
            raise ConfigError(f"candidates takes several texts; for one, write [{texts!r}]")
        results = self.task.translate(self.model, texts, num_best=num_best, **options)
        if self.task.writes_unknown:
            for source, candidates in zip(texts, results, strict=True):
                candidates[:] = [self._without_unknown(source, candidate) for candidate in candidates]
        return results

    def align(self, source: str, prediction: Prediction) -> list[tuple[int, int]]:
        """Pairs (source word, written word) by the largest attention weight (see `heed.observe.look.word_links`)."""
        return word_links(self.task, self.model, source, prediction.ids)[0]

    def _without_unknown(self, source: str, prediction: Prediction) -> Prediction:
        if UNKNOWN not in prediction.ids:
            return prediction
        _, instead = word_links(self.task, self.model, source, prediction.ids)
        words = {n: f" {word}" for n, word in instead.items()}
        return replace(prediction, text=self.task.target_tokenizer.decode(prediction.ids, words))

    def _aligned(self, pairs: Sequence[Pair]) -> tuple[list[int], list[int]] | None:
        return aligned_counts(self.task, self.model, pairs)

    def look(
        self,
        text: str,
        *,
        target: str | None = None,
        steps: bool = False,
        edits: Sequence[Edit] = (),
        beam_size: int | None = None,
        mechanism: str | None = None,
        layer: int | Literal["all"] = -1,
        head: int | Literal["mean", "all"] = "mean",
    ) -> ShownLook:
        """Look inside at one text: maps, and with `steps` a frame per token; a notebook displays the result.

        Args:
            text: The source.
            target: A given output instead of the model's own.
            steps: Whether to show every step.
            edits: Changes of the attention weights (`heed.observe.edits`).
            beam_size: Beam of the search.
            mechanism: "cross", "encoder" or "decoder" attention; all by default.
            layer: Which layer, from 0, from the end where negative, or "all".
            head: Which head, from 0, the "mean" of all, or "all" one by one.

        Raises:
            ConfigError: The text is blank, an edit does not fit the model, or there is no such attention.
        """
        if not text.strip():
            raise ConfigError("there is nothing to look at in a blank text")
        title = f"{self.config.model.name} on {self.config.data.name} ({self.folder.name})"
        look = look_at(
            self.task,
            self.model,
            text,
            target=target,
            beam_size=beam_size,
            edits=edits,
            title=title,
            choice=Choice(mechanism, layer, head),
        )
        return ShownLook(look, steps)

    def evaluate(self, split: str = "test") -> dict[str, Any]:
        """Score a split of the run's data.

        Args:
            split: "test", "valid", or another split that the data has ("unseen").

        Returns:
            The report of `heed.evaluation.metrics.summarise`.

        Raises:
            ConfigError: The data has no such split.
        """
        splits = self.task.splits.pairs
        if split not in splits:
            raise ConfigError(f"the data has no split '{split}'{suggest(split, splits)}")
        return self.score(splits[split])

    def pair_scores(self, pairs: Sequence[Pair], outputs: Sequence[Prediction]) -> PairScores:
        """What is measured on each pair, given what was written for it."""
        encoded = self.task.encode_pairs(pairs)
        nll, correct, tokens = self.task.forced_scores(self.model, encoded)
        nothing = [0] * len(pairs)
        aligned, linked = self._aligned(pairs) or (nothing, nothing)
        exact = [self.task.is_exact(out.text, pair) for out, pair in zip(outputs, pairs, strict=True)]
        return PairScores(exact, correct, tokens, nll, [len(p.source) for p in encoded], aligned, linked)

    def score(self, pairs: Sequence[Pair]) -> dict[str, Any]:
        """Score any pairs: the report of `heed.evaluation.metrics.summarise`; BLEU, chrF and TER for people's files."""
        outputs = self.predict([pair.source for pair in pairs])
        scores = self.pair_scores(pairs, outputs)
        texts = None
        if isinstance(self.config.data, FilesData):
            references = [self.task.target_tokenizer.normalize(pair.target) for pair in pairs]
            texts = [out.text for out in outputs], references
        report = summarise(scores, self.config.evaluation.bootstrap, texts)
        if not self.model.aligns and any(pair.links for pair in pairs):
            report["alignment"] = "no attention"
        report["cut_off"] = sum(not out.finished for out in outputs)
        return report


def load(run: str | Path = "last") -> Run:
    """Open a run folder.

    Args:
        run: The folder, or "last" for the newest under `runs/`.

    Raises:
        RunError: The folder is missing, unfinished, damaged or of another format; the message says which file.
    """
    path = folders.find(run)
    folders.check_format(path)
    config = check_section(RunConfig, read_config(path / folders.CONFIG), str(path / folders.CONFIG))
    if not (path / folders.WEIGHTS).is_file():
        raise RunError(
            f"{path} holds no {folders.WEIGHTS}: its training has not finished; go on with heed train {path} --resume"
        )
    task = Translation.restore(config, path)
    model = task.build_model()
    load_weights(model, path / folders.WEIGHTS)
    return Run(path, config, task, model, folders.read_report(path))


def train(
    what: str | Path,
    *,
    data: str | None = None,
    train: Files | None = None,
    hub: str | None = None,
    valid: Files | int | None = None,
    test: Files | None = None,
    model: str | None = None,
    size: str | None = None,
    minutes: float | None = None,
    steps: int | None = None,
    seed: int | None = None,
    parent: str | Path | None = None,
    out: str | Path | None = None,
    settings: dict[str, Any] | None = None,
    quiet: bool = False,
) -> Run:
    """Train a model: `heed.train("translation", train=("a.en", "a.de"), minutes=10)` or `heed.train("config.yaml")`.

    Args:
        what: A task, or a configuration file.
        data: Embedded data instead of files: "dates", "grammar", "copy" or "reverse".
        train: Two parallel files, source first, or one with both sides; or a split of `hub`.
        hub: A data set of the Hugging Face Hub, as "user/name"; its columns go into `settings`.
        valid: Validation files, or how many pairs to hold out.
        test: Test files.
        model: Name of the model.
        size: "auto", "tiny", "small" or "base".
        minutes: Time budget, evaluation included.
        steps: Number of updates instead of a time budget.
        seed: Seed of weights, order and dropout.
        parent: Run to start from (`model.from`).
        out: Run folder to make; `runs/<data>-<model>-<n>` by default.
        settings: Any other field, as `{"training.learning_rate": 0.001}`.
        quiet: Print nothing.

    Returns:
        The finished run.

    Raises:
        ConfigError, DataError, RunError, TrainingError: As the messages say.
    """
    is_file = str(what).endswith((".yaml", ".yml"))
    values: dict[str, Any] = read_config(what) if is_file else {"task": str(what)}
    given = {
        "data.name": data,
        "data.hub": hub,
        "data.train": _paths(train),
        "data.valid": valid if isinstance(valid, int) else _paths(valid),
        "data.test": _paths(test),
        "model.name": model,
        "model.size": size,
        "model.from": None if parent is None else str(parent),
        "training.minutes": minutes,
        "training.steps": steps,
        "training.seed": seed,
        **(settings or {}),
    }
    for name, value in given.items():
        if value is None:
            continue
        *sections, key = name.split(".")
        place = values
        for section in sections:
            place = place.setdefault(section, {})
        place[key] = value
    values = with_paths_from(values, Path.cwd())
    config = check_section(RunConfig, values, str(what) if is_file else "heed.train")
    run, result = train_config(config, out, Quiet() if quiet else TerminalReporter())
    if run is None:
        raise KeyboardInterrupt(result.reason)
    return run


def _paths(files: Files | None) -> list[str] | None:
    if files is None:
        return None
    return [str(f) for f in ([files] if isinstance(files, str | Path) else files)]


def train_config(
    config: RunConfig,
    out: str | Path | None,
    reporter: Reporter,
    *,
    resume: bool = False,
    on_validation: Callable[[Run, dict[str, float], float], None] | None = None,
) -> tuple[Run | None, TrainResult]:
    """Train a configuration into a run folder.

    Args:
        config: What to train.
        out: Run folder; `runs/<data>-<model>-<n>` by default.
        reporter: Told what happens.
        resume: Go on from the folder's last checkpoint.
        on_validation: Called after each validation with the run so far, its scores and the seconds spent.

    Returns:
        The finished run, or None where it was interrupted; and how training ended.

    Raises:
        RunError: The folder exists already (a run is never overwritten).
    """
    began = time.perf_counter()
    if resume and out is None:
        raise ConfigError("--resume needs the run folder to go on with")
    task = Translation.prepare(config)
    config = task.config
    torch.manual_seed(config.training.seed)
    model = task.build_model()
    taken = task.start_from_parent(model)
    choose_device(config.training.device)  # what cannot be must say so before there is a folder
    path = folders.create(out, config, resume)
    reporter.say(f"run folder {path}")
    write_config(config, path / folders.CONFIG)
    task.save(path)
    parameters = sum(p.numel() for p in model.parameters())
    reporter.say(f"{config.model.name} ({config.model.size}), {parameters:,} parameters; {task.splits.notes}")
    if taken is not None:
        reporter.say(str(taken))
    run = Run(path, config, task, model, {})

    def validated(trainer: Trainer, scores: dict[str, float]) -> None:
        if on_validation is not None:
            on_validation(run, scores, trainer.progress.seconds)

    trainer = Trainer(model, task, config.training, config.evaluation.select_by, path, reporter, validated, began)
    result = trainer.run(resume)
    if not result.finished:
        return None, result
    save_weights(model, path / folders.WEIGHTS)
    reporter.say(f"{result.reason}; kept {result.kept}; scoring")
    scores: dict[str, Any] = {"valid": {**result.validation, "note": "the set that the weights were selected on"}}
    for split in task.splits.pairs:
        if split not in ("train", "valid"):
            scores[split] = run.evaluate(split)
    run.report = {
        "format": folders.FORMAT,
        "task": config.task,
        "model": config.model.name,
        "parameters": parameters,
        **({} if taken is None else {"parent": taken.as_report()}),
        "data": task.report_counts(),
        "scores": scores,
        "training": {
            "updates": result.progress.step,
            "planned_updates": result.progress.total_steps,
            "ended": result.reason,
            "kept": result.kept,
            "target_tokens_per_second": round(result.tokens_per_second, 1),
            "padding_share": round(result.padding_share, 4),
            "seconds": round(time.perf_counter() - began, 1),
            "peak_memory_mib": round(peak_memory() / 2**20),
            "device": str(trainer.device),
            "precision": trainer.precision,
            "threads": result.progress.threads,
            "seed": config.training.seed,
        },
        "versions": {
            "heed": metadata.version("heed-attention"),
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }
    folders.write_report(path, run.report)
    folders.write_card(path, run.report, config)
    reporter.say(f"done in {duration(time.perf_counter() - began)}")
    return run, result

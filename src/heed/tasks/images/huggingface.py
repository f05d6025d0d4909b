"""Picture classifiers in Hugging Face checkpoints: `ViTForImageClassification`, and `ViTModel` without classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from heed.errors import ConfigError
from heed.exchange.huggingface.checkpoint import Checkpoint
from heed.exchange.huggingface.vit import PREPROCESSOR, has_preprocessor, preprocessor_of, read_form
from heed.tasks.base.huggingface import Exportable, TaskCheckpoint, names_of_labels
from heed.tasks.images.config import ImagesConfig
from heed.tasks.images.task import TASK
from heed.tasks.work import Work

_ONE_LABEL = "single_label_classification"


class ImagesCheckpoint(TaskCheckpoint[ImagesConfig]):
    """A linear layer over the last state of the class token, and of a DeiT's distillation token.

    A checkpoint of the body alone becomes a run without classes. Such a run supports `look` and `--from`,
    but cannot predict.
    """

    places: ClassVar = {"body": "body", "labels": "output"}

    @classmethod
    def heads(cls, checkpoint: Checkpoint) -> frozenset[str]:
        architectures = checkpoint.family.architectures
        found = (heads for heads, name in architectures.items() if name == checkpoint.architecture)
        return next(found, frozenset({"labels"}))

    @classmethod
    def sections(cls, checkpoint: Checkpoint, heads: frozenset[str], tied: bool) -> dict[str, Any]:
        settings = checkpoint.settings
        kind = settings.text("problem_type", _ONE_LABEL)
        if heads and kind != _ONE_LABEL:
            raise ConfigError(
                f"{settings.path}: problem_type is {kind}, but heed's images task gives each picture one label; "
                f"problem_type must be {_ONE_LABEL} or missing"
            )
        if heads and len(checkpoint.labels) < 2:
            raise ConfigError(
                f"{settings.path}: id2label has {len(checkpoint.labels)} class: the checkpoint predicts a number, "
                "but heed's images task predicts labels"
            )
        sizing = read_form(checkpoint.folder, settings).sizing
        size = {"size": [sizing.height, sizing.width], "crop": sizing.crop, "channels": sizing.channels}
        return {"model": {"head": "softmax"}, "data": size}

    @classmethod
    def task(cls, config: ImagesConfig, checkpoint: Checkpoint) -> Work:
        form = read_form(checkpoint.folder, checkpoint.settings)
        head = replace(TASK.head, labels=tuple(checkpoint.labels if cls.heads(checkpoint) else ()))  # type: ignore[call-arg]
        return Work(TASK, config, TASK.input.of(form, config.data), head, None)  # type: ignore[attr-defined]

    @classmethod
    def remarks(cls, checkpoint: Checkpoint) -> tuple[str, ...]:
        form = read_form(checkpoint.folder, checkpoint.settings)
        sizing = form.sizing
        said = "" if has_preprocessor(checkpoint.folder) else f", since {PREPROCESSOR} is missing: the default of ViT"
        numbers = (
            " ".join(f"{one:.4g}" for one in ones) for ones in (form.normalisation.mean, form.normalisation.deviation)
        )
        mean, deviation = numbers
        lines = [
            f"pictures: {sizing.width} x {sizing.height}, {sizing.channels} channel{'s' * (sizing.channels != 1)}, "
            f"crop {sizing.crop}, {sizing.resample}, mean {mean}, deviation {deviation}{said}"
        ]
        if not cls.heads(checkpoint):
            lines.append("no classes: train a classifier from it with heed train images FOLDER --from RUN")
        else:
            labels = checkpoint.labels
            lines.append(f"{len(labels):,} classes: {', '.join(labels[:5])}{', ...' if len(labels) > 5 else ''}")
        return tuple(lines)

    @classmethod
    def exportable(cls, run: Any) -> Exportable:
        body, head = run.task.model_and_head()
        if head.head == "sigmoid":
            raise ConfigError(
                "model.head is sigmoid with one output for two classes: Hugging Face checkpoints have one per class; "
                "use softmax"
            )
        fields, notes = preprocessor_of(run.input.form)
        if not run.head.labels:
            return Exportable(
                body, frozenset(), {}, notes=notes, files={PREPROCESSOR: fields}, left=frozenset({"output"})
            )
        return Exportable(
            body,
            frozenset({"labels"}),
            {},
            label_bias=True,
            settings={**names_of_labels(run.head.labels), "problem_type": _ONE_LABEL},
            notes=notes,
            files={PREPROCESSOR: fields},
        )

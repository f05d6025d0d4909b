"""Text classifiers in Hugging Face checkpoints: `...ForSequenceClassification`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from heed.errors import ConfigError
from heed.exchange.huggingface.checkpoint import Checkpoint
from heed.tasks.base.huggingface import Exportable, TaskCheckpoint, longest_text, names_of_labels
from heed.tasks.classification.config import ClassificationConfig
from heed.tasks.classification.task import TASK
from heed.tasks.work import Work

_ONE_LABEL, _SEVERAL = "single_label_classification", "multi_label_classification"


class ClassificationCheckpoint(TaskCheckpoint[ClassificationConfig]):
    """A linear layer over the body's `last`: the state of the start token or of the last token."""

    places: ClassVar = {"body": "body", "labels": "output"}

    @classmethod
    def heads(cls, checkpoint: Checkpoint) -> frozenset[str]:
        return frozenset({"labels"})

    @classmethod
    def sections(cls, checkpoint: Checkpoint, heads: frozenset[str], tied: bool) -> dict[str, Any]:
        settings = checkpoint.settings
        kind = settings.text("problem_type", _ONE_LABEL)
        if kind not in (_ONE_LABEL, _SEVERAL) or len(checkpoint.labels) < 2:
            raise ConfigError(
                f"{settings.path}: problem_type is {kind} with {len(checkpoint.labels)} in id2label: the checkpoint "
                "predicts a number, but heed's classification predicts labels"
            )
        several = kind == _SEVERAL
        return {
            "model": {
                "pooling": "last",
                "head": "sigmoid" if several else "softmax",
                "ngrams": 0,
                "output_bias": checkpoint.family.label_bias,
            },
            "data": {"several_labels": several, "max_length": longest_text(checkpoint)},
        }

    @classmethod
    def task(cls, config: ClassificationConfig, checkpoint: Checkpoint) -> Work:
        texts = replace(TASK.input, tokenizer=checkpoint.tokenizer)  # type: ignore[call-arg]
        return Work(TASK, config, texts, replace(TASK.head, labels=tuple(checkpoint.labels)), None)  # type: ignore[call-arg]

    @classmethod
    def exportable(cls, run: Any) -> Exportable:
        task: Work = run.task
        body, head = task.model_and_head()
        several = task.config.data.several_labels
        if head.ngrams:
            raise ConfigError(
                f"model.ngrams is {head.ngrams}: Hugging Face checkpoints cannot store n-grams; "
                "train with model.ngrams=0"
            )
        first = getattr(body, "pooler", None) == "none" and head.pooling in ("first", "cls")
        if head.pooling != "last" and not first:
            raise ConfigError(
                f"model.pooling is {head.pooling}: Hugging Face classifiers support only model.pooling=last"
            )
        if head.head == "sigmoid" and not several:
            raise ConfigError(
                "model.head is sigmoid with one output for two classes: Hugging Face checkpoints have one per class; "
                "use softmax"
            )
        settings = {**names_of_labels(run.head.labels), "problem_type": _SEVERAL if several else _ONE_LABEL}
        return Exportable(
            body, frozenset({"labels"}), task.tokenizers(), label_bias=head.output_bias, settings=settings
        )

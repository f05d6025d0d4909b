"""Classification: texts with one label or several, an encoder with pooling and head, the loss over the labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from heed.data.batch.texts import TextBatch, TokenText, collate_texts
from heed.data.embedded.texts import draw_documents
from heed.data.examples import Text
from heed.data.findings import Findings
from heed.data.kinds.texts import text_reader
from heed.data.splits.splits import Splits, open_splits
from heed.data.tokens.token_cache import learn_cached
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.models.base import TextEncoder, TokenEncoder
from heed.tasks.base.labels import (
    LabelHead,
    check_weights,
    count_lines,
)
from heed.tasks.base.report import counted_are
from heed.tasks.base.text_task import LabelledTask, drawn
from heed.tasks.base.transfer import Started
from heed.tasks.classification import baselines, ngrams
from heed.tasks.classification.config import ClassificationConfig, ClassificationHead, PlantedData
from heed.tasks.classification.model import Classifier, pooling_of
from heed.tasks.classification.texts import cut_texts, hold_texts, split_texts, text_format
from heed.training.processes import current

_POOLING_FIELDS = ("pooling", "pooling_score", "d_pooling", "pooling_hops")
LONGEST = 2
"""Length of the longest n-grams by default: single words and pairs."""
_MOST_WORK = 400_000
"""Largest number of training texts times labels for n-grams by default: fitted in a minute or two."""
_RATE = 0.001
"""Learning rate of the body with n-grams: at 0.003 it has memorised small sets after two passes."""
_OFTEN = 400
"""Largest number of batches in a pass for validations twice a pass: a twelfth of the budget would be several passes."""


def is_default(config: ClassificationConfig) -> bool:
    """True if neither a model nor a number of updates is given; never for embedded data, meant for plain models."""
    section = config.model
    named = "name" in section.model_fields_set or section.from_ is not None
    return not named and config.training.steps is None and not isinstance(config.data, PlantedData)


def longest_ngram(task: Classification, head: ClassificationHead, given: dict[str, Any]) -> int:
    """`model.ngrams` of a new run."""
    if "ngrams" in given or task.tokenizer.unit != "word" or not is_default(task.config):
        return head.ngrams
    work = len(task.splits.examples["train"]) * len(task.labels)
    return LONGEST if work <= _MOST_WORK else head.ngrams


def with_training(task: Classification, settled: ClassificationConfig) -> ClassificationConfig:
    """The settled configuration; with n-grams by default, its `training` section is adapted to them."""
    if not is_default(task.config) or not (settled.model.model_extra or {})["ngrams"]:
        return settled
    training = settled.training
    tokens = sum(text.length for text in task.encoded("train"))
    batches = tokens / training.batch_tokens
    fields: dict[str, Any] = {"learning_rate": _RATE}
    if batches <= _OFTEN:
        fields["validate_every"] = max(1, math.ceil(batches / 2))
    update = {name: value for name, value in fields.items() if name not in training.model_fields_set}
    return settled.model_copy(update={"training": training.model_copy(update=update)})


def pooling_fields(
    task: Classification, head: ClassificationHead, fields: dict[str, Any], given: dict[str, Any]
) -> dict[str, Any]:
    """The head's fields without those that do not apply to the body.

    Raises:
        ConfigError: The user gave a field that does not apply, or a pooling that the body does not support.
    """
    name, body = task.config.model.name, task.body_class
    if issubclass(body, TextEncoder):
        if meant := [field for field in _POOLING_FIELDS if field in given]:
            raise ConfigError(f"model {name} produces one vector per text, so model.{meant[0]} does not apply")
        return {field: value for field, value in fields.items() if field not in _POOLING_FIELDS}
    assert issubclass(body, TokenEncoder)
    if head.pooling == "cls" and body.framed:
        raise ConfigError(
            f"model.pooling is cls, but model {name} already reads a start token before each text; use last "
            "(its state after the pooling layer) or first (its state)"
        )
    if head.pooling == "cls" and not body.sees_all:
        raise ConfigError(
            f"model.pooling is cls, but in model {name} a token before the text cannot read the text; use model "
            "encoder, or another pooling"
        )
    return {**fields, "pooling": _settled_pooling(task, head.pooling, body.framed)}


def _settled_pooling(task: Classification, pooling: str, framed: bool) -> str:
    """The pooling with "auto" resolved: for framed bodies mean, or last if their [CLS] was trained for this."""
    if pooling != "auto" or not framed:
        return pooling_of(pooling)
    known = {} if task.parent is None else task.parent.task.config.model.model_extra or {}
    return "last" if known.get("pooling") == "last" else "mean"


class Classification(LabelledTask[ClassificationConfig, Text, TokenText, TextBatch], LabelHead):
    """The classification task: texts, model, loss and scores."""

    head_class = ClassificationHead

    # Data -----------------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, config: ClassificationConfig, given: Mapping[str, Sequence[Text]] | None = None) -> Self:
        task = super().prepare(config, given)
        for split in task.split_names:
            task.encoded(split)
        if not task.several_labels:
            fix = " (data.class_weights=balanced weighs labels equally)" * (task.config.data.class_weights == "none")
            task.splits.remarks += count_lines(task.label_counts("train"), task.unit, fix)
        return task

    @classmethod
    def open_splits(
        cls, config: ClassificationConfig, given: Mapping[str, Sequence[Text]] | None = None
    ) -> Splits[Text]:
        data = config.data
        if isinstance(data, PlantedData):
            what = data.sentences, data.seed
            return drawn(data, lambda name, size: [d.text for d in draw_documents(name, size, *what)], "texts")
        return open_splits(data, text_reader(text_format(data)), given)

    @classmethod
    def hold(cls, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Text]:
        return hold_texts(data, split, config.data, findings)

    @classmethod
    def texts_of(cls, example: Text) -> Sequence[str]:
        return (example.text,)

    @classmethod
    def labels_of(cls, example: Text) -> Iterable[str]:
        return example.labels

    @classmethod
    def train_tokenizer(cls, config: ClassificationConfig, examples: Sequence[Text]) -> TextTokenizer:
        texts = [part for example in examples for part in split_texts(example.text, config.data)]
        settings = {"to": "read", **config.tokenizer.model_dump(mode="json")}
        return learn_cached(texts, settings, lambda: TextTokenizer.train_to_read(texts, config.tokenizer))

    def encode(self, examples: Sequence[Text]) -> list[TokenText]:
        labels = [[self.number_of(label, e.origin) for label in e.labels] for e in examples]
        cut = self.cut_texts([e.text for e in examples], kept=True)
        return [TokenText(sentences, numbers, gone) for (sentences, gone), numbers in zip(cut, labels, strict=True)]

    def cut_texts(self, texts: Sequence[str], kept: bool = False) -> list[tuple[list[list[int]], int]]:
        """Texts as sentences of tokens, and the number of tokens cut off at `data.max_length`.

        With `kept`, the tokens of many texts are cached on disk.
        """
        given = self.config.data, self.hierarchical, kept, self.most_tokens, self.double_separator
        return cut_texts(self.tokenizer, texts, *given)

    @property
    def pairs(self) -> bool:  # type: ignore[override]  # by the columns
        return self.config.data.columns.second is not None

    @property
    def unit(self) -> str:
        """The noun for an example in messages."""
        return "pair" if self.pairs else "text"

    @property
    def most_tokens(self) -> int:
        """Largest number of tokens of a text that are read."""
        return min(self.config.data.max_length, self.room or self.config.data.max_length)

    @property
    def double_separator(self) -> bool:
        """True if two end tokens separate the texts of a pair."""
        return bool((self.config.model.model_extra or {}).get("double_separator", False))

    def encode_texts(self, texts: Sequence[str]) -> list[TokenText]:
        """Texts without labels to tokens; surrounding blanks are stripped."""
        return [TokenText(sentences, [], cut) for sentences, cut in self.cut_texts([text.strip() for text in texts])]

    def tokens_of(self, encoded: TokenText) -> list[int]:
        return [token for sentence in encoded.sentences for token in sentence]

    def collate_encoded(self, encoded: Sequence[TokenText], indices: list[int]) -> TextBatch:
        num_labels = len(self.labels) if self.several_labels else None
        return collate_texts(encoded, indices, hierarchical=self.hierarchical, num_labels=num_labels)

    def encoded(self, split: str) -> list[TokenText]:
        if split not in self._encoded:
            texts = super().encoded(split)
            if cut := sum(text.cut > 0 for text in texts):
                most = self.most_tokens
                said = f"data.max_length {most}" if most == self.config.data.max_length else f"the model's {most}"
                self.splits.remarks.append(
                    f"{split}: {counted_are(cut, self.unit)} longer than {said} tokens; the rest is not read"
                )
        return self._encoded[split]

    @property
    def notes(self) -> str:
        for split in self.split_names:
            self.encoded(split)
        return self.splits.notes

    # Model ----------------------------------------------------------------------------------------------------

    @property
    def hierarchical(self) -> bool:
        """True if the model reads sentence by sentence."""
        body = self.body_class
        return issubclass(body, TextEncoder) and body.hierarchical

    @property
    def selected_by(self) -> str:
        return "micro_f1" if self.several_labels else "accuracy"

    def head_fields(self, head: ClassificationHead, given: dict[str, Any]) -> dict[str, Any]:
        several = self.several_labels
        kind = head.head
        if kind == "auto":
            kind = "sigmoid" if several else "softmax"
        if kind == "softmax" and several:
            raise ConfigError("model.head softmax chooses one label, but data.several_labels is true; use sigmoid")
        if kind == "sigmoid" and not several and len(self.labels) != 2:
            raise ConfigError(
                f"model.head sigmoid has one output for two classes, but there are {len(self.labels)} "
                f"({', '.join(self.labels)}); use softmax, or data.several_labels=true"
            )
        fields = {**head.model_dump(), "head": kind, "ngrams": longest_ngram(self, head, given)}
        return pooling_fields(self, head, fields, given)

    def settled(self) -> ClassificationConfig:
        return with_training(self, super().settled())

    def follows_from_data(self) -> tuple[str, ...]:
        usual = self.sigmoid == self.several_labels
        return (*super().follows_from_data(), *(["head"] if usual else []))

    def build_model(self) -> Classifier:
        config, head = self.model_and_head()
        body = self.build_body(config)
        assert isinstance(body, TokenEncoder | TextEncoder)
        return Classifier(body, head, len(self.row_names("labels")))

    def axes(self) -> dict[str, list[str]]:
        return {**super().axes(), "labels": self.label_rows()}

    # What the training loop needs -----------------------------------------------------------------------------

    scoring_memory = baselines.scoring_memory

    def loss(self, model: Classifier, batch: TextBatch, label_smoothing: float) -> Tensor:
        ngram_logits = None
        if model.ngrams is not None:
            ngram_logits = self.strength_and_held_out[1][batch.indices].to(batch.tokens.device)
        return self.label_loss(model(batch.tokens, batch.mask, ngram_logits), batch.labels, label_smoothing)

    @cached_property
    def strength_and_held_out(self) -> tuple[float, Tensor]:
        """C of the n-gram regressions; logits from n-grams fitted without the text, `(training texts, num_outputs)`."""
        return ngrams.strength_and_held_out(self)

    def start(self, model: Classifier) -> dict[str, Started]:
        started = super().start(model)
        return started if model.ngrams is None else {**started, "ngrams": ngrams.fit(self, model)}

    def check_labels(self) -> None:
        super().check_labels()
        check_weights(self.config.data.class_weights, self.labels, self.unit)

    def validate(self, model: Classifier) -> dict[str, float]:
        encoded = self.encoded("valid")
        logits = torch.stack(current().map(lambda part: list(self.logits(model, part)), encoded))
        return self.label_scores(logits, self.collate_encoded(encoded, list(range(len(encoded)))).labels)

    # Using a model --------------------------------------------------------------------------------------------

    def logits(self, model: Classifier, encoded: Sequence[TokenText]) -> Tensor:
        """Outputs of the last layer for each text, `(texts, num_outputs)`, on the CPU."""
        return self.forwarded(model, encoded) if encoded else torch.zeros(0, model.output.out_features)

    def indicators(self, encoded: Sequence[TokenText]) -> np.ndarray[Any, Any]:
        """The true labels, `(texts, num_labels)` of bool."""
        true = np.zeros((len(encoded), len(self.labels)), dtype=bool)
        for row, text in enumerate(encoded):
            true[row, text.labels] = True
        return true

    def classify(self, model: Classifier, encoded: Sequence[TokenText]) -> Tensor:
        """The probability of each label of each text, `(texts, num_labels)`."""
        return self.probabilities(self.logits(model, encoded))

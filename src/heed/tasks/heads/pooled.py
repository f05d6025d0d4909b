"""Labels or numbers of texts, from pooled states of tokens, perhaps with a linear part; and TF-IDF, their baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from heed.attention import AttentionPooling
from heed.data.batch import framed
from heed.data.corpus import characters_of
from heed.data.examples import without_breaks
from heed.data.tokens import Special
from heed.errors import ConfigError
from heed.evaluation.measures import Outcomes
from heed.layers import max_pooling, mean_pooling
from heed.models.base import TextEncoder, TokenEncoder, state_at
from heed.tasks.base.head_options import ClassificationHead, PooledOptions
from heed.tasks.base.labels import LabelPrediction, library_memory
from heed.tasks.contracts import Facts, Input
from heed.tasks.heads.labels import Labels, Truths, check_sigmoid
from heed.tasks.heads.number import Number
from heed.tasks.inputs.ngrams import Targets, usual_characters
from heed.tasks.inputs.texts import effort_of
from heed.tasks.work import Work

NAME, ALONE, NETWORK = "TF-IDF and a linear SVM", "the n-grams of this run alone", "the network of this run alone"
_WORDS = r"\w+|[^\w\s]"
MAX_FITTED = 40_000_000
"""Largest number of characters of training text used, about half a minute's work; of more, a sample is used."""
_BYTES = 14
"""Memory of fitting for each character; 20 for IMDb and 48 for SST-2, but what training has freed is used again."""


def fitting_memory(characters: int) -> int:
    """Bytes that fitting the baseline to training texts of this many characters takes."""
    return _BYTES * min(characters, MAX_FITTED)


class TfidfClassifier:
    """TF-IDF of single words and pairs, counting punctuation marks as words, and one linear SVM for each label.

    Source: scikit-learn's `TfidfVectorizer` and `LinearSVC` with their defaults.
    """

    def __init__(self, texts: Sequence[str], labels: Sequence[Sequence[str]], several: bool) -> None:
        """Fit to labelled texts, to every n-th of very many. `several`: a text may have any number of labels."""
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.svm import LinearSVC

        step = 1 + sum(map(len, texts)) // MAX_FITTED
        texts, labels = texts[::step], labels[::step]
        self._several = several
        self._labels = sorted({label for chosen in labels for label in chosen})
        self._vectorizer: Any = TfidfVectorizer(ngram_range=(1, 2), token_pattern=_WORDS)
        inputs = self._vectorizer.fit_transform(map(without_breaks, texts))
        self._machines: list[Any] = []
        for label in self._labels:
            column = np.array([label in chosen for chosen in labels])
            # A label that every text has needs no SVM.
            self._machines.append(None if column.all() else LinearSVC(random_state=0).fit(inputs, column))

    def predict(self, texts: Sequence[str]) -> list[LabelPrediction]:
        """The labels of each text, without probabilities, which an SVM does not give."""
        inputs = self._vectorizer.transform(map(without_breaks, texts))
        columns = [np.ones(len(texts)) if svm is None else svm.decision_function(inputs) for svm in self._machines]
        scores = np.stack(columns, axis=1)
        chosen = [
            [self._labels[i] for i in np.flatnonzero(row > 0)] if self._several else [self._labels[int(row.argmax())]]
            for row in scores
        ]
        return [LabelPrediction(",".join(labels), tuple(labels), 0.0, {}) for labels in chosen]


_POOLING_FIELDS = ("pooling", "pooling_score", "d_pooling", "pooling_hops")


def pooling_of(kind: str) -> str:
    """The pooling to use; "auto" stands for attention."""
    return "attention" if kind == "auto" else kind


class Pooling(nn.Module):
    """One vector per text from the states of a token encoder."""

    def __init__(self, body: TokenEncoder, options: PooledOptions) -> None:
        super().__init__()
        self.kind = pooling_of(options.pooling)
        self.d_output = body.d_output
        if self.kind != "last":
            body.without_last()
        if self.kind == "attention":
            hops = options.pooling_hops if options.pooling_score == "self_attentive" else 1
            self.attention = AttentionPooling(
                body.d_output, score=options.pooling_score, d_attention=options.d_pooling, num_queries=hops
            )
            self.d_output = self.attention.d_output

    def forward(self, body: TokenEncoder, hidden: Tensor, mask: Tensor) -> Tensor:
        """`(batch, length, d)` to `(batch, d_output)`; zeros for a text without tokens."""
        if self.kind == "attention":
            return self.attention(hidden, mask)
        if self.kind == "last":
            return body.last(hidden, mask)
        if self.kind in ("first", "cls"):
            return state_at(hidden, mask, torch.zeros_like(mask[:, 0], dtype=torch.long))
        return {"mean": mean_pooling, "max": max_pooling}[self.kind](hidden, mask)


class Classifier(nn.Module):
    """A body, a pooling if the body gives states of tokens, and one linear layer: `logits = V pooled + b`.

    With n-grams: `logits = V pooled + b + s ngrams(text)`, where s is learned and initialised to 1.

    With pooling "cls", the start token, which never occurs in a text, is put before the text as [CLS]. Texts are
    framed for a body that reads framed texts.
    """

    def __init__(
        self,
        body: TokenEncoder | TextEncoder,
        options: PooledOptions,
        num_outputs: int,
        special: Special,
        ngrams: bool = False,
    ) -> None:
        super().__init__()
        self.special = special
        self.body = body
        self.pooling = Pooling(body, options) if isinstance(body, TokenEncoder) else None
        width = body.d_output if self.pooling is None else self.pooling.d_output
        self.output = nn.Linear(width, num_outputs, bias=options.output_bias)
        self.ngram_scale = nn.Parameter(torch.ones(1)) if ngrams else None

    @property
    def has_cls(self) -> bool:
        """True if [CLS] is put before each text."""
        return self.framed or (self.pooling is not None and self.pooling.kind == "cls")

    @property
    def framed(self) -> bool:
        """True if each text is put between [CLS] and [SEP]."""
        return isinstance(self.body, TokenEncoder) and self.body.framed

    def forward(self, tokens: Tensor, mask: Tensor, ngrams: Tensor | None = None) -> Tensor:
        """Logits `(batch, num_outputs)` of texts `(batch, length)` or `(batch, sentences, words)`.

        A model with n-grams needs `ngrams`, the logits of those of the texts, `(batch, num_outputs)`.
        """
        if self.framed:
            tokens, mask = framed(tokens, mask, self.special)
        elif self.has_cls:
            tokens, mask = pad(tokens, (1, 0), value=self.special.start), pad(mask, (1, 0), value=True)
        pooled = self.body(tokens, mask)
        if self.pooling is not None:
            pooled = self.pooling(self.body, pooled, mask)
        logits: Tensor = self.output(pooled)
        if self.ngram_scale is None:
            return logits
        assert ngrams is not None, "a model with n-grams needs those of the texts"
        return logits + self.ngram_scale * ngrams


def with_pooling(settled: dict[str, Any], options: PooledOptions, fields: dict[str, Any], work: Work) -> dict[str, Any]:
    """The settled fields with the pooling resolved; without those of the pooling for a body that gives one vector.

    Raises:
        ConfigError: The body does not support this pooling.
    """
    name, body = work.config.model.name, work.body_class
    if issubclass(body, TextEncoder):
        if meant := [field for field in _POOLING_FIELDS if field in fields]:
            raise ConfigError(f"model {name} produces one vector per text, so model.{meant[0]} does not apply")
        return {field: value for field, value in settled.items() if field not in _POOLING_FIELDS}
    assert issubclass(body, TokenEncoder)
    return {**settled, "pooling": _pooling(options.pooling, body, work)}


def _pooling(pooling: str, body: type[TokenEncoder], work: Work) -> str:
    """The pooling with "auto" resolved: for framed bodies mean, or last if their [CLS] was trained for this."""
    name = work.config.model.name
    if pooling == "cls" and body.framed:
        raise ConfigError(
            f"model.pooling is cls, but model {name} already reads a start token before each text; use last "
            "(its state after the pooling layer) or first (its state)"
        )
    if pooling == "cls" and not body.sees_all:
        raise ConfigError(
            f"model.pooling is cls, but in model {name} a token before the text cannot read the text; use model "
            "encoder, or another pooling"
        )
    if pooling != "auto" or not body.framed:
        return pooling_of(pooling)
    parent_fields = {} if work.parent is None else work.parent.task.config.model.settings
    return "last" if parent_fields.get("pooling") == "last" else "mean"


@dataclass(frozen=True)
class TextNumber(Number):
    """A number for each text, from the pooled states."""

    options: ClassVar = PooledOptions

    targets: str = "texts"

    def settled(self, options: PooledOptions, fields: dict[str, Any], work: Work) -> dict[str, Any]:
        return with_pooling(dict(options.model_dump()), options, fields, work)

    def build(self, body: Any, options: PooledOptions, facts: Facts) -> Classifier:
        assert facts.special is not None
        return Classifier(body, options, len(facts.rows["labels"]), facts.special)


@dataclass(frozen=True)
class TextLabels(Labels):
    """Labels of texts."""

    options: ClassVar = ClassificationHead

    targets: str = "texts"
    longest: Any = lambda work: 0
    """Length of the longest n-grams where the user gives none, for a run."""

    def settled(self, options: ClassificationHead, fields: dict[str, Any], work: Work) -> dict[str, Any]:
        kind = options.head
        if kind == "auto":
            kind = "sigmoid" if self.several else "softmax"
        if kind == "softmax" and self.several:
            raise ConfigError("model.head softmax chooses one label, but data.several_labels is true; use sigmoid")
        check_sigmoid(self, kind, ", or data.several_labels=true")
        longest = options.ngrams if "ngrams" in fields else self.longest(work)
        settled = {**options.model_dump(), "head": kind, "ngrams": longest}
        if longest and options.ngram_characters is None:
            size = characters_of(work.splits.examples["train"])
            settled["ngram_characters"] = usual_characters(size, effort_of(work))
        return with_pooling(settled, options, fields, work)

    @property
    def follows(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("head",) if self.sigmoid == self.several else ()

    def build(self, body: Any, options: ClassificationHead, facts: Facts) -> Classifier:
        assert facts.special is not None
        return Classifier(body, options, len(facts.rows["labels"]), facts.special, options.ngrams > 0)

    def linear_targets(self, truths: Truths) -> Targets:
        """The targets of the linear part for the training texts."""
        true: Any = self.true(truths, range(len(truths.numbers))).numpy()
        if not self.several:
            true = np.eye(len(self.labels), dtype=bool)[true]
        true, weights = true > 0.5, None
        if self.weighting != "none":
            of_label = np.array(self.class_weights(truths), np.float32)
            of_text = of_label[true.argmax(1)][:, np.newaxis]
            weights = np.where(true, of_label, 1) if self.several else np.broadcast_to(of_text, true.shape)
        shared = self.sigmoid and not self.several  # one output for two classes
        return Targets(true[:, shared:], weights, exclusive=not self.sigmoid)

    def scoring_memory(self, work: Work, model: Any, activations: float) -> int:
        """Bytes of a scoring batch, or of fitting the baseline afterwards if that is more, and of scikit-learn."""
        batch, fitting = round(work.at_once * activations), characters_of(work.splits.examples["train"])
        return max(batch, fitting_memory(fitting)) + library_memory(["test"])

    def outcomes(
        self, predictions: Sequence[Any], examples: Sequence[Any], input: Input, others: Any = None
    ) -> Outcomes:
        outcomes = super().outcomes(predictions, examples, input, others)
        outcomes.details["cut"] = sum(prediction.unread > 0 for prediction in predictions)
        return outcomes

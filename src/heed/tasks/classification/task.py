"""Classification: texts with one label or several, an encoder with pooling and head, the loss over the labels."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import pad

from heed.attention import AttentionPooling
from heed.data.batch import TextBatch, TokenText, collate_texts, fit, frame_size, framed, label_tensor
from heed.data.corpus import Lengths, Rows, StoredExamples, joined, parts_of
from heed.data.embedded.texts import draw_documents
from heed.data.examples import Text, split_sentences, without_breaks
from heed.data.findings import Findings
from heed.data.kinds.inputs import Input, pair_of
from heed.data.kinds.texts import text_reader
from heed.data.readers import check_order, hold
from heed.data.splits import Splits, open_splits
from heed.data.tokens.special import Special, lack_spaces
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.layers import max_pooling, mean_pooling
from heed.models.base import TextEncoder, TokenEncoder, state_at
from heed.tasks import suggest_task
from heed.tasks.base.labels import LabelHead, check_weights, count_lines, library_memory, spelling_lines
from heed.tasks.base.report import counted_are
from heed.tasks.base.text_task import LabelledTask, TextTask, drawn
from heed.tasks.base.transfer import Started
from heed.tasks.classification import ngrams
from heed.tasks.classification.baselines import MOST_FITTED, fitting_memory
from heed.tasks.classification.config import ClassificationConfig, ClassificationHead, Texts
from heed.tasks.classification.ngrams import Ngrams, Targets
from heed.training.processes import current

_POOLING_FIELDS = ("pooling", "pooling_score", "d_pooling", "pooling_hops")
LONGEST = 2
"""Length of the longest n-grams by default: single words and pairs."""
_RATE = 0.001
"""Learning rate of the body with n-grams: at 0.003 it has memorised small sets after two passes."""
_OFTEN = 400
"""Largest number of batches in a pass for validations twice a pass: a twelfth of the budget would be several passes."""


def pooling_of(kind: str) -> str:
    """The pooling to use; "auto" stands for attention."""
    return "attention" if kind == "auto" else kind


class Pooling(nn.Module):
    """One vector per text from the states of a token encoder."""

    def __init__(self, body: TokenEncoder, head: ClassificationHead) -> None:
        super().__init__()
        self.kind = pooling_of(head.pooling)
        self.d_output = body.d_output
        if self.kind != "last":
            body.without_last()
        if self.kind == "attention":
            hops = head.pooling_hops if head.pooling_score == "self_attentive" else 1
            self.attention = AttentionPooling(
                body.d_output, score=head.pooling_score, d_attention=head.d_pooling, num_queries=hops
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

    With n-grams: `logits = V pooled + b + s n`, where n are the logits of n-grams, which come with the texts, and s is
    learned and initialised to 1.

    With pooling "cls", the start token, which never occurs in a text, is put before the text as [CLS]. Texts are
    framed for a body that reads framed texts.
    """

    def __init__(
        self, body: TokenEncoder | TextEncoder, head: ClassificationHead, num_outputs: int, special: Special
    ) -> None:
        super().__init__()
        self.special = special
        self.body = body
        self.pooling = Pooling(body, head) if isinstance(body, TokenEncoder) else None
        width = body.d_output if self.pooling is None else self.pooling.d_output
        self.output = nn.Linear(width, num_outputs, bias=head.output_bias)
        self.ngram_scale = nn.Parameter(torch.ones(1)) if head.ngrams else None

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


Cut = tuple[list[list[int]], int]
"""A text as sentences of tokens, and the number of its tokens that are not read."""


def _pair(first: list[list[int]], second: list[list[int]], most: int, double: bool, end: int) -> Cut:
    """Two texts with one end token between them, or two if `double`; the longer text is cut first."""
    between = [end] * (1 + double)
    lengths = [sum(map(len, one)) for one in (first, second)]
    fitted = fit(range(lengths[0]), range(lengths[1]), most + frame_size(False), double)
    kept = [len(one or ()) for one in fitted]
    whole, other = (_first_tokens(one, count)[0] for one, count in zip((first, second), kept, strict=True))
    return [*whole, between, *other], sum(lengths) - sum(kept)


def _read(text: Text, whole: bool) -> list[str]:
    """The text, or both texts of a pair without blanks around them; `whole`: as they are."""
    return [part if whole or text.second is None else part.strip() for part in text.texts]


def split_texts(text: Text, data: Texts) -> list[str]:
    """The text, or both texts of a pair, without line breaks; those of an imported run as they are."""
    whole = getattr(data, "imported", None) is not None
    return [part if whole else without_breaks(part) for part in _read(text, whole)]


def _first_tokens(sentences: list[list[int]], most: int) -> tuple[list[list[int]], int]:
    """The sentences up to a number of tokens, and the number of tokens cut off."""
    kept: list[list[int]] = []
    left = most
    for sentence in sentences:
        if left > 0:
            kept.append(sentence[:left])
        left -= len(sentence)
    return kept, max(0, -left)


def is_default(config: ClassificationConfig) -> bool:
    """True if neither a model nor a number of updates is given; never for embedded data, meant for plain models."""
    section = config.model
    named = "name" in section.model_fields_set or section.from_ is not None
    return not named and config.training.steps is None and not config.data.is_embedded


def with_ngrams(encoded: Sequence[TokenText], logits: Tensor) -> list[TokenText]:
    """Texts with the logits of their n-grams, `(texts, num_outputs)`."""
    return [replace(text, ngrams=row) for text, row in zip(encoded, logits.numpy(), strict=True)]


class Classification(LabelledTask[ClassificationConfig, Text, TokenText, TextBatch], LabelHead):
    """The classification task: texts, model, loss and scores."""

    head_class = ClassificationHead
    restored: Ngrams | None = None
    """The n-grams of a run that was opened."""

    # Data -----------------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, config: ClassificationConfig, given: Mapping[str, Sequence[Text]] | None = None) -> Self:
        task = super().prepare(config, given)
        for split in task.split_names:
            task.encoded(split)
        if task.several_labels:
            marks = task.config.data.columns.label
            never = [one for one in marks if one not in task.labels] if isinstance(marks, list) else []
            task.splits.remarks += [f"no training {task.unit} has the label '{one}': left out" for one in never]
            task.splits.remarks += spelling_lines(task.label_counts("train"))
        else:
            fix = " (data.class_weights=balanced weighs labels equally)" * (task.config.data.class_weights == "none")
            task.splits.remarks += count_lines(task.label_counts("train"), task.unit, fix)
        return task

    @classmethod
    def restore(cls, config: ClassificationConfig, folder: Path) -> Self:
        task = super().restore(config, folder)
        if (config.model.model_extra or {}).get("ngrams"):
            task.restored = Ngrams.restore(folder, len(task.label_rows()))
        return task

    def save(self, folder: Path) -> None:
        super().save(folder)
        if self.ngrams is not None:
            self.ngrams.save(folder)

    @classmethod
    def open_splits(
        cls, config: ClassificationConfig, given: Mapping[str, Sequence[Text]] | None = None
    ) -> Splits[Text]:
        data = config.data
        if data.is_embedded:
            what = data.sentences, data.seed
            return drawn(data, lambda name, size: [d.text for d in draw_documents(name, size, *what)], "texts")
        return open_splits(data, text_reader(data, advice=suggest_task), given)

    @classmethod
    def hold(cls, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Text]:
        columns = config.data.columns
        second = () if columns.second is None else ("second",)
        held = hold(data, split, text_reader(config.data, advice=suggest_task), ["text", *second, "label"], findings)
        check_order([one.source for one in held], [",".join(one.labels) for one in held], split)
        return held

    @classmethod
    def usual_tokens(cls, texts: Sequence[str]) -> str:
        return "unigram" if lack_spaces(texts) else "word"

    @classmethod
    def texts_of(cls, example: Text) -> Sequence[str]:
        return (example.source,)

    @classmethod
    def labels_of(cls, example: Text) -> Iterable[str]:
        return example.labels

    @classmethod
    def train_tokenizer(cls, config: ClassificationConfig, examples: Sequence[Text]) -> TextTokenizer:
        texts = [part for example in examples for part in split_texts(example, config.data)]
        return TextTokenizer.train_to_read(texts, config.tokenizer)

    def encode(self, examples: Sequence[Text]) -> list[TokenText]:
        encoded = super().encode(examples)
        if self.ngrams is None:
            return encoded
        return with_ngrams(encoded, self.ngrams.logits(map(self.words_of, examples)))

    def made_of(self, rows: Sequence[Any]) -> list[TokenText]:
        cut, num_texts, made = self._cut(), 2 + 2 * self.pairs, []
        for row in rows:
            sentences, gone = cut(row[:num_texts])
            made.append(TokenText(sentences, row[num_texts], gone))
        return made

    # N-grams --------------------------------------------------------------------------------------------------

    @property
    def ngrams(self) -> Ngrams | None:
        """The linear part beside the network; None without n-grams, and in a trial, which needs no logits of theirs."""
        if self.is_trial or not (self.config.model.model_extra or {}).get("ngrams"):
            return None
        return self.restored or self.learned[0]

    @cached_property
    def learned(self) -> tuple[Ngrams, Tensor]:
        """The n-grams, and those logits of them beside which each training text is learned; fitted for a new run."""
        train, targets = self.splits.examples["train"], self._targets()
        if self.restored is not None:
            return self.restored, self.restored.beside(train, self.words_of, targets)
        _, head = self.model_and_head()
        lengths = head.ngrams, head.ngram_characters
        return ngrams.learn(train, self.words_of, targets, lengths, self._work_of_ngrams)

    @property
    def _work_of_ngrams(self) -> float:
        return ngrams.work_of(self.characters, len(self.labels), self.config.training.minutes or 5.0)

    def _targets(self) -> Targets:
        """What n-grams of the training texts should say."""
        true, weights = self.indicators(self.encoded("train")), None
        if self.class_weights is not None:
            of_label = np.array(self.class_weights, np.float32)
            of_text = of_label[true.argmax(1)][:, np.newaxis]
            weights = np.where(true, of_label, 1) if self.several_labels else np.broadcast_to(of_text, true.shape)
        one = self.sigmoid and not self.several_labels  # output for two classes
        return Targets(true[:, one:], weights, exclusive=not self.sigmoid)

    @cached_property
    def characters(self) -> int:
        """Number of characters of the training texts."""
        train = self.splits.examples["train"]
        if isinstance(train, StoredExamples):
            return train.num_bytes
        return sum(len(text) for example in train for text in self.texts_of(example))

    @cached_property
    def _valid_ngrams(self) -> Tensor:
        assert self.ngrams is not None
        return self.ngrams.logits(map(self.words_of, self.splits.examples["valid"]))

    def words_of(self, text: Text) -> list[str]:
        """The words of a text for its n-grams: in lower case, those of a pair with "[SEP]" between its texts."""
        texts = [ngrams.words_of(self.tokenizer.normalize(one)) for one in split_texts(text, self.config.data)]
        first, *others = (words[: self.config.data.max_length] for words in texts)
        return [*first, *(word for words in others for word in ("[SEP]", *words))]

    def rows_of(self, examples: Sequence[Text]) -> list[Rows]:
        """The tokens of each text, or of both of a pair, the number of them in each part of these, and the labels."""
        cut, whole = self.parts, self.is_imported
        parts = [[cut(side) for side in _read(example, whole)] for example in examples]
        tokens = iter(self.tokenizer.encode_all([part for each in parts for of_side in each for _, part in of_side]))
        rows = ([joined(list(islice(tokens, len(of_side)))) for of_side in each] for each in parts)
        labels = ([self.number_of(label, e.origin) for label in e.labels] for e in examples)
        return [[*chain(*zip(*each, strict=True)), own] for each, own in zip(rows, labels, strict=True)]

    @property
    def row_kinds(self) -> Sequence[str]:
        return ("<i4",) * (3 + 2 * self.pairs)

    @property
    def rows_by(self) -> dict[str, Any]:
        data = self.config.data.model_dump(include={"sentence_separator"})
        return {**super().rows_by, **data, "read": (self.hierarchical, self.pairs, self.is_imported)}

    def _cut(self) -> Callable[[Rows], Cut]:
        """Makes a text sentences of tokens (one for a model without sentences), none empty, cut at `most_tokens`.

        The texts of a pair are separated by end tokens.
        """
        most, hierarchical, num_texts = self.most_tokens, self.hierarchical, 1 + self.pairs
        longest = self.config.data.max_sentence if hierarchical else sys.maxsize
        separator = self.double_separator, self.tokenizer.special.end

        def cut(rows: Rows) -> Cut:
            first, *second = (
                [part[i : i + longest] for part in parts_of(tokens, sizes) for i in range(0, len(part), longest)]
                for tokens, sizes in zip(rows[:num_texts], rows[num_texts:], strict=True)
            )
            if not second:
                return _first_tokens(first, most)
            sentences, gone = _pair(first, second[0], most, *separator)
            return (sentences if hierarchical else [list(chain(*sentences))]), gone

        return cut

    @property
    def _between(self) -> int:
        """The end tokens between the texts of a pair."""
        return self.pairs * (1 + self.double_separator)

    def _whole(self, lengths: Lengths) -> NDArray[np.int64]:
        """The tokens of texts before they are cut, with those between the texts of a pair."""
        whole: NDArray[np.int64] = lengths[:, : 1 + self.pairs].sum(1, dtype=np.int64) + self._between
        return whole

    def counted(self, lengths: Lengths) -> NDArray[np.int64]:
        return np.minimum(self._whole(lengths), self.most_tokens)

    def kept(self, lengths: Lengths) -> Lengths:
        if not self.pairs:
            return np.minimum(lengths[:, :1], self.most_tokens)
        (first, second), room = lengths[:, :2].T, self.most_tokens - self._between
        first = np.minimum(first, np.maximum(room - second, room - room // 2))  # as `_pair`
        return np.stack([first, np.minimum(second, room - first)], axis=1)

    @property
    def parts(self) -> Callable[[str], list[tuple[int, str]]]:
        """Cuts a text into the parts that are tokenized one by one, each with its place: sentences, or all of it."""
        if self.hierarchical:
            separator = self.config.data.sentence_separator
            return lambda text: [(a, text[a:b]) for a, b in split_sentences(text, separator)]
        whole = self.is_imported
        return lambda text: [(0, text if whole else without_breaks(text))]

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

    def example_of(self, text: str | Sequence[str]) -> Text:
        """An input as an example without labels, and without blanks around its texts."""
        if isinstance(text, str) and not self.pairs:
            return Text(self.stripped(text))
        first, second = map(self.stripped, pair_of(text, "the input"))
        return Text(first, second=second)

    def encode_texts(self, texts: Sequence[Input]) -> list[TokenText]:
        """Texts, or pairs of texts, without labels to tokens."""
        return self.encode([self.example_of(text) for text in texts])

    def tokens_of(self, encoded: TokenText) -> list[int]:
        return [token for sentence in encoded.sentences for token in sentence]

    def collate(self, indices: list[int], epoch: int = 0) -> TextBatch:
        """A training batch, with the logits of n-grams that were fitted without its texts."""
        batch = super().collate(indices, epoch)
        if self.is_trial:  # fitting takes as long as the whole trial
            return replace(batch, ngrams=torch.zeros(len(indices), len(self.label_rows())))
        return batch if self.ngrams is None else replace(batch, ngrams=self.learned[1][indices])

    def collate_encoded(self, encoded: Sequence[TokenText], indices: list[int]) -> TextBatch:
        num_labels = len(self.labels) if self.several_labels else None
        return collate_texts(encoded, indices, hierarchical=self.hierarchical, num_labels=num_labels)

    def label_tensor(self, encoded: Sequence[TokenText]) -> Tensor:
        """The labels of texts, as in a batch."""
        return label_tensor(encoded, len(self.labels) if self.several_labels else None)

    def encoded(self, split: str) -> Sequence[TokenText]:
        if split not in self._encoded:
            corpus, examples = self.corpus(split), self.splits.examples[split]
            self._encoded[split] = corpus if isinstance(examples, StoredExamples) else list(corpus)
            if cut := int(np.sum(self._whole(corpus.lengths) > self.most_tokens)):
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
        longest = head.ngrams
        if "ngrams" not in given and is_default(self.config):
            longest = LONGEST if self.characters <= MOST_FITTED else longest
        fields = {**head.model_dump(), "head": kind, "ngrams": longest}
        if longest and head.ngram_characters is None:
            fields["ngram_characters"] = ngrams.usual_characters(self.characters, self._work_of_ngrams)
        name, body = self.config.model.name, self.body_class
        if issubclass(body, TextEncoder):
            if meant := [field for field in _POOLING_FIELDS if field in given]:
                raise ConfigError(f"model {name} produces one vector per text, so model.{meant[0]} does not apply")
            return {field: value for field, value in fields.items() if field not in _POOLING_FIELDS}
        assert issubclass(body, TokenEncoder)
        return {**fields, "pooling": self._pooling(head.pooling, body)}

    def _pooling(self, pooling: str, body: type[TokenEncoder]) -> str:
        """The pooling with "auto" resolved: for framed bodies mean, or last if their [CLS] was trained for this.

        Raises:
            ConfigError: The body does not support this pooling.
        """
        name = self.config.model.name
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
        known = {} if self.parent is None else self.parent.task.config.model.model_extra or {}
        return "last" if known.get("pooling") == "last" else "mean"

    def settled(self) -> ClassificationConfig:
        """The settled configuration; with n-grams by default, its `training` section is adapted to them."""
        settled = super().settled()
        if not is_default(self.config) or not (settled.model.model_extra or {})["ngrams"]:
            return settled
        training = settled.training
        # Not `encoded`: before the configuration is settled, texts have no n-grams.
        batches = int(self.counted(self.corpus("train").lengths).sum()) / training.batch_tokens
        fields: dict[str, Any] = {"learning_rate": _RATE}
        if batches <= _OFTEN:
            fields["validate_every"] = max(1, math.ceil(batches / 2))
        update = {name: value for name, value in fields.items() if name not in training.model_fields_set}
        return settled.model_copy(update={"training": training.model_copy(update=update)})

    def follows_from_data(self) -> tuple[str, ...]:
        usual = self.sigmoid == self.several_labels
        return (*super().follows_from_data(), *(["head"] if usual else []))

    def build_model(self) -> Classifier:
        config, head = self.model_and_head()
        body = self.build_body(config)
        assert isinstance(body, TokenEncoder | TextEncoder)
        return Classifier(body, head, len(self.row_names("labels")), self.tokenizer.special)

    def axes(self) -> dict[str, list[str]]:
        return {**super().axes(), "labels": self.label_rows()}

    # What the training loop needs -----------------------------------------------------------------------------

    def scoring_memory(self, model: Any, activations: float) -> int:
        """Bytes of a scoring batch, or of fitting the baseline afterwards if that is more, and of scikit-learn."""
        batch = TextTask.scoring_memory(self, model, activations)
        return max(batch, fitting_memory(self.characters)) + library_memory(["test"])

    def loss(self, model: Classifier, batch: TextBatch, label_smoothing: float) -> Tensor:
        logits = model(batch.tokens, batch.mask, batch.ngrams)
        return self.label_loss(logits, batch.labels, label_smoothing)

    def start(self, model: Classifier) -> dict[str, Started]:
        started = super().start(model)
        return started if self.ngrams is None else {**started, "ngrams": self.ngrams}

    def check_labels(self) -> None:
        super().check_labels()
        check_weights(self.config.data.class_weights, self.labels, self.unit)

    def validate(self, model: Classifier) -> dict[str, float]:
        encoded = self.validated_part(self.encoded("valid"))
        if self.ngrams is not None:
            encoded = with_ngrams(encoded, self._valid_ngrams[self.validated_part(range(len(self._valid_ngrams)))])
        logits = torch.stack(current().map(lambda part: list(self.logits(model, part)), encoded))
        return self.label_scores(logits, self.label_tensor(encoded))

    # Using a model --------------------------------------------------------------------------------------------

    def forward(self, model: Classifier, batch: TextBatch) -> Tensor:
        return model(batch.tokens, batch.mask, batch.ngrams)  # type: ignore[no-any-return]

    def logits(self, model: Classifier, encoded: Sequence[TokenText]) -> Tensor:
        """Outputs of the last layer for each text, `(texts, num_outputs)`, on the CPU."""
        return self.forwarded(model, encoded) if encoded else torch.zeros(0, model.output.out_features)

    def indicators(self, encoded: Sequence[TokenText]) -> np.ndarray[Any, Any]:
        """The true labels, `(texts, num_labels)` of bool."""
        return label_tensor(encoded, len(self.labels)).numpy() > 0.5

    def classify(self, model: Classifier, encoded: Sequence[TokenText]) -> Tensor:
        """The probability of each label of each text, `(texts, num_labels)`."""
        return self.probabilities(self.logits(model, encoded))

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
from heed.data.embedded.planted import draw_documents
from heed.data.examples import Text
from heed.data.read.findings import Findings
from heed.data.read.texts import text_reader
from heed.data.store.splits import Splits, open_splits
from heed.data.tokens.token_cache import learn_cached
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.evaluation.labels import f1_measures
from heed.evaluation.measures import values_of
from heed.models.base import TextEncoder, TokenEncoder
from heed.tasks.base.class_weights import check_weights, class_weights
from heed.tasks.base.label_loss import label_loss
from heed.tasks.base.labelled import LabelledTask, drawn
from heed.tasks.base.labels import LabelPrediction, count_lines, most_probable, one_hot
from heed.tasks.base.report import counted_are
from heed.tasks.base.started import Started
from heed.tasks.classification import baselines, defaults, ngrams
from heed.tasks.classification.config import ClassificationConfig, ClassificationHead, PlantedData
from heed.tasks.classification.model import Classifier
from heed.tasks.classification.texts import cut_texts, hold_texts, split_texts, text_format
from heed.threads import threads_for
from heed.training.processes import current


class Classification(LabelledTask[ClassificationConfig, Text, TokenText, TextBatch]):
    """The classification task: texts, model, loss and scores."""

    head_class = ClassificationHead

    # Data -----------------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, config: ClassificationConfig, given: Mapping[str, Sequence[Text]] | None = None) -> Self:
        """As for every labelled task; labels missing from the training set are refused now, in the test set too."""
        task = super().prepare(config, given)
        for split in task.split_names:
            task.encoded(split)
        if not task.config.data.several_labels:
            fix = " (data.class_weights=balanced weighs labels equally)" * (task.config.data.class_weights == "none")
            task.splits.remarks += count_lines(task.label_counts("train"), task.unit, fix)
        return task

    @classmethod
    def open_splits(
        cls, config: ClassificationConfig, given: Mapping[str, Sequence[Text]] | None = None
    ) -> Splits[Text]:
        """Read or generate the texts, or take the `given` ones."""
        data = config.data
        if isinstance(data, PlantedData):
            what = data.sentences, data.seed
            return drawn(data, lambda name, size: [d.text for d in draw_documents(name, size, *what)], "texts")
        return open_splits(data, text_reader(text_format(data)), given)

    @classmethod
    def hold(cls, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Text]:
        """Texts with labels: (text, label) tuples, (texts, labels), or columns `text` and `label`."""
        return hold_texts(data, split, config.data, findings)

    @classmethod
    def texts_of(cls, example: Text) -> Sequence[str]:
        """The text."""
        return (example.text,)

    @classmethod
    def labels_of(cls, example: Text) -> Iterable[str]:
        """Its labels."""
        return example.labels

    @classmethod
    def train_tokenizer(cls, config: ClassificationConfig, examples: Sequence[Text]) -> TextTokenizer:
        """A tokenizer of whole texts."""
        texts = [part for example in examples for part in split_texts(example.text, config.data)]
        settings = {"to": "read", **config.tokenizer.model_dump(mode="json")}
        return learn_cached(texts, settings, lambda: TextTokenizer.train_to_read(texts, config.tokenizer))

    def encode(self, examples: Sequence[Text]) -> list[TokenText]:
        """Convert texts to tokens (sentence by sentence if the model reads sentences) and labels to numbers."""
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
    def pairs(self) -> bool:
        """True if an example is a pair of texts."""
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
        """The tokens of all sentences."""
        return [token for sentence in encoded.sentences for token in sentence]

    def collate_encoded(self, encoded: Sequence[TokenText], indices: list[int]) -> TextBatch:
        """Pad the chosen texts into one batch."""
        num_labels = len(self.labels) if self.config.data.several_labels else None
        return collate_texts(encoded, indices, hierarchical=self.hierarchical, num_labels=num_labels)

    def encoded(self, split: str) -> list[TokenText]:
        """The texts of a split as tokens; the number of texts that were cut is added to the remarks."""
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
        """Remarks on what was read, kept, left out and cut."""
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
        """Accuracy, or micro F1 for several labels."""
        return "micro_f1" if self.config.data.several_labels else "accuracy"

    def head_fields(self, head: ClassificationHead, given: dict[str, Any]) -> dict[str, Any]:
        """The head's fields, with the kind of outputs and the n-grams settled."""
        several = self.config.data.several_labels
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
        fields = {**head.model_dump(), "head": kind, "ngrams": defaults.longest_ngram(self, head, given)}
        return defaults.pooling_fields(self, head, fields, given)

    def settled(self) -> ClassificationConfig:
        """As for every task; with the n-grams used when no model is named, training is adapted to them."""
        return defaults.with_training(self, super().settled())

    def follows_from_data(self) -> tuple[str, ...]:
        """The kind of outputs, if it is the default for these labels."""
        usual = self.sigmoid == self.config.data.several_labels
        return (*super().follows_from_data(), *(["head"] if usual else []))

    @property
    def sigmoid(self) -> bool:
        """True if each output is a separate decision."""
        return bool((self.config.model.model_extra or {})["head"] == "sigmoid")

    def build_model(self) -> Classifier:
        """A new model, its weights drawn from torch's random state."""
        config, head = self.model_and_head()
        body = self.build_body(config)
        assert isinstance(body, TokenEncoder | TextEncoder)
        return Classifier(body, head, len(self.axes()["labels"]))

    def axes(self) -> dict[str, list[str]]:
        """As for every labelled task; two classes with one output share one row."""
        one = self.sigmoid and not self.config.data.several_labels
        return {**super().axes(), **({"labels": [" against ".join(self.labels)]} if one else {})}

    # What the training loop needs -----------------------------------------------------------------------------

    scoring_memory = baselines.scoring_memory

    def loss(self, model: Classifier, batch: TextBatch, label_smoothing: float) -> Tensor:
        """Sum over the texts of the cross-entropy in nats (of all labels together where there are several)."""
        beside = None if model.ngrams is None else self.strength_and_held_out[1][batch.indices].to(batch.tokens.device)
        logits = model(batch.tokens, batch.mask, beside)
        given = self.class_weights
        weights = None if given is None else torch.tensor(given, device=logits.device)
        return label_loss(logits, batch.labels, self.sigmoid, label_smoothing, weights)

    @cached_property
    def strength_and_held_out(self) -> tuple[float, Tensor]:
        """C of the n-gram regressions; logits from n-grams fitted without the text, `(training texts, num_outputs)`."""
        return ngrams.strength_and_held_out(self)

    def start(self, model: Classifier) -> dict[str, Started]:
        """As for every labelled task; also fits the n-grams to the training texts."""
        started = super().start(model)
        return started if model.ngrams is None else {**started, "ngrams": ngrams.fit(self, model)}

    @cached_property
    def class_weights(self) -> list[float] | None:
        """The weight of each class, or None if all count equally."""
        data, counts, total = self.config.data, self.label_counts("train"), len(self.splits.examples["train"])
        return class_weights(data.class_weights, self.labels, counts, total, data.several_labels)

    def check_labels(self) -> None:
        """As for every labelled task; class weights must also name existing classes."""
        super().check_labels()
        check_weights(self.config.data.class_weights, self.labels, self.unit)

    def validate(self, model: Classifier) -> dict[str, float]:
        """Loss in nats per text (unweighted), accuracy, macro and micro F1 on the validation set."""
        encoded = self.encoded("valid")
        logits = torch.stack(current().map(lambda part: list(self.logits(model, part)), encoded))
        labels = self.collate_encoded(encoded, list(range(len(encoded)))).labels
        true, predicted = self.indicators(encoded), self.decide(self.probabilities(logits))
        loss = float(label_loss(logits, labels, self.sigmoid)) / len(encoded)
        return {"loss": loss, **values_of(f1_measures(true, predicted))}

    # Using a model --------------------------------------------------------------------------------------------

    @torch.no_grad()
    def logits(self, model: Classifier, encoded: Sequence[TokenText]) -> Tensor:
        """Outputs of the last layer for each text, `(texts, num_outputs)`, on the CPU."""
        device, result = next(model.eval().parameters()).device, torch.zeros(len(encoded), model.output.out_features)
        for indices in self.scoring_batches(encoded):
            batch = self.collate_encoded(encoded, indices).to(device)
            with threads_for(model, batch.tokens.numel()):
                result[indices] = model(batch.tokens, batch.mask).float().cpu()
        return result

    def probabilities(self, logits: Tensor) -> Tensor:
        """Probability of each label, `(texts, num_labels)`."""
        if not self.sigmoid:
            return torch.softmax(logits, dim=-1)
        second = torch.sigmoid(logits)
        return second if self.config.data.several_labels else torch.cat([1 - second, second], dim=-1)

    def decide(self, probabilities: Tensor) -> np.ndarray[Any, Any]:
        """The labels chosen, `(texts, num_labels)` of bool: the most probable one, or all of at least 1/2."""
        if self.config.data.several_labels:
            return (probabilities >= 0.5).numpy()
        return one_hot(probabilities.argmax(-1).numpy(), len(self.labels))

    def indicators(self, encoded: Sequence[TokenText]) -> np.ndarray[Any, Any]:
        """The true labels, `(texts, num_labels)` of bool."""
        true = np.zeros((len(encoded), len(self.labels)), dtype=bool)
        for row, text in enumerate(encoded):
            true[row, text.labels] = True
        return true

    def classify(self, model: Classifier, encoded: Sequence[TokenText]) -> Tensor:
        """The probability of each label of each text, `(texts, num_labels)`."""
        return self.probabilities(self.logits(model, encoded))

    def prediction(self, probabilities: Tensor) -> LabelPrediction:
        """The prediction for one text from its probabilities `(num_labels,)`."""
        if not self.config.data.several_labels:
            return most_probable(self.labels, probabilities.tolist())
        values = dict(zip(self.labels, probabilities.tolist(), strict=True))
        ranked = sorted(values, key=lambda label: -values[label])
        chosen = tuple(label for label in ranked if values[label] >= 0.5)
        return LabelPrediction(",".join(chosen), chosen, math.prod(max(p, 1 - p) for p in values.values()), values)

"""Texts, and pairs of texts: whole, cut to a length, or sentence by sentence, as the model reads them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray

from heed.data.batch import fit, pad_nested, pad_rows
from heed.data.corpus import Corpus, Lengths, characters_of, joined, parts_of
from heed.data.corpus import Rows as Numbers
from heed.data.embedded.texts import draw_documents
from heed.data.examples import Text, is_blank, split_sentences, take, without_breaks
from heed.data.kinds.inputs import Input as Given
from heed.data.kinds.inputs import is_pair, pair_of, pairs_of
from heed.data.kinds.kind import Kind
from heed.data.kinds.numbers import labels_are_classes
from heed.data.kinds.texts import text_reader
from heed.data.readers import check_order
from heed.data.splits import open_splits
from heed.data.tables import Field
from heed.data.tokens.special import lack_spaces
from heed.data.tokens.tokenizer import TextTokenizer
from heed.models.base import TextEncoder
from heed.tasks import suggest_task
from heed.tasks.base.looking import InputSpans
from heed.tasks.base.report import counted_are
from heed.tasks.base.transfer import Started
from heed.tasks.contracts import Batch, Draw, Head, Pass
from heed.tasks.inputs.ngrams import Ngrams, learn, words_of, work_of
from heed.tasks.inputs.tokens import Tokens
from heed.tasks.work import Work

TEXTS = Kind(
    reader=lambda data, labels: text_reader(data, labels or (), advice=suggest_task),
    fields=lambda data: ["text", *(() if data.columns.second is None else ("second",)), "label"],
    sides=lambda data: ("text",) if data.columns.second is None else ("text", "second"),
    ask=lambda texts: Text(texts[0], second=texts[1] if len(texts) > 1 else None),
    draw=lambda data: lambda name, size: [d.text for d in draw_documents(name, size, data.sentences, data.seed)],
    open=lambda data, examples: open_splits(
        data, text_reader(data, advice=suggest_task), examples, has_classes=partial(labels_are_classes, data)
    ),
    check=lambda texts, split: check_order([e.source for e in texts], [",".join(e.labels) for e in texts], split),
)


BETWEEN = "\0"
"""A character that is in no text, between the texts of a pair whose spans are counted together."""


class Placed(NamedTuple):
    """Where a text is in a row of tokens."""

    tokens: range
    spans: Sequence[tuple[int, int]]
    """The characters of the text that each of its tokens covers."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A text as tokens, sentence by sentence (one for models without sentences, none empty)."""

    sentences: list[list[int]]
    cut: int = 0
    """Tokens left out at the end."""
    ngrams: Sequence[float] = ()
    """Logits of its n-grams, for a model with a linear part."""

    @property
    def length(self) -> int:
        """Number of tokens."""
        return sum(map(len, self.sentences))


@dataclass(frozen=True)
class Texts(Tokens):
    """Texts with at most `data.max_length` tokens; of a pair, both with an end token between them.

    A model with a linear part also reads the logits of the n-grams; in training, logits of a fit without the text.
    """

    fit: Callable[[], tuple[Ngrams, torch.Tensor | None]] | None = field(default=None, repr=False)
    """Fits the linear part once, on first use; returns it with the held-out logits of the training texts."""
    is_fitted: bool = False
    """True if the linear part was read from a run folder."""

    def restore(self, config: Any, folder: Path) -> Self:
        texts = super().restore(config, folder)
        if not _ngrams(config):
            return texts
        ngrams = Ngrams.restore(folder)
        return replace(texts, fit=cast(Any, partial(tuple, (ngrams, None))), is_fitted=True)

    def save(self, folder: Path) -> None:
        super().save(folder)
        if self.linear is not None:
            self.linear.save(folder)

    def fitted(self, work: Work) -> Self:
        texts = super().fitted(work)
        if self.is_fitted or not _ngrams(work.config):
            return texts
        # Fitting takes as long as a whole trial.
        return replace(texts, fit=None if work.is_trial else cache(partial(_fit_ngrams, work, texts)))

    def start(self, model: Any, work: Any) -> dict[str, Started]:
        started = super().start(model, work)
        return started if self.linear is None else {**started, "ngrams": self.linear}

    @property
    def linear(self) -> Ngrams | None:
        """The linear part beside the network, if there is one."""
        return None if self.fit is None else self.fit()[0]

    # Reading --------------------------------------------------------------------------------------------------

    @property
    def pairs(self) -> bool:  # type: ignore[override]
        """True if an input is a pair of texts."""
        return len(self.kind.sides(self.config.data)) > 1

    @property
    def hierarchical(self) -> bool:
        """True if the model reads sentence by sentence."""
        return self.body is not None and issubclass(self.body, TextEncoder) and self.body.hierarchical

    def texts_of(self, example: Text) -> Sequence[str]:
        return (example.source,)

    def decided(self, texts: Sequence[str], train: Sequence[Text], usual: str = "word") -> Any:
        return super().decided(texts, train, "unigram" if lack_spaces(texts) else usual)

    def train_tokenizer(self, examples: Sequence[Text]) -> TextTokenizer:
        texts = [part for example in examples for part in self.split(example)]
        return TextTokenizer.train_to_read(texts, self.config.tokenizer)

    def split(self, text: Text) -> list[str]:
        """The text, or both texts of a pair, without line breaks; those of an imported run as they are."""
        return [part if self.is_imported else without_breaks(part) for part in self._sides(text)]

    def _sides(self, text: Text) -> list[str]:
        """The text, or both texts of a pair without blanks around them; of an imported run as they are."""
        return [part if self.is_imported or len(text.texts) == 1 else part.strip() for part in text.texts]

    @property
    def parts(self) -> Callable[[str], list[tuple[int, str]]]:
        """Cuts a text into the parts that are tokenized one by one, each with its place: sentences, or all of it."""
        if self.hierarchical:
            separator = self.config.data.sentence_separator
            return lambda text: [(a, text[a:b]) for a, b in split_sentences(text, separator)]
        whole = self.is_imported
        return lambda text: [(0, text if whole else without_breaks(text))]

    # Examples as tokens ---------------------------------------------------------------------------------------

    @property
    def row_kinds(self) -> Sequence[str]:  # type: ignore[override]
        return ("<i4",) * (2 + 2 * self.pairs)

    def numbers_of(self, examples: Sequence[Text]) -> list[Numbers]:
        """The tokens of each text, or of both of a pair, and the number of them in each part of these."""
        cut = self.parts
        parts = [[cut(side) for side in self._sides(example)] for example in examples]
        tokens = iter(self.tokenizer.encode_all([part for each in parts for of_side in each for _, part in of_side]))
        rows = ([joined(list(islice(tokens, len(of_side)))) for of_side in each] for each in parts)
        return [[*chain(*zip(*each, strict=True))] for each in rows]

    @property
    def rows_by(self) -> dict[str, Any]:
        data = self.config.data.model_dump(include={"sentence_separator"})
        return {**super().rows_by, **data, "read": (self.hierarchical, self.pairs, self.is_imported)}

    def from_rows(self, rows: Sequence[Numbers]) -> list[Cut]:
        hierarchical, count = self.hierarchical, 1 + self.pairs
        longest = self.config.data.max_sentence if hierarchical else sys.maxsize
        lengths = np.array([[len(tokens) for tokens in row[:count]] for row in rows]).reshape(-1, count)
        encoded = []
        for row, sizes_before, limits in zip(rows, lengths.tolist(), self.lengths_read(lengths).tolist(), strict=True):
            texts = [
                _first_tokens(
                    (p[i : i + longest] for p in parts_of(ids, sizes) for i in range(0, len(p), longest)), limit
                )
                for ids, sizes, limit in zip(row[:count], row[count : 2 * count], limits, strict=True)
            ]
            sentences = texts[0]
            if self.pairs:
                sentences = [*texts[0], [self.tokenizer.special.end] * self._between, *texts[1]]
                sentences = sentences if hierarchical else [list(chain(*sentences))]
            encoded.append(Cut(sentences, sum(sizes_before) - sum(limits), *row[2 * count :]))
        return encoded

    def encode(self, examples: Sequence[Text], split: str = "", **further: Any) -> Corpus[Cut]:
        corpus: Corpus[Cut] = super().encode(examples, split, **further)
        if self.fit is None or split == "train" or self.linear is None:
            return corpus
        logits = self.linear.logits(map(self.words_of, examples)).numpy()
        return corpus.beside(Corpus.held([[[row] for row in logits]] if len(logits) else [], ["<f4"], self.from_rows))

    def words_of(self, text: Text) -> list[str]:
        """The words of a text for its n-grams: in lower case, those of a pair with "[SEP]" between its texts."""
        texts = [words_of(self.tokenizer.normalize(text_part)) for text_part in self.split(text)]
        first, *others = (words[: self.config.data.max_length] for words in texts)
        return [*first, *(word for words in others for word in ("[SEP]", *words))]

    def plan(self, work: Work, split: str, draw: Draw) -> Pass:
        plan = super().plan(work, split, draw)
        if not _ngrams(self.config):
            return plan
        if self.fit is None:  # the time of an update is measured
            held_out: torch.Tensor | None = torch.zeros(len(work.encoded(split)), len(work.head.rows()["labels"].names))
        else:
            linear, held_out = self.fit()
            if held_out is None:  # resumed
                targets, train = cast(Any, work.head).linear_targets(work.truths(split)), work.splits.examples[split]
                held_out = work.once("held out", lambda: linear.held_out_logits(train, self.words_of, targets))

        def collate(pieces: Sequence[int]) -> Batch:
            batch = plan.collate(pieces)
            assert held_out is not None
            return replace(batch, inputs=batch.inputs | {"ngrams": held_out[list(pieces)]})

        return replace(plan, collate=collate)

    def tokens_of(self, encoded: Cut) -> list[int]:
        return [token for sentence in encoded.sentences for token in sentence]

    @property
    def _between(self) -> int:
        """The number of end tokens between the texts of a pair."""
        return self.pairs * (1 + bool(self.config.model.settings.get("double_separator", False)))

    def whole(self, lengths: Lengths) -> NDArray[np.int64]:
        """The tokens of texts before they are cut, with those between the texts of a pair."""
        whole: NDArray[np.int64] = lengths[:, : 1 + self.pairs].sum(1, dtype=np.int64) + self._between
        return whole

    def counted(self, lengths: Lengths) -> NDArray[np.int64]:
        return np.minimum(self.whole(lengths), self.max_tokens)

    def lengths_read(self, lengths: Lengths) -> Lengths:
        return fit(lengths[:, : 1 + self.pairs], self.max_tokens, self._between)

    def collate(self, encoded: Sequence[Cut], indices: list[int], draw: Draw | None) -> Batch:
        chosen = take(encoded, indices)
        if self.hierarchical:
            tokens, mask = pad_nested([text.sentences for text in chosen])
        else:
            tokens, mask = pad_rows([self.tokens_of(text) for text in chosen])
        inputs = {"tokens": tokens, "mask": mask}
        if chosen and len(chosen[0].ngrams):
            inputs["ngrams"] = torch.tensor([text.ngrams for text in chosen])
        return Batch(indices, inputs)

    def notes(self, work: Work) -> list[str]:
        notes = []
        for split in work.split_names:
            encoded: Any = work.encoded(split)
            if cut := int(np.sum(self.whole(encoded.lengths) > self.max_tokens)):
                are = counted_are(cut, work.unit)
                notes.append(f"{split}: {are} longer than {self.limit} tokens; the rest is not read")
        return notes

    # Questions ------------------------------------------------------------------------------------------------

    def questions(self, texts: Any) -> tuple[list[Text], bool]:
        if not self.pairs:
            return super().questions(texts)
        if is_pair(texts) or isinstance(texts, str):
            return [self.example_of(texts)], True
        fields = [Field(name, getattr(self.config.data.columns, name)) for name in self.kind.sides(self.config.data)]
        return [self.example_of(text) for text in pairs_of(texts, "texts", fields)], False

    def example_of(self, text: Given) -> Any:
        """An input as an example without a truth, and without blanks around its texts."""
        assert self.kind.ask is not None
        alone = isinstance(text, str) and not self.pairs
        parts: Sequence[Any] = [text] if alone else pair_of(text, "the input")
        return self.kind.ask([self.stripped(part) for part in parts])

    def encode_texts(self, texts: Sequence[Given]) -> Any:
        """Texts, or pairs of texts, as tokens."""
        return self.encode([self.example_of(text) for text in texts])

    def finished(self, head: Head, predictions: Sequence[Any], examples: Sequence[Text], encoded: Any) -> list[Any]:
        answers = (replace(prediction, unread=cut.cut) for prediction, cut in zip(predictions, encoded, strict=True))
        return [
            (all(map(is_blank, example.texts)) and head.blank) or prediction
            for prediction, example in zip(answers, examples, strict=True)
        ]

    # Places ---------------------------------------------------------------------------------------------------

    def typed_as(self, example: Any, encoded: Cut, before: int = 0) -> InputSpans:
        """The span of the text that each token covers; the texts of a pair are one after the other.

        `before` is the number of tokens before them that are not part of the text.
        """
        texts = [*example.texts] if self.hierarchical else self.split(example)
        places, start = [(0, 0)] * before, 0
        for number, text in enumerate(texts):
            spans: list[tuple[int, int]] = []
            for place, inside in self.parts(text):
                spans += [(start + place + a, start + place + b) for a, b in self.tokenizer.encode(inside).spans]
            if len(texts) > 1 and number == 0:  # either text of a pair may have been cut
                ids, end = self.tokens_of(encoded), self.tokenizer.special.end
                spans = [*spans[: ids.index(end)], *[(0, 0)] * ids.count(end)]
            places += spans
            start += len(text) + len(BETWEEN)
        return InputSpans(BETWEEN.join(texts), places)

    def places(self, example: Any) -> dict[str, Placed]:
        """Of each text, by its name: its tokens in the row, and the characters of it that each of them covers."""
        (encoded,) = self.encode([example])
        ids, end = self.tokens_of(encoded), self.tokenizer.special.end
        names, cuts = self.kind.sides(self.config.data), [0, len(ids)]
        if len(names) > 1:
            first = ids.index(end)
            cuts = [0, first, first + ids[first:].count(end), len(ids)]
        spans, placed, start = self.typed_as(example, encoded).spans, {}, 0
        for number, (name, text) in enumerate(zip(names, self.split(example), strict=True)):
            tokens = range(cuts[2 * number], cuts[2 * number + 1])
            placed[name] = Placed(tokens, [(a - start, b - start) for a, b in spans[tokens.start : tokens.stop]])
            start += len(text) + len(BETWEEN)
        return placed

    def unknown_in(self, text: Given) -> list[str]:
        """The parts of an input that were never seen in training."""
        return [piece for part in self.split(self.example_of(text)) for piece in self.tokenizer.unknown_in(part)]


def _fit_ngrams(work: Any, texts: Texts) -> tuple[Ngrams, torch.Tensor]:
    """The linear part for the settled configuration of a run."""
    fields, train = work.config.model.settings, work.splits.examples["train"]
    lengths, targets = (fields["ngrams"], fields["ngram_characters"]), work.head.linear_targets(work.truths("train"))
    return learn(train, texts.words_of, targets, lengths, effort_of(work))


def effort_of(work: Any) -> float:
    """Characters of the training texts for each that n-grams may be fitted to, in the time that a run has."""
    size = characters_of(work.splits.examples["train"])
    return work_of(size, len(work.head.labels), work.config.training.minutes or 5.0)


def _ngrams(config: Any) -> int:
    """The settled `model.ngrams`."""
    return config.model.settings.get("ngrams") or 0


def _first_tokens(sentences: Iterable[list[int]], max_tokens: int) -> list[list[int]]:
    """The sentences up to a number of tokens."""
    first_sentences: list[list[int]] = []
    for sentence in sentences:
        if max_tokens <= 0:
            break
        first_sentences.append(sentence[:max_tokens])
        max_tokens -= len(sentence)
    return first_sentences

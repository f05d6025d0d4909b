"""Language modelling: continue, rank and score texts.

The baseline is a trigram model over a run's own tokens:

    p(c)       = (n(c) + 1) / (N + V)
    p(c | b)   = (n(bc) + m p(c)) / (n(b.) + m)
    p(c | ab)  = (n(abc) + m p(c | b)) / (n(ab.) + m)        m = 5

Source: MacKay and Peto 1995, Natural Language Engineering 1 (3), hierarchical Dirichlet smoothing, with one fixed m.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from heed.data.kinds.documents import Document
from heed.errors import ConfigError
from heed.evaluation.measures import Outcomes
from heed.show.draw_html import shading_to_html
from heed.tasks.base.comparison import Examiner
from heed.tasks.base.transfer import Parent
from heed.tasks.heads.next_token import NextToken, ranked, text_scores
from heed.tasks.heads.token_scores import FEW_DOCUMENTS, PER_TOKEN, PIECE, TokenScores, Units
from heed.tasks.inputs.stream import Stream
from heed.tasks.language_modelling.config import LanguageModelConfig
from heed.tasks.language_modelling.look import contrast, explain, lens_reads, look_at
from heed.tasks.language_modelling.outputs import LanguageModelOutputs
from heed.tasks.work import Baselines, Looks, Task
from heed.watch.looks import Shading
from heed.watch.maps import Axis


def with_tokenizer(config: LanguageModelConfig) -> LanguageModelConfig:
    """The configuration with the tokenizer of a run of this task whose weights are taken, unless one is configured.

    Raises:
        ConfigError: The run cannot be opened; or there is no tokenizer to extend.
    """
    section, taken_from = config.tokenizer, config.model.from_
    if taken_from is not None and not section.model_fields_set - {"extend"}:
        if Parent.open(taken_from, "model.from").task.config.task == config.task:
            section = section.model_copy(update={"from_": taken_from})
    if section.extend and section.from_ is None:
        raise ConfigError(
            "tokenizer.extend is true, but there is no tokenizer to extend; give --from RUN, or set tokenizer.from"
        )
    return config.model_copy(update={"tokenizer": section})


_STRENGTH = 5.0
"""m above."""
_MOST = 20_000_000
"""Tokens that are counted: the first ones of the training data."""
_LARGEST = np.iinfo(np.int64).max


class Trigram:
    """Counts of the tokens, pairs and triples of a stream."""

    def __init__(self, ids: Sequence[int] | NDArray[np.int64], vocab_size: int) -> None:
        stream = keys = np.asarray(ids[:_MOST], dtype=np.int64)
        self._size, self._count = vocab_size, len(stream)
        self._grams, self._last = [], []
        for n in (1, 2, 3):
            self._grams.append(np.unique(np.append(keys, _LARGEST), return_counts=True))
            self._last.append(keys[-1:])
            keys = keys[:-1] * vocab_size + stream[n:]

    def log_probs(self, ids: NDArray[np.int64], first_token: int) -> NDArray[np.float64]:
        """Natural log-probability of each of the tokens of a document, `(tokens,)`, the first after `first_token`."""
        chances = (_counts(self._grams[0], ids) + 1) / (self._count + self._size)
        before = np.append(first_token, ids)[:-1]
        for n in (1, 2):  # the tokens before each: one, then two, of which the first token of a document has one
            total = _counts(self._grams[n - 1], before) - np.isin(before, self._last[n - 1])
            keys = before * self._size + ids[n - 1 :]
            chances[n - 1 :] = (_counts(self._grams[n], keys) + _STRENGTH * chances[n - 1 :]) / (total + _STRENGTH)
            before = keys[:-1]
        return np.log(chances)


def _counts(counts: tuple[NDArray[np.int64], NDArray[np.int64]], keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often each key occurs, from the sorted known keys, the last larger than any key, and their counts."""
    known, numbers = counts
    places = np.searchsorted(known, keys)
    return np.where(known[places] == keys, numbers[places], 0)


def baselines(run: Any) -> Baselines:
    """A trigram model of the run's tokens, counted on its training set, unless that is unknown."""
    if run.training_examples() is None:
        return {}
    input: Stream = run.input
    trigram = Trigram(run.task.encoded("train").ids, input.tokenizer.vocab_size)

    def scored(documents: Sequence[Document]) -> list[TokenScores]:
        scores = []
        for document in documents:
            encoded = input.tokenizer.encode(document.text)
            ids = np.array(encoded.ids, dtype=np.int64)
            seen = np.minimum(np.arange(1, len(ids) + 1), 2).astype(np.int32)
            spans = np.array(encoded.spans, dtype=np.int32).reshape(-1, 2)
            log_probs = trigram.log_probs(ids, input.first_token)
            scores.append(TokenScores(log_probs, None, seen, ids, spans, None, input.tokenizer.special.unknown))
        return scores

    return {"trigram": scored}


_DARKEST = 8.0
"""Surprisal, in bits, from which a token is drawn darkest."""


class LanguageModelExaminer(Examiner):
    """Compares the probabilities that models give the same texts.

    Examples are documents or, where there are few, pieces of their text, which are the same for every tokenizer; each
    piece is scored within its document.
    """

    def __init__(self, runs: Sequence[Any], examples: Sequence[Document]) -> None:
        self.units = Units.of(examples)
        self._found: dict[int, list[TokenScores]] = {}
        super().__init__(runs, [Document(text) for text in self.units.texts] if self.units.are_pieces else examples)

    def _references(self) -> tuple[list[str], list[str]]:
        remarks = []
        if self.units.are_pieces:
            count = len(self.units.documents)
            remarks.append(
                f"There {'is 1 document' if count == 1 else f'are {count} documents'}, fewer than {FEW_DOCUMENTS}: "
                f"each example is a piece of {PIECE:,} characters, the same for every run, scored within its document."
            )
        tokenizers = [run.input.tokenizer for run in self.runs]
        self._per_token = not any(tokenizers[0].first_difference(other) for other in tokenizers[1:])
        if not self._per_token:
            remarks.append(
                "The runs split text into different tokens: perplexity and loss per token are left out; bits per byte "
                "and per character, and perplexity per word, can be compared."
            )
        for run in self.runs:
            unknown = sum(len(run.input.tokenizer.unknown_in(one.text)) for one in self.examples)
            if unknown:
                remarks.append(
                    f"{run.folder.name}: {unknown:,} tokens are unknown to its tokenizer, so its scores are not "
                    "those of the raw text."
                )
        contexts = {_context(run) for run in self.runs}
        if len(contexts) > 1:
            listed = "; ".join(f"{run.folder.name}: {_context(run)}" for run in self.runs)
            remarks.append(f"The runs predict each token from different amounts of text ({listed}).")
        return super()._references()[0], remarks

    def _lengths(self) -> tuple[list[int], str]:
        return ([], "") if self.units.are_pieces else super()._lengths()

    def predict(self, run: Any, examples: Sequence[Document], beam_size: int | None) -> list[TokenScores]:
        whole = self.units.are_pieces and len(examples) == len(self.examples)
        texts = [example.text for example in (self.units.documents if whole else examples)]
        return run.head.token_scores(run, texts, ranks=False)  # type: ignore[no-any-return]

    def count_tokens(self, run: Any, outputs: Sequence[TokenScores]) -> int:
        return sum(len(one.ids) for one in outputs)

    def outcomes(self, run: Any, outputs: Sequence[TokenScores]) -> Outcomes:
        self._found[id(run)] = list(outputs)
        found: Outcomes = run.outcomes(self.units.documents, outputs)
        if self._per_token:
            return found
        return replace(found, measures=tuple(one for one in found.measures if one.name not in PER_TOKEN))

    def drawing(self, run: Any, index: int, beam_size: int | None, numbers: Iterator[int]) -> Markup:
        owner, start, stop = (int(part[index]) for part in (self.units.owner, self.units.starts, self.units.stops))
        scores, text = self._found[id(run)][owner], self.units.documents[owner].text
        inside = np.flatnonzero((scores.spans[:, 0] >= start) & (scores.spans[:, 0] < stop)).tolist()
        labels = tuple(text[slice(*scores.spans[n])] for n in inside)
        bits = tuple(-float(scores.log_probs[n]) / math.log(2) for n in inside)
        axis = Axis("text", "token", labels)
        return shading_to_html(Shading("surprisal of each token in bits", axis, bits, _DARKEST))


def _context(run: Any) -> str:
    """Describe how much text a run predicts a token from."""
    if run.input.carries:
        return "the whole document before it"
    return f"context {run.input.context}, stride {run.config.evaluation.stride or run.input.context}"


TASK = Task(
    "language_modelling",
    input=Stream(),
    head=NextToken(),
    looks=Looks(look_at, explain, contrast, lens_reads, whole_words=True),
    baselines=baselines,
    outputs=LanguageModelOutputs,
    before=with_tokenizer,
    examiner=lambda: LanguageModelExaminer,
    ranks=ranked,
    scores_text=text_scores,
    cannot={"ensemble": ""},
)

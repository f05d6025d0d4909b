"""Comparison of language models: the same documents, or pieces of their text, scored token by token by every run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from heed.data.read.documents import Document
from heed.evaluation.measures import Outcomes
from heed.observe.draw_shading import shading_to_html
from heed.observe.maps import Axis
from heed.observe.shading import Shading
from heed.tasks.base.comparison import Examiner, token_lengths
from heed.tasks.language_modelling.measures import PER_TOKEN
from heed.tasks.language_modelling.run import LanguageModelRun
from heed.tasks.language_modelling.scoring import TokenScores
from heed.tasks.language_modelling.units import FEW_DOCUMENTS, PIECE, Units

_DARKEST = 8.0
"""Surprisal, in bits, from which a token is drawn darkest."""


class LanguageModelExaminer(Examiner[LanguageModelRun, Document, TokenScores]):
    """Compares the probabilities that models give the same texts.

    Examples are documents or, where there are few, pieces of their text, which are the same for every tokenizer; each
    piece is scored within its document.
    """

    names = ("text", "length")
    targets = "tokens"

    def __init__(self, runs: Sequence[LanguageModelRun], examples: Sequence[Document]) -> None:
        self.units = Units.of(examples)
        self._found: dict[int, list[TokenScores]] = {}
        super().__init__(runs, [Document(text) for text in self.units.texts] if self.units.are_pieces else examples)

    @classmethod
    def source_of(cls, example: Document) -> str:
        """The text."""
        return example.text

    @classmethod
    def truth_of(cls, example: Document) -> str:
        """The length of the text."""
        return f"{len(example.text):,} characters, {len(example.text.encode()):,} bytes"

    def _references(self) -> tuple[list[str], list[str]]:
        remarks = []
        if self.units.are_pieces:
            count = len(self.units.documents)
            remarks.append(
                f"There {'is 1 document' if count == 1 else f'are {count} documents'}, fewer than {FEW_DOCUMENTS}: "
                f"each example is a piece of {PIECE:,} characters, the same for every run, scored within its document."
            )
        tokenizers = [run.task.tokenizer for run in self.runs]
        self._per_token = not any(tokenizers[0].first_difference(other) for other in tokenizers[1:])
        if not self._per_token:
            remarks.append(
                "The runs split text into different tokens: perplexity and loss per token are left out; bits per byte "
                "and per character, and perplexity per word, can be compared."
            )
        for run in self.runs:
            unknown = sum(len(run.task.tokenizer.unknown_in(one.text)) for one in self.examples)
            if unknown:
                remarks.append(
                    f"{run.folder.name}: {unknown:,} tokens are unknown to its tokenizer, so its scores are not "
                    "those of the raw text."
                )
        contexts = {_context(run) for run in self.runs}
        if len(contexts) > 1:
            listed = "; ".join(f"{run.folder.name}: {_context(run)}" for run in self.runs)
            remarks.append(f"The runs predict each token from different amounts of text ({listed}).")
        return [self.truth_of(example) for example in self.examples], remarks

    def _lengths(self) -> tuple[list[int], str]:
        return token_lengths([run.task.tokenizer for run in self.runs], self.sources)

    def predict(self, run: LanguageModelRun, examples: Sequence[Document], beam_size: int | None) -> list[TokenScores]:
        """Score documents; for pieces their documents, unless only some of the pieces are given."""
        whole = self.units.are_pieces and len(examples) == len(self.examples)
        texts = [example.text for example in (self.units.documents if whole else examples)]
        return run.token_scores(texts, ranks=False)

    def count_tokens(self, run: LanguageModelRun, outputs: Sequence[TokenScores]) -> int:
        """Tokens read."""
        return sum(len(one.ids) for one in outputs)

    def outcomes(self, run: LanguageModelRun, outputs: Sequence[TokenScores]) -> Outcomes:
        """The run's own measures, without those per token where the runs have different tokens."""
        self._found[id(run)] = list(outputs)
        found = run.outcomes(self.units.documents, outputs)
        if self._per_token:
            return found
        return replace(found, measures=tuple(one for one in found.measures if one.name not in PER_TOKEN))

    def drawing(self, run: LanguageModelRun, index: int, beam_size: int | None, numbers: Iterator[int]) -> str:
        """Draw the text; the more surprising a token, the darker."""
        owner, start, stop = (int(part[index]) for part in (self.units.owner, self.units.starts, self.units.stops))
        scores, text = self._found[id(run)][owner], self.units.documents[owner].text
        inside = np.flatnonzero((scores.spans[:, 0] >= start) & (scores.spans[:, 0] < stop)).tolist()
        labels = tuple(text[slice(*scores.spans[n])] for n in inside)
        bits = tuple(-float(scores.log_probs[n]) / math.log(2) for n in inside)
        axis = Axis("text", "token", labels)
        return shading_to_html(Shading("surprisal of each token in bits", axis, bits, _DARKEST))


def _context(run: LanguageModelRun) -> str:
    """Describe how much text a run predicts a token from."""
    if run.task.carries:
        return "the whole document before it"
    return f"context {run.task.context}, stride {run.task.config.evaluation.stride or run.task.context}"

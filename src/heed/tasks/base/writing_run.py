"""Runs of tasks whose models write: lines of `heed predict`, parts of reports and comparisons, a look-up baseline."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from heed.errors import ConfigError
from heed.generation import SamplingOptions
from heed.observe.draw_html import map_to_html
from heed.observe.looks import Look
from heed.tasks.base.comparison import E, Examiner, O, R
from heed.tasks.base.predictions import TextOutputs, Written
from heed.tasks.base.report import counted
from heed.tasks.base.writing import WrittenText

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST = 200_000
"""Most training pairs that are searched: the first ones."""
_AT_ONCE = 64
"""Sentences looked up together, each with a row of similarities."""


class WritingOutputs(TextOutputs):
    """A line for each candidate: its text, after its score if there are several."""

    def __init__(self, run: Any, options: Mapping[str, Any]) -> None:
        super().__init__(run, options)
        nbest, beam = options["nbest"], options["beam"]
        if beam is not None and nbest > beam:
            raise ConfigError(f"--nbest {nbest} needs a --beam of at least {nbest}, not {beam}")
        self.search = {"beam_size": beam, "max_length": options["length"], "sampling": sampling_of(options)}
        self.num_cut_off = 0

    @abstractmethod
    def candidates(self, texts: list[str], num_best: int) -> list[list[WrittenText]]:
        """The `num_best` best outputs for each text, best first."""

    def write(self, texts: list[str]) -> Iterator[Written]:
        for text, found in zip(texts, self.candidates(texts, self.options["nbest"]), strict=True):
            self.num_cut_off += sum(not one.finished for one in found)
            yield Written(tuple(line for one in found for line in self.lines(text, one)) or ("",))

    def answer(self, text: str) -> str:
        best = self.candidates([text], 1)[0][0]
        self.num_cut_off += not best.finished
        return best.summary()

    def notes(self) -> list[str]:
        if not self.num_cut_off:
            return []
        length = self.options["length"] or self.run.task.config.generation.max_length or 0
        what = "1 output was" if self.num_cut_off == 1 else f"{self.num_cut_off:,} outputs were"
        return [f"{what} cut after {counted(length, 'token')}; --length N allows more"]


def sampling_of(options: Mapping[str, Any]) -> SamplingOptions | None:
    """The sampling options, or None; a ConfigError if one was given without --sample."""
    if options["sample"]:
        if options["beam"] is not None:
            raise ConfigError(f"--beam {options['beam']} searches and --sample draws; give only one")
        return SamplingOptions(*(options[key] for key in ("temperature", "top_k", "top_p", "seed")))
    for name, default in {"temperature": 1.0, "top-k": None, "top-p": None, "seed": 1}.items():
        if (value := options[name.replace("-", "_")]) != default:
            raise ConfigError(f"--{name} {value} applies only to sampled outputs; add --sample")
    return None


def cut_off_lines(report: Mapping[str, Any]) -> list[str]:
    """The number of outputs of a report that were cut off, for people."""
    if not report.get("cut_off"):
        return []
    were = "was" if report["cut_off"] == 1 else "were"
    return [f"  {counted(report['cut_off'], 'output')} {were} cut off at generation.max_length"]


class WritingExaminer(Examiner[R, E, O]):
    """Runs that write by beam search; scores per token are compared only if all runs have the same tokens."""

    has_beam = True
    per_token_scores = "scores per token"
    written = "target"

    @property
    def targets(self) -> str:
        return f"{self.written} tokens"

    def _references(self) -> tuple[list[str], list[str]]:
        first, *others = (run.task.target_tokenizer for run in self.runs)
        self.per_token = not any(first.first_difference(other) for other in others)
        what = f"{self.per_token_scores} are left out, and tokens per second differ in unit."
        return [self.truth_of(one) for one in self.examples], (
            [] if self.per_token else [f"The runs use different tokens: {what}"]
        )


def map_html(look: Look, mechanisms: Sequence[str], otherwise: str, numbers: Iterator[int]) -> Markup:
    """The last map of a look that is of one of these mechanisms, as HTML; a hint if there is none."""
    found = [one for one in look.maps if one.mechanism in mechanisms]
    return map_to_html(found[-1], next(numbers)) if found else Markup('<p class="hint">{}</p>').format(otherwise)


class NearestSentence:
    """The translation of the training sentence that shares the most words with a sentence.

    Similarity is the Jaccard index |A and B| / |A or B| of the sets of lower-cased words; of ties, the first is taken.

    Source: Jaccard 1912, New Phytologist 11 (2); Manning, Raghavan & Schuetze 2008, Introduction to Information
    Retrieval, 3.3.4.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Keep the source words and the targets of the first 200,000 pairs."""
        self._vocabulary: dict[str, int] = {}
        sources, self._targets = [], list[str]()
        for source, target in islice(pairs, MOST):
            sources.append([self._vocabulary.setdefault(word, len(self._vocabulary)) for word in _words(source)])
            self._targets.append(target)
        self._known = self._matrix(sources)  # (pairs, words)
        self._sizes = np.array([len(words) for words in sources])
        self._holders = self._known.T.tocsr()

    def __len__(self) -> int:
        return len(self._targets)

    def translate(self, sentences: Sequence[str]) -> list[str]:
        """The looked-up translation of each sentence; "" without training pairs."""
        if not self._targets:
            return [""] * len(sentences)
        found: list[str] = []
        for start in range(0, len(sentences), _AT_ONCE):
            words = [_words(sentence) for sentence in sentences[start : start + _AT_ONCE]]
            known = [[self._vocabulary[word] for word in one if word in self._vocabulary] for one in words]
            shared = (self._matrix(known) @ self._holders).toarray()  # (sentences, pairs)
            sizes = np.array([len(one) for one in words])[:, None]
            similar = shared / np.maximum(1, sizes + self._sizes - shared)
            found += [self._targets[i] for i in similar.argmax(1)]
        return found

    def _matrix(self, rows: Sequence[Sequence[int]]) -> csr_array:
        from scipy.sparse import csr_array  # slow to import, and only evaluation needs it

        starts = np.cumsum([0, *map(len, rows)])
        places = np.array([word for row in rows for word in row], dtype=np.int32)
        return csr_array((np.ones(len(places), np.float32), places, starts), shape=(len(rows), len(self._vocabulary)))


def _words(text: str) -> list[str]:
    return sorted(set(re.findall(r"\w+", text.lower())))

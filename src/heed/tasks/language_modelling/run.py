"""Runs of language modelling: continue, rank, score and look at texts; the output of `heed predict`; comparisons."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, overload

import numpy as np
from markupsafe import Markup

from heed.data.examples import Example
from heed.data.kinds.documents import Document
from heed.data.kinds.encoded_documents import read_documents
from heed.errors import ConfigError
from heed.evaluation.measures import Outcomes
from heed.generation import SamplingOptions
from heed.models.base import LanguageModel
from heed.observe.draw_html import shading_to_html
from heed.observe.looks import Shading
from heed.observe.maps import Axis
from heed.tasks.base.attributing import Attributes
from heed.tasks.base.beams import HasBeams
from heed.tasks.base.comparison import Examiner
from heed.tasks.base.looking import LooksAtText
from heed.tasks.base.predictions import TextOutputs, Written, one_line
from heed.tasks.base.run import TextRun
from heed.tasks.base.tracing import HasLens, HasPatching
from heed.tasks.base.writing_run import SAMPLING, sampling_of
from heed.tasks.language_modelling.look import LENGTH, contrast, explain, lens_reads, look_at
from heed.tasks.language_modelling.scoring import (
    FEW_DOCUMENTS,
    PER_TOKEN,
    PIECE,
    ScoredText,
    TokenScores,
    Trigram,
    Units,
    body,
    outcomes_of,
    score_each,
    score_texts,
    usual_stride,
)
from heed.tasks.language_modelling.task import LanguageModelling
from heed.tasks.language_modelling.writing import (
    Continuation,
    RankedChoice,
    WritingOptions,
    context_of,
    continue_all,
    join,
    rank,
    stream,
)
from heed.visible import to_json


def choices_of(given: Sequence[str], file: str | None) -> tuple[str, ...]:
    """Return the choices that were typed, or those of a file with one per line; none without either.

    Raises:
        ConfigError: Both were given, a choice is blank, or the file cannot be read.
    """
    if file is None:
        for n, choice in enumerate(given, start=1):
            if not choice.strip():
                raise ConfigError(f"--choice {n} is blank: {choice!r}")
        return tuple(given)
    if given:
        raise ConfigError("give choices with --choice or in a file with --choices, not both")
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"cannot read --choices '{file}': {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"--choices '{file}': byte {error.start + 1} is not UTF-8") from None
    lines = text.split("\n")
    lines = lines[:-1] if not lines[-1] else lines
    for n, line in enumerate(lines, start=1):
        if not line.strip():
            raise ConfigError(f"--choices '{file}' line {n}: the choice is blank")
    if not lines:
        raise ConfigError(f"--choices '{file}' is empty; give one choice per line")
    return tuple(lines)


_OTHERS = {"repetition_penalty": 1.0, "stop": (), "length": None, "nbest": 1}
_WRITING = {"beam": None, "sample": False, **SAMPLING, **_OTHERS}
"""Options of writing, and their values where they are not given."""


class LanguageModelOutputs(TextOutputs):
    """Continuations, one per line; with --choice the ranked choices of each prompt; with --score a line for each token.

    The output for a single prompt given as an argument keeps its line breaks; with several prompts each output is one
    line, with spaces for line breaks (--json keeps them).
    """

    def __init__(self, run: Any, options: Mapping[str, Any]) -> None:
        super().__init__(run, options)
        self._choices = choices_of(options["choice"], options["choices"])
        self._single = False
        self._num_unread = 0
        self._unread = (0, 0)  # tokens of the longest prompt that was not fully read, and how many of them were read
        self._blank_ends = False  # whether a prompt ends with a space, which the tokenizer attaches to the next word
        self._windowed = 0  # texts that were scored in windows
        self._check()
        self._writing: dict[str, Any] = {}
        if not (options["score"] or self._choices):
            self._writing = {
                "num_best": options["nbest"],
                "beam_size": options["beam"],
                "length": options["length"],
                "sampling": sampling_of(options),
                "repetition_penalty": options["repetition_penalty"],
                "stop": tuple(text.replace(r"\n", "\n").replace(r"\t", "\t") for text in options["stop"]),
            }
            run.writing(**self._writing)  # refuses invalid options before any text is read

    def _check(self) -> None:
        """Refuse options that do not apply."""
        options, given = self.options, self._given(_WRITING)
        if options["score"]:
            if self._choices:
                raise ConfigError("--score reads whole texts and --choice ranks continuations; give only one")
            if given:
                raise ConfigError(f"--score writes nothing, so --{given} does not apply to it")
        if self._choices and given:
            raise ConfigError(f"--choice ranks given continuations and writes none, so --{given} does not apply")
        if options["end"] and not self._choices:
            raise ConfigError("--end applies only to ranked choices; add --choice or --choices")

    def _given(self, flags: Mapping[str, Any]) -> str | None:
        """The first of some flags that was given."""
        found = (name.replace("_", "-") for name, default in flags.items() if self.options[name] != default)
        return next(found, None)

    def expect(self, lines: Sequence[str], where: str | None) -> None:
        """Refuse an input without lines."""
        if not lines:
            what = "text to score" if self.options["score"] else "prompt"
            raise ConfigError(f"there is no {what}{f' in {where}' if where else ''}; give one, or a file with --input")
        self._single = where is None and len(lines) == 1

    def unknown_in(self, text: str) -> Sequence[str]:
        tokenizer = self.run.tokenizer
        found: list[str] = tokenizer.unknown_in(text)
        for choice in self._choices:
            whole = join(text, choice)  # a word may be another token without the space before it
            encoded = tokenizer.encode(whole)
            places = [
                span
                for token, span in zip(encoded.ids, encoded.spans, strict=True)
                if token == tokenizer.special.unknown
            ]
            found += [whole[start:stop].strip() for start, stop in places if stop > len(text)]
        return found

    def write(self, texts: list[str]) -> Iterator[Written]:
        task, model = self.run.task, self.run.model
        if self.options["score"]:
            self._see(texts)
            for scored in score_each(task, model, texts):
                yield Written((to_json(scored.as_json()),) if self.options["json"] else scored.lines())
        elif self._choices:
            self._see([join(text, choice) for text in texts for choice in self._choices])
            pairs = [(text, self._choices) for text in texts]
            for text, ranked in zip(texts, rank(task, model, pairs, self.options["end"]), strict=True):
                yield Written(self._ranked(text, ranked))
        else:
            for candidates in self.run.candidates(texts, **self._writing):
                yield Written(tuple(self._line(candidate) for candidate in candidates))
                self._count(candidates[0])

    def _ranked(self, prompt: str, ranked: Sequence[RankedChoice]) -> tuple[str, ...]:
        """The ranked choices of a prompt: one JSON object, or a table below the prompt."""
        if self.options["json"]:
            choices = [one.as_json() for one in ranked]
            return (to_json({"prompt": prompt, "end_token": self.options["end"], "choices": choices}),)
        above = [] if self._single else [one_line(prompt)]
        head = "probability  log-prob  per token  per byte  tokens  choice"
        return (*above, head, *(one.line() for one in ranked))

    def _see(self, texts: list[str]) -> None:
        context = context_of(self.run.task, self.run.model)
        if context is not None:
            self._windowed += sum(len(ids) > context for ids in self.run.task.tokenizer.encode_all(texts))

    def _count(self, continuation: Continuation) -> None:
        if continuation.prompt.endswith(" ") and self.run.task.tokenizer.unit in ("token", "word"):
            self._blank_ends = True
        if continuation.unread:
            length = len(self.run.task.tokenizer.encode(continuation.prompt).ids)
            self._num_unread += 1
            self._unread = max(self._unread, (length, length - continuation.unread))

    def notes(self) -> list[str]:
        context, lines = context_of(self.run.task, self.run.model), []
        if self._choices:
            end = "the end token after it is counted" if self.options["end"] else "end tokens are not counted"
            lines.append(f"ranked by the total log-probability of each choice, in nats; {end}")
        if self._windowed:
            texts = "1 text is" if self._windowed == 1 else f"{self._windowed} texts are"
            least = self.run.task.context - usual_stride(self.run.task)
            lines.append(
                f"{texts} longer than the context of {context} tokens: later tokens are predicted from the "
                f"{least} to {context} tokens before them"
            )
        if self._blank_ends:
            lines.append("a prompt ends with a space, which is part of the next word's token; remove the space")
        if self._num_unread:
            length, read = self._unread
            room = f"the context of {context}" if read == context else f"what a beam can read, {read}"
            said = f"the prompt of {length:,} tokens is longer than {room}:"
            if self._num_unread > 1:
                said = f"{self._num_unread} prompts are longer than {room} tokens: of the longest, with {length:,},"
            lines.append(f"{said} only the last {read} were read")
        return lines

    def _line(self, continuation: Continuation) -> str:
        if self.options["json"]:
            return to_json({"prompt": continuation.prompt, **continuation.as_json()})
        if self.options["nbest"] > 1:
            return f"{continuation.score:.4f}\t{one_line(continuation.text)}"
        return continuation.text if self._single else one_line(continuation.text)

    @property
    def streams(self) -> bool:
        plain = self._writing and not self.options["json"]
        return bool(plain) and self.run.writing(**self._writing).streams

    def pieces(self, text: str) -> Iterator[str]:
        self._single = True
        if not self.streams:
            yield self.answer(text)
            return
        yield from self.grow(text)

    def grow(self, text: str) -> Iterator[str]:
        continuation = yield from self.run.write(text, **self._writing)
        self._count(continuation)

    def answer(self, text: str) -> str:
        self._single = True
        return "\n".join(line for written in self.write([text]) for line in written.lines)


class LanguageModelRun(
    TextRun[LanguageModelling, LanguageModel, Continuation],
    LooksAtText,
    Attributes,
    HasPatching,
    HasLens,
    HasBeams,
):
    """A model that continues texts and scores them."""

    task_class = LanguageModelling
    outputs_class = LanguageModelOutputs
    has_outputs = False
    names = ("text", "length")
    body = staticmethod(body)
    look_at = staticmethod(look_at)
    explain = staticmethod(explain)
    contrast = staticmethod(contrast)
    lens_reads = staticmethod(lens_reads)
    text_columns = ("prompt", "text")
    options: ClassVar = dict.fromkeys(("length", "min_length", "beam_size", "length_penalty", "sampling")) | {
        "stop": (),
        "repetition_penalty": 1.0,
        "num_best": 1,
    }

    def predictions(self, texts: Sequence[str], **options: Any) -> list[Continuation]:
        """Continue each prompt; an empty one begins a document.

        Args:
            texts: The prompts.
            options: `length` (largest number of tokens), `min_length`, `beam_size`, `length_penalty` (the
                configuration's by default), `sampling` (`heed.generation.SamplingOptions`), `stop` (texts before which
                the output is cut), `repetition_penalty`; see `WritingOptions`.

        Raises:
            ConfigError: An option is invalid.
        """
        return [candidates[0] for candidates in self.candidates(texts, **options)]

    def candidates(self, texts: Sequence[str], num_best: int = 1, **options: Any) -> list[list[Continuation]]:
        """The `num_best` best, or sampled, continuations of each prompt, best first."""
        if isinstance(texts, str):
            raise ConfigError(f"candidates takes several texts; for one, write [{texts!r}]")
        return continue_all(self.task, self.model, texts, self.writing(num_best=num_best, **options))

    def searched(self, text: str, length: int = LENGTH, **options: Any) -> tuple[str, Continuation]:
        return text, self.candidates([text], length=length, **options)[0][0]

    def write(self, prompt: str, **options: Any) -> Generator[str, None, Continuation]:
        """Continue a prompt, yielding the text piece by piece; the generator returns the whole continuation.

        `for piece in run.write("Once upon"): print(piece, end="", flush=True)`. Options as of `predictions`, without a
        beam.
        """
        return stream(self.task, self.model, prompt, self.writing(**options))

    def writing(
        self,
        *,
        length: int | None = None,
        min_length: int | None = None,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        sampling: SamplingOptions | None = None,
        num_best: int = 1,
        **others: Any,
    ) -> WritingOptions:
        """Options of writing, by default the configuration's; a beam's length is kept within the context."""
        given = self.task.config.generation
        if beam_size is None:
            beam_size = 1 if sampling is not None else max(num_best, given.beam_size)
        if length is None:
            context = context_of(self.task, self.model)
            length = given.max_length if context is None or beam_size == 1 else min(given.max_length, context)
        least = given.min_length if min_length is None else min_length
        penalty = given.length_penalty if length_penalty is None else length_penalty
        return WritingOptions(length, least, beam_size, num_best, penalty, sampling, **others)

    def rank(self, prompt: str, choices: Sequence[str], end: bool = False) -> list[RankedChoice]:
        """Rank continuations of a prompt by log-probability, most probable first; see `ranking`.

        Args:
            prompt: The prompt; an empty one begins a document.
            choices: At least one; none blank, none repeated.
            end: Also count the end token after each choice.

        Raises:
            ConfigError: The choices cannot be ranked.
        """
        return rank(self.task, self.model, [(prompt, choices)], end)[0]

    @overload
    def score(self, examples: str, stride: int | None = None) -> ScoredText: ...

    @overload
    def score(self, examples: Sequence[Example], stride: int | None = None) -> dict[str, Any]: ...

    def score(self, examples: str | Sequence[Example], stride: int | None = None) -> ScoredText | dict[str, Any]:
        """Score a text token by token; or score documents and return the report as plain values.

        Args:
            examples: A text, or documents.
            stride: Tokens by which the window advances in a text longer than the context; a quarter of the context by
                default. Documents are scored with `evaluation.stride`.
        """
        if isinstance(examples, str):
            return score_each(self.task, self.model, [examples], stride)[0]
        return super().score(examples)

    def read(self, files: Sequence[str | Path]) -> Sequence[Document]:
        return read_documents(self.task.config.data, files)

    def token_scores(self, texts: Sequence[str], ranks: bool = True) -> list[TokenScores]:
        """Score every token of each text (`score_texts`), with the run's own stride."""
        return score_texts(self.task, self.model, texts, self.task.config.evaluation.stride, ranks)

    def outcomes(self, examples: Sequence[Document], outputs: Sequence[TokenScores] | None = None) -> Outcomes:
        if not examples:
            raise ConfigError("there is no text to score")
        task, texts = self.task, [document.text for document in examples]
        scores = self.token_scores(texts, ranks=False) if outputs is None else outputs
        changed = sum(task.tokenizer.normalize(text) != text for text in texts)
        found = outcomes_of(Units.of(examples), scores, changed)
        found.details["context"] = None if task.carries else task.context
        found.details["stride"] = None if task.carries else task.config.evaluation.stride or task.context
        return found

    def baselines(self, examples: Sequence[Document]) -> Mapping[str, Outcomes]:
        """A trigram model of the run's tokens, counted on its training set, unless that is unknown."""
        task = self.task
        if self.known() is None:
            return {}
        scores = []
        for document in examples:
            encoded = task.tokenizer.encode(document.text)
            ids = np.array(encoded.ids, dtype=np.int64)
            log_probs = self._trigram.log_probs(ids, task.first_token)
            seen = np.minimum(np.arange(1, len(ids) + 1), 2).astype(np.int32)
            spans = np.array(encoded.spans, dtype=np.int32).reshape(-1, 2)
            scores.append(TokenScores(log_probs, None, seen, ids, spans, None, self.tokenizer.special.unknown))
        return {"trigram": outcomes_of(Units.of(examples), scores)}

    @cached_property
    def _trigram(self) -> Trigram:
        return Trigram(self.task.stream("train").ids, self.task.tokenizer.vocab_size)

    @classmethod
    def examiner(cls) -> type[LanguageModelExaminer]:
        return LanguageModelExaminer


_DARKEST = 8.0
"""Surprisal, in bits, from which a token is drawn darkest."""


class LanguageModelExaminer(Examiner[LanguageModelRun, Document, TokenScores]):
    """Compares the probabilities that models give the same texts.

    Examples are documents or, where there are few, pieces of their text, which are the same for every tokenizer; each
    piece is scored within its document.
    """

    def __init__(self, runs: Sequence[LanguageModelRun], examples: Sequence[Document]) -> None:
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
        return super()._references()[0], remarks

    def _lengths(self) -> tuple[list[int], str]:
        return ([], "") if self.units.are_pieces else super()._lengths()

    def predict(self, run: LanguageModelRun, examples: Sequence[Document], beam_size: int | None) -> list[TokenScores]:
        whole = self.units.are_pieces and len(examples) == len(self.examples)
        texts = [example.text for example in (self.units.documents if whole else examples)]
        return run.token_scores(texts, ranks=False)

    def count_tokens(self, run: LanguageModelRun, outputs: Sequence[TokenScores]) -> int:
        return sum(len(one.ids) for one in outputs)

    def outcomes(self, run: LanguageModelRun, outputs: Sequence[TokenScores]) -> Outcomes:
        self._found[id(run)] = list(outputs)
        found = run.outcomes(self.units.documents, outputs)
        if self._per_token:
            return found
        return replace(found, measures=tuple(one for one in found.measures if one.name not in PER_TOKEN))

    def drawing(self, run: LanguageModelRun, index: int, beam_size: int | None, numbers: Iterator[int]) -> Markup:
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

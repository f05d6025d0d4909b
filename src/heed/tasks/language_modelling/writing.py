"""Continuing prompts: greedily, by sampling or with a beam, past the context too, in batches of unequal prompts.

What a model without carried state reads is limited by its context of c tokens. A prompt longer than that is read from
its last c tokens on. Where prompt and output together grow longer, the oldest quarter of the context is dropped and the
rest is read again, so that every token is written with at least three quarters of the context before it (of what there
is). That costs one pass over 3c/4 tokens for every c/4 tokens written. Models that carry their state read any length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from heed.data.batch.plan import plan_batches
from heed.data.batch.rows import pad_rows
from heed.data.tokens.tokenizer import END, PADDING, START, UNKNOWN
from heed.errors import ConfigError
from heed.generation import Hypothesis, SamplingOptions, SearchOptions, Step, generate, generate_steps
from heed.models.base import LanguageModel
from heed.tasks.language_modelling.pieces import Pieces, before_stop, without_incomplete

if TYPE_CHECKING:
    from heed.tasks.language_modelling.task import LanguageModelling

_TOGETHER = 65_536
"""Tokens read and written together."""


@dataclass(frozen=True)
class Continuation:
    """What a model wrote after a prompt.

    Attributes:
        text: What was written, without the prompt and without the stop text.
        prompt: The prompt.
        tokens: Every token that was written, as text: "</s>" last where the model ended the document, and those that
            spell the stop text.
        log_probs: Natural log-probability of each of them under the model (before temperature, cuts and penalties).
        finished: Whether the model ended the document or wrote a stop text; False where the largest length cut it off.
        stopped_by: The stop text that ended it, or None.
        score: Candidates are ranked by it: log-probability / number of tokens ** length_penalty.
        ids: The tokens as numbers, without the end token.
        unread: Tokens at the beginning of the prompt that lie outside the model's context and were not read.
    """

    text: str
    prompt: str
    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]
    finished: bool
    stopped_by: str | None
    score: float
    ids: tuple[int, ...]
    unread: int = 0

    @property
    def log_prob(self) -> float:
        """Natural log-probability of everything that was written, given the prompt."""
        return sum(self.log_probs)


@dataclass(frozen=True)
class WritingOptions:
    """How to continue.

    Attributes:
        length: Largest number of tokens to write, the end token included.
        beam_size: Width of the beam; 1 is greedy.
        num_best: Candidates per prompt.
        length_penalty: Candidates are compared by log-probability / length ** length_penalty.
        sampling: Draw instead of searching.
        stop: Texts before which the output is cut; the earliest counts.
        repetition_penalty: See `heed.generation.repetition`; of the prompt's tokens too. Not with a beam.
    """

    length: int = 100
    beam_size: int = 1
    num_best: int = 1
    length_penalty: float = 1.0
    sampling: SamplingOptions | None = None
    stop: tuple[str, ...] = ()
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ConfigError(f"length is {self.length}, expected at least 1 token")
        if isinstance(self.stop, str):
            raise ConfigError(f"stop takes several texts; for one, write [{self.stop!r}]")
        if "" in self.stop:
            raise ConfigError("a stop text is empty; give the text before which the output shall end")
        if self.sampling is not None and self.beam_size > 1:
            raise ConfigError(f"beam_size {self.beam_size} searches and sampling draws; give one of them")
        if self.sampling is None and self.num_best > self.beam_size:
            raise ConfigError(
                f"num_best {self.num_best} needs a beam_size of at least {self.num_best}, or sampling; "
                f"the beam_size is {self.beam_size}"
            )
        object.__setattr__(self, "stop", tuple(self.stop))
        self.search(1).check()

    def search(self, max_length: int | tuple[int, ...], forbidden: tuple[int, ...] = ()) -> SearchOptions:
        """The options of a search without stop texts."""
        best = self.num_best if self.sampling is None else 1
        return SearchOptions(
            END,
            max_length,
            beam_size=self.beam_size,
            length_penalty=self.length_penalty,
            num_best=best,
            forbidden=forbidden,
            repetition_penalty=self.repetition_penalty,
        )


@dataclass
class _Draft:
    """An output that is being written."""

    read: list[int]  # first token and prompt
    place: int = 0  # its number among the drawn outputs of its prompt
    written: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    ended: bool = False
    stopped: bool = False
    unread: int = 0

    @property
    def ids(self) -> list[int]:
        return self.read + self.written


def continue_all(
    task: LanguageModelling, model: LanguageModel, prompts: Sequence[str], options: WritingOptions
) -> list[list[Continuation]]:
    """Continue each prompt: per prompt `num_best` outputs, best first; an empty prompt begins a document.

    Raises:
        ConfigError: A beam shall write more than the context holds.
    """
    times = 1 if options.sampling is None else options.num_best
    first = [[task.first_token, *ids] for ids in task.tokenizer.encode_all(list(prompts))]
    drafts = [_Draft(ids, place) for ids in first for place in range(times)]
    if options.beam_size > 1:
        found = _search(task, model, drafts, options)
    else:
        for _ in _write(task, model, drafts, options):
            pass
        found = [drafts[i : i + times] for i in range(0, len(drafts), times)]
    results = []
    for prompt, group in zip(prompts, found, strict=True):
        continuations = [_continuation(task, prompt, draft, options) for draft in group]
        results.append(sorted(continuations, key=lambda c: -c.score))
    return results


def stream(
    task: LanguageModelling, model: LanguageModel, prompt: str, options: WritingOptions
) -> Generator[str, None, Continuation]:
    """Continue one prompt piece by piece: the text as soon as no later token can change it.

    A character is held back until all its bytes are written, and what may be the beginning of a stop text until it is
    known not to be one. The pieces together are the text of what is returned.

    Raises:
        ConfigError: The options ask for a beam or for several outputs.
    """
    if options.beam_size > 1 or options.num_best > 1:
        raise ConfigError("one output can be shown while it is written, by greedy search or sampling, and no beam")
    draft = _Draft([task.first_token, *task.tokenizer.encode(prompt).ids])
    pieces = Pieces(task.tokenizer.decode, options.stop)
    shown = 0
    for step in _write(task, model, [draft], options):
        for _, token in step:
            if piece := pieces.add(token):
                shown += len(piece)
                yield piece
    continuation = _continuation(task, prompt, draft, options)
    if rest := continuation.text[shown:]:
        yield rest
    return continuation


def context_of(task: LanguageModelling, model: LanguageModel) -> int | None:
    """The largest number of tokens that a model reads together; None for one that carries its state on."""
    return None if model.carries else task.context


def never_written(task: LanguageModelling) -> tuple[int, ...]:
    """Tokens that are no text; the end token too where documents have none."""
    return (PADDING, UNKNOWN, START) if task.config.data.end_token else (PADDING, UNKNOWN, START, END)


def _write(
    task: LanguageModelling, model: LanguageModel, drafts: list[_Draft], options: WritingOptions
) -> Generator[Step, None, None]:
    """Write greedily or by sampling, in legs: each goes on until the context of every output is full.

    An output whose context is full waits for the others; then all go on together, with windows of equal length.
    """
    model.eval()
    context = context_of(task, model)
    stops = _Stops(task, options.stop)
    waiting, keep = drafts, context
    while waiting:
        windows = [draft.ids if keep is None else draft.ids[-keep:] for draft in waiting]
        for draft, window in zip(waiting, windows, strict=True):
            if not draft.written:
                draft.unread = len(draft.read) - len(window)
        rooms = [
            min(options.length - len(draft.written), options.length if context is None else context + 1 - len(window))
            for draft, window in zip(waiting, windows, strict=True)
        ]
        costs = [len(window) + room for window, room in zip(windows, rooms, strict=True)]
        for chosen in plan_batches(costs, _TOGETHER):
            batch = [waiting[i] for i in chosen]
            tokens, mask = pad_rows([windows[i] for i in chosen])
            device = next(model.parameters()).device
            search = replace(
                options.search(tuple(rooms[i] for i in chosen), never_written(task)),
                stop=stops.of([draft.written for draft in batch]),
                read=tuple(tuple(draft.ids) for draft in batch),
            )
            sampling = options.sampling
            if sampling is not None:
                sampling = replace(sampling, seed=tuple(_seed(sampling.seed, draft) for draft in batch))
            lengths = None if bool(mask.all()) else mask.sum(1).to(device)
            generated = yield from generate_steps(model, None, tokens.to(device), search, lengths, sampling)
            for draft, (hypothesis,) in zip(batch, generated.hypotheses, strict=True):
                _extend(draft, hypothesis, stops)
        waiting = [
            draft for draft in waiting if not (draft.ended or draft.stopped or len(draft.written) >= options.length)
        ]
        keep = None if context is None else context - context // 4


def _search(
    task: LanguageModelling, model: LanguageModel, drafts: list[_Draft], options: WritingOptions
) -> list[list[_Draft]]:
    """Beam search. A beam cannot be moved to another window: of the prompt only what leaves room is read."""
    model.eval()
    context = context_of(task, model)
    keep = None
    if context is not None:
        keep = context + 1 - options.length
        if keep < 1:
            raise ConfigError(
                f"a beam writes within the model's context: length is {options.length}, and the context {context} "
                f"tokens; give a length of at most {context}, or write greedily or by sampling"
            )
    stops = _Stops(task, options.stop)
    windows = [draft.read if keep is None else draft.read[-keep:] for draft in drafts]
    results: list[list[_Draft]] = [[] for _ in drafts]
    for chosen in plan_batches([len(window) + options.length for window in windows], _TOGETHER // options.beam_size):
        tokens, mask = pad_rows([windows[i] for i in chosen])
        device = next(model.parameters()).device
        search = options.search(options.length, never_written(task))
        search = replace(search, stop=stops.of([[] for _ in chosen]))
        lengths = None if bool(mask.all()) else mask.sum(1).to(device)
        generated = generate(model, None, tokens.to(device), search, lengths)
        for i, hypotheses in zip(chosen, generated.hypotheses, strict=True):
            for hypothesis in hypotheses:
                draft = _Draft(drafts[i].read, unread=len(drafts[i].read) - len(windows[i]))
                _extend(draft, hypothesis, stops)
                results[i].append(draft)
    return results


def _extend(draft: _Draft, hypothesis: Hypothesis, stops: _Stops) -> None:
    draft.written += hypothesis.tokens
    draft.log_probs += hypothesis.log_probs
    draft.ended = hypothesis.finished
    draft.stopped = not draft.ended and stops.ends(draft.written)


class _Stops:
    """Whether written tokens contain a stop text; only the last few tokens can complete one."""

    def __init__(self, task: LanguageModelling, texts: tuple[str, ...]) -> None:
        self._decode = task.tokenizer.decode
        self._texts = texts
        # A token stands for one byte at least; a few more, as the first may be the middle of a character.
        self._longest = max((len(text.encode()) for text in texts), default=0) + 4

    def ends(self, written: Sequence[int]) -> bool:
        """Whether the last of these tokens completes a stop text."""
        if not self._texts:
            return False
        tail = self._decode(written[-self._longest :])
        return any(text in tail for text in self._texts)

    def of(self, before: list[list[int]]) -> Callable[[int, Sequence[int]], bool] | None:
        """The condition of a search over sources that wrote these tokens before."""
        if not self._texts:
            return None
        tails = [written[-self._longest :] for written in before]
        return lambda source, written: self.ends([*tails[source], *written])


def _seed(seed: int | tuple[int, ...], draft: _Draft) -> int:
    """From the text itself: an output is drawn the same in whatever batch."""
    digest = hashlib.blake2b(repr((seed, draft.place, draft.ids)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _continuation(task: LanguageModelling, prompt: str, draft: _Draft, options: WritingOptions) -> Continuation:
    whole = task.tokenizer.decode(draft.written)
    text, stopped_by = before_stop(whole, options.stop)
    if stopped_by is None and not draft.ended:
        text = without_incomplete(text, draft.written, task.tokenizer.encode)
    tokens = [task.tokenizer.token(token) for token in draft.written]
    log_prob, count = sum(draft.log_probs), len(draft.log_probs)
    return Continuation(
        text,
        prompt,
        (*tokens, task.tokenizer.token(END)) if draft.ended else tuple(tokens),
        tuple(draft.log_probs),
        draft.ended or stopped_by is not None,
        stopped_by,
        log_prob / max(1, count) ** options.length_penalty,
        tuple(draft.written),
        draft.unread,
    )

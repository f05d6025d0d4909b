"""Continuations of prompts: written greedily, by sampling or with a beam; or given, and ranked.

A model without carried state reads at most its context of c tokens. Of a longer prompt only the last c are read. Where
prompt and output together grow longer, the oldest quarter of the context is dropped and the rest is read again, so
that every token is written after at least three quarters of the context (where there is as much). That costs one pass
over 3c/4 tokens for every c/4 tokens written. Models that carry their state read any length.

Given continuations of a prompt are ranked by

    log p(choice | prompt) = sum of log p(token | all before it) over the tokens of the choice

Prompt and choice are cut into tokens together, as one text: how a text is cut depends on its surroundings. A token that
spans the border belongs wholly to the choice. A space is added between the two where neither has one at the border (not
between letters of scripts without spaces); it belongs to the choice.

The total says which continuation the model finds most probable. It falls with every further token, so scores per token
and per byte are given too, to compare choices of unequal length.
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from torch import Tensor

from heed.data.batch import pad_rows, plan_batches
from heed.data.tokens import END
from heed.data.tokens.tokenizer import Encoded
from heed.errors import ConfigError
from heed.generation import Candidate, Hypothesis, SamplingOptions, SearchOptions, Step, generate, generate_steps
from heed.models.base import LanguageModel
from heed.tasks.base.predictions import Prediction, check_choices, one_line, rounded, short
from heed.tasks.heads.token_scores import ScoredText, score_each

if TYPE_CHECKING:
    from heed.tasks.inputs.stream import Stream


@dataclass(frozen=True, repr=False)
class Continuation(Prediction):
    """Output of a model after a prompt.

    Attributes:
        text: The output, without the prompt and without the stop text.
        prompt: The prompt.
        tokens: Every token that was written, as text: "</s>" last where the model ended the document, and those that
            spell the stop text.
        log_probs: Natural log-probability of each token under the model (before temperature, cuts and penalties).
        finished: True if the model ended the document or wrote a stop text; False if the output was cut off.
        stopped_by: The stop text that ended the output, or None.
        score: Ranking score of candidates: log-probability / number of tokens ** length_penalty.
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

    def __repr__(self) -> str:
        return f"<{short(self.text)}{'' if self.finished else ', cut off'}>"

    def values(self) -> dict[str, Any]:
        names = ("text", "score", "log_prob", "tokens", "log_probs", "finished", "stopped_by", "unread")
        return {name: getattr(self, name) for name in names}

    def rows(self) -> list[dict[str, Any]]:
        return [{"prompt": self.prompt, "text": self.text, "log_prob": self.log_prob, "finished": self.finished}]

    @property
    def log_prob(self) -> float:
        """Natural log-probability of everything that was written, given the prompt."""
        return sum(self.log_probs)


@dataclass(frozen=True)
class WritingOptions:
    """Options of continuing a prompt.

    Attributes:
        length: Largest number of tokens to write, the end token included.
        min_length: Smallest number of tokens before the end token.
        beam_size: Width of the beam; 1 is greedy.
        num_best: Candidates per prompt.
        length_penalty: Candidates are compared by log-probability / length ** length_penalty.
        sampling: Sample instead of searching.
        stop: Texts before which the output is cut; the earliest counts.
        repetition_penalty: See `heed.generation.search`; also applies to tokens of the prompt. Not with a beam.
        watch: As of `SearchOptions`.
    """

    length: int = 100
    min_length: int = 0
    beam_size: int = 1
    num_best: int = 1
    length_penalty: float = 1.0
    sampling: SamplingOptions | None = None
    stop: tuple[str, ...] = ()
    repetition_penalty: float = 1.0
    watch: Callable[[int, list[Candidate]], None] | None = None

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ConfigError(f"length is {self.length}, expected at least 1 token")
        if isinstance(self.stop, str):
            raise ConfigError(f"stop takes several texts; for one, write [{self.stop!r}]")
        if "" in self.stop:
            raise ConfigError("a stop text is empty; give the text before which the output should end")
        if self.sampling is not None and self.beam_size > 1:
            raise ConfigError(f"beam_size {self.beam_size} cannot be combined with sampling; give only one")
        if self.sampling is None and self.num_best > self.beam_size:
            raise ConfigError(
                f"num_best {self.num_best} needs a beam_size of at least {self.num_best}, or sampling; "
                f"the beam_size is {self.beam_size}"
            )
        object.__setattr__(self, "stop", tuple(self.stop))
        self.search(1).check()

    @property
    def streams(self) -> bool:
        """True if there is a single output that only grows, so that it can be streamed."""
        return self.beam_size == self.num_best == 1

    def search(self, max_length: int | tuple[int, ...], end_token: int = END, **others: Any) -> SearchOptions:
        """The options of a search for so many tokens; `others` are those that are not of all searches."""
        alike = {name: getattr(self, name) for name in ("beam_size", "length_penalty", "repetition_penalty", "watch")}
        num_best = self.num_best if self.sampling is None else 1
        return SearchOptions(end_token, max_length, num_best=num_best, **alike, **others)


INCOMPLETE = "\ufffd"
"""Decoding of bytes that are not a whole character."""


class Pieces:
    """Turns tokens, one by one, into text that no later token can change.

    The bytes of an incomplete character, and a possible beginning of a stop text, are held back; nothing is returned
    after a stop text.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], stop: Sequence[str] = ()) -> None:
        self._decode = decode
        self._stop = stop
        self._tokens: list[int] = []  # tokens whose text was not fully shown
        self._shown = 0  # characters of their text that were shown

    def add(self, token: int) -> str:
        """Add a token and return the text that can now be shown."""
        self._tokens.append(token)
        text = self._decode(self._tokens)
        text, stopped = before_stop(text, self._stop)
        if not stopped:
            text = text.rstrip(INCOMPLETE)
            text = text[: len(text) - self._held(text)]
        piece = text[self._shown :]
        self._shown += len(piece)
        if not stopped and text == self._decode(self._tokens):
            self._tokens, self._shown = [], 0
        return piece

    def _held(self, text: str) -> int:
        """Number of characters at the end that may be the beginning of a stop text."""
        longest = 0
        for stop in self._stop:
            for length in range(min(len(stop) - 1, len(text)), longest, -1):
                if text.endswith(stop[:length]):
                    longest = length
                    break
        return longest


class Stops:
    """Finds stop texts in written tokens; only the last few tokens can complete one."""

    def __init__(self, decode: Callable[[Sequence[int]], str], texts: tuple[str, ...]) -> None:
        self._decode = decode
        self._texts = texts
        # A token stands for one byte at least; a few more, as the first may be the middle of a character.
        try:
            self._longest = max((len(text.encode()) for text in texts), default=0) + 4
        except UnicodeEncodeError as error:
            what = "contains half a surrogate pair, which is not a character"
            raise ConfigError(f"the stop text {error.object!a:.40} {what}") from None

    def ends(self, written: Sequence[int]) -> bool:
        """True if the last of these tokens completes a stop text."""
        if not self._texts:
            return False
        tail = self._decode(written[-self._longest :])
        return any(text in tail for text in self._texts)

    def of(self, before: list[list[int]]) -> Callable[[int, Sequence[int]], bool] | None:
        """The stop condition of a search, given the tokens written before for each source; None without stop texts."""
        if not self._texts:
            return None
        tails = [written[-self._longest :] for written in before]
        return lambda source, written: self.ends([*tails[source], *written])


def before_stop(text: str, stop: Sequence[str]) -> tuple[str, str | None]:
    """Cut a text at its earliest stop text, and return both; of two at the same position, the longer."""
    matches = [(place, -len(ending), ending) for ending in stop if (place := text.find(ending)) >= 0]
    if not matches:
        return text, None
    place, _, ending = min(matches)
    return text[:place], ending


def without_incomplete(text: str, tokens: Sequence[int], encode: Callable[[str], Encoded]) -> str:
    """Remove the bytes of an incomplete character from the end of the tokens' text."""
    if not text.endswith(INCOMPLETE):
        return text
    written = encode(INCOMPLETE).ids  # the character itself may have been written
    return text if list(tokens[-len(written) :]) == written else text.rstrip(INCOMPLETE)


LENGTH = 20
"""Tokens that a look writes by default."""
_TOGETHER = 65_536
"""Tokens read and written together."""


@dataclass
class _Draft:
    """An output that is being written."""

    read: list[int]  # the prompt, after the first token
    place: int = 0  # its index among the sampled outputs of its prompt
    written: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    ended: bool = False
    stopped: bool = False
    unread: int = 0

    @property
    def ids(self) -> list[int]:
        return self.read + self.written


def continue_all(
    input: Stream, model: LanguageModel, prompts: Sequence[str], options: WritingOptions
) -> list[list[Continuation]]:
    """Continue each prompt: per prompt `num_best` outputs, best first; an empty prompt begins a document.

    Raises:
        ConfigError: A beam is to write more tokens than the context.
    """
    times = 1 if options.sampling is None else options.num_best
    first = [input.prompt_tokens(ids) for ids in input.tokenizer.encode_all(list(prompts))]
    drafts = [_Draft(ids, place) for ids in first for place in range(times)]
    if options.beam_size > 1:
        outputs = _search(input, model, drafts, options)
    else:
        for _ in _write(input, model, drafts, options):
            pass
        outputs = [drafts[i : i + times] for i in range(0, len(drafts), times)]
    return [
        sorted((_continuation(input, prompt, draft, options) for draft in group), key=lambda c: -c.score)
        for prompt, group in zip(prompts, outputs, strict=True)
    ]


def stream(
    input: Stream, model: LanguageModel, prompt: str, options: WritingOptions
) -> Generator[str, None, Continuation]:
    """Continue one prompt and yield the text piece by piece, as soon as no later token can change it.

    A character is held back until all its bytes are written, and a possible beginning of a stop text until it is known
    not to be one. The pieces together are the text of the returned continuation.

    Raises:
        ConfigError: The options ask for a beam or for several outputs.
    """
    if not options.streams:
        raise ConfigError(
            "only one output, greedy or sampled, can be shown while it is written; leave out the beam and num_best"
        )
    draft = _Draft(input.prompt_tokens(input.tokenizer.encode(prompt).ids))
    pieces = Pieces(input.tokenizer.decode, options.stop)
    shown = 0
    for _, token in chain.from_iterable(_write(input, model, [draft], options)):
        if piece := pieces.add(token):
            shown += len(piece)
            yield piece
    continuation = _continuation(input, prompt, draft, options)
    if tail := continuation.text[shown:]:
        yield tail
    return continuation


def context_of(input: Stream, model: LanguageModel) -> int | None:
    """The largest number of tokens that a model reads together; None for a model that carries its state."""
    return None if model.carries else input.context


def _write(
    input: Stream, model: LanguageModel, drafts: list[_Draft], options: WritingOptions
) -> Generator[Step, None, None]:
    """Write greedily or by sampling, in legs; a leg ends when the context of every output is full.

    An output whose context is full waits for the others; then all continue together, with windows of equal length.
    """
    model.eval()
    context, forbidden = context_of(input, model), _never_written(input)
    stops = Stops(input.tokenizer.decode, options.stop)
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
        # The rows of a search share their min_length; in most legs it is 0, or longer than the leg.
        needs = [max(0, options.min_length - len(draft.written)) for draft in waiting]
        needs = [need if need < room else options.min_length for need, room in zip(needs, rooms, strict=True)]
        for need in sorted(set(needs)):
            alike = [i for i, tokens in enumerate(needs) if tokens == need]
            for chosen in plan_batches(costs, _TOGETHER, chosen=alike):
                batch = [waiting[i] for i in chosen]
                search = options.search(
                    tuple(rooms[i] for i in chosen),
                    input.tokenizer.special.end,
                    min_length=need,
                    forbidden=forbidden,
                    stop=stops.of([draft.written for draft in batch]),
                    read=tuple(tuple(draft.ids) for draft in batch),
                )
                sampling = options.sampling
                if sampling is not None:
                    seeds = tuple(_seed(sampling.seed, draft) for draft in batch)
                    sampling = replace(sampling, seed=seeds)
                tokens, lengths = _prompt(model, [windows[i] for i in chosen])
                generated = yield from generate_steps(model, None, tokens, search, lengths, sampling)
                for draft, (hypothesis,) in zip(batch, generated.hypotheses, strict=True):
                    _extend(draft, hypothesis, stops)
        waiting = [
            draft for draft in waiting if not (draft.ended or draft.stopped or len(draft.written) >= options.length)
        ]
        keep = None if context is None else context - context // 4


def _never_written(input: Stream) -> tuple[int, ...]:
    """Tokens that are not text; also the end token if documents have none."""
    special = input.tokenizer.special
    return special.never_written if input.end_token else (*special.never_written, special.end)


def _prompt(model: LanguageModel, windows: list[list[int]]) -> tuple[Tensor, Tensor | None]:
    """Windows as one tensor `(rows, longest)`, and their lengths if they are unequal."""
    tokens, mask = pad_rows(windows)
    device = next(model.parameters()).device
    return tokens.to(device), None if bool(mask.all()) else mask.sum(1).to(device)


def _search(input: Stream, model: LanguageModel, drafts: list[_Draft], options: WritingOptions) -> list[list[_Draft]]:
    """Beam search. A beam cannot move to another window, so only the end of the prompt is read that leaves it room."""
    model.eval()
    context = context_of(input, model)
    keep = None
    if context is not None:
        keep = context + 1 - options.length
        if keep < 1:
            raise ConfigError(
                f"a beam cannot write beyond the model's context: length is {options.length}, and the context "
                f"{context} tokens; give a length of at most {context}, or write greedily or by sampling"
            )
    stops = Stops(input.tokenizer.decode, options.stop)
    windows = [draft.read if keep is None else draft.read[-keep:] for draft in drafts]
    results: list[list[_Draft]] = [[] for _ in drafts]
    for chosen in plan_batches([len(window) + options.length for window in windows], _TOGETHER // options.beam_size):
        tokens, lengths = _prompt(model, [windows[i] for i in chosen])
        stop, forbidden = stops.of([[] for _ in chosen]), _never_written(input)
        others = {"min_length": options.min_length, "forbidden": forbidden, "stop": stop}
        search = options.search(options.length, input.tokenizer.special.end, **others)
        generated = generate(model, None, tokens, search, lengths)
        for i, hypotheses in zip(chosen, generated.hypotheses, strict=True):
            for hypothesis in hypotheses:
                draft = _Draft(drafts[i].read, unread=len(drafts[i].read) - len(windows[i]))
                _extend(draft, hypothesis, stops)
                results[i].append(draft)
    return results


def _extend(draft: _Draft, hypothesis: Hypothesis, stops: Stops) -> None:
    draft.written += hypothesis.tokens
    draft.log_probs += hypothesis.log_probs
    draft.ended = hypothesis.finished
    draft.stopped = not draft.ended and stops.ends(draft.written)


def _seed(seed: int | tuple[int, ...], draft: _Draft) -> int:
    """A seed from the tokens so far, so that an output does not depend on its batch."""
    digest = hashlib.blake2b(repr((seed, draft.place, draft.ids)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _continuation(input: Stream, prompt: str, draft: _Draft, options: WritingOptions) -> Continuation:
    whole = input.tokenizer.decode(draft.written)
    text, stopped_by = before_stop(whole, options.stop)
    if stopped_by is None and not draft.ended:
        text = without_incomplete(text, draft.written, input.tokenizer.encode)
    tokens = [input.tokenizer.piece(token) for token in draft.written]
    log_prob, count = sum(draft.log_probs), len(draft.log_probs)
    return Continuation(
        text,
        prompt,
        (*tokens, input.tokenizer.piece(input.tokenizer.special.end)) if draft.ended else tuple(tokens),
        tuple(draft.log_probs),
        draft.ended or stopped_by is not None,
        stopped_by,
        log_prob / max(1, count) ** options.length_penalty,
        tuple(draft.written),
        unread=max(0, draft.unread - len(input.prompt_tokens([0])) + 1),  # the first token is not part of the prompt
    )


_WITHOUT_BLANKS = frozenset({"CJK", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan"})
"""Scripts that put no space between words."""


@dataclass(frozen=True)
class RankedChoice:
    """A ranked continuation.

    Attributes:
        choice: The continuation as it was given.
        place: Its index among the given choices, from 0.
        log_prob: Natural log-probability of all its tokens after the prompt, by which choices are ranked.
        probability: Its probability among the given choices: the softmax of their totals.
        tokens: Its tokens; the first may begin in the prompt.
        log_probs: Natural log-probability of each.
        num_bytes: Bytes of the text of these tokens in UTF-8, without an end token.
    """

    choice: str
    place: int
    log_prob: float
    probability: float
    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]
    num_bytes: int

    @property
    def per_token(self) -> float:
        """`log_prob` divided by the number of tokens."""
        return self.log_prob / len(self.tokens)

    @property
    def per_byte(self) -> float:
        """`log_prob` divided by the number of bytes."""
        return self.log_prob / self.num_bytes

    def as_json(self) -> dict[str, Any]:
        """The values of `heed predict --choice --json`."""
        names = ("choice", "log_prob", "per_token", "per_byte", "probability", "tokens", "log_probs")
        return {name: rounded(getattr(self, name)) for name in names}

    def line(self) -> str:
        """A row of the table of `heed predict --choice`."""
        numbers = f"{self.probability:11.4f}  {self.log_prob:8.3f}  {self.per_token:9.3f}  {self.per_byte:8.3f}"
        return f"{numbers}  {len(self.tokens):6}  {one_line(self.choice)}"


def rank(
    input: Stream, model: LanguageModel, questions: Sequence[tuple[str, Sequence[str]]], end: bool = False
) -> list[list[RankedChoice]]:
    """Rank the choices of each question.

    Args:
        input: Has the tokenizer and the context.
        model: In evaluation mode.
        questions: Prompts with their choices; an empty prompt begins a document.
        end: Also count the end token after each choice, so that a choice must end the document.

    Returns:
        Per question its choices, most probable first; equally probable ones as they were given.

    Raises:
        ConfigError: A question has no choices, a blank or a repeated one; or the run has no end token to count.
    """
    for _, choices in questions:
        check_choices(choices, "choices")
    if end and not input.end_token:
        raise ConfigError("this run has no end token to count (data.end_token is false)")
    texts = [join(prompt, choice) for prompt, choices in questions for choice in choices]
    scored = iter(score_each(input, model, texts, ranks=False))
    results = []
    for prompt, choices in questions:
        parts = [_after(next(scored), len(prompt), end) for _ in choices]
        totals = [math.fsum(log_probs) for _, log_probs, _ in parts]
        best = max(totals)
        norm = math.fsum(math.exp(total - best) for total in totals)
        ranked = [
            RankedChoice(choice, place, total, math.exp(total - best) / norm, *part)
            for place, (choice, total, part) in enumerate(zip(choices, totals, parts, strict=True))
        ]
        results.append(sorted(ranked, key=lambda choice: -choice.log_prob))
    return results


def join(prompt: str, choice: str) -> str:
    """Join prompt and choice into one text."""
    if not prompt or prompt[-1].isspace() or choice[0].isspace():
        return prompt + choice
    return prompt + ("" if _unspaced(prompt[-1]) and _unspaced(choice[0]) else " ") + choice


@cache
def script_of(character: str) -> str:
    """The script of a letter, such as "Latin", "Cyrillic", "CJK"; "" for other characters."""
    if unicodedata.category(character) not in ("Lu", "Ll", "Lt", "Lo"):
        return ""
    plain = unicodedata.normalize("NFKC", character)[0]
    name = unicodedata.name(plain, "").partition(" ")[0]
    return name if name == "CJK" else name.capitalize()


def _unspaced(character: str) -> bool:
    """True for letters and marks of scripts without spaces."""
    script = script_of(character)
    return script in _WITHOUT_BLANKS or (not script and unicodedata.east_asian_width(character) in ("W", "F"))


def _after(scored: ScoredText, border: int, end: bool) -> tuple[tuple[str, ...], tuple[float, ...], int]:
    """Tokens, log-probabilities and number of bytes of the part of a text after its border."""
    first = next(n for n, (_, stop) in enumerate(scored.spans) if stop > border)
    tokens, log_probs = scored.tokens[first:], scored.log_probs[first:]
    if end:
        assert scored.end_log_prob is not None
        tokens, log_probs = (*tokens, "</s>"), (*log_probs, scored.end_log_prob)
    return tokens, log_probs, len(scored.text[scored.spans[first][0] :].encode("utf-8", "surrogatepass"))

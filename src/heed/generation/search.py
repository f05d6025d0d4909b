"""Searches for the best continuation, with any decoder: greedy, by sampling, and with a beam.

From top to bottom: options and results, scores of the next token, one token a step (greedy and sampling), beams.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from heed.attention import Rows, watch
from heed.attention.host import sent
from heed.errors import ConfigError
from heed.kernels import Best, LargeVocabulary, best_of, enabled
from heed.layers import last_of
from heed.models.base import DecoderBody, Memory
from heed.threads import threads_for

EarlyStopping = Literal["never", "heuristic", "full"]
"""When the beam search of a source ends.

- never: when no open row can still beat the hypotheses to return, however long it gets;
- heuristic: when `beam_size` hypotheses have ended, and no open row would beat the worst of them if it ended now;
- full: when `beam_size` hypotheses have ended.

With the last two, a row ends only if its end token is among the `beam_size` best candidates. They match `generate` of
the library transformers with `early_stopping` false (its default) and true.
"""


class Candidate(NamedTuple):
    """A continuation that a step of a beam search ranked."""

    parent: int  # the row that it continues, by its place among those kept at the step before; 0 at the first step
    token: int
    log_prob: float  # of the token, in nats
    total: float  # log-probability of the row so far
    score: float  # `total` / number of tokens ** length_penalty
    fate: str  # "kept", "ended", "cut off" (at the maximum length) or "left out"


@dataclass(frozen=True)
class SearchOptions:
    """Options of a search."""

    end_token: int  # ends a sequence
    max_length: int | tuple[int, ...]  # maximum number of tokens with the end token; one number, or one per source
    min_length: int = 0  # minimum number of tokens before the end token
    beam_size: int = 1  # sequences kept per source; 1 is greedy
    length_penalty: float = 1.0  # hypotheses are compared by log-probability / length ** length_penalty
    num_best: int = 1  # hypotheses returned per source, at most `beam_size`
    forbidden: tuple[int, ...] = ()  # tokens that are never written (padding, start)
    forbidden_first: tuple[int, ...] = ()  # tokens that are never the first one written
    stop: Callable[[int, Sequence[int]], bool] | None = None  # (number of source, tokens) -> True to end
    forced: tuple[int, ...] = ()  # per source, the first token of every output, with log-probability 0; or none
    no_repeat_ngram: int = 0  # no output, with its prompt, has an n-gram of this size twice; 0: any may repeat
    repetition_penalty: float = 1.0  # makes tokens that were read or written less likely; see `Repetition`
    renormalize: bool = False  # leave out forbidden tokens before the softmax instead of after
    early_stopping: EarlyStopping = "never"  # when the beam search of a source ends
    read: tuple[tuple[int, ...], ...] | None = None  # per source, the tokens that count as read; default: the prompt
    # called by a beam search with the number of a source and its candidates at each step, best first
    watch: Callable[[int, list[Candidate]], None] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.length_penalty <= 100:
            raise ConfigError(
                f"length_penalty is {self.length_penalty}, expected at least 0 (no length normalisation), at most 100"
            )
        longest = self.max_length if isinstance(self.max_length, int) else max(self.max_length, default=0)
        limits = ("beam_size", self.beam_size, 1_000), ("max_length", longest, 100_000)
        for name, value, maximum in (*limits, ("no_repeat_ngram", self.no_repeat_ngram, 1_000)):
            if value > maximum:
                raise ConfigError(f"{name} is {value}, expected at most {maximum:,}")

    def check(self) -> None:
        """Check that the options are valid together.

        Raises:
            ConfigError: `num_best` is larger than `beam_size`, or the repetition penalty is not a finite number above 0
                or is set for a beam search.
        """
        self.check_repetition()
        if self.repetition_penalty != 1 and self.beam_size > 1:
            raise ConfigError(
                f"repetition_penalty {self.repetition_penalty} works only with greedy search and sampling: a beam of "
                f"{self.beam_size} compares the log-probabilities of whole outputs"
            )
        if self.num_best > self.beam_size:
            raise ConfigError(f"num_best is {self.num_best}, expected at most beam_size, {self.beam_size}")

    def check_repetition(self) -> None:
        """Raise a ConfigError if the repetition penalty is not a finite number above 0."""
        if not 0 < self.repetition_penalty < math.inf:
            raise ConfigError(
                f"repetition_penalty is {self.repetition_penalty}, expected a finite number above 0 (1 changes nothing)"
            )

    def banned(self, written: int) -> tuple[int, ...]:
        """The tokens that may not follow `written` tokens."""
        banned = self.forbidden if written >= self.min_length else (*self.forbidden, self.end_token)
        return banned if written else (*banned, *self.forbidden_first)

    def limits(self, num_sources: int) -> list[int]:
        """The maximum output length for each source."""
        if isinstance(self.max_length, int):
            return [self.max_length] * num_sources
        assert len(self.max_length) == num_sources
        return list(self.max_length)


@dataclass(frozen=True)
class Hypothesis:
    """One generated sequence."""

    tokens: tuple[int, ...]  # without the start and the end token
    log_probs: tuple[float, ...]  # natural log-probability of each token, including the end token if it was written
    score: float  # sum of `log_probs` / number of them ** length_penalty; hypotheses are ranked by it
    finished: bool  # True if the end token was written; False if cut off at the maximum length

    @property
    def log_prob(self) -> float:
        """Log-probability of the whole sequence."""
        return sum(self.log_probs)


@dataclass(frozen=True)
class BeamStep:
    """One step of a beam search: an entry for each kept row."""

    sources: list[int]  # `(rows,)`, the source of each row
    parents: list[int]  # `(rows,)`, the row of the previous step that each row continues
    tokens: list[int]  # `(rows,)`, the token that each row wrote
    log_probs: list[float]  # `(rows,)`, the log-probability of that token
    totals: list[float]  # `(rows,)`, log-probability of the row so far


@dataclass(frozen=True)
class Generated:
    """The hypotheses of each source, best first, and the steps of a beam search (empty for greedy)."""

    hypotheses: list[list[Hypothesis]]
    steps: list[BeamStep] = field(default_factory=list)


def without(leaving: set[int], count: int) -> list[int]:
    """The places `0 .. count - 1` without those that leave, whose gaps are filled with the last places.

    If few leave, few move, so that states can be changed in place.
    """
    stay = [n for n in range(count) if n not in leaving]
    last = iter(reversed(stay))
    return [n if n not in leaving else next(last) for n in range(len(stay))]


class Writer(Protocol):
    """Another program that runs a trained model."""

    name: str
    """Name of the engine, for users."""

    def fits(self, sources: Sequence[list[int]], options: SearchOptions) -> bool:
        """Whether these sources and their longest outputs are short enough for it."""

    def write(self, sources: Sequence[list[int]], options: SearchOptions) -> list[list[Hypothesis]]:
        """The `num_best` hypotheses of each source, best first; all sources have the same maximum length.

        Raises:
            ConfigError: An option is not supported, or a source is too long.
        """


class Repetition:
    """Penalises the logits of rows and remembers which tokens each has read and written.

        p(i) = exp(x_i / (T I(i))) / sum_j exp(x_j / (T I(j)))        I(i) = penalty if i was read or written, else 1

    x are the logits and T the temperature.

    Source: Keskar et al. 2019 (CTRL, arXiv:1909.05858), section 4.1; they use a penalty of 1.2.
    Differs from the paper: a negative logit is multiplied by the penalty instead of divided, as `transformers` does,
    since division would make its token more likely. The end token and forbidden tokens are never penalised.

    Args:
        options: The penalty, the tokens that count as read, and those that are never penalised.
        prompt: `(sources, n)`, the tokens that count as read by default.
        prompt_lengths: `(sources,)`, if prompts are padded on the right.
        times: Number of rows of each source; they are adjacent.
    """

    def __init__(self, options: SearchOptions, prompt: Tensor, prompt_lengths: Tensor | None, times: int = 1) -> None:
        options.check_repetition()
        self._penalty = options.repetition_penalty
        self._never = (options.end_token, *options.forbidden)
        read: Sequence[Sequence[int]] | None = options.read
        if read is None:
            read = _prompts(prompt, prompt_lengths)
        self._read = [tokens for tokens in read for _ in range(times)]
        self._seen = torch.empty(0)

    def __call__(self, logits: Tensor, rows: list[int]) -> Tensor:
        """Penalised logits `(open rows, vocab_size)` of the rows numbered `rows`."""
        if not len(self._seen):
            self._seen = torch.zeros(len(self._read), logits.shape[-1], dtype=torch.bool)
            for seen, tokens in zip(self._seen, self._read, strict=True):
                seen[list(tokens)] = True
            self._seen[:, list(self._never)] = False
            self._seen = sent(self._seen, logits.device)
        penalised = torch.where(logits < 0, logits * self._penalty, logits / self._penalty)
        return torch.where(self._seen[sent(torch.tensor(rows), logits.device)], penalised, logits)

    def add(self, rows: list[int], tokens: Tensor) -> None:
        """Record the token that each of these rows wrote, `(open rows,)`; an end token closes its row."""
        self._seen[sent(torch.tensor(rows), tokens.device), tokens] = True


def without_gradient() -> AbstractContextManager[object]:
    """Context for generation without gradients: inference mode, which is faster, unless a trace is open.

    Tensors that a trace keeps must stay usable everywhere, so then gradients are only disabled. On a CPU a search
    computes in float32, since its products of few rows gain nothing from 16 bits.
    """
    context = torch.inference_mode() if watch.observer.current is None else torch.no_grad()
    return _wide(context) if torch.is_autocast_enabled("cpu") else context


@contextmanager
def _wide(context: AbstractContextManager[object]) -> Iterator[None]:
    with context, torch.autocast("cpu", enabled=False):
        yield


class NextTokenScores:
    """Scores of the next token of each row of one search; forbidden tokens get -inf.

    With the option `renormalize`, the other probabilities are renormalised.
    """

    def __init__(self, model: DecoderBody, options: SearchOptions) -> None:
        self._model = model
        self._options = options
        self._banned: dict[tuple[int, ...], Tensor] = {}
        output = model.output
        self._large = LargeVocabulary(output.weight, output.bias) if type(output) is nn.Linear else None
        self.seen: Sequence[Sequence[int]] = ()
        """The prompt and the tokens written of each row, if the options say which n-grams may repeat."""

    def log_probs(self, hidden: Tensor, lengths: Tensor | None, written: int) -> Tensor:
        """Log-probabilities of the next token of each row, `(rows, vocab_size)`.

        Args:
            hidden: `(rows, n, d)`; only each row's last real position is used.
            lengths: `(rows,)`, number of real positions, or None if there is no padding.
            written: Number of tokens already written.
        """
        log_probs = torch.log_softmax(self._model.logits(last_of(hidden, lengths)).float(), dim=-1)
        return self._normalised(self._without_banned(log_probs, written))

    def changed(
        self, hidden: Tensor, lengths: Tensor | None, written: int, change: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """The result of `log_probs`, and the logits after `change`, -inf if forbidden; both `(rows, vocab_size)`."""
        logits = self._model.logits(last_of(hidden, lengths)).float()
        log_probs = torch.log_softmax(logits, dim=-1)
        log_probs = self._normalised(self._without_banned(log_probs, written))
        return log_probs, self._without_banned(change(logits), written)

    def _normalised(self, log_probs: Tensor) -> Tensor:
        return torch.log_softmax(log_probs, dim=-1) if self._options.renormalize else log_probs

    def _without_banned(self, scores: Tensor, written: int) -> Tensor:
        options, banned = self._options, self._options.banned(written)
        if banned and banned not in self._banned:
            self._banned[banned] = sent(torch.tensor(banned), scores.device)
        if banned:
            scores = scores.index_fill_(1, self._banned[banned], -torch.inf)
        if options.no_repeat_ngram:
            for row, tokens in enumerate(self.seen):
                scores[row, repeated(tokens, options.no_repeat_ngram)] = -torch.inf
        if options.forced and not written:
            forced = sent(torch.tensor(options.forced), scores.device).repeat_interleave(
                len(scores) // len(options.forced)
            )
            scores = torch.full_like(scores, -torch.inf).scatter_(1, forced.unsqueeze(1), 0.0)
        return scores

    def best(self, hidden: Tensor, lengths: Tensor | None, written: int, totals: Tensor, k: int) -> Best:
        """The `k` best continuations of each source, as from `best_of`; other arguments as for `log_probs`."""
        options = self._options
        changes = options.renormalize or options.no_repeat_ngram or (options.forced and not written)
        large = None if changes else self._large
        if large is not None and large.pays(len(hidden), k) and self._is_unobserved_float32(hidden):
            return large.best(last_of(hidden, lengths), self._options.banned(written), totals, k)
        return best_of(self.log_probs(hidden, lengths, written), totals, k)

    def _is_unobserved_float32(self, hidden: Tensor) -> bool:
        """True if fast forms may run: enabled, on a CPU in float32, without trace, gradients or autocast."""
        return (
            enabled()
            and watch.observer.current is None
            and not torch.is_grad_enabled()
            and not torch.is_autocast_enabled("cpu")
            and hidden.device.type == "cpu"
            and hidden.dtype == next(self._model.output.parameters()).dtype == torch.float32
        )


def repeated(tokens: Sequence[int], size: int) -> list[int]:
    """The tokens that would repeat an n-gram of some size if they followed.

    Source: Paulus et al. 2017 (arXiv:1705.04304), section 2.5, trigrams; Klein et al. 2017 (OpenNMT) any size.
    """
    last = tuple(tokens[len(tokens) - size + 1 :]) if len(tokens) >= size else None
    return [tokens[n + size - 1] for n in range(len(tokens) - size + 1) if tuple(tokens[n : n + size - 1]) == last]


def _prompts(prompt: Tensor, lengths: Tensor | None) -> list[list[int]]:
    """Prompts without padding."""
    counts = [prompt.shape[1]] * len(prompt) if lengths is None else lengths.tolist()
    return [tokens[:count] for tokens, count in zip(prompt.tolist(), counts, strict=True)]


Choose = Callable[[NextTokenScores, Tensor, Tensor | None, int, list[int]], tuple[Tensor, Tensor]]
"""Chooses the next tokens: from next-token scores, hidden states `(open rows, n, d)`, their lengths, the number of
tokens written and the numbers of the open rows, to tokens and their log-probabilities, both `(open rows,)`."""


T = TypeVar("T")
Step = list[tuple[int, int]]
"""(number of row, token) for each row that wrote a token."""


def write_steps(
    model: DecoderBody,
    memory: Memory | None,
    prompt: Tensor,
    options: SearchOptions,
    choose: Choose,
    times: int = 1,
    prompt_lengths: Tensor | None = None,
) -> Generator[Step, None, list[Hypothesis]]:
    """Write `times` adjacent rows for each source; `choose` picks each row's next token.

    Nothing is computed before the first step is requested. Other arguments as for `beam_search`.

    Yields:
        After each step, the tokens written in it, without end tokens.

    Returns:
        One hypothesis per row.
    """
    num_sources = len(prompt)
    limits = [limit for limit in options.limits(num_sources) for _ in range(times)]
    tokens: list[list[int]] = [[] for _ in limits]
    log_probs: list[list[float]] = [[] for _ in limits]
    finished = [False] * len(limits)

    active = list(range(len(limits)))
    with without_gradient():
        state = model.start(memory, Rows.repeat(num_sources, times, device=prompt.device))
        step = prompt.repeat_interleave(times, dim=0)
        lengths = None if prompt_lengths is None else prompt_lengths.repeat_interleave(times)
        scores = NextTokenScores(model, options)
        before = _prompts(prompt, prompt_lengths) if options.no_repeat_ngram else []
    for written in range(max(limits, default=0)):
        if before:
            scores.seen = [[*before[output // times], *tokens[output]] for output in active]
        # Not around the whole loop: between two steps the caller's code runs.
        with without_gradient(), threads_for(model, step.numel()):
            hidden, state = model.step(step, state, lengths)
            token, chosen = choose(scores, hidden, lengths, written, active)
            step, lengths = token.unsqueeze(1), None
        leaving: set[int] = set()
        new: Step = []
        for row, (output, t, p) in enumerate(zip(active, token.tolist(), chosen.tolist(), strict=True)):
            log_probs[output].append(p)
            if t == options.end_token:
                finished[output] = True
                leaving.add(row)
                continue
            tokens[output].append(t)
            new.append((output, t))
            stops = options.stop is not None and options.stop(output // times, tokens[output])
            if stops or written + 1 >= limits[output]:
                leaving.add(row)
        yield new
        if len(leaving) == len(active):
            break
        if leaving:
            stay = without(leaving, len(active))
            active = [active[row] for row in stay]
            with without_gradient():
                selected = sent(torch.tensor(stay), prompt.device)
                state, step = state.select(selected), step[selected]
    return [
        Hypothesis(tuple(t), tuple(p), sum(p) / max(1, len(p)) ** options.length_penalty, done)
        for t, p, done in zip(tokens, log_probs, finished, strict=True)
    ]


def to_the_end(steps: Generator[Step, None, T]) -> T:
    """Run all steps and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


@dataclass(frozen=True)
class SamplingOptions:
    """Options of sampling; the same seed and source give the same outputs in any batch.

    Source: top_k as in Fan et al. 2018 (arXiv:1805.04833), top_p as in Holtzman et al. 2020 (arXiv:1904.09751).
    """

    temperature: float = 1.0  # divides log-probabilities: below 1 sharper, above 1 flatter
    top_k: int | None = None  # draw only from this many most probable tokens
    top_p: float | None = None  # draw from the smallest set of most probable tokens with this total probability
    seed: int | tuple[int, ...] = 1  # one for all sources, or one per source

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ConfigError(
                f"temperature is {self.temperature}, expected a finite number above 0 (the limit 0 is greedy search)"
            )
        if self.top_k is not None and self.top_k < 1:
            raise ConfigError(f"top_k is {self.top_k}, expected at least 1")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p is {self.top_p}, expected more than 0 and at most 1")


def generate_steps(
    model: DecoderBody,
    memory: Memory | None,
    prompt: Tensor,
    options: SearchOptions,
    prompt_lengths: Tensor | None = None,
    sampling: SamplingOptions | None = None,
) -> Generator[Step, None, Generated]:
    """Like `generate` without a beam, token by token: yields each row's token as soon as it is generated.

    Row i of the `num_best` rows of source n has the number n * `num_best` + i; its hypothesis may have another place
    among those returned at the end.
    """
    assert sampling is not None or options.beam_size == 1
    times = 1 if sampling is None else options.num_best
    draw = None if sampling is None else _drawing(sampling, len(prompt), times)
    repetition = None if options.repetition_penalty == 1 else Repetition(options, prompt, prompt_lengths, times)

    def choose(
        scores: NextTokenScores, hidden: Tensor, lengths: Tensor | None, written: int, rows: list[int]
    ) -> tuple[Tensor, Tensor]:
        if draw is None and repetition is None:
            best = scores.best(hidden, lengths, written, hidden.new_zeros(len(hidden), 1), 1)
            return best.tokens.squeeze(1), best.log_probs.squeeze(1)
        if repetition is None:
            log_probs = chosen_from = scores.log_probs(hidden, lengths, written)
        else:
            log_probs, chosen_from = scores.changed(hidden, lengths, written, lambda logits: repetition(logits, rows))
        tokens = chosen_from.argmax(-1) if draw is None else draw(chosen_from, rows)
        if repetition is not None:
            repetition.add(rows, tokens)
        return tokens, log_probs.gather(1, tokens.unsqueeze(1)).squeeze(1)

    outputs = yield from write_steps(model, memory, prompt, options, choose, times, prompt_lengths)
    per_source = [outputs[i : i + times] for i in range(0, len(outputs), times)]
    return Generated([sorted(group, key=lambda h: -h.log_prob) for group in per_source])


def _drawing(sampling: SamplingOptions, num_sources: int, times: int) -> Callable[[Tensor, list[int]], Tensor]:
    """Draws the tokens of rows from their scores; the rows of one source are adjacent."""
    seeds = [sampling.seed] * num_sources if isinstance(sampling.seed, int) else sampling.seed
    generators = [torch.Generator().manual_seed(seed % 2**63) for seed in seeds]
    assert len(generators) == num_sources

    def draw(scores: Tensor, rows: list[int]) -> Tensor:
        # Each source has its own random numbers, one for each of its rows, open or ended: the draws of a row depend
        # neither on other sources nor on which rows have ended. (On the CPU, where a seed means the same everywhere.)
        numbers = {n: torch.rand(times, generator=generators[n]) for n in {row // times for row in rows}}
        uniform = torch.stack([numbers[row // times][row % times] for row in rows])
        return _draw(scores, sent(uniform, scores.device), sampling)

    return draw


def _draw(log_probs: Tensor, uniform: Tensor, sampling: SamplingOptions) -> Tensor:
    """One token per row by the inverse of the cumulative distribution over tokens sorted by probability."""
    ordered, index = log_probs.double().sort(dim=-1, descending=True)
    probabilities = torch.softmax((ordered - ordered[:, :1]) / sampling.temperature, dim=-1)
    if sampling.top_k is not None:
        probabilities[:, sampling.top_k :] = 0.0
    if sampling.top_p is not None:
        before = probabilities.cumsum(-1) - probabilities  # the token that crosses top_p still counts
        probabilities[before >= sampling.top_p * probabilities.sum(-1, keepdim=True)] = 0.0
    cumulative = probabilities.cumsum(-1)
    place = torch.searchsorted(cumulative, (uniform.double() * cumulative[:, -1]).unsqueeze(1), right=True)
    last = (probabilities > 0).sum(-1, keepdim=True) - 1  # rounding must not go past the last possible token
    return index.gather(1, torch.minimum(place, last)).squeeze(1)


_Row = tuple[float, int, int, float]
"""A candidate: its log-probability, the row that it continues, its new token, and that token's log-probability."""


def beam_search(
    model: DecoderBody,
    memory: Memory | None,
    prompt: Tensor,
    options: SearchOptions,
    prompt_lengths: Tensor | None = None,
) -> Generated:
    """Keep the `beam_size` most probable partial outputs of each source at each step.

    A hypothesis y is ranked by log p(y | x) / |y| ** length_penalty, |y| counting the end token (Graves 2013;
    Bahdanau et al. 2015 normalise with exponent 1). The search of a source ends when no open row can still beat the
    hypotheses to return: log-probabilities only fall, so an open row can reach at most
    log p / max_length ** length_penalty. With a beam as wide as the tree, the search is exhaustive. `early_stopping`
    ends it earlier, as other programs do. Finished sources leave the batch.

    Args:
        model: Any decoder.
        memory: The encoded sources, or None for a language model.
        prompt: `(sources, n)`, tokens to continue: the start token, possibly followed by a forced prefix.
        options: Beam size, length penalty, limits and forbidden tokens.
        prompt_lengths: `(sources,)`, if prompts are padded on the right.

    Returns:
        Up to `num_best` hypotheses per source, best first, and every step of the search.

    Raises:
        ConfigError: `num_best` is larger than `beam_size`, or a repetition penalty is set.
    """
    options.check()
    num_sources, width = len(prompt), options.beam_size
    limits = options.limits(num_sources)
    done: list[list[Hypothesis]] = [[] for _ in range(num_sources)]
    steps: list[BeamStep] = []

    active = list(range(num_sources))  # unfinished sources; each has `beams` adjacent rows
    totals = torch.zeros(num_sources, 1, device=prompt.device)
    state = model.start(memory, Rows.repeat(num_sources, device=prompt.device))
    scores = NextTokenScores(model, options)
    tokens, lengths = prompt, prompt_lengths
    before = _prompts(prompt, prompt_lengths) if options.no_repeat_ngram else []
    for written in range(max(limits, default=0)):
        if before:
            rows = enumerate(steps[-1].sources) if steps else ((-1, source) for source in active)
            scores.seen = [[*before[source], *(_trace_back(steps, row)[0] if steps else ())] for row, source in rows]
        with threads_for(model, tokens.numel()):
            hidden, state = model.step(tokens, state, lengths)
            # At most `beams` of the candidates end, so 2 * width contain `width` open ones (or all there are).
            best = scores.best(hidden, lengths, written, totals, 2 * width)
        beams, num_candidates = totals.shape[1], best.tokens.shape[1]
        parts = [part.tolist() for part in best]
        leaving: set[int] = set()
        going: list[list[_Row]] = []
        for a, (source, *candidates) in enumerate(zip(active, *parts, strict=True)):
            ended: list[_Row] = []
            open_rows: list[_Row] = []
            may_end = 2 * width if options.early_stopping == "never" else width
            for place, (total, row, token, log_prob) in enumerate(zip(*candidates, strict=True)):
                if total == -math.inf:
                    break
                parent = a * beams + row
                if place >= may_end and token == options.end_token:
                    continue
                if token == options.end_token or _stops(options, source, steps, parent, token):
                    ended.append((total, parent, token, log_prob))
                elif len(open_rows) < width:
                    open_rows.append((total, parent, token, log_prob))
            is_last = written + 1 >= limits[source]
            if options.watch is not None:
                fates = {row[1:3]: "ended" for row in ended}
                fates |= {row[1:3]: "cut off" if is_last else "kept" for row in open_rows}
                options.watch(
                    source,
                    [
                        Candidate(
                            row,
                            token,
                            log_prob,
                            total,
                            total / (written + 1) ** options.length_penalty,
                            fates.get((a * beams + row, token), "left out"),
                        )
                        for total, row, token, log_prob in zip(*candidates, strict=True)
                        if total > -math.inf
                    ],
                )
            _collect(done[source], [*ended, *open_rows] if is_last else ended, steps, options)
            if (
                is_last
                or not open_rows
                or _settled(done[source], open_rows[0][0], written + 1, limits[source], options)
            ):
                leaving.add(a)
            nowhere = (-math.inf, a * beams, candidates[2][0], -math.inf)  # pads all sources to the same number of rows
            going.append(open_rows + [nowhere] * (min(width, num_candidates) - len(open_rows)))
        if len(leaving) == len(active):
            break
        stay = without(leaving, len(active))
        active = [active[a] for a in stay]
        sources = [source for source in active for _ in going[stay[0]]]
        all_totals, parents, written_tokens, log_probs = map(
            list, zip(*(row for a in stay for row in going[a]), strict=True)
        )
        steps.append(BeamStep(sources, parents, written_tokens, log_probs, all_totals))
        totals = sent(torch.tensor(all_totals), prompt.device).view(len(active), -1)
        state = state.select(sent(torch.tensor(parents), prompt.device))
        tokens, lengths = sent(torch.tensor(written_tokens), prompt.device).unsqueeze(1), None
    return Generated([hypotheses[: options.num_best] for hypotheses in done], steps)


def _stops(options: SearchOptions, source: int, steps: list[BeamStep], parent: int, token: int) -> bool:
    """True if `options.stop` ends a row of the last step after `token`, which is not the end token."""
    return options.stop is not None and options.stop(source, [*_trace_back(steps, parent)[0], token])


def _settled(done: list[Hypothesis], open_total: float, written: int, limit: int, options: SearchOptions) -> bool:
    """True if the search of a source ends, after `written` of at most `limit` tokens.

    By default this means that no open row can still enter the result.
    """
    never = options.early_stopping == "never"
    needed = options.num_best if never else options.beam_size
    if len(done) < needed:
        return False
    if options.early_stopping == "full":
        return True
    bound: float = open_total / (limit if never else written) ** options.length_penalty
    return done[needed - 1].score >= bound


def _collect(done: list[Hypothesis], rows: list[_Row], steps: list[BeamStep], options: SearchOptions) -> None:
    """Add rows to the hypotheses of their source, sorted, best first."""
    for total, parent, token, log_prob in rows:
        written, probs = _trace_back(steps, parent)
        probs.append(log_prob)
        ended = token == options.end_token
        score = total / len(probs) ** options.length_penalty
        sequence = written if ended else [*written, token]
        done.append(Hypothesis(tuple(sequence), tuple(probs), score, ended))
    if rows:
        done.sort(key=lambda h: -h.score)


def _trace_back(steps: list[BeamStep], row: int) -> tuple[list[int], list[float]]:
    """All tokens and log-probabilities of a row of the last step."""
    tokens, log_probs = [], []
    for step in reversed(steps):
        tokens.append(step.tokens[row])
        log_probs.append(step.log_probs[row])
        row = step.parents[row]
    return tokens[::-1], log_probs[::-1]


def generate(
    model: DecoderBody,
    memory: Memory | None,
    prompt: Tensor,
    options: SearchOptions,
    prompt_lengths: Tensor | None = None,
    sampling: SamplingOptions | None = None,
) -> Generated:
    """Generate by sampling if `sampling` is given, else by beam search, or greedily if `beam_size` is 1.

    Arguments as for `beam_search`.

    Returns:
        Up to `num_best` hypotheses per source, best first; sampled ones are drawn independently and ordered by
        log-probability (before temperature, top-k and top-p).
    """
    with without_gradient():
        if sampling is None and options.beam_size > 1:
            return beam_search(model, memory, prompt, options, prompt_lengths)
        return to_the_end(generate_steps(model, memory, prompt, options, prompt_lengths, sampling))

"""Language modelling: continue, rank and score texts, by the probability of the next token of a stream."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor

from heed.attention import Rows
from heed.config.data import Documents, Sources, generated
from heed.config.sections import (
    EvaluationConfig,
    ModelSection,
    RunConfig,
    SearchConfig,
    TokenizerConfig,
    TrainingConfig,
    from_left_to_right,
)
from heed.data.kinds.documents import Document
from heed.errors import ConfigError
from heed.evaluation.measures import Outcomes
from heed.kernels import loss_at, piece_positions
from heed.models.base import LanguageModel
from heed.show.draw_html import shading_to_html
from heed.tasks import spec_of
from heed.tasks.base.comparison import Examiner
from heed.tasks.base.predictions import TextOutputs, Written, one_line
from heed.tasks.base.report import counted, counted_are, length_lines, note_lines, score_lines
from heed.tasks.base.transfer import Parent
from heed.tasks.base.writing import or_usual, sampling_of
from heed.tasks.contracts import Batch, Head
from heed.tasks.heads.continuing import (
    LENGTH,
    Continuation,
    RankedChoice,
    WritingOptions,
    context_of,
    continue_all,
    join,
    rank,
    stream,
)
from heed.tasks.heads.token_scores import (
    FEW_DOCUMENTS,
    PER_TOKEN,
    PIECE,
    TOGETHER,
    ScoredText,
    TokenScores,
    Units,
    outcomes_of,
    score_each,
    score_ids,
    score_texts,
    usual_stride,
)
from heed.tasks.inputs.stream import Stream, TokenStream
from heed.tasks.language_modelling.look import contrast, explain, lens_reads, look_at
from heed.tasks.work import Baselines, Looks, Task
from heed.training.batches import CarriedRows
from heed.visible import to_json
from heed.watch.looks import Shading
from heed.watch.maps import Axis


class DocumentTokenizer(TokenizerConfig):
    """How text becomes tokens."""

    normalization: Literal["none", "nfc", "nfkc"] = "none"
    """Unicode normalisation of input and output; none keeps every text unchanged."""
    extend: bool = False
    """Add unknown characters (with kind word, unknown words) to the tokenizer of another run (tokenizer.from, or
    --from); existing tokens keep their numbers and weights."""


class LanguageModelSection(ModelSection):
    """Which model; all other fields are the model's own (`heed models NAME` lists them)."""

    name: str = "gpt"
    """File in `heed/models`."""


class LanguageModelTraining(TrainingConfig):
    """How a language model is trained."""

    batch_tokens: int = Field(2_048, gt=0)
    """Tokens of one batch: rows of data.context tokens, at least one; on a GPU 32,000 by default, or a
    hundredth of a pass if that is less, but no fewer than elsewhere."""
    betas: tuple[float, float] = (0.9, 0.95)
    """Adam's decay rates of the first and second moment."""
    weight_decay: float = Field(0.1, ge=0)
    """Decay of matrices towards zero (not of biases and vectors)."""


class ContinuationConfig(SearchConfig):
    """How the model continues a text."""

    max_length: int = Field(100, gt=0, le=100_000)
    """Largest number of tokens to write."""
    first_token: bool = True
    """Put the token that precedes documents (end, or start) before a prompt; false does not, as in the programs of many
    published models. An empty prompt always begins with that token."""


class LanguageModelEvaluation(EvaluationConfig):
    """How a language model is scored."""

    select_by: Literal["auto", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is the loss."""
    stride: int | None = Field(None, gt=0)
    """Tokens by which the window of data.context tokens advances in scoring a longer text: each token is predicted from
    at least context - stride tokens, where there are as many. By default the context, which is fastest; unused by
    models that carry a state, which read whole documents."""


class LanguageModelConfig(RunConfig):
    """The full configuration of a run of language modelling."""

    task: Literal["language_modelling"] = "language_modelling"
    """What is learned."""
    data: Annotated[
        Documents,
        Sources(Documents, "language_modelling", hub=True, meals=generated(20_000, 400, 1_000, context=16)),
    ]
    """Where the texts come from."""
    tokenizer: DocumentTokenizer = DocumentTokenizer()
    """How text becomes tokens."""
    model: LanguageModelSection = LanguageModelSection()
    """Which model."""
    training: LanguageModelTraining = LanguageModelTraining(minutes=2.0)
    """How it is trained."""
    generation: ContinuationConfig = ContinuationConfig()
    """How it continues a text."""
    evaluation: LanguageModelEvaluation = LanguageModelEvaluation()
    """How it is scored."""

    @model_validator(mode="after")
    def _stride_within_context(self) -> Self:
        stride, context = self.evaluation.stride, self.data.context
        if stride is not None and stride > context:
            raise ValueError(
                f"evaluation.stride is {stride}, more than data.context {context}: tokens between two windows would "
                f"not be scored; expected at most {context}"
            )
        return self

    _direction = model_validator(mode="before")(
        from_left_to_right(
            "a language model predicts the next token, which a network that reads from the end has already seen"
        )
    )


_PIECE_TOKENS = 256
"""Tokens of a piece, if only a part of the validation set is scored."""
_LINES = {
    "perplexity": "perplexity per token",
    "word_perplexity": "perplexity per word",
    "bits_per_character": "bits per character",
    "bits_per_byte": "bits per byte",
    "loss": "nats per token",
}


@dataclass(frozen=True)
class NextToken(Head):
    """The token after each token of a stream, by the output layer of the model itself."""

    names: ClassVar = "length"
    writes: ClassVar = True
    has_outputs: ClassVar = False
    looked: ClassVar = {"length": LENGTH}
    keywords: ClassVar[Mapping[str, Any]] = {
        **dict.fromkeys(("length", "min_length", "beam_size", "length_penalty", "sampling")),
        "stop": (),
        "repetition_penalty": 1.0,
        "num_best": 1,
    }
    targets: str = "tokens"

    # Training -------------------------------------------------------------------------------------------------

    def states(self, model: LanguageModel, batch: Batch, carried: CarriedRows | None = None) -> Tensor:
        """Hidden states `(rows, length, d)`; in training, states are stored for continuing batches."""
        if batch.continued is None:
            return super().states(model, batch)  # type: ignore[no-any-return]
        (rows, begins), tokens = batch.continued, batch.inputs["tokens"]
        packed = None if begins or carried is None else carried.of(rows)
        if packed is None:
            state: Any = model.start(None, Rows.repeat(len(rows), device=tokens.device))
        else:
            state = model.unpack({name: tensor.to(tokens.device) for name, tensor in packed.items()})
        hidden, after = model.read(tokens, state)
        if model.training and carried is not None:
            carried.keep(rows, model.pack(after))
        return hidden

    def loss(self, model: LanguageModel, states: Tensor, batch: Batch, smoothing: float) -> Tensor:
        targets = batch.targets
        return loss_at((targets["mask"], batch.num_targets), states, targets["labels"], model.output, smoothing)

    # Scores ---------------------------------------------------------------------------------------------------

    def validated(self, work: Any, model: LanguageModel) -> dict[str, float]:
        """Nats of a token, without end tokens, and bits of a byte."""
        input: Stream = work.input
        rows, num_bytes = _validated(work, input)
        scores = score_ids(input, model, rows, self.config.evaluation.stride, ranks=False)
        nll = -sum(float(row.log_probs[: len(row.log_probs) - input.end_token].sum()) for row in scores)
        tokens = sum(len(row) - input.end_token for row in rows)
        return {"loss": nll / max(1, tokens), "bits_per_byte": nll / math.log(2) / max(1, num_bytes)}

    def token_scores(self, run: Any, texts: Sequence[str], ranks: bool = True) -> list[TokenScores]:
        """Score every token of each text (`score_texts`), with the run's own stride."""
        return score_texts(run.input, run.model, texts, self.config.evaluation.stride, ranks)

    def scored(
        self, run: Any, examples: Sequence[Document], outputs: Sequence[TokenScores] | None, others: Any
    ) -> Outcomes:
        input, texts = run.input, [document.text for document in examples]
        scores = self.token_scores(run, texts, ranks=False) if outputs is None else outputs
        changed = sum(input.tokenizer.normalize(text) != text for text in texts)
        outcomes = outcomes_of(Units.of(examples), scores, changed)
        outcomes.details["context"] = None if input.carries else input.context
        outcomes.details["stride"] = None if input.carries else self.config.evaluation.stride or input.context
        return outcomes

    def scoring_memory(self, work: Any, model: LanguageModel, activations: float) -> int:
        """Bytes that scoring needs: states of a layer, a piece of logits and its intermediate results, the scores."""
        input: Stream = work.input
        layers = max(1, sum(1 for _ in model.parameters()) // 12)  # a block has about as many
        scores = 20 * sum(len(work.encoded(name)) for name in work.split_names if name != "train")
        vocab_size = input.tokenizer.vocab_size
        piece = 4 * vocab_size * piece_positions(vocab_size, "cpu")
        return round(activations * max(TOGETHER, input.context) / layers) + 4 * piece + scores

    def report(self, scores: dict[str, Any]) -> list[str]:
        lines = score_lines(scores, _LINES)
        counts = ", ".join(f"{scores[name]:,} {name}" for name in ("tokens", "words", "characters", "bytes"))
        lines.append(f"  of {counts}; every token is scored once")
        over = scores["intervals_over"]
        few = "" if over["what"] == "documents" else f", because there are fewer than {FEW_DOCUMENTS} documents"
        lines.append(f"  intervals over {over['count']:,} {over['what']}{few}")
        lines.append(f"  {_context_line(scores)}")
        if scores["end_tokens"]:
            ends = counted(scores["end_tokens"], "end token")
            lines.append(f"  {ends} not counted above: {scores['end_token_loss']:.4g} nats each")
        title = "nats per token by position in the context (0 is the first)"
        by_place = length_lines(title, scores["by_place"], "loss", "tokens", 12)
        return [*lines, *note_lines(scores, "unknown_tokens", "changed_documents"), *by_place]

    # Writing --------------------------------------------------------------------------------------------------

    def options_of(
        self, run: Any, num_best: int = 1, beam_size: int | None = None, length: int | None = None, **others: Any
    ) -> WritingOptions:
        """The options of writing, by default the configuration's; a beam's length is kept within the context."""
        usual = self.config.generation
        if beam_size is None:
            beam_size = 1 if others.get("sampling") is not None else max(num_best, usual.beam_size)
        if length is None:
            context = context_of(run.input, run.model)
            length = usual.max_length if context is None or beam_size == 1 else min(usual.max_length, context)
        others = or_usual(usual, others)
        return WritingOptions(length, beam_size=beam_size, num_best=num_best, **others)

    def candidates(self, run: Any, examples: Sequence[Document], **options: Any) -> list[list[Continuation]]:
        """The best, or sampled, continuations of each prompt, best first; an empty prompt begins a document.

        Args:
            run: Writes them.
            examples: The prompts.
            options: `length` (largest number of tokens), `min_length`, `beam_size`, `length_penalty` (the
                configuration's by default), `num_best`, `sampling` (`heed.generation.SamplingOptions`), `stop` (texts
                before which the output is cut), `repetition_penalty`; see `WritingOptions`.

        Raises:
            ConfigError: An option is invalid.
        """
        prompts = [document.text for document in examples]
        return continue_all(run.input, run.model, prompts, self.options_of(run, **options))

    def grow(self, run: Any, prompt: str, *others: Any, **options: Any) -> Generator[str, None, Continuation]:
        """Continue a prompt and yield the text as soon as no later token can change it; returns the continuation.

        Options are those of `candidates`; a beam and several outputs are refused.
        """
        return stream(run.input, run.model, prompt, self.options_of(run, **options))


def _validated(work: Any, input: Stream) -> tuple[list[NDArray[Any]], int]:
    """The rows that a validation scores, and their size in bytes: all documents, or evenly chosen pieces of them.

    Pieces have at least 256 tokens, but for the ends of documents.
    """
    encoded: Any = work.encoded("valid")
    stream: TokenStream = encoded
    if work.valid_share == 1.0:
        return [stream.document(n) for n in range(stream.num_documents)], input.num_bytes("valid", work)
    size = max(1, min(_PIECE_TOKENS, math.ceil(work.valid_share * len(stream))))
    first = np.arange(0, len(stream), round(size / work.valid_share))
    last = np.searchsorted(stream.starts, first, side="right")  # a piece ends with its document
    ends = [min(start + size, int(stream.starts[n])) for start, n in zip(first, last, strict=True)]
    rows = [stream.ids[start:end] for start, end in zip(first, ends, strict=True)]
    if input.end_token:  # each row has one, as a document
        end = input.tokenizer.special.end
        rows = [row if row[-1] == end else np.append(row, end) for row in rows]
    texts = [input.tokenizer.decode(row.tolist()) for row in rows]
    return rows, sum(len(text.encode()) for text in texts)


def ranked(run: Any, prompt: str, choices: Sequence[str], end: bool = False) -> list[RankedChoice]:
    """Rank continuations of a prompt by log-probability, most probable first; see `continuing.rank`.

    Args:
        run: A run of a stream.
        prompt: The prompt; an empty one begins a document.
        choices: At least one; none blank, none repeated.
        end: Also count the end token after each choice.

    Raises:
        ConfigError: The choices cannot be ranked.
    """
    return rank(run.input, run.model, [(prompt, choices)], end)[0]


def text_scores(run: Any, text: str, stride: int | None = None) -> ScoredText:
    """Score a text token by token.

    `stride` is the number of tokens by which the window advances in a text longer than the context; a quarter of the
    context by default. Documents are scored with `evaluation.stride`.
    """
    return score_each(run.input, run.model, [text], stride)[0]


def _context_line(scores: dict[str, Any]) -> str:
    """Describe how much text each token was predicted from."""
    context, stride = scores["context"], scores["stride"]
    if context is None:
        return "each token is predicted from all earlier text of its document"
    if stride == context:
        hint = "a smaller evaluation.stride predicts tokens from more text"
        return f"context {context}, stride {stride}: windows do not overlap; {hint}"
    return (
        f"context {context}, stride {stride}: each token is predicted from at least {context - stride} tokens before it"
    )


_OF_READ_TEXTS = ("json", "choice", "end", "score")
"""Options of `heed predict` that apply to ranking and scoring, too; the others are options of writing."""


class LanguageModelOutputs(TextOutputs):
    """Continuations, one per line; with --choice the ranked choices of each prompt; with --score a line for each token.

    The output for a single prompt given as an argument keeps its line breaks; with several prompts each output is one
    line, with spaces for line breaks (--json keeps them).
    """

    def __init__(self, run: Any, options: Mapping[str, Any]) -> None:
        super().__init__(run, options)
        self._choices: tuple[str, ...] = options["choice"]
        if blank := [n for n, choice in enumerate(self._choices, start=1) if not choice.strip()]:
            raise ConfigError(f"--choice {blank[0]} is blank: {self._choices[blank[0] - 1]!r}")
        self._single = False
        self._num_unread = 0
        self._unread = (0, 0)  # tokens of the longest prompt that was not fully read, and how many of them were read
        self._blank_ends = False  # whether a prompt ends with a space, which the tokenizer attaches to the next word
        self._windowed = 0  # texts that were scored in windows
        chosen = (flag.name for flag in spec_of(run.config.task).flags_of("predict") if options[flag.key] != flag.usual)
        option = next((name for name in chosen if name not in _OF_READ_TEXTS), None)
        if options["score"] and self._choices:
            raise ConfigError("--score reads whole texts and --choice ranks continuations; give only one")
        if options["score"] and option:
            raise ConfigError(f"--score writes nothing, so --{option} does not apply to it")
        if self._choices and option:
            raise ConfigError(f"--choice ranks given continuations and writes none, so --{option} does not apply")
        if options["end"] and not self._choices:
            raise ConfigError("--end applies only to ranked choices; add --choice")
        self._writing: dict[str, Any] = {}
        if not (options["score"] or self._choices):
            self._writing = {
                "num_best": options["nbest"],
                "beam_size": options["beam_size"],
                "length": options["length"],
                "sampling": sampling_of(options),
                "repetition_penalty": options["repetition_penalty"],
                "stop": tuple(text.replace(r"\n", "\n").replace(r"\t", "\t") for text in options["stop"]),
            }
            run.head.options_of(run, **self._writing)  # refuses invalid options before any text is read

    def expect(self, lines: Sequence[str], where: str | None) -> None:
        """Refuse an input without lines."""
        if not lines:
            what = "text to score" if self.options["score"] else "prompt"
            raise ConfigError(f"there is no {what}{f' in {where}' if where else ''}; give one, or a file with --input")
        self._single = where is None and len(lines) == 1

    def unknown_in(self, text: str) -> Sequence[str]:
        tokenizer = self.run.tokenizer
        unknown: list[str] = tokenizer.unknown_in(text)
        for choice in self._choices:
            whole = join(text, choice)  # a word may be another token without the space before it
            encoded = tokenizer.encode(whole)
            spans = zip(encoded.ids, encoded.spans, strict=True)
            places = [span for token, span in spans if token == tokenizer.special.unknown]
            unknown += [whole[start:stop].strip() for start, stop in places if stop > len(text)]
        return unknown

    def write(self, texts: list[str]) -> Iterator[Written]:
        input, model = self.run.input, self.run.model
        if self.options["score"]:
            self._see(texts)
            for scored in score_each(input, model, texts):
                yield Written((to_json(scored.as_json()),) if self.options["json"] else scored.lines())
        elif self._choices:
            self._see([join(text, choice) for text in texts for choice in self._choices])
            end, pairs = self.options["end"], [(text, self._choices) for text in texts]
            for text, ranked in zip(texts, rank(input, model, pairs, end), strict=True):
                if self.options["json"]:
                    choices = [choice.as_json() for choice in ranked]
                    yield Written((to_json({"prompt": text, "end_token": end, "choices": choices}),))
                else:
                    head = "probability  log-prob  per token  per byte  tokens  choice"
                    above = [head] if self._single else [one_line(text), head]
                    yield Written((*above, *(choice.line() for choice in ranked)))
        else:
            for candidates in self.run.candidates(texts, **self._writing):
                self._count(candidates[0])
                yield Written(tuple(map(self._line, candidates)))

    def _see(self, texts: list[str]) -> None:
        if (context := context_of(self.run.input, self.run.model)) is not None:
            self._windowed += sum(len(ids) > context for ids in self.run.input.tokenizer.encode_all(texts))

    def _count(self, continuation: Continuation) -> None:
        if continuation.prompt.endswith(" ") and self.run.input.tokenizer.unit in ("token", "word"):
            self._blank_ends = True
        if continuation.unread:
            length = len(self.run.input.tokenizer.encode(continuation.prompt).ids)
            self._num_unread += 1
            self._unread = max(self._unread, (length, length - continuation.unread))

    def notes(self) -> list[str]:
        context, lines = context_of(self.run.input, self.run.model), []
        if self._choices:
            end = "the end token after it is counted" if self.options["end"] else "end tokens are not counted"
            lines.append(f"ranked by the total log-probability of each choice, in nats; {end}")
        if self._windowed:
            fewest = self.run.input.context - usual_stride(self.run.input)
            lines.append(
                f"{counted_are(self._windowed, 'text')} longer than the context of {context} tokens: later tokens are "
                f"predicted from the {fewest} to {context} tokens before them"
            )
        if self._blank_ends:
            lines.append("a prompt ends with a space, which is part of the next word's token; remove the space")
        if self._num_unread:
            length, read = self._unread
            room = f"the context of {context}" if read == context else f"what a beam can read, {read}"
            too_long = f"the prompt of {length:,} tokens is longer than {room}:"
            if self._num_unread > 1:
                too_long = f"{self._num_unread} prompts are longer than {room} tokens: of the longest, with {length:,},"
            lines.append(f"{too_long} only the last {read} were read")
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
        return bool(plain) and self.run.head.options_of(self.run, **self._writing).streams

    def pieces(self, text: str) -> Iterator[str]:
        self._single = True
        yield from self.grow(text) if self.streams else [self.answer(text)]

    def grow(self, text: str) -> Iterator[str]:
        continuation = yield from self.run.write(text, **self._writing)
        self._count(continuation)

    def answer(self, text: str) -> str:
        self._single = True
        return "\n".join(line for written in self.write([text]) for line in written.lines)


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
"""m of `Trigram`."""
_MAX_COUNTED = 20_000_000
"""Tokens that are counted: the first ones of the training data."""
_LARGEST = np.iinfo(np.int64).max


class Trigram:
    """Counts of the tokens, pairs and triples of a stream, and the probabilities that they give.

        p(c)       = (n(c) + 1) / (N + V)
        p(c | b)   = (n(bc) + m p(c)) / (n(b.) + m)
        p(c | ab)  = (n(abc) + m p(c | b)) / (n(ab.) + m)        m = 5

    Source: MacKay and Peto 1995, Natural Language Engineering 1 (3), hierarchical Dirichlet smoothing, with a fixed m.
    """

    def __init__(self, ids: Sequence[int] | NDArray[np.int64], vocab_size: int) -> None:
        stream = keys = np.asarray(ids[:_MAX_COUNTED], dtype=np.int64)
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
    distinct, numbers = counts
    places = np.searchsorted(distinct, keys)
    return np.where(distinct[places] == keys, numbers[places], 0)


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
        self._scores: dict[int, list[TokenScores]] = {}
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
            unknown = sum(len(run.input.tokenizer.unknown_in(example.text)) for example in self.examples)
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
        return sum(len(scores.ids) for scores in outputs)

    def outcomes(self, run: Any, outputs: Sequence[TokenScores]) -> Outcomes:
        self._scores[id(run)] = list(outputs)
        outcomes: Outcomes = run.outcomes(self.units.documents, outputs)
        if self._per_token:
            return outcomes
        return replace(outcomes, measures=tuple(m for m in outcomes.measures if m.name not in PER_TOKEN))

    def drawing(self, run: Any, index: int, beam_size: int | None, numbers: Iterator[int]) -> Markup:
        owner, start, stop = (int(part[index]) for part in (self.units.owner, self.units.starts, self.units.stops))
        scores, text = self._scores[id(run)][owner], self.units.documents[owner].text
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
    config=LanguageModelConfig,
    looks=Looks(look_at, explain, contrast, lens_reads, whole_words=True),
    baselines=baselines,
    outputs=LanguageModelOutputs,
    before=with_tokenizer,
    examiner=lambda: LanguageModelExaminer,
    ranks=ranked,
    scores_text=text_scores,
    cannot={"ensemble": ""},
)

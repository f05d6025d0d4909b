"""The next token of each position of a stream: loss, probabilities of texts, continuations of prompts."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from heed.attention import Rows
from heed.data.kinds.documents import Document
from heed.evaluation.measures import Outcomes
from heed.models.base import LanguageModel
from heed.tasks.base.report import counted, length_lines, note_lines, score_lines
from heed.tasks.base.writing import or_usual
from heed.tasks.contracts import Batch, Head
from heed.tasks.heads.continuing import (
    LENGTH,
    Continuation,
    RankedChoice,
    WritingOptions,
    context_of,
    continue_all,
    rank,
    stream,
)
from heed.tasks.heads.token_scores import (
    FEW_DOCUMENTS,
    TOGETHER,
    ScoredText,
    TokenScores,
    Units,
    outcomes_of,
    score_each,
    score_ids,
    score_texts,
)
from heed.tasks.inputs.stream import Stream, TokenStream
from heed.training.carried import CarriedRows
from heed.training.loss import loss_at, piece_positions

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
        """Hidden states `(rows, length, d)`; in training, the state after a batch that goes on is kept."""
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
        nll = -sum(float(one.log_probs[: len(one.log_probs) - input.end_token].sum()) for one in scores)
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
        made = outcomes_of(Units.of(examples), scores, changed)
        made.details["context"] = None if input.carries else input.context
        made.details["stride"] = None if input.carries else self.config.evaluation.stride or input.context
        return made

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
        lines.append(f"  {_context(scores)}")
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
        prompts = [one.text for one in examples]
        return continue_all(run.input, run.model, prompts, self.options_of(run, **options))

    def grow(self, run: Any, given: str, *others: Any, **options: Any) -> Generator[str, None, Continuation]:
        """Continue a prompt and yield the text as soon as no later token can change it; returns the continuation.

        Options are those of `candidates`; a beam and several outputs are refused.
        """
        return stream(run.input, run.model, given, self.options_of(run, **options))


def _validated(work: Any, input: Stream) -> tuple[list[NDArray[Any]], int]:
    """What a validation scores, and its size in bytes: all documents, or evenly chosen pieces of them.

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


def _context(scores: dict[str, Any]) -> str:
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

"""Writing of targets for sources by search or sampling; the outputs as predictions."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from torch.nn import Module

from heed.data.batch.pairs import TokenPair, collate_pairs
from heed.data.batch.plan import plan_batches
from heed.data.tokens.continued import beginning
from heed.data.tokens.tokenizer import END, START, TextTokenizer
from heed.errors import ConfigError
from heed.generation import Hypothesis, SamplingOptions, SearchOptions, Writer, generate, without_gradient
from heed.layers.transformer import DecoderBlock
from heed.models.base import PairDecoder
from heed.tasks.base.predictions import short
from heed.tasks.translation.same_words import SameWords
from heed.threads import threads_for

if TYPE_CHECKING:
    from heed.tasks.translation.task import Translation

GENERATE_TOKENS = 8_000
"""Source tokens that are decoded together."""


def cached_bytes(model: Module, positions: int) -> int:
    """Bytes of keys and values that a Transformer decoder needs for `positions`; 0 for other decoders.

    Keys and values of the output are held twice while their buffers grow; those of the source are held twice, as
    prepared by the model and as read by the search.
    """
    widths = [one.attention.w_query.out_features for one in model.modules() if isinstance(one, DecoderBlock)]
    return 2 * 2 * 4 * sum(widths) * positions


@dataclass(frozen=True, repr=False)
class Prediction:
    """One output."""

    text: str
    score: float  # ranks the candidates: log-probability / length ** length_penalty
    log_prob: float  # of the whole output, in nats
    tokens: tuple[str, ...]  # tokens written after a forced prefix, as text; "</s>" last if the model ended the output
    token_probs: tuple[float, ...]  # of each of `tokens`
    finished: bool  # the model ended the output; False if the largest length cut it off
    ids: tuple[int, ...]  # numbers of all tokens, including a forced prefix, without the end token

    def __repr__(self) -> str:
        return f"<{short(self.text)}{'' if self.finished else ', cut off'}>"

    def rows(self) -> list[dict[str, Any]]:
        """The output as a row of a table."""
        return [{"text": self.text, "score": self.score, "log_prob": self.log_prob, "finished": self.finished}]


def translate(
    task: Translation,
    model: PairDecoder,
    texts: Sequence[str],
    *,
    beam_size: int | None = None,
    num_best: int = 1,
    length_penalty: float | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    sampling: SamplingOptions | None = None,
    prefix: str = "",
    writer: Writer | None = None,
) -> list[list[Prediction]]:
    """Write a target for each text; options default to the configuration's.

    Args:
        task: The task, with the tokenizers.
        model: The model that writes.
        texts: Sources; spaces around them are removed.
        beam_size: Width of the beam; 1 is greedy.
        num_best: Number of candidates per text.
        length_penalty: See `heed.generation`.
        min_length: Smallest number of tokens.
        max_length: Largest number of tokens.
        sampling: Draw instead of searching.
        prefix: Every output begins with this text.
        writer: An engine that searches instead of torch; it can neither draw outputs nor continue a prefix.

    Returns:
        For each text its candidates, best first; for a blank text one blank output.

    Raises:
        ConfigError: The prefix has text never seen in training, which cannot be written; or the writer does not support
            an option.
    """
    if writer is not None and (sampling is not None or prefix):
        what = "draw outputs (sampling)" if sampling is not None else f"continue a prefix ({prefix!r})"
        raise ConfigError(f"engine '{writer.name}' cannot {what}; use engine 'torch'")
    if writer is not None and task.config.generation.same_words:
        raise ConfigError(f"engine '{writer.name}' does not support generation.same_words=true; use engine 'torch'")
    texts = [text.strip() for text in texts]  # a space at either end would be read as an unknown word
    if unknown := task.target_tokenizer.unknown_in(prefix):
        raise ConfigError(f"prefix {prefix!r} has {unknown[0]!r}, which was never seen in training targets")
    begun = beginning(task.target_tokenizer, prefix)
    forced = [*begun.ids]
    given = task.config.generation
    options = search_options(
        given,
        beam_size=beam_size,
        num_best=num_best,
        length_penalty=length_penalty,
        min_length=min_length,
        max_length=(given.max_length or 200) if max_length is None else max_length,
        forbidden=task.never_written(model),
        forbidden_first=begun.never_next,
        renormalize=given.renormalize,
        early_stopping=given.early_stopping,
    )
    model.eval()
    device = next(model.parameters()).device
    if given.same_words:
        model = SameWords(model, task.target_tokenizer, options.forbidden)
    results: list[list[Prediction]] = [[_BLANK] for _ in texts]
    written = [i for i, text in enumerate(texts) if text.strip()]
    sources = task.source_tokenizer.encode_all([texts[i] for i in written])
    encoded = [TokenPair(task.framed(ids), []) for ids in sources]
    if writer is not None:
        for i, hypotheses in zip(written, writer.write([pair.source for pair in encoded], options), strict=True):
            results[i] = [prediction_of(task.target_tokenizer, h, []) for h in hypotheses]
        return results
    for chosen in plan_batches([pair.cost for pair in encoded], GENERATE_TOKENS // options.beam_size):
        batch = collate_pairs(encoded, chosen).to(device)
        with without_gradient(), threads_for(model, batch.source.numel()):
            memory = model.encode(batch.source, batch.source_mask)
        prompt = batch.source.new_tensor([[START, *forced]]).expand(len(chosen), -1)
        drawing = sampling and replace(sampling, seed=seeds_of(sampling.seed, [encoded[i].source for i in chosen]))
        generated = generate(model, memory, prompt, options, sampling=drawing)
        for i, hypotheses in zip(chosen, generated.hypotheses, strict=True):
            results[written[i]] = [prediction_of(task.target_tokenizer, h, forced) for h in hypotheses]
    return results


class _Searched(Protocol):
    """The search settings of a configuration."""

    @property
    def beam_size(self) -> int: ...
    @property
    def length_penalty(self) -> float: ...
    @property
    def min_length(self) -> int: ...


def search_options(
    given: _Searched,
    *,
    beam_size: int | None,
    num_best: int,
    length_penalty: float | None,
    min_length: int | None,
    max_length: int,
    **others: Any,
) -> SearchOptions:
    """Search options: the given ones, and the configuration's for those that are None."""
    return SearchOptions(
        end_token=END,
        max_length=max_length,
        min_length=given.min_length if min_length is None else min_length,
        beam_size=max(num_best, given.beam_size) if beam_size is None else beam_size,
        length_penalty=given.length_penalty if length_penalty is None else length_penalty,
        num_best=num_best,
        **others,
    )


def prediction_of(tokenizer: TextTokenizer, hypothesis: Hypothesis, forced: list[int]) -> Prediction:
    """A hypothesis as a prediction, after the `forced` tokens."""
    tokens = [tokenizer.piece(t) for t in hypothesis.tokens]
    if hypothesis.finished:
        tokens.append(tokenizer.token(END))
    return Prediction(
        tokenizer.decode([*forced, *hypothesis.tokens]),
        hypothesis.score,
        hypothesis.log_prob,
        tuple(tokens),
        tuple(math.exp(p) for p in hypothesis.log_probs),
        hypothesis.finished,
        (*forced, *hypothesis.tokens),
    )


def seeds_of(seed: int | tuple[int, ...], sources: Sequence[list[int]]) -> tuple[int, ...]:
    """A seed for each source, derived from its tokens, so that its output does not depend on its place in the input."""
    digests = [hashlib.blake2b(repr((seed, ids)).encode(), digest_size=8).digest() for ids in sources]
    return tuple(int.from_bytes(digest, "big") for digest in digests)


_BLANK = Prediction("", 0.0, 0.0, (), (), True, ())

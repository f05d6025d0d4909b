"""Written texts, their scores, and the memory that writing takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from torch.nn import Module

from heed.data.tokens.tokenizer import TextTokenizer
from heed.evaluation.measures import Measure, share
from heed.evaluation.text_scores import ROUGE, rouge_measures, text_measure
from heed.generation import Hypothesis
from heed.layers.transformer import DecoderBlock
from heed.tasks.base.predictions import Prediction, one_line, short

S = TypeVar("S")
"""What the model reads to write one output."""
TOGETHER = 8_000
"""Most tokens that are read together to write outputs."""
VALIDATED = 500
"""Most validation examples for which a text is written; all are judged."""


@dataclass(frozen=True, repr=False)
class WrittenText(Prediction):
    """One output."""

    text: str
    score: float  # ranks the candidates: log-probability / length ** length_penalty
    log_prob: float  # of the whole output, in nats
    tokens: tuple[str, ...]  # tokens written after a forced prefix, as text; "</s>" last if the model ended the output
    token_probs: tuple[float, ...]  # of each of `tokens`
    finished: bool  # the model ended the output; False if the largest length cut it off
    ids: tuple[int, ...]  # numbers of all tokens, including a forced prefix, without the end token
    alignment: list[tuple[int, int]] | None = None  # links (source word, written word), if they were asked for
    replaced: dict[int, str] = field(default_factory=dict)  # source words for unknown tokens, by their place in `ids`

    @classmethod
    def of(cls, tokenizer: TextTokenizer, hypothesis: Hypothesis, forced: Sequence[int] = ()) -> WrittenText:
        """A hypothesis as a prediction, after the `forced` tokens."""
        ids = (*forced, *hypothesis.tokens)
        tokens = [tokenizer.piece(t) for t in hypothesis.tokens]
        if hypothesis.finished:
            tokens.append(tokenizer.token(tokenizer.special.end))
        probs = tuple(math.exp(p) for p in hypothesis.log_probs)
        text, score, log_prob = tokenizer.decode(ids), hypothesis.score, hypothesis.log_prob
        return cls(text, score, log_prob, tuple(tokens), probs, hypothesis.finished, ids)

    def __repr__(self) -> str:
        return f"<{short(self.text)}{'' if self.finished else ', cut off'}>"

    def rows(self) -> list[dict[str, Any]]:
        return [{"text": self.text, "score": self.score, "log_prob": self.log_prob, "finished": self.finished}]

    def values(self) -> dict[str, Any]:
        names = ("text", "score", "log_prob", "tokens", "token_probs", "finished")
        values = {name: getattr(self, name) for name in names}
        return values if self.alignment is None else {**values, "alignment": self.alignment}

    def lines(self, given: str, options: Mapping[str, Any]) -> tuple[str, ...]:
        score = [f"{self.score:.4f}"] if options["nbest"] > 1 else []
        links = [] if self.alignment is None else [" ".join(f"{i}-{j}" for i, j in self.alignment)]
        return ("\t".join([*score, one_line(self.text), *links]),)

    def summary(self) -> str:
        return f"{self.text}    (log-probability {self.log_prob:.3f})"


class ToWrite(NamedTuple, Generic[S]):
    """What a validation writes."""

    sources: list[S]
    references: list[str]
    longest: int  # most tokens of an output


def or_usual(usual: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of writing, with those of the section `generation` where they are None or not given."""
    names = [name for name in ("min_length", "length_penalty", "no_repeat_ngram") if name in type(usual).model_fields]
    return {**options, **{name: getattr(usual, name) for name in names if options.get(name) is None}}


def bleu_of(config: Any) -> str:
    """Sacrebleu's tokenizer for BLEU; runs older than the setting are scored with 13a."""
    chosen: str = config.evaluation.bleu_tokenize
    return "13a" if chosen == "auto" else chosen


def cached_bytes(model: Module, positions: int) -> int:
    """Bytes of keys and values that a Transformer decoder needs for `positions`; 0 for other decoders.

    Keys and values of the output are held twice while their buffers grow; those of the source are held twice, as
    prepared by the model and as read by the search.
    """
    widths = [one.attention.w_query.out_features for one in model.modules() if isinstance(one, DecoderBlock)]
    return 2 * 2 * 4 * sum(widths) * positions


def output_measures(
    texts: Sequence[str],
    references: Sequence[str],
    names: Sequence[str],
    tokenizer: TextTokenizer | None,
    bleu_tokenize: str,
) -> list[Measure]:
    """Scores of written texts: those in `names` ("chrf", "bleu", "ter", `ROUGE`), then exact match.

    References are as in the user's files. If the `tokenizer` that writes lower-cases, BLEU and chrF ignore case, as
    their signatures say; an exact match may differ in what it normalises. Without it, all differences count.
    """
    normalize, ignore_case = (str, False) if tokenizer is None else (tokenizer.normalize, tokenizer.lowercases)
    same = [float(normalize(one) == normalize(other)) for one, other in zip(texts, references, strict=True)]
    of_texts = rouge_measures(texts, references, [name for name in names if name in ROUGE])
    of_texts += [
        text_measure(name, texts, references, ignore_case, bleu_tokenize) for name in names if name not in ROUGE
    ]
    return [*of_texts, share("exact_match", "exact match", same)]

"""Which score of a text is attributed to its words, or compared with that of another text, for any head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from heed.tasks.base.attributing import Explained, table_of
from heed.tasks.base.looking import Words
from heed.watch.attribution import LEFT_OUT, Scored
from heed.watch.effects import NumberAnswer


def explain(
    work: Any, model: Any, text: Any, target: str | None = None, rather_than: str | None = None, ngrams: bool = True
) -> Explained:
    """The score that a head can be asked for, by default that of its answer (`Head.asked`).

    The logits of the n-grams beside a network, which do not pass through it, are held fixed, or left out.

    Raises:
        ConfigError: The head has no such score.
    """
    texts, device = work.input, next(model.parameters()).device
    corpus = texts.encode([texts.example_of(text)])
    (encoded,), (answer,) = corpus, work.answers(model, corpus)
    asked, notes = work.head.asked(answer, target, rather_than), []
    linear = torch.tensor(encoded.ngrams).unsqueeze(0)
    if encoded.ngrams and ngrams:
        part = float(asked.score(model.ngram_scale.detach().cpu() * linear))
        notes.append(f"held fixed: the n-grams beside the network add {part:+.4f}")
    elif encoded.ngrams:
        notes.append("scored without the n-grams beside the network")
        encoded = replace(encoded, ngrams=(0.0,) * len(encoded.ngrams))
    special = names_of_special(work)
    first, framed = int(getattr(model, "has_cls", texts.is_framed)), texts.is_framed

    def score(model: nn.Module, rows: Tensor) -> Tensor:
        batch = texts.collate([without(encoded, row) for row in rows.tolist()], [*range(len(rows))], None).to(device)
        scores: Tensor = asked.score(work.head.states(model, batch))
        return scores

    ids, tokenizer = texts.tokens_of(encoded), texts.tokenizer
    words = Words.of(tokenizer, ids, "text", special, texts.typed_as(texts.example_of(text), encoded))
    start, end = tokenizer.special[2:]
    scored = Scored(model, table_of(model), torch.tensor(ids, device=device), score, tokenizer.special.unknown)
    return Explained(scored, words, asked.name, tuple(notes), ((special[start],) * first, (special[end],) * framed))


def without(encoded: Any, row: Sequence[int]) -> Any:
    """An encoded text without the tokens that are left out in a row of them."""
    left = iter(row)
    sentences = ([token for token in islice(left, len(s)) if token != LEFT_OUT] for s in encoded.sentences)
    return replace(encoded, sentences=[sentence for sentence in sentences if sentence])


def answer_of_score(explained: Explained, score: str) -> NumberAnswer:
    """A number that is attributed to words, as an answer that can be computed again; `score` is its name."""
    scored = explained.scored

    def number(rows: Tensor, mechanism: str) -> Tensor:
        return scored.score(scored.model, rows)[:, None, None]

    return NumberAnswer(scored.model, scored.tokens, number, lambda *_: score)


def contrast(work: Any, model: Any, text: Any, other: Any) -> dict[str, Any]:
    """The options of `explain` for the score that tells two texts apart: of the other's answer minus the text's."""
    answers = work.answers(model, work.input.encode_texts([text, other]))
    label, other_label = (work.head.labels[int(answer.argmax())] if work.head.labels else None for answer in answers)
    return {"target": other_label, "rather_than": label if label != other_label else None, "ngrams": False}


def names_of_special(work: Any) -> dict[int, str]:
    """Names of the start and end tokens."""
    tokenizer = work.input.tokenizer
    start, end = tokenizer.special[2:]
    if work.input.is_framed:
        return {start: tokenizer.token(start), end: tokenizer.token(end)}
    return {end: "[SEP]", start: "[CLS]"}

"""What a look shows of a pretrained model: attention, filled masks or the answer for a pair, and what is attributed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from heed.data.batch import frame, pad_rows
from heed.data.tokens import MASK
from heed.errors import ConfigError
from heed.tasks.base.attributing import Explained, chosen, padded, placed, table_of
from heed.tasks.base.looking import Words, watched
from heed.tasks.look import look_of
from heed.tasks.pretraining.filling import ANSWERS, check_masks, check_objective, parts_of, word_at_mask
from heed.tasks.pretraining.masked import Pretrainer
from heed.tasks.pretraining.passages import Question
from heed.visible import visible
from heed.watch.attribution import LEFT_OUT, Scored
from heed.watch.edits import Edit
from heed.watch.effects import Answer
from heed.watch.looks import Look
from heed.watch.trace import edit


def look_at_row(
    work: Any,
    model: Pretrainer,
    text: Question,
    *,
    edits: Sequence[Edit] = (),
    pair: str | None = None,
    pieces: bool = False,
    **options: Any,
) -> Look:
    """Look at a text, whose masks are filled, or, with a second text `pair`, at both.

    The options are those of `heed.tasks.base.looking.look`.

    Raises:
        ConfigError: The chosen attention does not exist, or the text is longer than the model can read.
    """
    text, pair = (text, pair) if isinstance(text, str) else text
    ids = _framed_ids(work, text, pair)
    with edit(model, *edits):
        with watched(model) as seen:
            tokens, real = (t.to(next(model.parameters()).device) for t in pad_rows([ids]))
            model(tokens, real)
        output, notes = _answers(work, model, text, pair)
    words = _words(work, ids, pieces)
    look = look_of(
        work,
        seen,
        words,
        len(ids),
        text,
        output,
        notes,
        unknown=work.input.unknown_in(text if pair is None else (text, pair)),
        edits=edits,
        **options,
    )
    return replace(
        look,
        names=("text", "filled" if pair is None else "answer"),
        second=pair or "",
        answer=_answer(work, model, ids, pair is not None),
    )


def _framed_ids(work: Any, text: str, pair: str | None) -> list[int]:
    """The tokens of a text, or of two, with their start and end tokens.

    Raises:
        ConfigError: There are more than the model can read.
    """
    tokenizer, texts = work.input.tokenizer, []
    for one in [text] if pair is None else [text, pair]:
        plain = work.input.as_read(one)
        texts.append(tokenizer.encode(plain).ids if tokenizer.mask is None else tokenizer.encode_masked(plain))
    room = work.input.room(pair is not None)
    if (size := sum(map(len, texts))) > room:
        raise ConfigError(
            f"the text has {size:,} tokens, but the model reads at most {room:,} at once; look at a part of it"
        )
    return frame(texts[0], texts[1] if pair is not None else None, work.input.double_separator, tokenizer.special)


def _scores(model: Any, rows: Tensor, places: Sequence[int]) -> Tensor:
    """Scores of the words at some places, `(rows, places, vocabulary)`, or without places of the answers for a pair.

    Tokens of the rows may be left out.
    """
    read, real = padded(rows)
    hidden = model(read, real)
    if not places:
        return model.order_scores(hidden, real).unsqueeze(1)  # type: ignore[no-any-return]
    at = torch.stack([(rows[:, :place] != LEFT_OUT).sum(1) for place in places], dim=1)
    return model.words(hidden.gather(1, at.unsqueeze(2).expand(-1, -1, hidden.shape[2])))  # type: ignore[no-any-return]


def _answer(work: Any, model: Pretrainer, ids: list[int], pair: bool) -> Answer | None:
    """The words at masks, or whether the second of two texts follows; None where neither is asked."""
    tokenizer, mask = work.input.tokenizer, work.input.tokenizer.mask
    places = [n for n, token in enumerate(ids) if token == mask]
    if model.order is None if pair else model.words is None or not places:
        return None
    tokens = torch.tensor(ids, device=next(model.parameters()).device)

    def logits(rows: Tensor, mechanism: str) -> Tensor:
        return _scores(model, rows, [] if pair else places)

    def named(output: int, number: int) -> str:
        return f'"{ANSWERS[number]}"' if pair else f'{MASK} {output + 1} "{visible(tokenizer.label(number))}"'

    return Answer(model, tokens, logits, named)


def explain(
    work: Any,
    model: Pretrainer,
    text: Question,
    target: str | None = None,
    rather_than: str | None = None,
    pair: str | None = None,
) -> Explained:
    """The log-probability of a word at a mask, by default the most probable at the first, or of the label of a pair.

    Masks, start and end tokens stay as they are. `pair` is the second text of a pair.

    Raises:
        ConfigError: The text has no mask, or the run no head for masks or pairs; there is no such word, mask or label.
    """
    first, second = (text, pair) if isinstance(text, str) else text
    tokenizer, ids = work.input.tokenizer, _framed_ids(work, first, second)
    device = next(model.parameters()).device
    tokens = torch.tensor(ids, device=device)
    special = (tokenizer.special.start, tokenizer.special.end, tokenizer.mask)
    held = torch.isin(tokens, torch.tensor([one for one in special if one is not None], device=device))
    check_objective(work.input.objectives, tokenizer, second is not None)
    if second is not None:
        answers, place, where = list(ANSWERS), None, "that the second text"
    else:
        check_masks(first, tokenizer)
        target, number = (None, None) if target is None else placed(target)
        places = [n for n, token in enumerate(ids) if token == tokenizer.mask]
        if not 0 <= (number or 0) < len(places):
            raise ConfigError(f"no mask {number}: the text has {len(places)}, counted from 0")
        place, where = places[number or 0], f"at {MASK}" + (f" {number or 0}" if len(places) > 1 else "")

    def log_probs(model: nn.Module, rows: Tensor) -> Tensor:
        return torch.log_softmax(_scores(model, rows, [] if place is None else [place])[:, 0].float(), -1)

    def number_of(name: str) -> int:
        return chosen(name, answers, "label") if place is None else word_at_mask(tokenizer, first, name)

    with torch.no_grad():
        best = int(log_probs(model.eval(), tokens.unsqueeze(0)).argmax())
    numbers = [best if target is None else number_of(target)]
    numbers += [] if rather_than is None else [number_of(rather_than)]

    def score(model: nn.Module, rows: Tensor) -> Tensor:
        found = log_probs(model, rows)[:, numbers]
        return found[:, 0] if len(numbers) == 1 else found[:, 0] - found[:, 1]

    named = [answers[one] if place is None else f"'{tokenizer.label(one)}'" for one in numbers]
    minus = f" minus that of {named[1]}" if len(named) > 1 else ""
    name = f"the log-probability {where} {named[0]}" if place is None else f"the log-probability of {named[0]} {where}"
    words = _words(work, ids, pieces=False)
    words = words.only([n for n, word in enumerate(words.tokens) if not held[word.start]])
    return Explained(
        Scored(model, table_of(model), tokens, score, tokenizer.special.unknown, held), words, name + minus
    )


def _answers(work: Any, model: Pretrainer, text: str, second: str | None) -> tuple[str, list[str]]:
    """The filled text, or the answer for a pair; and notes with probabilities."""
    if second is not None:
        if model.order is None:
            return "", ["this run has no head for pairs (model.next_sentence is false)"]
        found = _answered(work, model, (text, second))
        return found.answer, [f"probability that the second text follows: {found.probability:.4f}"]
    if model.words is None or len(parts_of(text, work.input.tokenizer)) < 2:
        return text, [] if model.words is None else [f"to see what the model expects, replace a word with {MASK}"]
    filled = _answered(work, model, text)
    return filled.text, filled.summary().split("\n")[1:]


def _answered(work: Any, model: Pretrainer, question: Question) -> Any:
    """The prediction for a question."""
    (answer,) = work.answers(model, work.input.encode([question]))
    return work.head.predict(answer, question, work.input)


def _words(work: Any, ids: Sequence[int], pieces: bool) -> Words:
    """The words of framed texts, or their tokens; start and end tokens and masks by name."""
    tokenizer = work.input.tokenizer
    own = tokenizer.special
    special = {token: tokenizer.token(token) for token in (own.start, own.end, tokenizer.mask) if token is not None}
    return Words.of(tokenizer, ids, "text", special, pieces=pieces)

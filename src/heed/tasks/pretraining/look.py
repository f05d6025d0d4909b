"""Looks at a text or a pair: attention of each head, words at the masks, whether the second text follows the first."""

from __future__ import annotations

from collections.abc import Sequence

from heed.data.batch.rows import pad_rows
from heed.data.batch.texts import frame, frame_size
from heed.data.tokens.special import MASK
from heed.data.tokens.tokenizer import END, START
from heed.errors import ConfigError
from heed.observe.edits import Edit
from heed.observe.looks import Choice, Look
from heed.observe.trace import edit
from heed.tasks.base.looking import Words, encoder_frames, notes_on, views_of_text, watched
from heed.tasks.pretraining.filling import fill, follow, masks_in
from heed.tasks.pretraining.model import Pretrainer
from heed.tasks.pretraining.passages import plain_text
from heed.tasks.pretraining.task import Pretraining

_CANDIDATES = 5


def look_at_row(
    task: Pretraining,
    model: Pretrainer,
    text: str,
    *,
    edits: Sequence[Edit] = (),
    title: str = "",
    choice: Choice | None = None,
    pair: str | None = None,
    pieces: bool = False,
) -> Look:
    """Look at a text, whose masks are filled, or at a pair.

    Args:
        task: Turns text into tokens.
        model: The model.
        text: The text, perhaps with masks.
        edits: Changes of attention weights.
        title: The title.
        choice: Which attention is shown: by default every mechanism's last layer, the mean of its heads.
        pair: A second text.
        pieces: Show the model's tokens instead of whole words.

    Raises:
        ConfigError: The chosen attention does not exist, or the text is longer than the model can read.
    """
    tokenizer, texts = task.tokenizer, []
    for one in [text] if pair is None else [text, pair]:
        plain = plain_text(one)[0]
        texts.append(tokenizer.encode(plain).ids if tokenizer.mask is None else tokenizer.encode_masked(plain))
    room = task.positions - frame_size(pair is not None, task.double_separator)
    if (size := sum(map(len, texts))) > room:
        raise ConfigError(
            f"the text has {size:,} tokens, but the model reads at most {room:,} at once; look at a part of it"
        )
    ids = frame(texts[0], texts[1] if pair is not None else None, task.double_separator)
    with edit(model, *edits):
        with watched(model) as seen:
            tokens, real = (t.to(next(model.parameters()).device) for t in pad_rows([ids]))
            model(tokens, real)
        output, notes = _answers(task, model, text, pair)
    words = _words(task, ids, pieces)
    choice = choice or Choice()
    choice.check(seen.mechanisms())
    views = views_of_text(seen, choice, words, len(ids))
    states = {f"layer {i}": block[0] for i, block in enumerate(seen.tensors("states"))}
    unknown = [piece for one in filter(None, (text, pair)) for piece in tokenizer.unknown_in(one.replace(MASK, " "))]
    return Look(
        title or task.title,
        text if pair is None else f"{text} / {pair}",
        output,
        tuple(view.map for view in views),
        encoder_frames([], words, states, views),
        (),
        (*notes, *notes_on(unknown, edits)),
        names=("text", "filled" if pair is None else "answer"),
    )


def _answers(task: Pretraining, model: Pretrainer, text: str, second: str | None) -> tuple[str, list[str]]:
    """The filled text, or the answer for a pair; and notes with probabilities."""
    if second is not None:
        if model.order is None:
            return "", ["this run has no head for pairs (model.next_sentence is false)"]
        (found,) = follow(task, model, [(text, second)])
        return found.answer, [f"probability that the second text follows: {found.probability:.4f}"]
    if model.words is None or not masks_in(text, task.tokenizer):
        return text, [] if model.words is None else [f"to see what the model expects, replace a word with {MASK}"]
    (filled,) = fill(task, model, [text], _CANDIDATES)
    return filled.text, filled.summary().split("\n")[1:]


def _words(task: Pretraining, ids: Sequence[int], pieces: bool) -> Words:
    """The words of framed texts, or their tokens; start and end tokens and masks by name."""
    tokenizer = task.tokenizer
    special = {token: tokenizer.token(token) for token in (START, END, tokenizer.mask) if token is not None}
    return Words.of(tokenizer, ids, "text", special, pieces=pieces)

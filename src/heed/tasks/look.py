"""A look at a text with any head, and the score of a text that an attribution explains.

A look traces the pass that gives the answer, and has what the head draws of the answer (`look_at_texts`). `explain`
returns the score that is attributed to the words of a text, `contrast` the one that tells two texts apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from heed.tasks.base.attributing import Explained, table_of
from heed.tasks.base.looking import (
    READ_AS,
    Network,
    Units,
    Words,
    encoder_frames,
    gate_maps,
    networks,
    notes_on,
    views_of_text,
    watched,
)
from heed.watch.attribution import LEFT_OUT, Scored
from heed.watch.edits import Edit
from heed.watch.effects import NumberAnswer
from heed.watch.looks import Choice, Look, Shading
from heed.watch.maps import Axis, Map
from heed.watch.trace import Trace, edit

AT_ONCE = "no steps: this model reads the whole text at once"


def look_of(
    work: Any,
    seen: Trace,
    words: Words,
    num_tokens: int,
    text: str,
    output: str,
    notes: Sequence[str],
    *,
    unknown: Sequence[str] = (),
    read_as: str = READ_AS,
    delay: int = 0,
    parts: Sequence[tuple[Network, Words]] | None = None,
    edits: Sequence[Edit] = (),
    title: str = "",
    choice: Choice | None = None,
    gates: bool = False,
    units: Units | None = None,
) -> Look:
    """The look of a traced pass over one text: its maps, and a frame for each word; options are those of `Run.look`.

    The model reads `num_tokens` tokens, the `words`, and with a `delay` so many tokens more. `parts` are its networks
    with what they read, if it reads parts of the text by themselves, which have no maps. `text` and `output` are as
    they are shown, `notes` those before the ones on any look: on `unknown` words and what they are `read_as`, on edits.
    """
    choice = choice or Choice()
    choice.check(seen.mechanisms())
    views = [] if parts is not None else views_of_text(seen, choice, words, num_tokens + delay)
    nets = parts if parts is not None else [(net, words) for net in networks(seen, num_tokens, delay)]
    states = {f"layer {i}": block[0] for i, block in enumerate(seen.tensors("states"))}
    return Look(
        title or work.title,
        text,
        output,
        (*(view.map for view in views), *gate_maps(nets, work.config.model.name, gates, units)),
        encoder_frames([net for net, read in nets if read is words], words, states, views),
        (),
        (*notes, *notes_on(unknown, edits, read_as=read_as)),
    )


def look_at_texts(
    work: Any, model: Any, text: Any, *, edits: Sequence[Edit] = (), pieces: bool = False, **options: Any
) -> Look:
    """Look at the answer that a model gives to a text, or to a pair of texts; the options are those of `Run.look`.

    Raises:
        ConfigError: The model does not have this attention, or has no gates.
    """
    texts, head, device = work.input, work.head, next(model.parameters()).device
    example = texts.example_of(text)
    corpus = texts.encode([example])
    (encoded,) = corpus
    batch = texts.collate(corpus, [0], None).to(device)
    with edit(model, *edits), watched(model) as seen:
        states = head.states(model, batch)
    with torch.no_grad():
        (answer,) = head.decode(model, states, batch)
    prediction = head.predict(answer, example, texts)
    start, end = texts.tokenizer.special[2:]
    framed = int(texts.is_framed)
    ids = [*[start] * framed, *texts.tokens_of(encoded), *[end] * framed]
    names = names_of_special(work)
    typed = texts.typed_as(example, encoded, framed)
    words = Words.of(texts.tokenizer, ids, "text", names, typed, pieces)
    sides = sides_of(words, {name: place.tokens for name, place in texts.places(example).items()}, framed)
    notes = [f"only the first {encoded.length} tokens are read (data.max_length); {encoded.cut} more are not"]
    explained = explain(work, model, text) if head.is_number else None
    look = look_of(
        work,
        seen,
        words,
        len(ids),
        example.texts[0],
        prediction.summary(),
        notes[: encoded.cut > 0],
        unknown=texts.unknown_in(text),
        edits=edits,
        **options,
    )
    whole = [drawn for drawn in look.maps if drawn.is_distribution]
    parts = [between(drawn, *sides.values()) for drawn in whole if drawn.query == drawn.key] if len(sides) == 2 else []
    return replace(
        look,
        maps=(*whole, *parts, *look.maps[len(whole) :]),
        shadings=tuple(head.shade(prediction, sides)),
        names=(texts.key, head.names),
        second=example.texts[1] if len(example.texts) > 1 else "",
        answer=None if explained is None else answer_of_score(explained, explained.name.removeprefix("the ")),
    )


def sides_of(words: Words, tokens: Mapping[str, range], before: int) -> dict[str, Side]:
    """The words of each text of an example, from the range of its tokens, after `before` other tokens."""
    sides = {}
    for name, inside in tokens.items():
        first, last = inside.start + before, inside.stop + before
        places = [n for n, word in enumerate(words.tokens) if first <= word.start < last]
        side_words = words.only(places)
        axis = replace(side_words.axis, name=name)
        sides[name] = Side(axis, [range(w.start - first, w.stop - first) for w in side_words.tokens], places)
    return sides


class Side:
    """A text of an example, word by word."""

    def __init__(self, axis: Axis, tokens: Sequence[range], places: Sequence[int]) -> None:
        """Take its words: their axis, the tokens of each, counted from the first of the text, and their places."""
        self.axis, self.tokens, self.places = axis, tokens, list(places)

    def shaded(self, title: str, numbers: Sequence[float]) -> Shading:
        """Words shaded by the sum of the numbers of their tokens, in 0..1."""
        sums = tuple(sum(numbers[word.start : word.stop]) for word in self.tokens)
        return Shading(title, self.axis, sums)


def between(whole: Map, query: Side, key: Side) -> Map:
    """The part of a map of all words with the queries of one text and the keys of another."""

    def part(values: Any) -> Any:
        return None if values is None else values[query.places][:, key.places]

    name = f"{whole.title}: {query.axis.name} over {key.axis.name}"
    caption = "The part of the map above with these rows and columns; the weights of a row to all words sum to 1."
    parts = part(whole.weights), part(whole.scores), part(whole.mask)
    return Map(whole.mechanism, whole.layer, whole.head, query.axis, key.axis, *parts, caption=caption, name=name)


def explain(
    work: Any, model: Any, text: Any, target: str | None = None, rather_than: str | None = None, ngrams: bool = True
) -> Explained:
    """The score of a head that is attributed, by default the score of its answer (`Head.target_score`).

    The logits of the n-grams beside a network, which do not pass through it, are held fixed, or left out.

    Raises:
        ConfigError: The head has no such score.
    """
    texts, device = work.input, next(model.parameters()).device
    corpus = texts.encode([texts.example_of(text)])
    (encoded,), (answer,) = corpus, work.answers(model, corpus)
    target_score, notes = work.head.target_score(answer, target, rather_than), []
    linear = torch.tensor(encoded.ngrams).unsqueeze(0)
    if encoded.ngrams and ngrams:
        part = float(target_score.score(model.ngram_scale.detach().cpu() * linear))
        notes.append(f"held fixed: the n-grams beside the network add {part:+.4f}")
    elif encoded.ngrams:
        notes.append("scored without the n-grams beside the network")
        encoded = replace(encoded, ngrams=(0.0,) * len(encoded.ngrams))
    special = names_of_special(work)
    first, framed = int(getattr(model, "has_cls", texts.is_framed)), texts.is_framed

    def score(model: nn.Module, rows: Tensor) -> Tensor:
        batch = texts.collate([without(encoded, row) for row in rows.tolist()], [*range(len(rows))], None).to(device)
        scores: Tensor = target_score.score(work.head.states(model, batch))
        return scores

    ids, tokenizer = texts.tokens_of(encoded), texts.tokenizer
    words = Words.of(tokenizer, ids, "text", special, texts.typed_as(texts.example_of(text), encoded))
    start, end = tokenizer.special[2:]
    scored = Scored(model, table_of(model), torch.tensor(ids, device=device), score, tokenizer.special.unknown)
    around = (special[start],) * first, (special[end],) * framed
    return Explained(scored, words, target_score.name, tuple(notes), around)


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

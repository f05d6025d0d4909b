"""A look at a text with any head: the pass that gives the answer, watched, and what the head draws of the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from heed.tasks.base.looking import Units, Words, encoder_frames, gate_maps, networks, notes_on, views_of_text, watched
from heed.tasks.explain import answer_of_score, explain, names_of_special
from heed.watch.edits import Edit
from heed.watch.looks import Choice, Look, Shading, View
from heed.watch.maps import Axis, Map
from heed.watch.trace import edit


def look_at_texts(
    work: Any,
    model: Any,
    text: Any,
    *,
    edits: Sequence[Edit] = (),
    title: str = "",
    choice: Choice | None = None,
    gates: bool = False,
    units: Units | None = None,
    pieces: bool = False,
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
    choice = choice or Choice()
    choice.check(seen.mechanisms())
    views = views_of_text(seen, choice, words, len(ids))
    nets = networks(seen, len(ids))
    sides = sides_of(words, {name: place.tokens for name, place in texts.places(example).items()}, framed)
    notes = [f"only the first {encoded.length} tokens are read (data.max_length); {encoded.cut} more are not"]
    maps = [view.map for view in views]
    if len(sides) == 2:
        maps += [between(view, *sides.values()) for view in views if view.map.query == view.map.key]
    explained = explain(work, model, text) if head.is_number else None
    return Look(
        title or work.title,
        example.texts[0],
        prediction.summary(),
        (*maps, *gate_maps([(net, words) for net in nets], work.config.model.name, gates, units)),
        encoder_frames(nets, words, {f"layer {i}": s[0] for i, s in enumerate(seen.tensors("states"))}, views),
        (),
        (*notes[: encoded.cut > 0], *notes_on(texts.unknown_in(text), edits)),
        shadings=tuple(head.shade(prediction, sides)),
        names=(texts.key, head.names),
        second=example.texts[1] if len(example.texts) > 1 else "",
        answer=None if explained is None else answer_of_score(explained, explained.name.removeprefix("the ")),
    )


def sides_of(words: Words, tokens: Mapping[str, range], before: int) -> dict[str, Side]:
    """The words of each text of an example, of which these are the tokens, after `before` others."""
    sides = {}
    for name, inside in tokens.items():
        first, last = inside.start + before, inside.stop + before
        places = [n for n, word in enumerate(words.tokens) if first <= word.start < last]
        own = words.only(places)
        axis = replace(own.axis, name=name)
        sides[name] = Side(axis, [range(w.start - first, w.stop - first) for w in own.tokens], places)
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


def between(view: View, query: Side, key: Side) -> Map:
    """The part of a map of all words in which those of one text look at those of another."""
    whole = view.map

    def part(values: Any) -> Any:
        return None if values is None else values[query.places][:, key.places]

    name = f"{whole.title}: {query.axis.name} over {key.axis.name}"
    caption = "The part of the map above with these rows and columns; the weights of a row to all words sum to 1."
    parts = part(whole.weights), part(whole.scores), part(whole.mask)
    return Map(whole.mechanism, whole.layer, whole.head, query.axis, key.axis, *parts, caption=caption, name=name)

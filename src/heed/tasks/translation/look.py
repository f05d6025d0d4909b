"""Looks at one pair: its maps, and a frame for every word read and every token written."""

from __future__ import annotations

from collections.abc import Sequence

from heed.data.tokens.tokenizer import END, START, TextTokenizer
from heed.models.base import PairDecoder
from heed.observe.edits import Edit
from heed.observe.looks import Choice, Look, View
from heed.observe.maps import Axis
from heed.observe.trace import Maps, Trace, edit
from heed.tasks.base.looking import (
    InputSpans,
    Shown,
    Words,
    encoder_frames,
    networks,
    notes_on,
    token_labels,
    view_of_words,
    views_of,
)
from heed.tasks.base.writing_look import Reread
from heed.tasks.translation.task import Translation

_SPECIAL = {START: "start", END: "end"}
_AXES = {"cross": ("target", "source"), "encoder": ("source", "source"), "decoder": ("target", "target read")}
_AXES["copy"] = _AXES["cross"]
_CAPTIONS = {
    "cross": "Row t: where the model looked to write output t. Weights before dropout.",
    "encoder": "Row i: where source position i looked. Weights before dropout.",
    "copy": "Row t: where output t would be copied from.",
    "decoder": "Row t: where the position that wrote output t looked, among what was read until then. "
    "Weights before dropout.",
}


def look_at(
    task: Translation,
    model: PairDecoder,
    source: str,
    *,
    target: str | None = None,
    beam_size: int | None = None,
    edits: Sequence[Edit] = (),
    title: str = "",
    choice: Choice | None = None,
) -> Look:
    """Look at the output of a model for a source, or at a given `target`.

    The finished output is read again in one traced pass, which equals the steps that wrote it. `edits` also apply while
    the output is written; by default the last layer of every mechanism is shown, the mean of its heads.

    Raises:
        ConfigError: The model lacks the mechanism, layer or head.
    """
    source, choice = source.strip(), choice or Choice()
    read = task.framed(task.source_tokenizer.encode(source).ids)
    with edit(model, *edits):
        written = task.translate(model, [source], beam_size=beam_size)[0][0] if target is None else target
        seen = Reread.of(task, model, read, written)
    sides = {
        "source": (task.source_tokenizer, read),
        "target": (task.target_tokenizer, [*seen.ids, END]),
        "target read": (task.target_tokenizer, [START, *seen.ids]),
    }
    typed = {"source": InputSpans.of(task.source_tokenizer, source, before=len(task.frame[0]))}
    if target is not None:
        typed["target"] = InputSpans.of(task.target_tokenizer, target)
        typed["target read"] = InputSpans.of(task.target_tokenizer, target, before=1)
    axes = {name: _token_axis(name, *side, typed.get(name)) for name, side in sides.items()}
    choice.check(seen.mechanisms)
    encoder, decoder = _views(seen.reading, choice, axes), _views(seen.writing, choice, axes)
    maps = tuple(view.map for view in (*encoder, *decoder))
    if not axes["source"].kind == axes["target"].kind == "character":
        words = {name: Words.of(*side, name, _SPECIAL, typed.get(name)) for name, side in sides.items()}
        maps = tuple(
            view_of_words(view, words[view.map.query.name], words[view.map.key.name]).map
            for view in (*encoder, *decoder)
        )
    source_tokens = Words.counted(axes["source"], [1] * len(axes["source"]))
    notes = notes_on(task.source_tokenizer.unknown_in(source), edits, choice.hidden([*encoder, *decoder]))
    return Look(
        title or task.title,
        source,
        seen.text,
        maps,
        encoder_frames(networks(seen.reading, len(axes["source"])), source_tokens, seen.layer_states, encoder),
        seen.frames(decoder, axes["target"], task.target_tokenizer, _SPECIAL),
        (f"output: {seen.score}", *notes),
        seen.summary(model),
    )


def _token_axis(name: str, tokenizer: TextTokenizer, ids: list[int], typed: InputSpans | None) -> Axis:
    tokens = [range(n, n + 1) for n in range(len(ids))]
    labels = token_labels(tokenizer, ids, tokens, _SPECIAL, typed, lambda token: tokenizer.label(token[0]))
    return Axis(name, tokenizer.unit, labels)


def _views(seen: Trace, choice: Choice, axes: dict[str, Axis]) -> list[View]:
    """Views of each attention that is shown."""

    def shown(maps: Maps) -> tuple[Maps, Shown]:
        query, key = (axes[name] for name in _AXES[maps.mechanism])
        return maps, (query, key, _CAPTIONS[maps.mechanism])

    return views_of(seen, choice, shown)

"""Looks at the output for a source: attention while it is written and read, attributions, the logit lens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from heed.attention import Rows
from heed.errors import ConfigError
from heed.models.base import PairDecoder
from heed.tasks.base.attributing import Explained
from heed.tasks.base.looking import InputSpans, Units, encoder_frames, gate_maps, networks, notes_on
from heed.tasks.base.writing import (
    Reread,
    WrittenText,
    answer_of_output,
    boundaries,
    explain_output,
    side_of,
    views_of_sides,
)
from heed.tasks.heads.alignment import known_links, replace_unknown
from heed.watch.edits import Edit
from heed.watch.looks import Choice, Look
from heed.watch.maps import Axis
from heed.watch.trace import edit

_AXES = {"cross": ("target", "source"), "encoder": ("source", "source"), "decoder": ("target", "target read")}
_AXES["copy"] = _AXES["cross"]
_CAPTIONS = {
    "cross": "Row t: where the model looked to write output t. Weights before dropout.",
    "encoder": "Row i: where source position i looked. Weights before dropout.",
    "copy": "Row t: where output t would be copied from.",
    "decoder": "Row t: where the pass that wrote output t looked, among the tokens read until then: the start token "
    "and the outputs before t. Weights before dropout.",
}


def look_at(
    work: Any,
    model: PairDecoder,
    source: str,
    *,
    target: str | WrittenText | None = None,
    beam_size: int | None = None,
    edits: Sequence[Edit] = (),
    title: str = "",
    choice: Choice | None = None,
    gates: bool = False,
    units: Units | None = None,
) -> Look:
    """Look at the output of a model for a source, or at a given `target`.

    The finished output is read again in one traced pass, which equals the steps that wrote it. `edits` also apply while
    the output is written; by default the last layer of every mechanism is shown, the mean of its heads.

    Raises:
        ConfigError: The model lacks the mechanism, layer or head.
    """
    source, choice = work.input.stripped(source), choice or Choice()
    tokenizer, of_target = work.input.source_tokenizer, work.input.target_tokenizer
    read = work.input.framed(tokenizer.encode(source).ids)
    with edit(model, *edits):
        written = work.head.translate(work, model, [source], beam_size=beam_size)[0][0] if target is None else target
        if not isinstance(written, str):
            written = replace_unknown(work, model, source, written)
        seen = Reread.of(work.input, model, read, written)
    typed = InputSpans.of(tokenizer, source, before=len(work.input.frame[0]))
    sides = {
        "source": side_of(tokenizer, read, "source", boundaries(tokenizer), typed),
        **seen.sides("target", of_target, boundaries(of_target)),
    }
    choice.check(seen.mechanisms)
    (encoder, encoder_words), (decoder, decoder_words) = (
        views_of_sides(trace, choice, sides, _AXES, lambda maps: (maps, _CAPTIONS[maps.mechanism]))
        for trace in (seen.reading, seen.writing)
    )
    links = known_links(work, source, seen.text, (sides["target"][1], sides["source"][1])) if decoder else None
    maps = [
        replace(view.map, links=links if view.map.mechanism == "cross" else None)
        for view in (*encoder_words, *decoder_words)
    ]
    tokens = sides["source"][0]
    unknown, replaced = (
        tokenizer.unknown_in(source),
        () if isinstance(seen.typed, str) else seen.typed.values(),
    )
    notes = notes_on(unknown, edits, choice.hidden([*encoder, *decoder]), replaced=replaced)
    nets = networks(seen.reading, len(tokens.axis))
    read_nets = [(replace(net, kind=f"encoder {net.kind}"), sides["source"][1]) for net in nets]
    ended = not isinstance(written, str) and written.finished

    greedy = target is None and (beam_size or work.config.generation.beam_size) == 1
    return Look(
        title or work.title,
        source,
        seen.text,
        (*maps, *gate_maps([*read_nets, *seen.networks(sides["target"][1])], work.config.model.name, gates, units)),
        encoder_frames(nets, tokens, seen.layer_states, encoder),
        seen.frames(decoder, sides["target"][0].axis, of_target),
        (f"output: {seen.score}", *notes),
        seen.summary(model),
        output=None if isinstance(written, str) else written,
        answer=answer_of_output(work.input, model, seen, ended, read, read, greedy),
    )


def explain(
    work: Any,
    model: PairDecoder,
    source: str,
    target: str | None = None,
    rather_than: str | None = None,
    output: str | WrittenText | None = None,
) -> Explained:
    """The log-probability of the output, or of one token of it, as `explain_output` has it.

    Raises:
        ConfigError: As `explain_output`; or the model copies words, whose numbers it needs.
    """
    if work.body(model) is not model:
        raise ConfigError("this model copies words of the source, by their numbers, which have no gradient")
    source, tokenizer = work.input.stripped(source), work.input.source_tokenizer
    read = work.input.framed(tokenizer.encode(source).ids)
    typed = InputSpans.of(tokenizer, source, len(work.input.frame[0]))
    _, words = side_of(tokenizer, read, "source", boundaries(tokenizer), typed)
    written, first = output or work.head.translate(work, model, [source])[0][0], work.input.first_token(read)
    written = written if isinstance(written, str) else replace_unknown(work, model, source, written)
    unknown = tokenizer.special.unknown
    return explain_output(work.input, model, read, words, unknown, first, written, target, rather_than)


def contrast(work: Any, model: PairDecoder, text: str, other: str) -> dict[str, Any]:
    """The score that tells two texts apart: the log-probability of the output for the other."""
    return {"output": work.head.translate(work, model, [work.input.stripped(other)])[0][0]}


def lens_reads(work: Any, model: PairDecoder, text: str) -> tuple[Callable[[], Tensor], Axis, Callable[[int], str]]:
    """A pass over the output for a text; see `heed.tasks.base.attributing.lens`."""
    text, device, tokenizer = work.input.stripped(text), next(model.parameters()).device, work.input.target_tokenizer
    source = work.input.framed(work.input.source_tokenizer.encode(text).ids)
    ids = [work.input.first_token(source), *work.head.translate(work, model, [text])[0][0].ids]
    memory, names = work.input.memory(model, [source], device), boundaries(tokenizer)

    def read() -> Tensor:
        with torch.no_grad():
            start = model.start(memory, Rows.repeat(1, device=device))
            return model.logits(model.step(torch.tensor([ids], device=device), start)[0])

    def name(token: int) -> str:
        return names.get(token) or tokenizer.label(token)

    return read, Axis("output read", "token", tuple(map(name, ids))), name

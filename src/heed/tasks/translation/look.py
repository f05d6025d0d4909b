"""Looks at one pair: its maps, and a frame for every word read and every token written."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from heed.attention import Rows
from heed.data.tokens.tokenizer import END, START, TextTokenizer
from heed.models.base import PairDecoder
from heed.observe.choice import Choice, View
from heed.observe.edits import Edit
from heed.observe.frames import DecoderFrame, Look
from heed.observe.maps import Axis
from heed.observe.trace import Maps, Trace, edit
from heed.tasks.base.looking import Typed, Words, encoder_frames, networks, notes_on, token_labels, watched
from heed.tasks.base.views import Shown, view_of_words, views_of
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
    source = source.strip()
    with edit(model, *edits):
        return _look(task, model, source, target, beam_size, edits, title, choice or Choice())


def _look(
    task: Translation,
    model: PairDecoder,
    source: str,
    target: str | None,
    beam_size: int | None,
    edits: Sequence[Edit],
    title: str,
    choice: Choice,
) -> Look:
    """A look at a model whose attention is already edited."""
    if target is None:
        best = task.translate(model, [source], beam_size=beam_size)[0][0]
        ids, written = list(best.ids), best.text
        score = "written by the model" + ("" if best.finished else ", cut off at the largest length")
    else:
        ids, written = task.target_tokenizer.encode(target).ids, target
        score = "given, not written by the model"
    batch = task.forced_batch(source, ids).to(next(model.parameters()).device)
    # Two traces, since one network may do both: the first records reading the source, the second writing the target.
    with watched(model) as reading:
        memory = model.encode(batch.source, batch.source_mask)
    with watched(model) as writing:
        rows = Rows.repeat(1, device=batch.source.device)
        logits = model.logits(model.step(batch.target, model.start(memory, rows))[0])[0].float()
    log_prob = float(torch.log_softmax(logits, -1).gather(1, batch.labels[0].unsqueeze(1)).sum())
    score += f"; probability {math.exp(log_prob):.3g}, log-probability {log_prob:.4g}"
    sides = {
        "source": (task.source_tokenizer, batch.source[0].tolist()),
        "target": (task.target_tokenizer, batch.labels[0].tolist()),
        "target read": (task.target_tokenizer, batch.target[0].tolist()),
    }
    typed = {"source": Typed.of(task.source_tokenizer, source, before=len(task.frame[0]))}
    if target is not None:
        typed["target"] = Typed.of(task.target_tokenizer, target)
        typed["target read"] = Typed.of(task.target_tokenizer, target, before=1)
    axes = {name: _token_axis(name, *side, typed.get(name)) for name, side in sides.items()}
    choice.check([*reading.mechanisms(), *writing.mechanisms()])
    encoder, decoder = _views(reading, choice, axes), _views(writing, choice, axes)
    maps = tuple(view.map for view in (*encoder, *decoder))
    if not axes["source"].kind == axes["target"].kind == "character":
        words = {name: Words.of(*side, name, _SPECIAL, typed.get(name)) for name, side in sides.items()}
        maps = tuple(
            view_of_words(view, words[view.map.query.name], words[view.map.key.name]).map
            for view in (*encoder, *decoder)
        )
    source_tokens = Words.counted(axes["source"], [1] * len(axes["source"]))
    blocks = {f"layer {i}": states[0] for i, states in enumerate(reading.tensors("states"))}
    notes = notes_on(task.source_tokenizer.unknown_in(source), edits, choice.hidden([*encoder, *decoder]))
    return Look(
        title or f"{task.config.model.name} on {task.config.data.name}",
        source,
        written,
        maps,
        encoder_frames(networks(reading, len(axes["source"])), source_tokens, blocks, encoder),
        decoder_frames(writing, decoder, axes["target"], logits, task.target_tokenizer),
        (f"output: {score}", *notes),
        memory.summary[0] if memory.summary is not None and not model.aligns else None,
    )


def _token_axis(name: str, tokenizer: TextTokenizer, ids: list[int], typed: Typed | None) -> Axis:
    tokens = [range(n, n + 1) for n in range(len(ids))]
    labels = token_labels(tokenizer, ids, tokens, _SPECIAL, typed, lambda token: tokenizer.label(token[0]))
    return Axis(name, tokenizer.unit, labels)


def _label(tokenizer: TextTokenizer, token: int) -> str:
    return _SPECIAL.get(token) or tokenizer.label(token)


def _views(seen: Trace, choice: Choice, axes: dict[str, Axis]) -> list[View]:
    """Views of each attention that is shown."""

    def shown(maps: Maps) -> tuple[Maps, Shown]:
        query, key = (axes[name] for name in _AXES[maps.mechanism])
        return maps, (query, key, _CAPTIONS[maps.mechanism])

    return views_of(seen, choice, shown)


def decoder_frames(
    writing: Trace, views: Sequence[View], target: Axis, logits: Tensor, tokenizer: TextTokenizer
) -> tuple[DecoderFrame, ...]:
    """A frame for each written token: the last state, the weights of each attention, the most probable tokens."""
    states = [gates["hidden"][0] for gates in writing.gates().values()]
    states += [block[0] for block in writing.tensors("states")]
    top = torch.softmax(logits, -1).topk(3, dim=-1)
    frames = []
    for t, token in enumerate(target.labels):
        candidates = zip(top.indices[t].tolist(), top.values[t].tolist(), strict=True)
        frames.append(
            DecoderFrame(
                index=t,
                so_far=target.labels[:t],
                token=token,
                state=states[-1][t] if states else logits[t],
                glances=tuple(view.glance(t) for view in views),
                top=tuple((_label(tokenizer, i), p) for i, p in candidates),
            )
        )
    return tuple(frames)

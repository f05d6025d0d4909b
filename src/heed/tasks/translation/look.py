"""One example under the microscope: its maps, and a frame for every word read and every token written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from heed.attention import Rows
from heed.data.tokens.tokenizer import END, START, TextTokenizer
from heed.models.base import PairDecoder
from heed.observe.choice import Choice, View
from heed.observe.edits import Edit
from heed.observe.frames import DecoderFrame, Look
from heed.observe.maps import Axis, Map
from heed.observe.trace import Trace, edit
from heed.observe.words import merge_words
from heed.tasks.base.looking import Words, encoder_frames, networks, notes_on, watched
from heed.tasks.translation.task import Translation

_SPECIAL = {START: "start", END: "end"}
_AXES = {"cross": ("target", "source"), "encoder": ("source", "source"), "decoder": ("target", "target read")}
_CAPTIONS = {
    "cross": "Row t: where the model looked to write output t. Weights before dropout.",
    "encoder": "Row i: where source position i looked. Weights before dropout.",
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
    """Look at what a model writes for a source, or at a `target` that is given.

    The finished output is read once more in one watched pass, which equals the steps that wrote it. `edits` also hold
    while the output is written; by default every mechanism's last layer is shown, the mean of its heads.

    Raises:
        ConfigError: The model has no such mechanism, layer or head.
    """
    if target is None:
        with edit(model, *edits):
            best = task.translate(model, [source], beam_size=beam_size)[0][0]
        ids, written = list(best.ids), best.text
        score = "written by the model" + ("" if best.finished else ", cut off at the largest length")
    else:
        ids, written = task.target_tokenizer.encode(target).ids, target
        score = "given, not written by the model"
    batch = task.forced_batch(source, ids).to(next(model.parameters()).device)
    # Two traces, since one network may do both: what ran in the first read the source, in the second wrote the target.
    with watched(model, edits) as reading:
        memory = model.encode(batch.source, batch.source_mask)
    with watched(model, edits) as writing:
        rows = Rows.repeat(1, device=batch.source.device)
        logits = model.logits(model.step(batch.target, model.start(memory, rows))[0])[0].float()
    log_prob = float(torch.log_softmax(logits, -1).gather(1, batch.labels[0].unsqueeze(1)).sum())
    score += f"; probability {math.exp(log_prob):.3g}, log-probability {log_prob:.4g}"
    sides = {
        "source": (task.source_tokenizer, batch.source[0].tolist()),
        "target": (task.target_tokenizer, batch.labels[0].tolist()),
        "target read": (task.target_tokenizer, batch.target[0].tolist()),
    }
    axes = {name: _token_axis(name, *side) for name, side in sides.items()}
    choice = choice or Choice()
    choice.check([*reading.mechanisms(), *writing.mechanisms()])
    encoder, decoder = _views(reading, choice, axes), _views(writing, choice, axes)
    maps = tuple(view.map for view in (*encoder, *decoder))
    if not axes["source"].kind == axes["target"].kind == "character":
        words = {name: Words.of(*side, name, _SPECIAL) for name, side in sides.items()}
        maps = tuple(_of_words(one, words[one.query.name], words[one.key.name]) for one in maps)
    source_tokens = Words.counted(axes["source"], [1] * len(axes["source"]))
    blocks = {f"layer {i}": states[0] for i, states in enumerate(reading.tensors("states"))}
    notes = notes_on(task.source_tokenizer.unknown_in(source), edits, choice.hidden([*encoder, *decoder]))
    return Look(
        title or f"{task.config.model.name} on {task.config.data.name}",
        source,
        written,
        maps,
        encoder_frames(networks(reading, len(axes["source"])), source_tokens, blocks, encoder),
        _decoder_frames(writing, decoder, axes["target"], logits, task.target_tokenizer),
        (f"output: {score}", *notes),
        memory.summary[0] if memory.summary is not None and not model.aligns else None,
    )


def _token_axis(name: str, tokenizer: TextTokenizer, ids: list[int]) -> Axis:
    return Axis(name, tokenizer.unit, tuple(_label(tokenizer, token) for token in ids))


def _label(tokenizer: TextTokenizer, token: int) -> str:
    return _SPECIAL.get(token) or tokenizer.label(token)


def _of_words(one: Map, query: Words, key: Words) -> Map:
    """A map of subword tokens as one of words; where every word is one token, its scores stay."""
    if len(query.axis) == len(one.query) and len(key.axis) == len(one.key):
        return replace(one, query=query.axis, key=key.axis)
    return merge_words(one, query.axis, query.tokens, key.axis, key.tokens)


def _views(seen: Trace, choice: Choice, axes: dict[str, Axis]) -> list[View]:
    """What was seen of each attention that is shown, each on its own axes."""
    views = []
    for mechanism, layer in choice.layers(seen.mechanisms()):
        maps = seen.maps(mechanism, layer, entries=[0])
        num_heads = maps.weights.shape[1]
        query, key = (axes[name] for name in _AXES[mechanism])
        for head in choice.heads(num_heads):
            caption = _CAPTIONS[mechanism] + (f" Mean of {num_heads} heads." if head is None else "")
            context = maps.context[0] if head is None else maps.context[0, head : head + 1]  # (heads, Q, d_value)
            drawn = maps.map(query, key, head=head, caption=caption)
            views.append(View(drawn, context.transpose(0, 1).flatten(1), num_heads))
    return views


def _decoder_frames(
    writing: Trace, views: Sequence[View], target: Axis, logits: Tensor, tokenizer: TextTokenizer
) -> tuple[DecoderFrame, ...]:
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

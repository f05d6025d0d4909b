"""One example under the microscope: its maps, and a frame for every word read and every token written."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from heed.data.examples import Pair
from heed.data.tokenizer import END, TextTokenizer
from heed.evaluation.alignment import aligned_characters
from heed.models.base import PairDecoder
from heed.observe.edits import Edit
from heed.observe.frames import DecoderFrame, EncoderFrame, Look
from heed.observe.maps import Axis, Map
from heed.observe.trace import Trace, edit, trace
from heed.tasks.translation import Translation

__all__ = ["aligned_counts", "look_at"]

_SHOWN_GATES = ("reset", "update", "input", "forget", "output")


def look_at(
    task: Translation,
    model: PairDecoder,
    source: str,
    *,
    target: str | None = None,
    beam_size: int | None = None,
    edits: Sequence[Edit] = (),
    title: str = "",
) -> Look:
    """Look at what a model writes for a source, or at a target that is given.

    The finished output is read once more in one watched pass, which equals the steps that wrote it.

    Args:
        task: The task of the model.
        model: What to look at.
        source: The source text.
        target: A given output instead of the model's own.
        beam_size: Beam of the search; the configuration's by default.
        edits: Changes of the attention weights, also while the output is written.
        title: First line; the model's name by default.
    """
    if target is None:
        with edit(model, *edits):
            best = task.translate(model, [source], beam_size=beam_size)[0][0]
        ids, written = list(best.ids), best.text
        score = "written by the model"
        score += "" if best.finished else ", cut off at the largest length"
    else:
        ids, written = task.target_tokenizer.encode(target).ids, target
        score = "given, not written by the model"
    batch = task.forced_batch(source, ids).to(next(model.parameters()).device)
    model.eval()
    with torch.no_grad(), trace(model, edits=edits) as seen:
        logits = model.logits(model(batch.source, batch.source_mask, batch.target))[0].float()
    log_prob = float(torch.log_softmax(logits, -1).gather(1, batch.labels[0].unsqueeze(1)).sum())
    score += f"; probability {math.exp(log_prob):.3g}, log-probability {log_prob:.4g}"
    source_axis = _axis("source", task.source_tokenizer, batch.source[0].tolist())
    target_axis = _axis("target", task.target_tokenizer, batch.labels[0].tolist())
    maps = _maps(seen, source_axis, target_axis)
    name = task.config.model.name
    notes = [f"output: {score}"]
    if unknown := task.source_tokenizer.unknown_in(source):
        notes.append(f"never seen in training: {' '.join(dict.fromkeys(unknown))}")
    if edits:
        notes.append("edited: " + "; ".join(map(str, edits)))
    return Look(
        title or f"{name} on {task.config.data.name}",
        source,
        written,
        maps,
        _encoder_frames(seen, source_axis),
        _decoder_frames(seen, maps, target_axis, logits, task.target_tokenizer),
        tuple(notes),
    )


def _axis(name: str, tokenizer: TextTokenizer, ids: list[int]) -> Axis:
    labels = tuple("end" if token == END else tokenizer.token(token) for token in ids)
    return Axis(name, "character", labels)


def _maps(seen: Trace, source: Axis, target: Axis) -> tuple[Map, ...]:
    """Every mechanism and layer that was seen, each on its own axes, one map per head."""
    axes = {"cross": (target, source), "encoder": (source, source), "decoder": (target, target)}
    captions = {
        "cross": "Row t: where the model looked to write output t. Weights before dropout.",
        "encoder": "Row i: where source position i looked. Weights before dropout.",
        "decoder": "Row t: where the position that wrote output t looked. Weights before dropout.",
    }
    result = []
    for mechanism, layer in seen.mechanisms():
        maps = seen.maps(mechanism, layer, entries=[0])
        query, key = axes[mechanism]
        for head in range(maps.weights.shape[1]):
            result.append(maps.map(query, key, head=head, caption=captions[mechanism]))
    return tuple(result)


def _encoder_frames(seen: Trace, source: Axis) -> tuple[EncoderFrame, ...]:
    nets = {name: gates for name, gates in seen.gates().items() if name.startswith("encoder.")}
    layers = max((int(name.rsplit(".", 1)[1]) for name in nets), default=0)
    frames = []
    for i, token in enumerate(source.labels):
        states: dict[str, Tensor] = {}
        means: dict[str, float] = {}
        for name, gates in nets.items():
            kind, layer = name.removeprefix("encoder.").split("_cells.")
            label = kind if layers == 0 else f"{kind} layer {layer}"
            states[label] = gates["hidden"][0, i]
            for gate in _SHOWN_GATES:
                if gate in gates:
                    means[f"{label} {gate}"] = float(gates[gate][0, i].mean())
        frames.append(EncoderFrame(i, token, states, means))
    return tuple(frames)


def _decoder_frames(
    seen: Trace, maps: tuple[Map, ...], target: Axis, logits: Tensor, tokenizer: TextTokenizer
) -> tuple[DecoderFrame, ...]:
    states = [gates["hidden"][0] for name, gates in seen.gates().items() if not name.startswith("encoder.")]
    cross = [m for m in maps if m.mechanism == "cross"]
    context = seen.maps("cross", entries=[0]).context[0].flatten(0, -3) if cross else None  # (H, T, d_value)
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
                scores=None if not cross else cross[-1].scores[t] if cross[-1].scores is not None else None,
                weights=cross[-1].weights[t] if cross else None,
                context=None if context is None else context[:, t].flatten(),
                top=tuple(("end" if i == END else tokenizer.token(i), p) for i, p in candidates),
            )
        )
    return tuple(frames)


@torch.no_grad()
def aligned_counts(
    task: Translation, model: PairDecoder, pairs: Sequence[Pair], batch_size: int = 64
) -> tuple[list[int], list[int]]:
    """How many linked target characters attention aligns right, per pair (references, teacher forcing).

    Uses the cross attention of the last layer, the mean over heads. Pairs without known links count nothing.

    Returns:
        Right and linked characters per pair (see `heed.evaluation.alignment`).
    """
    model.eval()
    device = next(model.parameters()).device
    right, linked = [0] * len(pairs), [0] * len(pairs)
    known = [i for i, pair in enumerate(pairs) if pair.links]
    known.sort(key=lambda i: len(pairs[i].source))
    for start in range(0, len(known), batch_size):
        chosen = known[start : start + batch_size]
        batch = task.collate_pairs([pairs[i] for i in chosen]).to(device)
        with trace(model) as seen:
            model(batch.source, batch.source_mask, batch.target)
        if not any(mechanism == "cross" for mechanism, _ in seen.mechanisms()):
            return right, [0] * len(pairs)  # a model without attention has no alignment to be wrong
        best = seen.maps("cross").weights.mean(1).argmax(-1).tolist()  # (B, T)
        for row, i in enumerate(chosen):
            query_spans = task.target_tokenizer.encode(pairs[i].target).spans
            key_spans = task.source_tokenizer.encode(pairs[i].source).spans
            right[i], linked[i] = aligned_characters(best[row], query_spans, key_spans, pairs[i].links or ())
    return right, linked

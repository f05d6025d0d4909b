"""One example under the microscope: its maps, and a frame for every word read and every token written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from heed.attention import Rows
from heed.data.batch.pairs import PairBatch
from heed.data.examples import Pair
from heed.data.tokens.tokenizer import END, START, UNKNOWN, TextTokenizer
from heed.evaluation.alignment import aligned_characters
from heed.models.base import PairDecoder
from heed.observe.choice import Choice, View
from heed.observe.edits import Edit
from heed.observe.frames import DecoderFrame, EncoderFrame, Glance, Look
from heed.observe.maps import Axis, Map
from heed.observe.trace import Trace, edit, trace
from heed.observe.words import merge_words
from heed.tasks.translation.task import Translation

__all__ = ["aligned_counts", "look_at", "word_links"]

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
    choice: Choice | None = None,
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
        choice: Which attention is shown; by default every mechanism's last layer, the mean of its heads.

    Raises:
        ConfigError: The model has no such mechanism, layer or head.
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
    # Two traces, since one network may do both: what ran in the first read the source, in the second wrote the target.
    with torch.no_grad(), trace(model, edits=edits) as reading:
        memory = model.encode(batch.source, batch.source_mask)
    with torch.no_grad(), trace(model, edits=edits) as writing:
        rows = Rows.repeat(1, device=batch.source.device)
        logits = model.logits(model.step(batch.target, model.start(memory, rows))[0])[0].float()
    log_prob = float(torch.log_softmax(logits, -1).gather(1, batch.labels[0].unsqueeze(1)).sum())
    score += f"; probability {math.exp(log_prob):.3g}, log-probability {log_prob:.4g}"
    source_axis = _axis("source", task.source_tokenizer, batch.source[0].tolist())
    target_axis = _axis("target", task.target_tokenizer, batch.labels[0].tolist())
    read_axis = _axis("target read", task.target_tokenizer, batch.target[0].tolist())
    choice = choice or Choice()
    choice.check([*reading.mechanisms(), *writing.mechanisms()])
    encoder = _views(reading, choice, source_axis, target_axis, read_axis)
    decoder = _views(writing, choice, source_axis, target_axis, read_axis)
    tokens = tuple(view.map for view in (*encoder, *decoder))
    maps = tokens if source_axis.kind == target_axis.kind == "character" else _of_words(tokens, task, batch)
    name = task.config.model.name
    notes = [f"output: {score}"]
    if unknown := task.source_tokenizer.unknown_in(source):
        notes.append(f"never seen in training: {' '.join(dict.fromkeys(unknown))}")
    if hidden := choice.hidden([*encoder, *decoder]):
        notes.append(hidden)
    if edits:
        notes.append("edited: " + "; ".join(map(str, edits)))
    return Look(
        title or f"{name} on {task.config.data.name}",
        source,
        written,
        maps,
        _encoder_frames(reading, encoder, source_axis),
        _decoder_frames(writing, decoder, target_axis, logits, task.target_tokenizer),
        tuple(notes),
        memory.summary[0] if memory.summary is not None and not model.aligns else None,
    )


def _axis(name: str, tokenizer: TextTokenizer, ids: list[int]) -> Axis:
    return Axis(name, tokenizer.unit, tuple(_label(tokenizer, token) for token in ids))


def _label(tokenizer: TextTokenizer, token: int) -> str:
    return {START: "start", END: "end"}.get(token) or tokenizer.label(token)


def _of_words(maps: Sequence[Map], task: Translation, batch: PairBatch) -> tuple[Map, ...]:
    """Maps of subword tokens as maps of words; those of whole words stay as they are."""
    sides = {}
    for name, tokenizer, tensor in (
        ("source", task.source_tokenizer, batch.source),
        ("target", task.target_tokenizer, batch.labels),
        ("target read", task.target_tokenizer, batch.target),
    ):
        ids = tensor[0].tolist()
        words = tokenizer.words(ids)
        labels = tuple(
            _label(tokenizer, ids[word.start])
            if ids[word.start] in (START, END)
            else tokenizer.word_label(ids[word.start : word.stop])
            for word in words
        )
        sides[name] = Axis(name, "word" if tokenizer.unit == "token" else tokenizer.unit, labels), words
    merged = []
    for one in maps:
        query, key = sides[one.query.name], sides[one.key.name]
        if all(len(axis) == len(whole) for axis, whole in ((query[0], one.query), (key[0], one.key))):
            merged.append(replace(one, query=query[0], key=key[0]))  # every word is one token: scores stay
        else:
            merged.append(merge_words(one, *query, *key))
    return tuple(merged)


def _views(seen: Trace, choice: Choice, source: Axis, target: Axis, read: Axis) -> list[View]:
    """What was seen of each attention that is shown, each on its own axes."""
    axes = {"cross": (target, source), "encoder": (source, source), "decoder": (target, read)}
    captions = {
        "cross": "Row t: where the model looked to write output t. Weights before dropout.",
        "encoder": "Row i: where source position i looked. Weights before dropout.",
        "decoder": "Row t: where the position that wrote output t looked, among what was read until then. "
        "Weights before dropout.",
    }
    views = []
    for mechanism, layer in choice.layers(seen.mechanisms()):
        maps = seen.maps(mechanism, layer, entries=[0])
        query, key = axes[mechanism]
        for head in choice.heads(maps.weights.shape[1]):
            caption = captions[mechanism] + (f" Mean of {maps.weights.shape[1]} heads." if head is None else "")
            drawn = maps.map(query, key, head=head, caption=caption)
            context = maps.context[0] if head is None else maps.context[0, head : head + 1]  # (heads, Q, d_value)
            views.append(View(drawn, context.transpose(0, 1).flatten(1), maps.weights.shape[1]))
    return views


def _glance(view: View, position: int) -> Glance:
    def row(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else tensor[position]

    return Glance(
        view.map.title,
        view.map.mechanism,
        view.map.key,
        view.map.weights[position],
        row(view.map.scores),
        None if view.map.mask is None or bool(view.map.mask.all()) else view.map.mask[position],
        view.context[position],
    )


def _encoder_frames(reading: Trace, views: Sequence[View], source: Axis) -> tuple[EncoderFrame, ...]:
    nets = reading.gates()
    layers = max((int(name.rsplit(".", 1)[1]) for name in nets), default=0)
    blocks = {f"layer {i}": states[0] for i, states in enumerate(reading.tensors("states"))}
    frames = []
    for i, token in enumerate(source.labels):
        states: dict[str, Tensor] = {}
        means: dict[str, float] = {}
        for name, gates in nets.items():
            _, cells, layer = name.rsplit(".", 2)
            kind = cells.removesuffix("_cells")  # forward or backward
            label = kind if layers == 0 else f"{kind} layer {layer}"
            states[label] = gates["hidden"][0, i]
            for gate in _SHOWN_GATES:
                if gate in gates:
                    means[f"{label} {gate}"] = float(gates[gate][0, i].mean())
        states |= {name: block[i] for name, block in blocks.items()}
        frames.append(EncoderFrame(i, token, states, means, tuple(_glance(view, i) for view in views)))
    return tuple(frames)


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
                glances=tuple(_glance(view, t) for view in views),
                top=tuple((_label(tokenizer, i), p) for i, p in candidates),
            )
        )
    return tuple(frames)


@torch.no_grad()
def aligned_counts(
    task: Translation, model: PairDecoder, pairs: Sequence[Pair], batch_size: int = 64
) -> tuple[list[int], list[int]] | None:
    """How many linked target characters attention aligns right, per pair (references, teacher forcing).

    Uses the cross attention of the last layer, the mean over heads. Pairs without known links count nothing.

    Returns:
        Right and linked characters per pair (see `heed.evaluation.alignment`); None for a model that does not attend
        to the source.
    """
    if not model.aligns:
        return None
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
        best = seen.maps("cross").weights.mean(1).argmax(-1).tolist()  # (B, T)
        for row, i in enumerate(chosen):
            query_spans = task.target_tokenizer.encode(pairs[i].target).spans
            key_spans = task.source_tokenizer.encode(pairs[i].source).spans
            right[i], linked[i] = aligned_characters(best[row], query_spans, key_spans, pairs[i].links or ())
    return right, linked


def word_links(
    task: Translation, model: PairDecoder, source: str, ids: Sequence[int]
) -> tuple[list[tuple[int, int]], dict[int, str]]:
    """Which source word each written word looked at most.

    Args:
        task: The task of the model.
        model: What wrote.
        source: The source text.
        ids: What it wrote, as tokens.

    Returns:
        Pairs (source word, target word), counted from 0, punctuation marks as words (the Pharaoh format of word
        aligners); and for each unknown token, by position, the source word it looked at most. Nothing for a model that
        does not attend to the source.
    """
    if not ids or not model.aligns:
        return [], {}
    batch = task.forced_batch(source, ids).to(next(model.parameters()).device)
    model.eval()
    with torch.no_grad(), trace(model) as seen:
        model(batch.source, batch.source_mask, batch.target)
    weights = seen.maps("cross").weights[0].mean(0)[: len(ids)]  # without the end token's row
    source_ids = batch.source[0].tolist()
    source_words, target_words = task.source_tokenizer.words(source_ids), task.target_tokenizer.words(ids)
    spans = task.source_tokenizer.encode(source).spans
    per_word = torch.stack([weights[:, word.start : word.stop].sum(1) for word in source_words], dim=1)  # (T, words)
    links = []
    for t, word in enumerate(target_words):
        links.append((int(per_word[word.start : word.stop].mean(0).argmax()), t))
    instead = {}
    for position in (n for n, token in enumerate(ids) if token == UNKNOWN):
        word = source_words[int(per_word[position].argmax())]
        instead[position] = source[spans[word.start][0] : spans[word.stop - 1][1]].strip()
    return links, instead

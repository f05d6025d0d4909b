"""A text and its tags under the microscope: the tag of each word, how sure it is, where the model looked."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from heed.data.tokens.words import join_words, split_words
from heed.observe.choice import Choice
from heed.observe.edits import Edit
from heed.observe.frames import Look
from heed.observe.maps import Axis, Map
from heed.observe.shading import Shading
from heed.observe.trace import edit, trace
from heed.tasks.classification.look import causal_square, join_tokens, network_traces
from heed.tasks.tagging.model import Tagger
from heed.tasks.tagging.task import Tagging

__all__ = ["look_at_tags"]


def look_at_tags(
    task: Tagging,
    model: Tagger,
    text: str,
    *,
    edits: Sequence[Edit] = (),
    title: str = "",
    choice: Choice | None = None,
    words: Sequence[str] | None = None,
) -> Look:
    """Look at the tags that a model gives to the words of a text.

    Args:
        task: The task of the model.
        model: What to look at.
        text: The text, raw.
        edits: Changes of the attention weights.
        title: First line.
        choice: Which attention is shown; by default every mechanism's last layer, the mean of its heads.
        words: The words of the text where they are known; else it is cut into words.
    """
    choice = choice or Choice()
    text, spans = (text, split_words(text)) if words is None else join_words(words)
    words = tuple(text[start:end] for start, end in spans)
    encoded = task.encode_words([words])
    batch = task.collate_encoded(encoded, [0]).to(next(model.parameters()).device)
    model.eval()
    with torch.no_grad(), trace(model, edits=edits) as seen:
        task.hidden(model, batch)
    with edit(model, *edits):
        (tagged,) = task.tag(model, encoded)
    prediction = task.prediction(text, spans, *tagged)
    axis, parts, start = Axis("text", "word", words), [], 0
    for tokens in encoded[0].words:
        parts.append(range(start, start + len(tokens)))
        start += len(tokens)
    maps = []
    choice.check(seen.mechanisms())
    for mechanism, layer in choice.layers(seen.mechanisms()):
        weights = causal_square(seen.maps(mechanism, layer, entries=[0]).weights[0], start + model.delay)
        weights = weights[:, :start, :start]  # (H, Q, K), without what was read after the text
        if weights.shape[-2:] != (start, start):
            continue
        for head in choice.heads(len(weights)):
            chosen = weights.mean(0) if head is None else weights[head]
            columns = join_tokens(join_tokens(chosen, parts, torch.sum).T, parts, torch.mean).T
            caption = "Row i: where word i looked. Weights before dropout."
            maps.append(Map(mechanism, layer, head, axis, axis, columns, caption=caption))
    others = tuple(
        "else " + ", ".join(f"{tag} {probability:.3f}" for tag, probability in best) for best in prediction.others
    )
    shading = Shading(
        "Each word's tag and its probability", axis, prediction.probabilities, 1.0, prediction.tags, others
    )
    notes = [f"entity: {part}" for part in prediction.summary().split("\t") if part] if not task.plain else []
    if unknown := task.unknown_in(words):
        notes.append(f"never seen in training: {' '.join(dict.fromkeys(unknown))}")
    if edits:
        notes.append("edited: " + "; ".join(map(str, edits)))
    traces, frames = network_traces(seen, axis, parts, start, model.delay)
    name = title or f"{task.config.model.name} on {task.config.data.name}"
    tags = " ".join(prediction.tags)
    return Look(
        name,
        text,
        tags,
        (*maps, *traces),
        frames,
        (),
        tuple(notes),
        shadings=(shading,),
        names=("text", "tags"),
    )

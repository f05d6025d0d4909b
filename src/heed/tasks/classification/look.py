"""A text and its label under the microscope: the words it rests on, and what the recurrent nets did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from heed.data.read.sentences import without_breaks
from heed.data.tokens.tokenizer import START, TextTokenizer
from heed.observe.choice import Choice
from heed.observe.edits import Edit
from heed.observe.frames import Look
from heed.observe.maps import Axis, Map
from heed.observe.shading import Shading
from heed.observe.trace import Trace, edit
from heed.tasks.base.looking import Words, encoder_frames, networks, notes_on, shown_weights, watched
from heed.tasks.classification.model import Classifier
from heed.tasks.classification.task import Classification


def look_at_text(
    task: Classification,
    model: Classifier,
    text: str,
    *,
    edits: Sequence[Edit] = (),
    title: str = "",
    choice: Choice | None = None,
) -> Look:
    """Look at the label that a model gives to a text.

    `edits` change attention weights; `choice` says which attention is shown: by default every mechanism's last layer,
    the mean of its heads.
    """
    (encoded,) = task.encode_texts([text])
    with watched(model, edits) as seen:
        batch = task.collate_encoded([encoded], [0]).to(next(model.parameters()).device)
        model(batch.tokens, batch.mask)
    with edit(model, *edits):
        (probabilities,) = task.classify(model, [encoded])
    prediction = task.prediction(probabilities)
    ids = [*([START] if model.has_cls else []), *task.tokens_of(encoded)]
    words = Words.of(task.tokenizer, ids, "text", {START: "[CLS]"})
    choice = choice or Choice()
    choice.check(seen.mechanisms())
    maps: list[Map] = []
    if task.hierarchical:
        shadings = _levels(task.tokenizer, seen, choice, encoded.sentences, words)
    else:
        maps, shadings = _attention(seen, choice, words, len(ids), model.has_cls)
    notes = [prediction.summary()]
    if encoded.cut:
        notes.append(f"only the first {encoded.length} tokens are read (data.max_length); {encoded.cut} more are not")
    nets = networks(seen, len(ids))
    return Look(
        title or f"{task.config.model.name} on {task.config.data.name}",
        text,
        prediction.label,
        (*maps, *(net.traces(words) for net in nets)),
        encoder_frames(nets, words) if nets else (),
        (),
        (*notes, *notes_on(task.tokenizer.unknown_in(without_breaks(text)), edits)),
        shadings=tuple(shadings),
        names=("text", "label"),
    )


def _attention(
    seen: Trace, choice: Choice, words: Words, num_tokens: int, has_cls: bool
) -> tuple[list[Map], list[Shading]]:
    """Maps of the words, and how much the label rests on each: by the pooling attention, or by where [CLS] looked."""
    maps, shadings, axis = [], [], words.axis
    for mechanism, layer, head, weights in shown_weights(seen, choice, num_tokens):
        if weights.shape[1] != num_tokens:
            continue
        if mechanism == "pooling":
            columns = words.sum(weights)
            several = f", mean of {len(columns)} learned queries" if len(columns) > 1 else ""
            title = f"The words that the label rests on: weights of the pooling attention{several}"
            shadings.append(_shading(title, axis, columns.mean(0)))
            query = Axis("learned", "vector", tuple(str(i + 1) for i in range(len(columns))))
            if len(columns) == 1:
                continue  # the shading says it all
        elif len(weights) == num_tokens:
            columns, query = words.square(weights), axis
            if has_cls:  # its state is classified; the weight that it gave itself is left out
                which = "mean of the heads" if head is None else f"head {head}"
                title = f"The words that the label rests on: where [CLS] looked, {mechanism} layer {layer}, {which}"
                shadings.append(_shading(title, replace(axis, labels=axis.labels[1:]), columns[0, 1:]))
        else:
            continue
        maps.append(Map(mechanism, layer, head, query, axis, columns, caption="Weights before dropout."))
    return maps, shadings


def _shading(title: str, axis: Axis, shares: Tensor) -> Shading:
    return Shading(title, axis, tuple(shares.tolist()), float(shares.max()) if len(shares) else 1.0)


def _levels(
    tokenizer: TextTokenizer, seen: Trace, choice: Choice, sentences: Sequence[list[int]], words: Words
) -> list[Shading]:
    """The levels of a hierarchy: how much each sentence counts in the text, and each word in its own sentence."""
    shadings = []
    for mechanism, layer in choice.layers(seen.mechanisms()):
        weights = seen.maps(mechanism, layer).weights[:, 0, 0]  # (sentences, words), or (1, sentences)
        if mechanism == "sentences":
            title = "The sentences that the label rests on: weights of the attention over sentences"
            labels = tuple(" ".join(Words.of(tokenizer, ids, "", {}).axis.labels) for ids in sentences)
            shadings.append(_shading(title, Axis("text", "sentence", labels), weights[0]))
        else:
            title = "The words that each sentence rests on: weights of the attention over its words"
            within = torch.cat([row[: len(ids)] for row, ids in zip(weights, sentences, strict=True)])
            shadings.append(_shading(title, words.axis, words.sum(within.unsqueeze(0))[0]))
    return shadings

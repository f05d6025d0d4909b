"""A text and its label, or its tags, under the microscope: the words it rests on, and what the recurrent nets did."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from heed.data.tokens.tokenizer import START, TextTokenizer
from heed.observe.choice import Choice
from heed.observe.edits import Edit
from heed.observe.frames import EncoderFrame, Look
from heed.observe.maps import Axis, Map, Traces
from heed.observe.shading import Shading
from heed.observe.trace import Trace, edit, trace
from heed.tasks.classification.model import Classifier
from heed.tasks.classification.task import Classification

__all__ = ["causal_square", "join_tokens", "look_at_text", "network_traces", "word_axis"]

_GATES = ("reset", "update", "input", "forget", "output")
_CELL = re.compile(r"(?:.*\.)?(?:(?P<kind>forward|backward)_cells\.(?P<layer>\d+)|cell)$")
"""Names of recurrent cells; one that is alone reads forward."""
_GATE_CAPTION = "Mean over the units of each gate; state: mean size of the state's units."


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

    Args:
        task: The task of the model.
        model: What to look at.
        text: The text.
        edits: Changes of the attention weights.
        title: First line.
        choice: Which attention is shown; by default every mechanism's last layer, the mean of its heads.
    """
    choice = choice or Choice()
    (encoded,) = task.encode_texts([text])
    batch = task.collate_encoded([encoded], [0]).to(next(model.parameters()).device)
    model.eval()
    with torch.no_grad(), trace(model, edits=edits) as seen:
        model(batch.tokens, batch.mask)
    with edit(model, *edits):
        (probabilities,) = task.classify(model, [encoded])
    prediction = task.prediction(probabilities)
    ids = task.tokens_of(encoded)
    if model.has_cls:
        ids = [START, *ids]
    axis, words = word_axis(task.tokenizer, ids)
    if model.has_cls:
        axis = replace(axis, labels=("[CLS]", *axis.labels[1:]))
    shadings, maps = [], []
    choice.check(seen.mechanisms())
    for mechanism, layer in choice.layers(seen.mechanisms()):
        if task.hierarchical:
            weights = seen.maps(mechanism, layer).weights[:, 0, 0]  # (sentences, words), or (1, sentences)
            shadings.append(_level_shading(task.tokenizer, mechanism, weights, encoded.sentences, axis, words))
            continue
        weights = causal_square(seen.maps(mechanism, layer, entries=[0]).weights[0], len(ids))  # (H, Q, K)
        if weights.shape[-1] != len(ids):
            continue
        for head in choice.heads(len(weights)):
            columns = join_tokens(weights.mean(0) if head is None else weights[head], words, torch.sum)
            if mechanism == "pooling":
                shadings.append(_pooling_shading(axis, columns))
                query = Axis("learned", "vector", tuple(str(i + 1) for i in range(len(columns))))
                if len(columns) == 1:
                    continue  # the shading says it all
            elif len(columns) == len(ids):
                columns, query = join_tokens(columns.T, words, torch.mean).T, axis
                if model.has_cls:
                    shadings.append(_cls_shading(axis, columns[0], mechanism, layer, head))
            else:
                continue
            maps.append(Map(mechanism, layer, head, query, axis, columns, caption="Weights before dropout."))
    notes = [prediction.summary()]
    if encoded.cut:
        notes.append(f"only the first {encoded.length} tokens are read (data.max_length); {encoded.cut} more are not")
    if unknown := task.tokenizer.unknown_in(text):
        notes.append(f"never seen in training: {' '.join(dict.fromkeys(unknown))}")
    if edits:
        notes.append("edited: " + "; ".join(map(str, edits)))
    traces, frames = network_traces(seen, axis, words, len(ids))
    name = title or f"{task.config.model.name} on {task.config.data.name}"
    return Look(
        name,
        text,
        prediction.label,
        (*maps, *traces),
        frames,
        (),
        tuple(notes),
        shadings=tuple(shadings),
        names=("text", "label"),
    )


def _pooling_shading(axis: Axis, weights: Tensor) -> Shading:
    """How much each word counts in the vector that is classified: the mean over the learned queries."""
    shares = weights.mean(0)
    return Shading(
        "The words that the label rests on: weights of the pooling attention"
        + (f", mean of {len(weights)} learned queries" if len(weights) > 1 else ""),
        axis,
        tuple(shares.tolist()),
        float(shares.max()) if len(shares) else 1.0,
    )


def _cls_shading(axis: Axis, weights: Tensor, mechanism: str, layer: int, head: int | None) -> Shading:
    """Where [CLS], whose state is classified, looked in one layer; what it gave itself is left out."""
    which = "mean of the heads" if head is None else f"head {head}"
    title = f"The words that the label rests on: where [CLS] looked, {mechanism} layer {layer}, {which}"
    words = weights[1:]
    return Shading(
        title, replace(axis, labels=axis.labels[1:]), tuple(words.tolist()), float(words.max()) if len(words) else 1.0
    )


def _level_shading(
    tokenizer: TextTokenizer,
    mechanism: str,
    weights: Tensor,
    sentences: Sequence[list[int]],
    axis: Axis,
    words: Sequence[range],
) -> Shading:
    """One level of a hierarchy: how much each sentence counts in the text, or each word in its own sentence."""
    if mechanism == "sentences":
        title = "The sentences that the label rests on: weights of the attention over sentences"
        labels = tuple(" ".join(word_axis(tokenizer, sentence)[0].labels) for sentence in sentences)
        shares, over = weights[0], Axis("text", "sentence", labels)
    else:
        title = "The words that each sentence rests on: weights of the attention over its words"
        within = torch.cat([row[: len(sentence)] for row, sentence in zip(weights, sentences, strict=True)])
        shares, over = join_tokens(within.unsqueeze(0), words, torch.sum)[0], axis
    return Shading(title, over, tuple(shares.tolist()), float(shares.max()))


def causal_square(weights: Tensor, num_tokens: int) -> Tensor:
    """Maps `(heads, query, key)` of a model whose tokens look at earlier ones only, as `(heads, tokens, tokens)`.

    The first token has nothing to look at and the last is looked at by none: neither is in the maps, and their row and
    column become zeros. Other maps stay as they are.
    """
    if weights.shape[-2:] != (num_tokens - 1, num_tokens - 1):
        return weights
    return torch.nn.functional.pad(weights, (0, 1, 1, 0))


def word_axis(tokenizer: TextTokenizer, ids: Sequence[int]) -> tuple[Axis, list[range]]:
    """The words of a text and the tokens of each; every token by itself for characters."""
    words = tokenizer.words(list(ids))
    labels = tuple(tokenizer.word_label(ids[word.start : word.stop]) for word in words)
    return Axis("text", "character" if tokenizer.unit == "character" else "word", labels), words


def join_tokens(matrix: Tensor, words: Sequence[range], join: Any) -> Tensor:
    """`(rows, tokens)` to `(rows, words)`: a word's tokens are summed or averaged."""
    if not words:
        return matrix[:, :0]
    return torch.stack([join(matrix[:, word.start : word.stop], dim=1) for word in words], dim=1)


def network_traces(
    seen: Trace, axis: Axis, words: Sequence[range], num_tokens: int, num_further: int = 0
) -> tuple[tuple[Traces, ...], tuple[EncoderFrame, ...]]:
    """What the recurrent networks over the tokens of one text did.

    Args:
        seen: A trace of a pass over a batch of one.
        axis: Its words.
        words: The tokens of each.
        num_tokens: Their number.
        num_further: Tokens that were read after them; they are not shown.

    Returns:
        Per network and layer its gates over the words; and a frame per word, with the state after its last token
        (backward: its first) and the mean of each gate.
    """
    traces = []
    states: list[dict[str, Tensor]] = [{} for _ in words]
    means: list[dict[str, float]] = [{} for _ in words]
    for name, gates in seen.gates().items():
        found = _CELL.match(name)
        if found is None or gates["hidden"].shape[:2] != (1, num_tokens + num_further):
            continue
        kind, layer = found["kind"] or "forward", int(found["layer"] or 0)
        hidden = gates["hidden"][0, :num_tokens]  # (T, d_hidden)
        rows = {gate: gates[gate][0, :num_tokens].mean(-1) for gate in _GATES if gate in gates}
        rows["state"] = hidden.abs().mean(-1)
        matrix = join_tokens(torch.stack(list(rows.values())), words, torch.mean)
        traces.append(
            Traces(kind, layer, None, Axis("gates", "gate", tuple(rows)), axis, matrix, caption=_GATE_CAPTION)
        )
        label = kind if layer == 0 else f"{kind} layer {layer}"
        for i, word in enumerate(words):
            states[i][label] = hidden[word.stop - 1 if kind == "forward" else word.start]
            means[i] |= {f"{label} {gate}": float(matrix[row, i]) for row, gate in enumerate(rows) if gate != "state"}
    if not traces:
        return (), ()
    frames = tuple(EncoderFrame(i, token, states[i], means[i]) for i, token in enumerate(axis.labels))
    return tuple(traces), frames

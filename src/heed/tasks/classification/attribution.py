"""Attribution of classification: the logit of a label by words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heed.data.batch import TokenText
from heed.data.examples import Text
from heed.data.kinds.inputs import Input
from heed.observe.attribution import LEFT_OUT, Scored
from heed.tasks.base.attributing import Explained, chosen, table_of
from heed.tasks.base.looking import Words
from heed.tasks.classification.look import names_of_special, spans_of
from heed.tasks.classification.task import Classification, Classifier


def explain(
    task: Classification,
    model: Classifier,
    text: Input,
    target: str | None = None,
    rather_than: str | None = None,
    ngrams: bool = True,
) -> Explained:
    """The logit of a label, by default of the predicted one, minus that of another if one is given.

    The logits of the n-gram classifier, which do not pass through the network, are held fixed, or left out.

    Raises:
        ConfigError: The run has no such label.
    """
    example = task.example_of(text)
    (encoded,) = task.encode([example])
    (probabilities,) = task.classify(model, [encoded])
    label = target if target is not None else task.labels[int(probabilities.argmax())]
    numbers = [chosen(name, task.labels, "label") for name in (label, rather_than) if name is not None]

    def of_logits(logits: Tensor) -> Tensor:
        first, *others = (logit_of(task, logits, number) for number in numbers)
        return first - others[0] if others else first

    name = f"the logit of '{label}'" + (f" minus that of '{rather_than}'" if rather_than is not None else "")
    notes = []
    if encoded.ngrams is not None and model.ngram_scale is not None:
        part = float(of_logits(model.ngram_scale.detach().cpu() * torch.from_numpy(encoded.ngrams).unsqueeze(0)))
        notes.append(f"held fixed: the n-grams beside the network add {part:+.4f}")
        if not ngrams:
            notes = ["scored without the n-grams beside the network"]
            encoded = replace(encoded, ngrams=np.zeros_like(encoded.ngrams))
    words, special = _own_words(task, model, example, encoded), names_of_special(task, model)
    start, end = task.tokenizer.special[2:]
    around = (special[start],) * model.has_cls, (special[end],) * model.framed
    return Explained(_scored(task, model, encoded, of_logits), words, name, tuple(notes), around)


def contrast(task: Classification, model: Classifier, text: Input, other: Input) -> dict[str, Any]:
    """The score that tells two texts apart: the logit of the other's label minus that of the text's, if they differ."""
    encoded = task.encode_texts([text, other])
    own, there = (task.labels[int(task.classify(model, [one])[0].argmax())] for one in encoded)
    return {"target": there, "rather_than": own if own != there else None, "ngrams": False}


def logit_of(task: Classification, logits: Tensor, number: int) -> Tensor:
    """The logit of a label, `(texts,)`; of two labels with one output, the first has the negative one."""
    if task.sigmoid and not task.config.data.several_labels:
        return logits[:, 0] if number == 1 else -logits[:, 0]
    return logits[:, number]


def _scored(
    task: Classification, model: Classifier, encoded: TokenText, of_logits: Callable[[Tensor], Tensor]
) -> Scored:
    """A text with a score of its logits."""
    device, lengths = next(model.parameters()).device, list(map(len, encoded.sentences))

    def score(model: nn.Module, rows: Tensor) -> Tensor:
        texts = []
        for row in rows.tolist():
            left = iter(row)
            sentences = [[token for token in islice(left, count) if token != LEFT_OUT] for count in lengths]
            texts.append(replace(encoded, sentences=[sentence for sentence in sentences if sentence]))
        batch = task.collate_encoded(texts, [*range(len(texts))]).to(device)
        return of_logits(model(batch.tokens, batch.mask, batch.ngrams))

    tokens = torch.tensor(task.tokens_of(encoded), device=device)
    return Scored(model, table_of(model), tokens, score, task.tokenizer.special.unknown)


def _own_words(task: Classification, model: Classifier, text: Text, encoded: TokenText) -> Words:
    """The words of a text, without [CLS] and [SEP] around it."""
    typed = spans_of(task, text, model, encoded)
    own = replace(typed, spans=typed.spans[int(model.has_cls) :])
    return Words.of(task.tokenizer, task.tokens_of(encoded), "text", names_of_special(task, model), own)

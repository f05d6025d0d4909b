"""The look at a text and its label: attention, of words and sentences too, contribution of each word, states, gates."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heed.data.examples import Text
from heed.data.kinds.inputs import Input
from heed.errors import ConfigError
from heed.models.cnn import CNN
from heed.models.mlp import MLP
from heed.tasks.base.labels import answer_of_labels
from heed.tasks.base.looking import (
    READ_AS,
    UNSEEN,
    InputSpans,
    Network,
    Words,
    networks,
    networks_of_parts,
    watched,
)
from heed.tasks.contracts import Batch
from heed.tasks.heads.pooled import Classifier
from heed.tasks.inputs.texts import BETWEEN, Cut
from heed.tasks.look import AT_ONCE, look_of, names_of_special, without
from heed.watch.attribution import LEFT_OUT
from heed.watch.edits import Edit
from heed.watch.effects import Answer
from heed.watch.looks import ROLLOUT, Choice, EncoderFrame, Look, Shading, darkest_share
from heed.watch.maps import Axis, Map, Part, WeightSource
from heed.watch.trace import Trace, edit

MOST_WORDS = 200
"""Largest number of words for which contributions are measured (one forward pass for each word)."""
_MOST = 12
"""Largest number of n-grams listed."""
_READ_BESIDE = f"; read as the unknown token by the network, not by the n-grams, marked {UNSEEN}"
"""End of the note on words never seen in training where n-grams stand beside the network."""


def collated(work: Any, texts: Sequence[Cut], device: torch.device) -> Batch:
    """Texts as a batch."""
    batch: Batch = work.input.collate(texts, [*range(len(texts))], None)
    return batch.to(device)


def answer_of(work: Any, model: Classifier, encoded: Cut, words: Words, typed: InputSpans) -> Answer:
    """The labels of a text; a word that is left out is no part of its n-grams either."""
    first, ids = int(model.has_cls), work.input.tokens_of(encoded)
    device = next(model.parameters()).device

    def scores(rows: Tensor) -> Tensor:
        texts = []
        for row in rows.tolist():
            read, ngrams = typed.text, encoded.ngrams
            for n in reversed([n for n, token in enumerate(row) if token == LEFT_OUT]):
                start, stop = typed.spans[first + n]
                read = f"{read[:start]} {read[stop:]}"
            if read != typed.text:
                (shorter,) = work.input.encode_texts([read.split(BETWEEN) if work.input.pairs else read])
                ngrams = shorter.ngrams
            texts.append(replace(without(encoded, row), ngrams=ngrams))
        return model(**collated(work, texts, device).inputs)  # type: ignore[no-any-return]

    own = [range(word.start - first, word.stop - first) for word in words.tokens]
    return answer_of_labels(work.head, model, torch.tensor(ids, device=device), scores, words=own)


def contributions_of(work: Any, answer: Answer, axis: Axis, label: str) -> Shading | None:
    """Drop in the probability of a label without each word, of the words on `axis`; None for a single word, or many."""
    if not 1 < len(axis) <= MOST_WORDS:
        return None
    output = work.head.labels.index(label) if work.head.several else 0
    falls = (answer.whole - answer.without)[:, output] * (-1 if work.head.several and not answer.chosen[output] else 1)
    title = f"Contribution of each {axis.kind}: drop in the probability of '{label}' when the {axis.kind} is left out"
    return Shading(title, axis, tuple(falls.tolist()), float(falls.abs().max()), signed=True)


def states_of_words(model: Classifier, seen: Trace, words: Words, num_tokens: int) -> list[dict[str, Tensor]]:
    """The named states of each word in a network that reads the whole text at once; an empty list for other models.

    For `mlp`: W_i x_i, the word's part of the sums inside tanh, `(d_hidden,)`. For `cnn`: for each width, the largest
    value of each filter over the n-grams that start in the word, `(num_filters,)`; words in which no n-gram starts
    have none.
    """
    if isinstance(model.body, MLP):
        (shares,) = seen.tensors("shares")
        return [{"W_i x_i": shares[0, word.start : word.stop].sum(0)} for word in words.tokens]
    if isinstance(model.body, CNN):
        grams = list(zip(model.body.windows, seen.tensors("ngrams"), strict=True))
        return [
            {
                f"{width}-grams": found[0, word.start : word.stop].amax(0)
                for width, found in grams
                if word.start < max(1, num_tokens - width + 1)
            }
            for word in words.tokens
        ]
    return []


def toward(work: Any, weight: Tensor, label: str) -> Tensor:
    """From the weights of each output, `(num_outputs, units)`, those of each unit in the score of a label, `(units,)`.

    With softmax only differences count, so the score is the label's score minus the mean score of all labels.
    """
    number = work.head.labels.index(label)
    if not work.head.sigmoid:
        return weight[number] - weight.mean(0)
    if work.head.several:
        return weight[number]
    return weight[0] if number == 1 else -weight[0]


def ngrams_of_filters(
    work: Any, model: Classifier, seen: Trace, words: Words, num_tokens: int, label: str
) -> Shading | None:
    """The n-grams at which a CNN's filters are largest, with the filters' summed contributions; None without filters.

    `seen` is a trace of a pass over the text alone; the contributions are to the score of `label`.
    """
    body = model.body
    if not isinstance(body, CNN):
        return None
    weight = toward(work, model.output.weight.detach(), label)
    parts: dict[range, float] = defaultdict(float)
    filters: Counter[range] = Counter()
    add = weight.split([bank.out_channels for bank in body.filters])
    for width, found, of_filters in zip(body.windows, seen.tensors("ngrams"), add, strict=True):
        values, places = found[0].max(0)  # (num_filters,): the value that pooling keeps, and its first place
        for value, place in zip((values * of_filters).tolist(), places.tolist(), strict=True):
            ngram = range(place, min(place + width, num_tokens))
            parts[ngram] += value
            filters[ngram] += 1
    title = "The {count} n-grams with the largest contributions to the {score}, through the filters that are "
    ordered = sorted(parts, key=lambda ngram: (ngram.start, ngram.stop))
    said = {n: f"maximum of {count} filter{'s' * (count != 1)}" for n, count in filters.items()}
    return _listed(work, title + "largest on them", ((_text(words, n), parts[n], said[n]) for n in ordered), label)


def ngrams_fitted(work: Any, model: Classifier, text: Text, label: str) -> Shading | None:
    """The n-grams that add most to a label's score in the n-gram classifier; None without n-grams.

    An n-gram that occurs several times counts once.
    """
    linear = work.input.linear
    if linear is None or model.ngram_scale is None or not (parts := linear.parts(work.input.words_of(text))):
        return None
    scale = float(model.ngram_scale.detach())
    values = toward(work, scale * torch.from_numpy(np.stack([*parts.values()], axis=1)), label).tolist()
    added = [(name, value, "") for name, value in zip(parts, values, strict=True)]
    return _listed(work, "N-gram classifier: the {count} largest contributions to the {score}", added, label)


def shares_of_parts(work: Any, model: Classifier, encoded: Cut, label: str) -> list[str]:
    """The score of a label, and what n-grams and network add to it, as a note; none without n-grams."""
    if not encoded.ngrams or model.ngram_scale is None:
        return []
    linear = float(model.ngram_scale.detach()) * torch.tensor(encoded.ngrams)
    batch = collated(work, [encoded], next(model.parameters()).device)
    network = model(**batch.inputs)[0].float().cpu() - linear
    one, other = toward(work, torch.stack([linear, network], dim=1), label).tolist()
    return [f"{_score_of(work, label)}: n-grams {one:+.4f}, network {other:+.4f}, together {one + other:+.4f}"]


def _score_of(work: Any, label: str) -> str:
    return f"score of '{label}' ({'before the sigmoid' if work.head.sigmoid else 'minus the mean score of all labels'})"


def _listed(work: Any, title: str, parts: Iterable[tuple[str, float, str]], label: str) -> Shading:
    """The n-grams with the largest contributions, each given as (n-gram, contribution, remark).

    In `title`, "count" is replaced, and "score" by the score of what.
    """
    best = sorted(parts, key=lambda one: -abs(one[1]))[:_MOST]
    axis = Axis("text", "n-gram", tuple(name for name, _, _ in best))
    sums = tuple(value for _, value, _ in best)
    others = tuple(said for _, _, said in best) if any(said for _, _, said in best) else ()
    largest = max(map(abs, sums), default=1.0)
    title = title.format(count=len(best), score=_score_of(work, label))
    return Shading(title, axis, sums, largest, others=others, signed=True, listed=True)


def _text(words: Words, tokens: range) -> str:
    """The words that contain some tokens."""
    inside = [
        name for name, word in zip(words.axis.labels, words.tokens, strict=True)
        if word.start < tokens.stop and word.stop > tokens.start
    ]  # fmt: skip
    return ("" if words.axis.kind == "character" else " ").join(inside)


def look_at_text(
    work: Any,
    model: Classifier,
    text: Input,
    *,
    edits: Sequence[Edit] = (),
    choice: Choice | None = None,
    contributions: bool = True,
    pieces: bool = False,
    **options: Any,
) -> Look:
    """Look at the label that a model gives to a text; the options are those of `heed.tasks.base.looking.look`.

    With `contributions`, the contribution of each word is measured by leaving it out, one more forward pass for each.

    Raises:
        ConfigError: The model does not have this attention, or has no gates, or reads no tokens by themselves.
    """
    example, choice = work.input.example_of(text), choice or Choice()
    (encoded,) = work.input.encode([example])
    with edit(model, *edits):
        with watched(model) as seen:
            batch = collated(work, [encoded], next(model.parameters()).device)
            logits = model(**batch.inputs)
        (probabilities,) = work.head.decode(model, logits, batch)
    prediction = work.head.predict(probabilities)
    start, end = work.input.tokenizer.special[2:]
    ids = [*([start] if model.has_cls else []), *work.input.tokens_of(encoded), *([end] if model.framed else [])]
    typed = work.input.typed_as(example, encoded, int(model.has_cls))
    about = work.input.tokenizer, ids, "text", names_of_special(work), typed
    words = Words.of(*about)
    if pieces and work.input.hierarchical:
        raise ConfigError(f"--pieces does not apply: looks of model {work.config.model.name} show words and sentences")
    drawn = Words.of(*about, pieces=True) if pieces else words
    notes = [prediction.summary()]
    if encoded.cut:
        notes.append(f"only the first {encoded.length} tokens are read (data.max_length); {encoded.cut} more are not")
    label = (*prediction.labels, prediction.ranked[0][0])[0]
    notes += shares_of_parts(work, model, encoded, label)
    further = [
        ngrams_of_filters(work, model, seen, words, len(ids), label),
        ngrams_fitted(work, model, example, label),
    ]
    itself = [n for n, word in enumerate(words.tokens) if not {start, end} & {*(ids[word.start : word.stop] or [end])}]
    read = words.only(itself)  # without [CLS] and separators
    answer = answer_of(work, model, encoded, read, typed)
    if contributions and not edits:
        further.append(contributions_of(work, answer, read.axis, label))
        if len(words.axis) > MOST_WORDS:
            notes.append(f"contributions of words are measured only for texts of up to {MOST_WORDS} words")
    lengths = [*map(len, encoded.sentences)]
    sentences = sentences_of(drawn, lengths)
    look = look_of(
        work,
        seen,
        drawn,
        len(ids),
        example.text,
        prediction.label,
        notes,
        unknown=[one for part in work.input.split(example) for one in work.input.tokenizer.unknown_in(part)],
        read_as=READ_AS if model.ngram_scale is None else _READ_BESIDE,
        parts=_parts_read(seen, lengths, drawn, sentences) if work.input.hierarchical else None,
        edits=edits,
        choice=choice,
        **options,
    )
    if work.input.hierarchical:
        shadings: Sequence[Shading | None] = level_shadings(seen, choice, lengths, drawn, sentences.axis)
    else:
        classified = model.pooling is not None and model.pooling.kind in ("last", "first", "cls")
        shadings = [_shading_of_look(one, model.has_cls and classified) for one in look.maps if one.is_distribution]
    states = states_of_words(model, seen, drawn, len(ids))
    frames = [EncoderFrame(i, *of, {}) for i, of in enumerate(zip(drawn.axis.labels, states, strict=False))]
    return replace(
        look,
        names=("text", "label"),
        second=example.second or "",
        answer=answer,
        maps=tuple(one for one in look.maps if one.mechanism != "pooling" or len(one.query) > 1),
        encoder=tuple(frames) or look.encoder,
        shadings=tuple(shading for shading in (*shadings, *further) if shading is not None),
        no_steps="" if frames or look.encoder else AT_ONCE,
    )


def _parts_read(seen: Trace, lengths: Sequence[int], words: Words, sentences: Words) -> list[tuple[Network, Words]]:
    """The recurrent networks over the words of each sentence, and over the sentences."""
    of_sentences = networks(seen, len(lengths), within="body.sentences.")
    return [
        *((net, words) for net in networks_of_parts(seen, lengths, "body.words.")),
        *((replace(net, kind=f"sentence {net.kind}"), sentences) for net in of_sentences),
    ]


def _shading_of_look(one: Map, has_cls: bool) -> Shading | None:
    """The weights of the text's vector: those of the pooling attention, or the attention of [CLS]."""
    if one.mechanism == "pooling":
        several = f", mean of {len(one.query)} learned vectors" if len(one.query) > 1 else ""
        title = f"Pooling attention: the share of each {one.key.kind} in the text's vector{several}"
        opens = (one.mechanism, one.opens) if one.opens is not None and not several else None
        return of_shares(title, one.key, one.weights.mean(0), opens=opens)
    if not has_cls:
        return None
    # The state of [CLS] is classified; its attention to itself is left out.
    which = "mean of the heads" if one.head is None else f"head {one.head}"
    title = f"Attention of {one.key.labels[0]} in {one.mechanism} layer {one.layer}, {which}"
    title = f"{one.key.labels[0]} in {one.title}" if one.mechanism == ROLLOUT else title
    return of_shares(title, replace(one.key, labels=one.key.labels[1:]), one.weights[0, 1:])


_LEARNED = Axis("learned", "vector", ("learned vector",))
"""The row of an attention that has one learned query."""


def level_shadings(seen: Trace, choice: Choice, lengths: Sequence[int], words: Words, titles: Axis) -> list[Shading]:
    """The weight of each sentence in the text, and of each word in its sentence and so in the text.

    `lengths` are the numbers of tokens of the sentences, `titles` their axis.
    """
    maps = {name: seen.maps(name, layer) for name, layer in choice.layers(seen.mechanisms())}
    weights = {name: one.weights[:, 0, 0] for name, one in maps.items()}
    openers = {name: replace(one.openers[0], head=0) for name, one in maps.items()}
    shadings = []
    if "words" in weights:
        rows = zip(weights["words"], lengths, strict=True)
        within = words.sum(torch.cat([row[:length] for row, length in rows]).unsqueeze(0))[0]
        ends = list(accumulate(lengths, initial=0))
        inside = [max(n for n, end in enumerate(ends[:-1]) if end <= word.start) for word in words.tokens]
        title, shares = "Weight of each word in the sum over its sentence", within.new_ones(len(lengths))
        if "sentences" in weights:
            title += ", times the weight of the sentence in the sum over the text"
            shares = weights["sentences"][0]
        placed = zip(words.tokens, inside, strict=True)
        key = [range(word.start - ends[n], min(word.stop, ends[n + 1]) - ends[n]) for word, n in placed]
        within_sentences = list(zip(inside, shares[inside].tolist(), strict=True))
        opener, axis = replace(openers["words"], key=key, within=within_sentences), words.axis
        if both := "sentences" in weights:
            starts = [*(bisect_left(inside, n) for n in range(len(lengths))), len(inside)]
            parts = (Part(f"sentence {n}", *of) for n, of in enumerate(pairwise(starts), start=1))
            axis = replace(axis, parts=tuple(parts))
        shaded = of_shares(title, axis, within * shares[inside], opens=("words", opener))
        shadings.append(replace(shaded, nested=both))
    if "sentences" in weights:
        title, opens = "Weight of each sentence in the sum over the text", ("sentences", openers["sentences"])
        shadings.append(of_shares(title, titles, weights["sentences"][0], listed=True, opens=opens))
    return shadings


def of_shares(
    title: str, axis: Axis, shares: Tensor, listed: bool = False, opens: tuple[str, WeightSource] | None = None
) -> Shading:
    """A shading of shares of one whole; `opens` is the mechanism whose weights they are, and their source."""
    weights, row = tuple(shares.tolist()), None
    if opens is not None:
        row = Map(opens[0], 0, None, _LEARNED, axis, torch.tensor([weights]), caption=title, opens=opens[1])
    return Shading(title, axis, weights, darkest_share(weights), listed=listed, row=row)


def sentences_of(words: Words, lengths: Sequence[int]) -> Words:
    """The sentences of a text, each labelled with the words that begin in it."""
    each = list(zip(words.axis.labels, words.tokens, strict=True))
    ends = pairwise(accumulate(lengths, initial=0))
    between = "" if words.axis.kind == "character" else " "
    labels = tuple(between.join(word for word, at in each if start <= at.start < stop) for start, stop in ends)
    return Words.counted(Axis("text", "sentence", labels), [1] * len(lengths))

"""Links between words from a model's attention: of given pairs, and of outputs.

Words are separated by spaces. Weights between words are averaged over the tokens of a target word and summed over the
tokens of a source word:

    w_ji = mean over tokens t of word j of the sum over tokens s of word i of a_ts

A target token has two states: the one that writes it, and the one that has read it, a row later. A recurrent decoder
attends to the word that it is about to write. A Transformer's weights are closer to an alignment after it has read the
word (Chen et al. 2020, arXiv:2004.14837: Shift-Att), unless it was trained with links, which guide the attention while
a word is written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from heed.data.batch import TokenPair, plan_batches
from heed.data.examples import Link, Pair, Span
from heed.data.kinds.links import WordLink, read_links, word_spans
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, DataError
from heed.evaluation.alignment import Cell, alignment_measures
from heed.evaluation.significance import shown
from heed.layers import RecurrentCell
from heed.models.base import PairDecoder
from heed.tasks.base.looking import InputSpans, Words, watched
from heed.tasks.base.report import counted
from heed.tasks.base.writing import WrittenText
from heed.tasks.inputs.supervision import source_attention

Array = NDArray[np.float32]
State = Literal["written", "read"]
_TOKENS = 2_000
"""Tokens of a batch, whose maps of all layers and heads are held in memory."""


@dataclass(frozen=True)
class AttentionPlace:
    """The attention that links are read from."""

    layer: int  # layer of the attention to the source, from 0
    heads: tuple[int, ...] | None  # the heads whose mean is read, from 0; None for all
    state: State  # whose attention counts for a target word: the state that has "read" it, or by which it is "written"

    def __str__(self) -> str:
        listed = "all heads" if self.heads is None else f"heads {' and '.join(map(str, self.heads))}"
        which = f"head {self.heads[0]}" if self.heads is not None and len(self.heads) == 1 else f"mean of {listed}"
        state = "has read the word" if self.state == "read" else "writes the word"
        return f"layer {self.layer}, {which}, by the state that {state}"

    def values(self) -> dict[str, int | str | list[int]]:
        """The place as plain values, for reports."""
        heads = "mean" if self.heads is None else list(self.heads)
        return {"layer": self.layer, "heads": heads, "state": self.state}

    def mean(self, weights: Array) -> Array:
        """The mean over these heads of a layer's weights `(heads, target, source)`."""
        chosen: Array = weights[slice(None) if self.heads is None else list(self.heads)].mean(0)
        return chosen


def layers_of(model: PairDecoder, name: str) -> list[int]:
    """The layers of a model that attend to the source; `name` is the model's name in errors.

    Raises:
        ConfigError: No layer attends to the source.
    """
    if not (layers := sorted(source_attention(model))):
        raise ConfigError(f"model '{name}' has no attention to the source, so it cannot align words")
    return layers


def usual_place(work: Any, model: PairDecoder) -> AttentionPlace:
    """The place that links of given pairs are read from by default.

    The layer and heads that were trained with links; else the mean of all heads. For a Transformer, it is the middle
    layer and the state that has read the word; for a model with recurrent cells, the last layer and the state that
    writes the word.
    """
    layers, taught = layers_of(model, work.config.model.name), work.config.training.supervision
    if taught is not None:
        heads = [taught.heads] if isinstance(taught.heads, int) else taught.heads
        return AttentionPlace(layers[taught.layer], None if heads == "mean" else tuple(heads), "written")
    if not any(isinstance(module, RecurrentCell) for module in model.modules()):
        return AttentionPlace(layers[(len(layers) - 1) // 2], None, "read")
    return AttentionPlace(layers[-1], None, "written")


def writing_place(work: Any, model: PairDecoder) -> AttentionPlace:
    """The place whose state writes a token: `usual_place`, or the last layer of a Transformer trained without links."""
    usual = usual_place(work, model)
    if usual.state == "written":
        return usual
    return AttentionPlace(layers_of(model, work.config.model.name)[-1], None, "written")


def token_weights(
    work: Any, model: PairDecoder, pairs: Sequence[TokenPair], layers: Sequence[int], check: bool = False
) -> Iterator[tuple[int, tuple[Array, ...]]]:
    """The attention to the source while given targets are read, for pairs in any order.

    `check` compares the weights with the model's own contexts, as looks do, which takes longer.

    Yields:
        The number of a pair, and for each layer its padded weights `(heads, target + 1, source)`.
    """
    device = next(model.parameters()).device
    only: dict[str, Any] = {"layer": layers[0]} if len(layers) == 1 else {}
    for indices in plan_batches([pair.cost for pair in pairs], _TOKENS):
        batch = work.head.collate((), work.input.collate(pairs, indices, None), None).to(device)
        with watched(model, mechanism="cross", **only) as seen:
            model(**batch.inputs, **batch.forced)
        found = [seen.maps("cross", layer).weights if check else seen.weights("cross", layer) for layer in layers]
        yield from zip(indices, zip(*(one.float().cpu().numpy() for one in found), strict=True), strict=True)


def word_weights(
    work: Any,
    model: PairDecoder,
    pairs: Sequence[Pair],
    layer: int,
    state: State,
    written: Sequence[Sequence[int]] | None = None,
) -> Iterator[tuple[int, Array]]:
    """The weights between the words of pairs, in any order; pairs with a blank side are left out.

    `written` are the tokens of each target, if known, as for outputs of the model.

    Yields:
        The number of a pair, and its weights `(heads, target words, source words)`.
    """
    ids = [None] * len(pairs) if written is None else written
    encoded = [_Encoded.of(work, pair, given) for pair, given in zip(pairs, ids, strict=True)]
    chosen = [n for n, one in enumerate(encoded) if one.of_source.size and one.of_target.size]
    for index, (weights,) in token_weights(work, model, [encoded[n].tokens for n in chosen], [layer]):
        yield chosen[index], encoded[chosen[index]].of_words(weights, state)


@dataclass(frozen=True)
class _Encoded:
    """A pair as tokens, and the share of each token in each word, `(tokens, words)`."""

    tokens: TokenPair
    of_source: Array
    of_target: Array

    @classmethod
    def of(cls, work: Any, pair: Pair, written: Sequence[int] | None) -> _Encoded:
        """Encode a pair, with the given tokens of its target if there are any."""
        source, words = work.input.source_tokenizer.encode(pair.source), word_spans(pair.source)
        framed, tokenizer = work.input.framed(source.ids), work.input.target_tokenizer
        of_source = np.zeros((len(framed), len(words)), dtype=np.float32)
        inside = work.input.within(len(framed))  # a long source may be cut
        of_source[inside] = _overlaps(source.spans[: inside.stop - inside.start], words)
        if written is not None:
            return cls(TokenPair(framed, list(written)), of_source, _written_words(tokenizer, written))
        target = [*work.input.target_prefix, *tokenizer.encode(pair.target).ids]
        of_target = _overlaps(work.input.target_spans(pair.target), word_spans(pair.target))
        return cls(TokenPair(framed, target), of_source, of_target)

    def of_words(self, weights: Array, state: State) -> Array:
        """Convert padded weights of tokens, `(..., target + 1, source)`, to weights of words."""
        num_targets, first = len(self.of_target), int(state == "read")
        rows = weights[..., first : first + num_targets, : len(self.of_source)] @ self.of_source
        counts = np.maximum(self.of_target.sum(0), 1e-9)[:, None]
        words: Array = (self.of_target.T @ rows) / counts
        return words


def _overlaps(tokens: Sequence[Span], words: Sequence[Span]) -> Array:
    """The share of each token's characters in words that lies in each word; zero for a token of spaces."""
    if not tokens or not words:
        return np.zeros((len(tokens), len(words)), dtype=np.float32)
    starts, ends = np.array(tokens, dtype=np.float32).T[:, :, None]
    first, last = np.array(words, dtype=np.float32).T
    shared = np.maximum(np.minimum(ends, last) - np.maximum(starts, first), 0)
    share: Array = shared / np.maximum(shared.sum(1, keepdims=True), 1)
    return share


def _written_words(tokenizer: TextTokenizer, ids: Sequence[int]) -> Array:
    """As `_overlaps`, for tokens that a model wrote: each belongs to the last word of the text up to it."""
    ends = [len(tokenizer.decode(ids[: n + 1]).split()) for n in range(len(ids))]
    words = np.zeros((len(ids), max(ends, default=0)), dtype=np.float32)
    for n, end in enumerate(ends):
        if end:
            words[n, end - 1] = 1
    return words


def aligned_characters(
    best: Sequence[int], query_spans: Sequence[Span], key_spans: Sequence[Span], links: Sequence[Link]
) -> tuple[int, int]:
    """Count the target characters whose largest weight lies in the source text they come from.

    `best` is the source token with the largest weight of each target token; spans are those of the tokens' characters.

    Returns:
        Number of linked target characters that are aligned right, and number of linked target characters. A
        character counts as right when the source token most attended to overlaps the linked source span. The
        alignment error is 1 - right / linked; with single best keys it is 1 - precision.
    """
    right = linked = 0
    for link in links:
        for token, (start, end) in enumerate(query_spans):
            shared = min(end, link.target[1]) - max(start, link.target[0])
            if shared <= 0:
                continue
            linked += shared
            first, last = key_spans[best[token]]
            if first < link.source[1] and last > link.source[0]:
                right += shared
    return right, linked


def _character_links(pair: Pair, links: Iterable[Cell]) -> tuple[Link, ...]:
    """Links of words `(source, target)` as links of their characters."""
    sources, targets = word_spans(pair.source), word_spans(pair.target)
    return tuple(Link(targets[j], sources[i]) for i, j in links)


def aligned_counts(work: Any, model: PairDecoder, pairs: Sequence[Pair]) -> tuple[list[int], list[int]] | None:
    """The `aligned_characters` of each pair, by the attention of `writing_place`; 0 for pairs without known links.

    None for a model that does not attend to the source.
    """
    if not model.aligns:
        return None
    place, first = writing_place(work, model), len(work.input.frame[0])
    right, linked = [0] * len(pairs), [0] * len(pairs)
    known = [i for i, pair in enumerate(pairs) if pair.links]
    for n, weights in token_weights(work, model, work.input.encode([pairs[i] for i in known]), [place.layer], True):
        pair = pairs[known[n]]
        query_spans = work.input.target_spans(pair.target)
        key_spans = work.input.source_tokenizer.encode(pair.source).spans
        best = place.mean(weights[0])[:, first : first + len(key_spans)].argmax(-1).tolist()
        found = aligned_characters(best, query_spans, key_spans, pair.links or ())
        right[known[n]], linked[known[n]] = found
    return right, linked


def known_links(work: Any, source: str, target: str, words: Sequence[Words]) -> torch.Tensor | None:
    """The true alignment of a pair as cells of a map of its words, `(target, source)` of bool; None if not known.

    It is known for validation and test examples of embedded data. `words` are those of the target and of the source.
    """
    links = work.input.links_held_out(work).get((source, target))
    if links is None:
        return None
    typed = (
        InputSpans.of(work.input.target_tokenizer, target, before=len(work.input.target_prefix)),
        InputSpans.of(work.input.source_tokenizer, source, before=len(work.input.frame[0])),
    )
    spans = [_word_spans(text.spans, of_text) for text, of_text in zip(typed, words, strict=True)]
    found = torch.zeros(len(spans[0]), len(spans[1]), dtype=torch.bool)
    for link in links:
        rows, columns = (
            torch.tensor([min(end, known[1]) > max(start, known[0]) for start, end in each])
            for each, known in zip(spans, (link.target, link.source), strict=True)
        )
        found |= rows.unsqueeze(1) & columns
    return found


def _word_spans(tokens: Sequence[Span], words: Words) -> list[Span]:
    """The characters of each word; an empty span for those that are not text."""
    inside = [tokens[word.start : word.stop] for word in words.tokens]
    return [(min(start for start, _ in each), max(end for _, end in each)) if each else (0, 0) for each in inside]


def written_weights(work: Any, model: PairDecoder, source: str, ids: Sequence[int]) -> Array:
    """The attention while the tokens `ids` were written, `(tokens, source tokens)`, read from `writing_place`."""
    place = writing_place(work, model)
    pair = TokenPair(work.input.framed(work.input.source_tokenizer.encode(source).ids), list(ids))
    ((_, weights),) = token_weights(work, model, [pair], [place.layer], check=True)
    return place.mean(weights[0])[: len(ids), work.input.within(len(pair.source))]


def unknown_words(work: Any, model: PairDecoder, source: str, ids: Sequence[int]) -> dict[int, str]:
    """For each unknown token of an output, by position, the source word that stands for it.

    It is the source word with the largest attention weight among those that the vocabulary lacks, or among all if it
    lacks none: names and numbers, which are the same in both languages, are mostly unknown in both. Each unknown token
    is replaced by itself, whatever the others are replaced by.

    Source: Luong et al. 2015b (arXiv:1410.8206); Jean et al. 2015 (arXiv:1412.2007).
    Differs from them: they copy the aligned word, known or not, if a dictionary has no translation of it.
    """
    unknown = [n for n, token in enumerate(ids) if token == work.input.target_tokenizer.special.unknown]
    if not unknown or not model.aligns:
        return {}
    weights, encoded = written_weights(work, model, source, ids), work.input.source_tokenizer.encode(source)
    words = Words.of(work.input.source_tokenizer, encoded.ids[: weights.shape[1]], "source", {})
    per_word = words.sum(torch.from_numpy(weights))  # (tokens, source words)
    never = work.input.source_tokenizer.special.unknown
    lacking = [never in encoded.ids[word.start : word.stop] for word in words.tokens]
    if any(lacking):
        per_word = per_word.masked_fill(~torch.tensor(lacking), -1.0)
    best = ((position, words.tokens[int(per_word[position].argmax())]) for position in unknown)
    return {n: source[encoded.spans[word.start][0] : encoded.spans[word.stop - 1][1]].strip() for n, word in best}


def replace_unknown(work: Any, model: PairDecoder, source: str, written: WrittenText) -> WrittenText:
    """An output with its unknown tokens replaced by source words, if configured."""
    words = unknown_words(work, model, source, written.ids) if work.head.replaces_unknown else {}
    text = work.input.target_tokenizer.decode(written.ids, {n: f" {word}" for n, word in words.items()})
    return replace(written, text=text, replaced=words) if words else written


@dataclass(frozen=True)
class WordAlignment:
    """The links of one pair; its score is low if the texts are not translations of each other."""

    links: tuple[Cell, ...] = ()  # (source word, target word), sorted, counted from 0
    weights: tuple[float, ...] = ()  # the attention of each link
    score: float = math.nan  # mean log-probability of a target token in nats; NaN if not asked for or a side is blank

    def __str__(self) -> str:
        return " ".join(f"{i}-{j}" for i, j in self.links)

    def scored(self) -> str:
        """The score, a tab, and each link with its weight; "" if a side is blank."""
        links = " ".join(f"{i}-{j}:{weight:.4f}" for (i, j), weight in zip(self.links, self.weights, strict=True))
        return "" if math.isnan(self.score) else f"{self.score:.4f}\t{links}"


class Alignments(list[WordAlignment]):
    """The links of several pairs, and the `place` that they were read from."""

    def __init__(self, each: Iterable[WordAlignment], place: AttentionPlace) -> None:
        super().__init__(each)
        self.place = place

    @property
    def links(self) -> list[list[Cell]]:
        """The links of each pair."""
        return [list(one.links) for one in self]

    def __str__(self) -> str:
        return "\n".join(map(str, self))


def place_of(
    run: Any, layer: int | None = None, head: int | Literal["mean"] | None = None, state: State | None = None
) -> AttentionPlace:
    """The given layer (negative from the end), head or "mean" of all, and state, where given; else `usual_place`.

    Raises:
        ConfigError: The run does not attend to its source, or lacks the layer or the head.
    """
    layers, usual = layers_of(run.model, run.config.model.name), usual_place(run.task, run.model)
    if layer is not None and not -len(layers) <= layer < len(layers):
        have = "1 layer attends" if len(layers) == 1 else f"{len(layers)} layers attend"
        raise ConfigError(f"no layer {layer}: {have} to the source in '{run.folder}', counted from 0")
    chosen = usual.layer if layer is None else layers[layer]
    num_heads = getattr(source_attention(run.model)[chosen], "num_heads", 1)
    if isinstance(head, int) and not 0 <= head < num_heads:
        are = "is 1 head" if num_heads == 1 else f"are {num_heads} heads"
        raise ConfigError(f"no head {head}: there {are} in '{run.folder}', counted from 0")
    heads = usual.heads if head is None else None if head == "mean" else (head,)
    return AttentionPlace(chosen, heads, usual.state if state is None else state)


def links_at(
    run: Any, place: AttentionPlace, pairs: Sequence[Pair], written: Sequence[Sequence[int]] | None = None
) -> list[dict[Cell, float]]:
    """Each pair's links with their weights: of each target word to the source word with the largest weight.

    `written` are the targets' tokens, if known.
    """
    found: list[dict[Cell, float]] = [{} for _ in pairs]
    for n, weights in word_weights(run.task, run.model, _stripped(pairs), place.layer, place.state, written):
        mean = place.mean(weights)  # (target words, source words)
        found[n] = {(i, j): float(mean[j, i]) for j, i in enumerate(mean.argmax(1).tolist()) if mean[j, i] > 0}
    return found


def alignments(run: Any, place: AttentionPlace, pairs: Sequence[Pair], scores: bool = False) -> Alignments:
    """The links of each pair; with `scores`, also its score."""
    log_probs = [math.nan] * len(pairs)
    if scores:
        nats, _, tokens = run.task.judged(run.model, run.task.input.encode(_stripped(pairs))).T.tolist()
        log_probs = [
            -loss / count if pair.source.strip() and pair.target.strip() else math.nan
            for loss, count, pair in zip(nats, tokens, pairs, strict=True)
        ]
    made = []
    for links, score in zip(links_at(run, place, pairs), log_probs, strict=True):
        cells = sorted(links)
        made.append(WordAlignment(tuple(cells), tuple(links[cell] for cell in cells), score))
    return Alignments(made, place)


def _stripped(pairs: Sequence[Pair]) -> list[Pair]:
    return [Pair(pair.source.strip(), pair.target.strip()) for pair in pairs]


def read_gold(path: str | Path, pairs: Sequence[Pair]) -> tuple[list[list[WordLink]], list[str]]:
    """The gold links of pairs in a file in Pharaoh format; and remarks on them.

    Links to words beyond the end of a text are kept: no aligner can find them, but published scores count them.

    Raises:
        DataError: The file has a different number of lines or no links, or counts words from 1.
    """
    gold = read_links(path)
    if len(gold) != len(pairs):
        raise DataError(
            f"'{path}' has {counted(len(gold), 'line')}, but there are {counted(len(pairs), 'pair')}; line N must have "
            "the links of pair N (a blank line if it has none)"
        )
    links = [link for line in gold for link in line]
    if not links:
        raise DataError(f"'{path}' has no links")
    beyond = [
        (number, link)
        for number, (line, pair) in enumerate(zip(gold, pairs, strict=True), start=1)
        for link in line
        if link.source >= len(pair.source.split()) or link.target >= len(pair.target.split())
    ]
    if not beyond:
        return gold, []
    number, first = beyond[0]
    where = f"the first on line {number}: {first.written()}"
    if not any(0 in link[:2] for link in links):
        raise DataError(
            f"'{path}' has no link to a word 0, but {counted(len(beyond), 'link')} to a word after the last ({where}); "
            "it seems to count words from 1; subtract 1 from every number"
        )
    is_one = len(beyond) == 1
    what = f"{counted(len(beyond), 'link')} {'names' if is_one else 'name'} a word after the last one"
    return gold, [f"'{path}': {what}, {where}; {'it counts' if is_one else 'they count'} as missed"]


def aligned_heads(run: Any, pairs: Sequence[Pair]) -> dict[int, list[float]]:
    """For each layer and head of the attention to the source, the share of target characters that follow the links.

    The links are those known of the pairs, else those of `align`. A head is judged by the state that writes a
    token, or by the one that has read it if that is better.
    """
    if not run.model.aligns:
        return {}
    found = links_at(run, place_of(run), pairs) if any(pair.links is None for pair in pairs) else [{}] * len(pairs)
    links = [
        _character_links(*both) if both[0].links is None else both[0].links for both in zip(pairs, found, strict=True)
    ]
    layers, first = layers_of(run.model, run.config.model.name), len(run.task.input.frame[0])
    right: dict[int, Any] = {}
    linked = 0
    for n, weights in token_weights(run.task, run.model, run.task.input.encode(pairs), layers):
        query_spans = run.task.input.target_spans(pairs[n].target)
        key_spans = run.task.input.source_tokenizer.encode(pairs[n].source).spans
        for layer, of_layer in zip(layers, weights, strict=True):
            rows = (of_layer[:, state : state + len(query_spans), first : first + len(key_spans)] for state in (0, 1))
            best = (each.argmax(-1).tolist() for each in rows)
            counts = [[aligned_characters(keys, query_spans, key_spans, links[n]) for keys in each] for each in best]
            right[layer] = right.get(layer, 0) + np.array(counts)[..., 0]
        linked += counts[0][0][1]
    return {layer: (counts.max(0) / max(1, linked)).tolist() for layer, counts in right.items()}


def align(
    run: Any, source: str | Sequence[str], target: str | WrittenText | Sequence[str], **options: Any
) -> list[Cell] | Alignments:
    """Links between the words of a source and of a target, or of several.

    Words are separated by spaces. Each target word is linked to the source word with the largest attention weight;
    in a `WrittenText` of a character model, every character counts as a word.

    Args:
        run: Reads the links from its attention.
        source: A text, or several.
        target: A text, or an output of the run; or several texts.
        options: `layer`, `head` (a number or "mean") and `state` ("read" or "written"), from which links are read;
            `scores`: give each pair a score.

    Returns:
        For one pair, (source word, target word), counted from 0. For several, a `WordAlignment` each, with `links`,
        `weights` and `score`, and the `place` that the links of all were read from.

    Raises:
        ConfigError: The model does not attend to the source (a `WrittenText` has no links then).
    """
    if isinstance(target, WrittenText):
        return links_of(run, str(source).strip(), target)
    if isinstance(source, str) and isinstance(target, str):
        one: Any = align(run, [source], [target], **options)
        return list(one[0].links)
    if isinstance(source, str) or isinstance(target, str):
        raise ConfigError("align takes two texts, or a list of sources and a list of targets")
    if len(source) != len(target):
        counts = f"{counted(len(source), 'source')} and {counted(len(target), 'target')}"
        raise ConfigError(f"{counts} were given; align takes a target for each source")
    pairs = [Pair(*sides) for sides in zip(source, target, strict=True)]
    scores = options.pop("scores", False)
    first = run.members[0]
    return alignments(first, place_of(first, **options), pairs, scores)


def links_of(run: Any, source: str, prediction: WrittenText) -> list[Cell]:
    """Links between the words of a source and of an output for it; none if the model does not attend to the source."""
    run = run.members[0]
    if not run.model.aligns or not prediction.ids:
        return []
    if run.task.input.target_tokenizer.unit == "character":
        weights = written_weights(run.task, run.model, source, prediction.ids)
        ids = run.task.input.source_tokenizer.encode(source).ids[: weights.shape[1]]
        of_words = Words.of(run.task.input.source_tokenizer, ids, "source", {}).sum(torch.from_numpy(weights))
        return [(i, j) for j, i in enumerate(of_words.argmax(1).tolist())]
    return list(links_at(run, place_of(run), [Pair(source, "")], [prediction.ids])[0])


def alignment_scores(run: Any, pairs: Sequence[Pair], gold: str | Path) -> tuple[dict[str, Any], list[str]]:
    """Error, precision and recall of the links of pairs against those of a file, for a report.

    Links are read from the default place.

    Returns:
        `aer`, `alignment_precision`, `alignment_recall`, `alignment_place`; and remarks on the file.
    """
    (links, notes), run = read_gold(gold, pairs), run.members[0]
    made = alignments(run, place_of(run), pairs)
    scores = shown(alignment_measures(made.links, links), run.config.evaluation.bootstrap)
    return {**scores, "alignment_place": made.place.values()}, notes

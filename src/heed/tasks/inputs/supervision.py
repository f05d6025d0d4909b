"""Guided attention: a loss that pulls the attention to the source towards known links between words.

    cross_entropy    - sum over targets t and sources j of A_tj log a_tj
    mse              sum over targets t of the mean over sources j of (A_tj - a_tj)^2

A are the links as weights, each row summing to 1, or to 0 for a target without links, which is left free; a are the
weights with which the model attends to the source in one layer. `weight` times this is added to the training loss;
scoring and writing are unaffected, and the attention weights themselves are never changed. A has zeros, so the
cross-entropy is that of a under A, not the other way round.

A trace records this one layer: the pass runs as without a trace, and the weights, before dropout, are computed from the
recorded queries and keys. Links between words become links between characters, and then rows of weights over the tokens
of any tokenization. The line of a pair in a file of links is found by the
pair's origin, so pairs that are held out, left out or kept on disk cannot shift the links.

Source: Mi, Wang and Ittycheriah 2016 (arXiv:1608.00112), section 3; Chen et al. 2016 (arXiv:1607.01628); Liu et al.
2016 (C16-1291), section 3, for the squared difference.

Automatic links (`guides`) are a word alignment learned from the training pairs (Chen et al. 2016, who take those of a
statistical aligner): with few pairs a model learns words, but not where to look for them. A link's strength is its
confidence: a row sums to at most 1, and a row of zeros has no effect.

The aligner (`align_tokens`) is IBM model 1 with a prior on the diagonal, in both directions. Each direction explains
every token of one side by one of the other or by none. They are trained to agree: after two separate iterations,
expected counts are the product of both posteriors.

    p(j | i)  =  t(y_i | x_j) d(j | i) / (sum_j' t(y_i | x_j') d(j' | i) + n(y_i) * null / (1 - null))
    d(j | i)  ~  exp(-s |(i + 1/2) / I - (j + 1/2) / J|)      target i of I, source j of J, summing to 1 over j

Repeated words of a pair, mostly articles, are distinguished by their positions alone. The sharpness of the diagonal, s,
is learned with the words: 0 (model 1) in the first two iterations and where word order is free. 10,000 pairs take about
a second; memory has an entry for each source word with each target word of a pair.

Source: Brown et al. 1993 (Computational Linguistics 19(2)), model 1; Dyer, Chahuneau and Smith 2013 (N13-1073),
section 2, for d; Liang, Taskar and Klein 2006 (N06-1014), section 4.1, for the product. Differs: unaligned words have
one distribution n with a fixed share `null`, counts are smoothed, and s is 1 / (mean distance of the links) minus 1 /
(mean distance of all cells), which is close to its maximum-likelihood value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heed.data.batch import TokenPair
from heed.data.examples import Link, Pair, Span
from heed.data.findings import Findings
from heed.data.kinds.links import LinkTable
from heed.data.text_files import ending_of
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.models.base import PairDecoder
from heed.tasks.base.report import counted
from heed.watch.edits import attention_of
from heed.watch.trace import Trace

_MAX_CACHED = 50_000
"""Most pairs whose rows are cached, below a kilobyte each."""
_STEM = 5
"""First letters that identify a word: few pairs contain few of its forms, and these letters identify most of them."""
_LONGEST = 4.0
"""With more tokens per word on average, a text has no spaces between words; then tokens are aligned."""


def guides(
    pairs: Sequence[TokenPair], source: TextTokenizer, target: TextTokenizer, min_strength: float = 0.3
) -> list[Tensor]:
    """Alignment of target to source tokens: each token of a word to all tokens of the words it is aligned with.

    Links weaker than `min_strength` are ignored.

    Returns:
        For each pair `(target + 1, source)`, the end token's row last and zero; rows sum to at most 1.
    """
    source_stems, source_words = _stems([pair.source for pair in pairs], source)
    target_stems, target_words = _stems([pair.target for pair in pairs], target)
    links = align_tokens(source_stems, target_stems)
    result = []
    for word_links, s, t in zip(links, source_words, target_words, strict=True):
        strength = word_links[t][:, s]  # (target, source)
        sure = strength * (strength > min_strength)
        rows = sure / sure.sum(1, keepdim=True).clamp_min(1.0)
        result.append(torch.cat([rows, rows.new_zeros(1, rows.shape[1])]))
    return result


def _stems(texts: Sequence[list[int]], tokenizer: TextTokenizer) -> tuple[list[list[int]], list[Tensor]]:
    """The words of texts, numbered by their stems, and the number of the word of each token."""
    words = [tokenizer.words(ids) for ids in texts]
    if sum(map(len, texts)) > _LONGEST * sum(map(len, words)):
        words = [[range(n, n + 1) for n in range(len(ids))] for ids in texts]
    numbers: dict[str, int] = {}
    stems, owners = [], []
    for ids, ranges in zip(texts, words, strict=True):
        labels = [tokenizer.word_label(ids[word.start : word.stop]) for word in ranges]
        stems.append([numbers.setdefault(label.lower()[:_STEM], len(numbers)) for label in labels])
        owners.append(torch.tensor([n for n, word in enumerate(ranges) for _ in word], dtype=torch.long))
    return stems, owners


def attention_loss(weights: Tensor, alignment: Tensor, source_mask: Tensor, kind: str) -> Tensor:
    """The loss of attention weights against links, cross_entropy (in nats) or mse, summed over targets.

    Args:
        weights: `(rows, target, source)`, each row summing to 1.
        alignment: `(rows, target, source)`, the wanted weights, each row summing to at most 1, which weights the row.
        source_mask: `(rows, source)`, True on real tokens.
        kind: The loss.
    """
    tiny = torch.finfo(weights.dtype).tiny
    if kind == "cross_entropy":
        return -(alignment * weights.clamp_min(tiny).log()).sum()
    sure = alignment.sum(-1)  # (rows, target)
    target_weights = alignment / sure.clamp_min(tiny).unsqueeze(-1)
    mean = (target_weights - weights).square().sum(-1) / source_mask.sum(-1).clamp_min(1).unsqueeze(-1)
    return (sure * mean).sum()


def supervised_weights(seen: Trace, section: Any) -> Tensor:
    """The attention weights to compare with links, the mean of the chosen heads: `(rows, target, source)`."""
    weights = seen.weights().float()  # (rows, heads, target, source)
    heads = [section.heads] if isinstance(section.heads, int) else section.heads
    return (weights if heads == "mean" else weights[:, heads]).mean(1)


def source_attention(model: PairDecoder) -> dict[int, Any]:
    """The modules that attend to the source, by layer."""
    return {attention.layer: attention for attention in attention_of(model).values() if attention.mechanism == "cross"}


def check_model(model: PairDecoder, section: Any, field: str, name: str) -> None:
    """Refuse a model that lacks the attention to the source that `section` asks for.

    Raises:
        ConfigError: The model does not attend to the source, or lacks the layer or a head.
    """
    if not model.aligns:
        raise ConfigError(
            f"{field} needs attention to the source, but model '{name}' has none; choose a model with attention "
            "(heed models), or remove the field"
        )
    layers = source_attention(model)
    ordered = sorted(layers)
    if not -len(ordered) <= section.layer < len(ordered):
        have = "1 layer that attends" if len(ordered) == 1 else f"{len(ordered)} layers that attend"
        raise ConfigError(
            f"training.alignment.layer is {section.layer}, but model '{name}' has {have} to the source; give a number "
            f"from 0 to {len(ordered) - 1}, or -1 for the last"
        )
    heads = getattr(layers[ordered[section.layer]], "num_heads", 1)
    numbers = section.heads if isinstance(section.heads, list) else [section.heads]
    if section.heads != "mean" and max(numbers, default=0) >= heads:
        raise ConfigError(
            f"training.alignment.heads is {section.heads}, but that layer of model '{name}' has "
            f"{counted(heads, 'head')}; heads are counted from 0, so the last is {heads - 1}"
        )


Cells = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]
"""Rows of weights without their zeros: target places, source places, weights."""


class Supervision:
    """The wanted attention weights for each training pair of a run.

    Raises:
        ConfigError: The data comes without an alignment.
        DataError: A file of links cannot be read or does not fit the pairs.
    """

    def __init__(self, work: Any, section: Any) -> None:
        self._work, self._section = work, section
        self._cached: dict[int, Cells] = {}
        self._tables = self._read() if section.files else []
        if section.data and not any(pair.links for pair in work.splits.examples["train"][:1_000]):
            raise ConfigError(
                "training.alignment.data is true, but this data comes without an alignment; set "
                "training.alignment.files instead, or remove the field"
            )

    def _read(self) -> list[LinkTable]:
        section, data, splits = self._section, self._work.config.data, self._work.splits
        corpora = [("train", splits.examples["train"], splits.counts["train"], data.train, splits.columns)]
        for extra, (name, corpus) in zip(data.extra, splits.extra.items(), strict=True):
            corpora.append((name, corpus.examples, corpus.counts, extra.files, corpus.columns))
        tables = []
        for path, (name, pairs, counts, files, columns) in zip(section.files, corpora, strict=False):
            # The first line of a file of columns may name them.
            named = len(files) == 1 and ending_of(Path(files[0])) not in (".jsonl", ".json")
            named = named and data.origin == "files" and any(isinstance(column, str) for column in columns.values())
            findings = Findings.of(data)
            table = LinkTable(path, section.possible == "use", findings, int(named))
            unused: list[Sequence[Pair]] = []
            if name == "train":  # pairs of its files that are not trained on
                unused = [splits.left_out, *([] if isinstance(data.valid, list) else [splits.examples["valid"]])]
            splits.remarks.append(table.check(pairs, counts.read, name, unused))
            counts.found += findings.found
            tables.append(table)
        return tables

    def of(self, tokens: Sequence[TokenPair], indices: Sequence[int]) -> Tensor:
        """The wanted weights of training pairs, `(pairs, target, source)`, for their tokens."""
        longest = max(len(pair.target) for pair in tokens) + 1, max(1, *(len(pair.source) for pair in tokens))
        alignment = torch.zeros(len(tokens), *longest)
        if self._section.automatic:
            for row, index in enumerate(indices):
                guide = self._automatic[index]
                alignment[row, : guide.shape[0], : guide.shape[1]] = guide
        else:
            for row, (targets, sources, weights) in enumerate(self._cells(indices)):
                alignment.numpy()[row, targets, sources] = weights
        return alignment

    @cached_property
    def _automatic(self) -> list[Tensor]:
        input, training = self._work.input, self._training
        tokens = training.tokens_at(range(len(training)))
        return guides(tokens, input.source_tokenizer, input.target_tokenizer, self._section.min)

    @property
    def _training(self) -> Any:
        return self._work.input.training(self._work)

    def _cells(self, indices: Sequence[int]) -> list[Cells]:
        """The rows of each pair, cached."""
        cells_by_index = {index: cached for index in indices if (cached := self._cached.get(index)) is not None}
        missing = [index for index in indices if index not in cells_by_index]
        for index, pair in zip(missing, self._training.examples_at(missing) if missing else (), strict=True):
            cells_by_index[index] = cells = self._cells_of(index, pair)
            if len(self._cached) < _MAX_CACHED:
                self._cached[index] = cells
        return [cells_by_index[index] for index in indices]

    def linked(self, index: int, pair: Pair) -> Pair:
        """A training pair with its links, which may come from a file."""
        if not self._tables:
            return pair
        number = self._training.corpus_of(index)[0]
        return self._tables[number].of(pair) if number < len(self._tables) else replace(pair, links=())

    def shown(self, index: int, pair: Pair, max_links: int = 12) -> str:
        """The first links of a training pair for people, as the linked words; "" for none."""
        links = self.linked(index, pair).links or ()
        texts = [f"{pair.source[slice(*link.source)]}-{pair.target[slice(*link.target)]}" for link in links[:max_links]]
        return "  ".join(texts) + (" ..." if len(links) > max_links else "")

    def _cells_of(self, index: int, pair: Pair) -> Cells:
        input, tag = self._work.input, self._training.corpus_of(index)[1]
        sources, targets = input.source_tokenizer.encode(pair.source).spans, input.target_spans(pair.target)
        rows = rows_of(self.linked(index, pair).links or (), sources, targets).numpy()
        target, source = np.nonzero(rows)
        first = len(input.frame[0]) + (tag is not None)
        return target.astype(np.int32), (source + first).astype(np.int32), rows[target, source]


_APART, _TOGETHER = 2, 4
"""Iterations in which the directions learn separately, and jointly."""
_UNALIGNED = 0.2
"""Prior share of tokens without a counterpart on the other side."""
_MIN_DISTANCE = 0.01
"""Lower limit of the mean distance from the diagonal (of length 1), which limits the sharpness."""
_SMOOTHING = 0.01
"""Total of added counts, spread evenly over the vocabulary."""


@dataclass
class _Direction:
    """One side explained by the other; the cells (i, j) of all pairs are flattened into one axis."""

    token: Tensor  # per cell, the index of the explained token in the corpus
    kind: Tensor  # per token of the corpus, its vocabulary id
    near: Tensor  # per cell, the prior d; the cells of a token sum to 1
    explaining: Tensor  # per pair of vocabulary ids that occur together, the id that explains
    probs: Tensor  # per such pair, the probability of the explained id
    nothing: Tensor  # per vocabulary id, its probability without a counterpart

    def posteriors(self, met: Tensor) -> Tensor:
        """Per cell, the probability that its token is explained by its partner."""
        probs = self.probs[met] * self.near
        nothing = self.nothing[self.kind] * (_UNALIGNED / (1 - _UNALIGNED))
        return probs / (_sum_by(self.token, probs, len(self.kind)) + nothing)[self.token]

    def place(self, decay: Tensor) -> None:
        """Set the prior to `decay` per cell, normalised over the partners of each token."""
        self.near = decay / _sum_by(self.token, decay, len(self.kind))[self.token]

    def learn(self, met: Tensor, links: Tensor) -> None:
        """Set the probabilities from expected links."""
        vocab_size = len(self.nothing)
        counts = _sum_by(met, links, len(self.explaining))
        totals = _sum_by(self.explaining, counts, int(self.explaining.max()) + 1)
        self.probs = (counts + _SMOOTHING / vocab_size) / (totals[self.explaining] + _SMOOTHING)
        left = (1 - _sum_by(self.token, links, len(self.kind))).clamp_min(0)
        nothing = _sum_by(self.kind, left, vocab_size) + _SMOOTHING / vocab_size
        self.nothing = nothing / nothing.sum()


def align_tokens(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Tensor]:
    """Align the tokens of a corpus of pairs, whose sides may be empty.

    Returns:
        Link strengths `(target, source)` of each pair, in 0 .. 1: the geometric mean of the posteriors of both
        directions, float32. A row or a column of zeros is an unaligned token.
    """
    sizes = [(len(target), len(source)) for source, target in zip(sources, targets, strict=True)]
    source = torch.tensor([token for tokens in sources for token in tokens], dtype=torch.long)
    target = torch.tensor([token for tokens in targets for token in tokens], dtype=torch.long)
    if not len(source) or not len(target):
        return [torch.zeros(size) for size in sizes]
    rows, columns, distances, row, column = [], [], [], 0, 0
    for num_targets, num_sources in sizes:
        places = [(torch.arange(n, dtype=torch.float64) + 0.5) / n for n in (num_targets, num_sources)]
        distances.append((places[0].unsqueeze(1) - places[1]).abs().flatten())
        rows.append(torch.arange(row, row + num_targets).repeat_interleave(num_sources))
        columns.append(torch.arange(column, column + num_sources).repeat(num_targets))
        row, column = row + num_targets, column + num_sources
    of_target, of_source, distance = torch.cat(rows), torch.cat(columns), torch.cat(distances)  # (cells,)
    num_sources, num_targets = int(source.max()) + 1, int(target.max()) + 1
    kinds, met = torch.unique(source[of_source] * num_targets + target[of_target], return_inverse=True)
    directions = []
    for token, kind, explaining, vocab_size in (
        (of_target, target, kinds // num_targets, num_targets),
        (of_source, source, kinds % num_targets, num_sources),
    ):
        even = torch.full((max(len(kinds), vocab_size),), 1 / vocab_size, dtype=torch.float64)
        directions.append(_Direction(token, kind, distance, explaining, even[: len(kinds)], even[:vocab_size]))
        directions[-1].place(torch.ones_like(distance))
    for iteration in range(_APART + _TOGETHER):
        posteriors = [direction.posteriors(met) for direction in directions]
        both = posteriors[0] * posteriors[1]
        for direction, posterior in zip(directions, posteriors, strict=True):
            direction.learn(met, posterior if iteration < _APART else both)
            if iteration >= _APART - 1:
                direction.place(torch.exp(-_sharpness(both, distance) * distance))
    strengths = both.sqrt().float().split([rows * columns for rows, columns in sizes])
    return [strength.view(size) for strength, size in zip(strengths, sizes, strict=True)]


def _sharpness(links: Tensor, distance: Tensor) -> float:
    """Rate at which links become rarer with their distance from the diagonal."""
    of_links, of_all = float((links * distance).sum() / links.sum()), float(distance.mean())
    return max(0.0, 1 / max(of_links, _MIN_DISTANCE) - 1 / max(of_all, _MIN_DISTANCE))


def _sum_by(index: Tensor, values: Tensor, size: int) -> Tensor:
    return torch.bincount(index, weights=values, minlength=size)


def rows_of(links: Sequence[Link], source_spans: Sequence[Span], target_spans: Sequence[Span]) -> Tensor:
    """Target attention weights of each target token, from links between character spans.

        A_tj = 1 / |L_t| * sum over the links l in L_t of [j in S_l] / |S_l|

    L_t are the links whose target text overlaps token t, S_l the source tokens that overlap the source text of link l.
    So a word that is linked to two words attends to both equally, and to all tokens of each equally.

    Args:
        links: The alignment, between character spans.
        source_spans: The character span of each source token (`TextTokenizer.encode`).
        target_spans: The character span of each target token.

    Returns:
        `(target, source)`, float32: rows sum to 1, or to 0 for a token without a link.
    """
    if not links or not source_spans or not target_spans:
        return torch.zeros(len(target_spans), len(source_spans))
    sources = _overlaps([link.source for link in links], source_spans)
    targets = _overlaps([link.target for link in links], target_spans)
    targets *= sources.any(1, keepdims=True)  # ignore links that no source token overlaps
    source_weights = sources / np.maximum(sources.sum(1, keepdims=True), 1)
    rows = targets.T @ source_weights / np.maximum(targets.sum(0)[:, None], 1)
    return torch.from_numpy(rows.astype(np.float32))


def _overlaps(texts: Sequence[Span], tokens: Sequence[Span]) -> NDArray[np.float64]:
    """1 where a token overlaps a text, else 0: `(texts, tokens)`."""
    start, end = np.array(texts).T[:, :, None]
    first, last = np.array(tokens).T[:, None, :]
    shared: NDArray[np.float64] = (np.minimum(end, last) > np.maximum(start, first)).astype(np.float64)
    return shared

"""Guided attention: a loss that pulls the attention to the source towards known links between words.

    cross_entropy    - sum over targets t and sources j of A_tj log a_tj
    mse              sum over targets t of the mean over sources j of (A_tj - a_tj)^2

A are the links as weights, each row summing to 1, or to 0 for a target without links, which is left free; a are the
weights with which the model attends to the source in one layer. `weight` times this is added to the training loss;
scoring and writing are unaffected, and the attention weights themselves are never changed. A has zeros, so the
cross-entropy is that of a under A, not the other way round.

A trace records this one layer: the pass runs as without a trace, and the weights, before dropout, are computed from the
recorded queries and keys. Links between words become links between characters, and then rows of weights over the tokens
of any tokenization, so they are valid with subword sampling. The line of a pair in a file of links is found by the
pair's origin, so pairs that are held out, left out or kept on disk cannot shift the links.

Source: Mi, Wang and Ittycheriah 2016 (arXiv:1608.00112), section 3; Chen et al. 2016 (arXiv:1607.01628); Liu et al.
2016 (C16-1291), section 3, for the squared difference.

Automatic links (`guides`) are a word alignment learned from the training pairs (Chen et al. 2016, who take those of a
statistical aligner): with few pairs a model learns words, but not where to look for them. A link's strength is its
confidence: a row sums to at most 1, and a row of zeros has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heed.config import FilesData, HubSection
from heed.config.data import InMemory
from heed.data.batch import PairBatch, TokenPair
from heed.data.examples import Link, Pair, Span
from heed.data.findings import Findings
from heed.data.kinds.links import LinkTable
from heed.data.text_files import ending_of
from heed.data.tokens.alignment import align_tokens, rows_of
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.models.base import PairDecoder
from heed.observe.edits import attention_of
from heed.observe.trace import Trace
from heed.tasks.base.report import counted
from heed.tasks.translation.config import AlignmentSection

_HELD = 50_000
"""Most pairs whose rows are cached, below a kilobyte each."""
_STEM = 5
"""First letters that identify a word: few pairs contain few of its forms, and these letters identify most of them."""
_LONGEST = 4.0
"""With more tokens per word on average, a text has no spaces between words; then tokens are aligned."""


def guides(
    pairs: Sequence[TokenPair], source: TextTokenizer, target: TextTokenizer, least: float = 0.3
) -> list[Tensor]:
    """Alignment of target to source tokens: each token of a word to all tokens of the words it is aligned with.

    Links weaker than `least` are ignored.

    Returns:
        For each pair `(target + 1, source)`, the end token's row last and zero; rows sum to at most 1.
    """
    sources = _Stems([pair.source for pair in pairs], source)
    targets = _Stems([pair.target for pair in pairs], target)
    links = align_tokens(sources.stems, targets.stems)
    result = []
    for word_links, s, t in zip(links, sources.owners, targets.owners, strict=True):
        strength = word_links[t][:, s]  # (target, source)
        sure = strength * (strength > least)
        rows = sure / sure.sum(1, keepdim=True).clamp_min(1.0)
        result.append(torch.cat([rows, rows.new_zeros(1, rows.shape[1])]))
    return result


class _Stems:
    """The words of texts, numbered by their stems; `owners` gives the word of each token."""

    def __init__(self, texts: Sequence[list[int]], tokenizer: TextTokenizer) -> None:
        words = [tokenizer.words(ids) for ids in texts]
        if sum(map(len, texts)) > _LONGEST * sum(map(len, words)):
            words = [[range(n, n + 1) for n in range(len(ids))] for ids in texts]
        numbers: dict[str, int] = {}
        self.stems: list[list[int]] = []
        self.owners: list[Tensor] = []
        for ids, ranges in zip(texts, words, strict=True):
            labels = [tokenizer.word_label(ids[word.start : word.stop]) for word in ranges]
            self.stems.append([numbers.setdefault(label.lower()[:_STEM], len(numbers)) for label in labels])
            self.owners.append(torch.tensor([n for n, word in enumerate(ranges) for _ in word], dtype=torch.long))


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
    wanted = alignment / sure.clamp_min(tiny).unsqueeze(-1)
    mean = (wanted - weights).square().sum(-1) / source_mask.sum(-1).clamp_min(1).unsqueeze(-1)
    return (sure * mean).sum()


def supervised_weights(seen: Trace, section: AlignmentSection) -> Tensor:
    """The attention weights to compare with links, the mean of the chosen heads: `(rows, target, source)`."""
    weights = seen.weights().float()  # (rows, heads, target, source)
    heads = [section.heads] if isinstance(section.heads, int) else section.heads
    return (weights if heads == "mean" else weights[:, heads]).mean(1)


def source_attention(model: PairDecoder) -> dict[int, Any]:
    """The modules that attend to the source, by layer."""
    return {one.layer: one for one in attention_of(model).values() if one.mechanism == "cross"}


def check_model(model: PairDecoder, section: AlignmentSection, field: str, name: str) -> None:
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
    numbers = sorted(layers)
    if not -len(numbers) <= section.layer < len(numbers):
        have = "1 layer that attends" if len(numbers) == 1 else f"{len(numbers)} layers that attend"
        raise ConfigError(
            f"training.alignment.layer is {section.layer}, but model '{name}' has {have} to the source; give a number "
            f"from 0 to {len(numbers) - 1}, or -1 for the last"
        )
    heads = getattr(layers[numbers[section.layer]], "num_heads", 1)
    asked = section.heads if isinstance(section.heads, list) else [] if section.heads == "mean" else [section.heads]
    if asked and max(asked) >= heads:
        raise ConfigError(
            f"training.alignment.heads is {section.heads}, but that layer of model '{name}' has "
            f"{counted(heads, 'head')}; heads are counted from 0, so the last is {heads - 1}"
        )


Cells = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]
"""Rows of weights without their zeros: target places, source places, weights."""


class Supervision:
    """The wanted attention weights for each training pair of a `Translation`.

    Raises:
        ConfigError: The data comes without an alignment.
        DataError: A file of links cannot be read or does not fit the pairs.
    """

    def __init__(self, task: Any, section: AlignmentSection) -> None:
        self._task, self._section = task, section
        self._held: dict[int, Cells] = {}
        self._guides: list[Tensor] | None = None
        self._tables = self._read() if section.files else []
        if section.data and not any(pair.links for pair in task.splits.examples["train"][:1_000]):
            raise ConfigError(
                "training.alignment.data is true, but this data comes without an alignment; set "
                "training.alignment.files instead, or remove the field"
            )

    def _read(self) -> list[LinkTable]:
        section, data, splits = self._section, self._task.config.data, self._task.splits
        assert isinstance(data, FilesData)
        skipped = _skipped(data, data.train, splits.columns)
        corpora = [("train", splits.examples["train"], splits.counts["train"], skipped)]
        for one, (name, corpus) in zip(data.extra, splits.extra.items(), strict=True):
            corpora.append((name, corpus.examples, corpus.counts, _skipped(data, one.files, corpus.columns)))
        tables = []
        for path, (name, pairs, counts, skipped) in zip(section.files, corpora, strict=False):
            findings = Findings.of(data)
            table = LinkTable(path, section.base, section.possible == "use", findings, skipped)
            unused: list[Sequence[Pair]] = []
            if name == "train":  # pairs of its files that are not trained on
                unused = [splits.left_out, *([] if isinstance(data.valid, list) else [splits.examples["valid"]])]
            splits.remarks.append(table.check(pairs, counts.read, name, unused))
            counts.found += findings.found
            tables.append(table)
        return tables

    def on(self, batch: PairBatch) -> PairBatch:
        """The batch with the wanted attention weights."""
        if self._section.automatic:
            return replace(batch, alignment=self._automatic(batch))
        alignment = np.zeros((*batch.target.shape, batch.source.shape[1]), dtype=np.float32)
        for row, (targets, sources, weights) in enumerate(self._cells(batch.indices)):
            alignment[row, targets, sources] = weights
        return replace(batch, alignment=torch.from_numpy(alignment))

    def _automatic(self, batch: PairBatch) -> Tensor:
        if self._guides is None:
            task = self._task
            tokens: Sequence[TokenPair] = task.training.tokens
            self._guides = guides(tokens, task.source_tokenizer, task.target_tokenizer, self._section.min)
        alignment = torch.zeros(*batch.target.shape, batch.source.shape[1])
        for row, index in enumerate(batch.indices):
            guide = self._guides[index]
            alignment[row, : guide.shape[0], : guide.shape[1]] = guide
        return alignment

    def _cells(self, indices: Sequence[int]) -> list[Cells]:
        """The rows of each pair, cached unless texts are cut differently in each pass."""
        made = {index: held for index in indices if (held := self._held.get(index)) is not None}
        missing = [index for index in indices if index not in made]
        for index, pair in zip(missing, self._task.training.examples_at(missing) if missing else (), strict=True):
            made[index] = cells = self._cells_of(index, pair)
            if len(self._held) < _HELD and not self._task.cuts_anew:
                self._held[index] = cells
        return [made[index] for index in indices]

    def linked(self, index: int, pair: Pair) -> Pair:
        """A training pair with its links, which may come from a file."""
        if not self._tables:
            return pair
        number = self._task.training.corpus_of(index)[0]
        return self._tables[number].of(pair) if number < len(self._tables) else replace(pair, links=())

    def shown(self, index: int, pair: Pair, most: int = 12) -> str:
        """The first links of a training pair for people, as the linked words; "" for none."""
        links = self.linked(index, pair).links or ()
        said = [f"{pair.source[slice(*one.source)]}-{pair.target[slice(*one.target)]}" for one in links[:most]]
        return "  ".join(said) + (" ..." if len(links) > most else "")

    def _cells_of(self, index: int, pair: Pair) -> Cells:
        tag = self._task.training.corpus_of(index)[1]
        pair = self.linked(index, pair)
        (sources, targets), texts = self._task.spans_of(index, pair)
        links = pair.links or ()
        if texts != pair.texts:
            links = tuple(
                Link(target=_moved(link.target, pair.target, texts[1], self._task.target_tokenizer),
                     source=_moved(link.source, pair.source, texts[0], self._task.source_tokenizer))
                for link in links
            )  # fmt: skip
        rows = rows_of(links, sources, targets).numpy()
        target, source = np.nonzero(rows)
        first = len(self._task.frame[0]) + (tag is not None)
        return target.astype(np.int32), (source + first).astype(np.int32), rows[target, source]


def _moved(span: Span, text: str, normal: str, tokenizer: TextTokenizer) -> Span:
    """A span of a text as the corresponding span of the normalised text."""
    if len(normal) == len(text):
        return span
    start, end = (len(tokenizer.normalize(text[:place])) for place in span)
    return start, end


def _skipped(data: FilesData, files: Sequence[str], columns: Mapping[str, int | str]) -> int:
    """The number of lines before the pairs of a corpus's file: 1 if its first line names the columns, else 0."""
    named = any(isinstance(column, str) for column in columns.values())
    of_columns = len(files) == 1 and ending_of(Path(files[0])) not in (".jsonl", ".json")
    return int(named and of_columns and not isinstance(data, HubSection | InMemory))

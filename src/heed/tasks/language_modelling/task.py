"""Language modelling: documents as one stream of tokens, its batches, a model that predicts the next token.

`tokenizer.normalization` is none by default, and no space is put before a text, so that tokens decode to the text
itself where nothing is unknown (except U+2581, a space to `word`, `bpe` and `unigram`). With end tokens even the first
token of a file has a token before it, so that all are scored.

Batches are packed blocks for models without a state and contiguous rows for models that carry one. Block borders and
order are drawn again for each pass; each token is predicted once per pass. Contiguous rows carry their state from batch
to batch (truncated back-propagation through time):

    batch n reads chunk n of every row, from the state after batch n - 1; no gradient flows across batches

Source: Williams and Peng 1990, Neural Computation 2 (4), truncated back-propagation; Zaremba et al. 2014
(arXiv:1409.2329), section 4.1, for minibatches of contiguous rows.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heed.attention import Rows
from heed.data.batch import Batch, Plan
from heed.data.corpus import sample_of
from heed.data.embedded.generated import SPLITS
from heed.data.embedded.texts import draw_meals
from heed.data.kinds.documents import Document
from heed.data.kinds.encoded_documents import EncodedDocuments, encode_documents
from heed.data.splits import Splits, drawn_splits
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.models.base import LanguageModel
from heed.tasks.base.documents import DocumentTask, learn_tokenizer
from heed.tasks.base.report import sample_lines
from heed.tasks.base.transfer import Parent, Transfers, with_parents
from heed.tasks.base.vocabulary import taken
from heed.tasks.language_modelling.config import LanguageModelConfig
from heed.tasks.language_modelling.scoring import TOGETHER, score_ids
from heed.training.loss import loss_at, piece_positions

_PIECE_TOKENS = 256
"""Tokens of a piece, if only a part of the validation set is scored."""


@dataclass(frozen=True, eq=False)
class TokenStream(EncodedDocuments):
    """The tokens of all documents, concatenated, each document followed by the end token if `end_token` is True."""

    ids: NDArray[Any]
    starts: NDArray[np.int64]
    end_token: bool = True

    @classmethod
    def of(cls, documents: Sequence[Document], tokenizer: TextTokenizer, end_token: bool) -> TokenStream:
        """Encode documents, see `encode_documents`."""
        end = np.array([tokenizer.special.end] if end_token else [], dtype=np.int32)

        def encode(texts: list[str]) -> Iterator[tuple[NDArray[Any]]]:
            yield from ((np.append(ids, end),) for ids in tokenizer.encode_arrays(texts))

        settings = {"form": "stream", "end_token": end_token}
        starts, ids = encode_documents(documents, tokenizer, encode, (), **settings)
        return cls(ids, starts, end_token)

    def document(self, number: int) -> NDArray[Any]:
        """The tokens of one document, its end token included."""
        return self.ids[self.starts[number] : self.starts[number + 1]]


@dataclass(frozen=True)
class TokenBatch(Batch):
    """Rows of tokens, B of length L; position t of a row predicts `labels[t]`, the token after `tokens[t]`."""

    tokens: Tensor  # `(B, L)` int64, the inputs
    labels: Tensor  # `(B, L)` int64, the targets; padding where `mask` is False
    mask: Tensor  # `(B, L)` bool, True where there is a target
    # `(B, L)` int64, the number of the document of each target within its row, from 0 and non-decreasing; None where
    # each row lies in one document, or documents run on
    documents: Tensor | None
    indices: list[int]  # indices of the blocks or rows
    num_targets: int  # number of targets, end tokens included


@dataclass(frozen=True)
class RowBatch(TokenBatch):
    """Chunks of contiguous rows."""

    rows: tuple[int, ...] = ()  # number of each row within its pass
    begins: bool = True  # True for the first chunks of the pass, before which there is no state


class Blocks:
    """Blocks of `context` targets, whose borders and order are drawn for each pass from (seed, epoch).

    A block's index is the position of its first target in the stream. Every token is a target once per pass: blocks
    begin at an offset in [0, context); the first block has the tokens before the offset, the last block the tail. The
    index of the first block is offset - context, as if it began before the stream. With documents "mask" a batch gives
    document numbers; with "run_on", or without end tokens, each document continues from the one before.
    """

    def __init__(
        self, stream: TokenStream, context: int, first_token: int, documents: Literal["mask", "run_on"] = "mask"
    ) -> None:
        self.stream, self.context, self.first_token = stream, context, first_token
        self._apart = documents == "mask" and stream.end_token

    def plan(self, batch_tokens: int, seed: int = 0, epoch: int = 0) -> Plan:
        """Plan the batches of one pass, each of batch_tokens // context blocks (at least one)."""
        count = len(self.stream)
        digest = hashlib.blake2b(f"blocks {seed} {epoch}".encode(), digest_size=7).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest, "big"))
        offset = int(torch.randint(self.context, (), generator=generator)) if count > self.context else 0
        starts = np.arange(offset - self.context if offset else 0, count, self.context)
        order = torch.randperm(len(starts), generator=generator).numpy()
        return _batches(starts[order], max(1, batch_tokens // self.context))

    def collate(self, indices: Sequence[int]) -> TokenBatch:
        """Collate these blocks."""
        first = np.asarray(indices, dtype=np.int64)
        starts = np.maximum(first, 0)
        stops = np.minimum(first + self.context, len(self.stream))
        return _batch(self.stream, starts, stops, self.first_token, self._apart, indices)


class Streams:
    """Rows that are contiguous parts of the stream, in chunks of `context` targets, for models that carry a state.

    There are R = batch_tokens // context rows, fewer where a row would be shorter than a chunk. The n-th batch is the
    n-th chunk of every row, so that the state after one batch is the initial state of the next; chunk c of row r has
    the index c * R + r. The first token of a chunk is the last label of the chunk before. Documents run on.
    """

    def __init__(self, stream: TokenStream, context: int, first_token: int) -> None:
        self.stream, self.context, self.first_token = stream, context, first_token
        self.rows = 0  # of the latest plan

    def plan(self, batch_tokens: int, seed: int = 0, epoch: int = 0) -> Plan:
        """Plan the batches of one pass, the same for every pass; sets `rows`."""
        count = len(self.stream)
        self.rows = max(1, min(batch_tokens // self.context, count // self.context))
        longest = -(-count // self.rows)
        chunks = -(-longest // self.context)
        return _batches(np.arange(chunks * self.rows), self.rows)

    def collate(self, indices: Sequence[int]) -> RowBatch:
        """Collate these chunks, numbered as in the latest plan."""
        assert self.rows, "plan first"
        chunks, rows = np.divmod(np.asarray(indices, dtype=np.int64), self.rows)
        count = len(self.stream)
        starts, ends = rows * count // self.rows + chunks * self.context, (rows + 1) * count // self.rows
        stops = np.minimum(starts + self.context, ends)
        batch = _batch(self.stream, np.minimum(starts, stops), stops, self.first_token, False, indices)
        return RowBatch(**vars(batch), rows=tuple(rows.tolist()), begins=not chunks[0])


def _batch(
    stream: TokenStream,
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    first_token: int,
    apart: bool,
    indices: Sequence[int],
) -> TokenBatch:
    """Make a batch with one row for each range `starts` to `stops` of targets in the stream."""
    lengths = stops - starts
    width, targets = max(1, int(lengths.max())), int(lengths.sum())
    places = starts[:, None] + np.arange(-1, width)  # of the tokens that are read, and the last label
    full = targets == lengths.size * width
    # Place -1 wraps around and is overwritten below.
    window = stream.ids[places if full else np.minimum(places, len(stream) - 1)].astype(np.int64)
    if not starts.min():
        window[places < 0] = first_token
    tokens, labels = window[:, :-1].copy(), window[:, 1:].copy()
    mask = np.ones(labels.shape, dtype=bool)
    if not full:
        mask = np.arange(width) < lengths[:, None]
        tokens[~mask] = 0
        labels[~mask] = 0
    documents = None
    if apart:
        ends = stream.document_at(np.stack([starts, np.maximum(stops - 1, starts)]))
        if (ends[0] != ends[1]).any():
            targets_at = np.minimum(places[:, 1:], (stops - 1)[:, None])
            documents = torch.from_numpy(stream.document_at(targets_at) - ends[0][:, None])
    read, predicted, real = (torch.from_numpy(part) for part in (tokens, labels, mask))
    return TokenBatch(read, predicted, real, documents, list(indices), targets)


def _batches(indices: NDArray[np.int64], size: int) -> Plan:
    """Cut the indices, in order, into batches of `size`; the last batch has the rest."""
    ends = np.minimum(np.arange(size, len(indices) + size, size), len(indices))
    return Plan(indices.astype(np.int64), ends.astype(np.int64), np.arange(len(ends)))


Packed = Mapping[str, Tensor]
"""A state as tensors by name; dimension 0 of each runs over rows."""
_ROWS = "rows"


class CarriedRows:
    """The state after the last chunk of every row that this process reads.

    States are stored by row number, so that micro-batches, processes and a resumed run find their own. Rows that are
    read together are stored together: tensors of other rows may differ in shape (a tape that is not yet full).
    """

    def __init__(self, tensors: Packed | None = None) -> None:
        """Begin empty, or from the result of `tensors()`."""
        groups: dict[str, dict[str, Tensor]] = {}
        for name, tensor in (tensors or {}).items():
            number, _, key = name.partition(".")
            groups.setdefault(number, {})[key] = tensor
        self._groups: dict[tuple[int, ...], Packed] = {tuple(own.pop(_ROWS).tolist()): own for own in groups.values()}

    def tensors(self) -> dict[str, Tensor]:
        """Return all states as tensors by name, for a checkpoint."""
        found: dict[str, Tensor] = {}
        for number, (rows, packed) in enumerate(self._groups.items()):
            found[f"{number}.{_ROWS}"] = torch.tensor(rows)
            found |= {f"{number}.{name}": tensor.contiguous().clone() for name, tensor in packed.items()}
        return found

    def read(self, model: LanguageModel, batch: RowBatch) -> Tensor:
        """Compute the hidden states `(batch, length, d)` of a batch, from the stored state of its rows.

        In training the state after the batch is stored.
        """
        rows, device = batch.rows, batch.tokens.device
        packed = None if batch.begins else self._of(rows)
        if packed is None:
            state: Any = model.start(None, Rows.repeat(len(rows), device=device))
        else:
            state = model.unpack({name: tensor.to(device) for name, tensor in packed.items()})
        hidden, after = model.read(batch.tokens, state)
        if model.training:
            self._keep(rows, model.pack(after))
        return hidden

    def _keep(self, rows: tuple[int, ...], packed: Packed) -> None:
        """Replace the state of some rows; rows that were read together with them keep theirs."""
        for group in [group for group in self._groups if group != rows and not set(group).isdisjoint(rows)]:
            old = self._groups.pop(group)
            rest = [n for n, row in enumerate(group) if row not in rows]
            if rest:
                self._groups[tuple(group[n] for n in rest)] = {name: tensor[rest] for name, tensor in old.items()}
        self._groups[rows] = packed

    def _of(self, rows: tuple[int, ...]) -> Packed | None:
        """Return the state of some rows; None if any of them has none."""
        if rows in self._groups:
            return self._groups[rows]
        places = {row: (group, n) for group in self._groups for n, row in enumerate(group)}
        if any(row not in places for row in rows):
            return None
        parts = [(self._groups[places[row][0]], places[row][1]) for row in rows]
        return {name: torch.stack([packed[name][n] for packed, n in parts]) for name in parts[0][0]}


_FEW_CHARACTERS = 100_000
"""Up to this much text, tokens are characters. From 200,000 characters of Shakespeare a tiny gpt learned, in 160
updates of 2,048 tokens, 2.65 bits per byte with 1,000 subwords and 3.16 with characters; from 1.1 million, in 250, 2.55
and 2.95."""
_GROWTH = ("extend", "new_merges")
"""Fields that extend the tokenizer of another run."""


def open_parents(
    config: LanguageModelConfig, task: type[Transfers]
) -> tuple[LanguageModelConfig, Parent | None, Parent | None]:
    """Open the runs of `model.from` and `tokenizer.from`, and set the configuration fields that follow from them.

    The tokenizer of a run of this task is taken with its weights, unless a tokenizer is configured.

    Raises:
        ConfigError: A run cannot be opened, or a field contradicts it; or there is no tokenizer to extend.
    """
    asked = config.tokenizer
    values = asked.model_dump(by_alias=True, include=asked.model_fields_set - set(_GROWTH))
    if config.model.from_ is not None and not values:
        parent = Parent.open(config.model.from_, "model.from")
        if parent.task.config.task == config.task:
            values["from"] = config.model.from_
    growth = {name: getattr(asked, name) for name in _GROWTH}
    if growth["extend"] and "from" not in values:
        raise ConfigError(
            "tokenizer.extend is true, but there is no tokenizer to extend; give --from RUN, or set tokenizer.from"
        )
    config, parent_of_model, tokenizer_parent = with_parents(
        config.model_copy(update={"tokenizer": type(asked).model_validate(values)}), task
    )
    section = {**config.tokenizer.model_dump(by_alias=True), **growth}
    config = config.model_copy(update={"tokenizer": type(asked).model_validate(section)})
    return config, parent_of_model, tokenizer_parent


def num_tokens(characters: int) -> int:
    """The vocabulary size of subwords or words: one per 2,000 characters of text, from 1,000 to 32,000."""
    return min(32_000, max(1_000, characters // 2_000 // 500 * 500))


class LanguageModelling(DocumentTask[LanguageModelConfig]):
    """The task: where documents, model, loss and scores meet."""

    interfaces = ("language_model",)
    same_shapes = True
    tokens_of_size: ClassVar = {"tiny": 1_000_000, "small": 30_000_000}
    may_be_more: ClassVar = frozenset({"positions"})  # data.context may become shorter
    settles: ClassVar = ("max_length",)
    alternatives: ClassVar = {"tokens": ("tokens", "target", "source")}

    def __init__(self, config: LanguageModelConfig, tokenizer: TextTokenizer, splits: Splits[Document] | None) -> None:
        super().__init__(config, tokenizer, splits)
        self._streams: dict[str, TokenStream] = {}
        self._bytes: dict[str, int] = {}
        self._carried = CarriedRows()

    @classmethod
    def open_splits(
        cls, config: LanguageModelConfig, given: Mapping[str, Sequence[Document]] | None = None
    ) -> Splits[Document]:
        if (data := config.data).is_embedded:
            drawn: dict[str, list[Document]] = {
                split: draw_meals(split, getattr(data, split), data.seed) for split in SPLITS
            }
            return drawn_splits(drawn, data.name, "documents")
        return super().open_splits(config, given)

    @property
    def sizes(self) -> Mapping[str, str]:
        has_table = "max_length" in self.body_class.config_class.model_fields
        return {**self.size_fields, "positions": "max_length"} if has_table else self.size_fields

    # Data -----------------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, config: LanguageModelConfig, given: Mapping[str, Sequence[Document]] | None = None) -> Self:
        """Read or take the documents, train the tokenizer, and set the fields that depend on the data.

        Raises:
            ConfigError, DataError: The configuration or the data cannot be used.
        """
        config, parent, tokenizer_parent = open_parents(config, cls)
        splits = cls.read_splits(config, given)
        documents = splits.examples["train"]
        if tokenizer_parent is None:
            is_grammar = config.data.is_embedded
            config, tokenizer, remark = learn_tokenizer(
                config,
                documents,
                lambda size: "word" if is_grammar else "char" if size <= _FEW_CHARACTERS else "byte_bpe",
                num_tokens,
                lambda texts, section: TextTokenizer.train(texts, section, exact=True),
                to="continue",
            )
            splits.remarks += [remark] if remark else []
        else:
            section, theirs = config.tokenizer, tokenizer_parent.tokenizer("tokens", cls.alternatives)
            texts = [document.text for document in sample_of(documents)]
            tokenizer, remarks = taken(theirs, texts, section.min_count if section.extend else None, section.new_merges)
            splits.remarks += remarks
        return cls(config, tokenizer, splits).settle(parent)

    @property
    def context(self) -> int:
        """Tokens that the model sees at once."""
        return self.config.data.context

    @property
    def end_token(self) -> bool:
        """True if an end token follows each document."""
        return self.config.data.end_token

    @property
    def first_token(self) -> int:
        """The token before the first token of a document: end, or start if there are no end tokens."""
        special = self.tokenizer.special
        return special.end if self.end_token else special.start

    def prompt_tokens(self, ids: Sequence[int], least: int = 1) -> list[int]:
        """Prepend the first token to a prompt's tokens, unless `generation.first_token` is false.

        A prompt of fewer tokens than `least` always begins with the first token.
        """
        if len(ids) >= least and not self.config.generation.first_token:
            return [*ids]
        return [self.first_token, *ids]

    def stream(self, split: str) -> TokenStream:
        """The tokens of all documents of a split."""
        if split not in self._streams:
            self._streams[split] = TokenStream.of(self.splits.examples[split], self.tokenizer, self.end_token)
        return self._streams[split]

    encoded = stream

    def samples(self) -> list[str]:
        lines = ["\nas read and, below, as the model sees them:"]
        for documents in self.splits.examples.values():
            text = documents[0].text[:120]
            sides = [("text", text, self.tokenizer, self.tokenizer.encode(text).ids)]
            lines.append(sample_lines(documents[0].origin, "", sides))
        return lines

    @cached_property
    def _rows(self) -> Blocks | Streams:
        """The rows of the training documents."""
        given = self.stream("train"), self.context, self.first_token
        return Streams(*given) if self.carries else Blocks(*given, self.config.data.documents)

    # Model ----------------------------------------------------------------------------------------------------

    @property
    def carries(self) -> bool:
        """True if the model carries a state from batch to batch."""
        body = self.body_class
        return issubclass(body, LanguageModel) and body.carries

    def fields_from_data(self, given: dict[str, Any]) -> dict[str, Any]:
        """Use rotary positions in models that have them, unless positions are given or the size is base.

        A learned table needs more text: from 512,000 characters of Shakespeare in rows of 256 a tiny gpt learned 1.98
        nats with rotary positions and 2.45 with a table.
        """
        size = self.auto_size if self.config.model.size == "auto" else self.config.model.size
        fields: dict[str, Any] = {}
        if "positions" in self.body_class.config_class.model_fields and size != "base" and "positions" not in given:
            fields["positions"] = "rotary"
        return fields

    def axes(self) -> dict[str, list[str]]:
        rows = {"tokens": self.tokenizer.tokens}
        if "positions" in self.sizes:
            rows["positions"] = [str(n) for n in range(self.context)]
        return rows

    def body(self, model: LanguageModel) -> LanguageModel:
        return model

    def build_model(self) -> LanguageModel:
        model = self.body_class(self.model_and_head()[0])
        assert isinstance(model, LanguageModel)
        return model

    # What the training loop needs -----------------------------------------------------------------------------

    def train_batches(self, epoch: int) -> Sequence[list[int]]:
        training = self.config.training
        return self._rows.plan(training.batch_tokens, training.seed, epoch)

    def collate(self, indices: list[int], epoch: int = 0) -> TokenBatch:
        return self._rows.collate(indices)

    def work(self, indices: list[int]) -> int:
        return len(indices) * min(self.context, len(self._rows.stream))

    def describe(self, indices: list[int], epoch: int) -> str:
        batch = self.collate(indices[:1], epoch)
        text = self.tokenizer.decode(batch.labels[0][batch.mask[0]].tolist())
        return f"{len(indices)} rows, the first {text[:80]!r}"

    def loss(self, model: LanguageModel, batch: TokenBatch, label_smoothing: float) -> Tensor:
        if isinstance(batch, RowBatch):
            hidden = self._carried.read(model, batch)
        elif batch.documents is None:
            hidden = model(batch.tokens)
        else:
            hidden = model(batch.tokens, batch.documents)
        return loss_at((batch.mask, batch.num_targets), hidden, batch.labels, model.output, label_smoothing)

    def carried(self) -> dict[str, Tensor]:
        return self._carried.tensors()

    def carry(self, state: dict[str, Tensor]) -> None:
        self._carried = CarriedRows(state)

    def validate(self, model: LanguageModel) -> dict[str, float]:
        rows, num_bytes = self._validated()
        scores = score_ids(self, model, rows, self.config.evaluation.stride, ranks=False)
        nll = -sum(float(one.log_probs[: len(one.log_probs) - self.end_token].sum()) for one in scores)
        tokens = sum(len(row) - self.end_token for row in rows)
        return {"loss": nll / max(1, tokens), "bits_per_byte": nll / math.log(2) / max(1, num_bytes)}

    def _validated(self) -> tuple[list[NDArray[Any]], int]:
        """What `validate` scores, and its size in bytes: all documents, or evenly chosen pieces of them.

        Pieces have at least 256 tokens, but for the ends of documents.
        """
        stream = self.stream("valid")
        if self.valid_share == 1.0:
            return [stream.document(n) for n in range(stream.num_documents)], self._num_bytes("valid")
        size = max(1, min(_PIECE_TOKENS, math.ceil(self.valid_share * len(stream))))
        first = np.arange(0, len(stream), round(size / self.valid_share))
        last = np.searchsorted(stream.starts, first, side="right")  # a piece ends with its document
        ends = [min(start + size, int(stream.starts[n])) for start, n in zip(first, last, strict=True)]
        rows = [stream.ids[start:end] for start, end in zip(first, ends, strict=True)]
        if self.end_token:  # each row has one, as a document
            end = self.tokenizer.special.end
            rows = [row if row[-1] == end else np.append(row, end) for row in rows]
        texts = [self.tokenizer.decode(row.tolist()) for row in rows]
        return rows, sum(len(text.encode()) for text in texts)

    def _num_bytes(self, split: str) -> int:
        """Bytes of the raw texts of a split."""
        if split not in self._bytes:
            self._bytes[split] = sum(len(document.text.encode()) for document in self.splits.examples[split])
        return self._bytes[split]

    @property
    def finishing_work(self) -> float:
        tested = sum(self._num_bytes(name) for name in self.split_names if name not in ("train", "valid"))
        return 1.2 * tested / max(1, self._num_bytes("valid"))

    def scoring_memory(self, model: LanguageModel, activations: float) -> int:
        """Bytes that scoring needs: states of a layer, a piece of logits and its intermediate results, the scores."""
        positions = max(TOGETHER, self.context)
        layers = max(1, sum(1 for _ in model.parameters()) // 12)  # a block has about as many
        scores = 20 * sum(len(self.stream(name)) for name in self.split_names if name != "train")
        vocab_size = self.tokenizer.vocab_size
        piece = 4 * vocab_size * piece_positions(vocab_size, "cpu")
        return round(activations * positions / layers) + 4 * piece + scores

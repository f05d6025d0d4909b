"""Documents as one stream of tokens, in blocks of a pass or in rows that go on from batch to batch; prompts.

No space is put before a text, so that tokens decode to the text itself where nothing is unknown (except U+2581, a space
to `word`, `bpe` and `unigram`). With end tokens even the first token of a file has a token before it, so that all are
scored.

Batches are packed blocks for models without a state and contiguous rows for models that carry one. Block borders and
order are drawn again for each pass; each token is predicted once per pass. Contiguous rows carry their state from batch
to batch (truncated back-propagation through time):

    batch n reads chunk n of every row, from the state after batch n - 1; no gradient flows across batches

Source: Zaremba et al. 2014 (arXiv:1409.2329), section 4.1, for minibatches of contiguous rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from heed.config.sections import with_tokenizer
from heed.data.batch import Plan
from heed.data.corpus import characters_of
from heed.data.embedded.texts import draw_meals
from heed.data.kinds.documents import Document, EncodedDocuments, document_reader, encode_documents, open_documents
from heed.data.kinds.kind import Kind
from heed.data.tokens.tokenizer import TextTokenizer
from heed.models.base import LanguageModel
from heed.tasks.base.report import sample_lines
from heed.tasks.base.vocabulary import size_for
from heed.tasks.contracts import Batch, Continued, Draw, Pass, Rows, Sized
from heed.tasks.inputs.tokens import SAMPLES, Tokens

_FEW_CHARACTERS = 100_000
"""Up to this much text, tokens are characters. From 200,000 characters of Shakespeare a tiny gpt learned, in 160
updates of 2,048 tokens, 2.65 bits per byte with 1,000 subwords and 3.16 with characters; from 1.1 million, in 250, 2.55
and 2.95."""


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


def blocks(
    stream: TokenStream, context: int, first_token: int, batch_tokens: int, draw: Draw, apart: bool = True
) -> Pass:
    """A pass in blocks of `context` targets, batch_tokens // context of them (at least one) in a batch.

    Their borders and order are drawn. A piece is the position of the first target of its block in the stream. Every
    token is a target once per pass: blocks begin at an offset in [0, context); the first block has the tokens before
    the offset, the last block the tail. The first piece is offset - context, as if its block began before the stream.
    If documents are `apart`, a batch gives document numbers; if not, or without end tokens, each document continues
    from the one before.
    """
    count, apart = len(stream), apart and stream.end_token
    digest = hashlib.blake2b(f"blocks {draw.seed} {draw.epoch}".encode(), digest_size=7).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "big"))
    offset = int(torch.randint(context, (), generator=generator)) if count > context else 0
    starts = np.arange(offset - context if offset else 0, count, context)
    order = torch.randperm(len(starts), generator=generator).numpy()

    def collate(pieces: Sequence[int]) -> Batch:
        first = np.asarray(pieces, dtype=np.int64)
        ends = np.minimum(first + context, count)
        return _batch(stream, np.maximum(first, 0), ends, first_token, apart, pieces)

    return Pass(_plan(starts[order], max(1, batch_tokens // context)), collate, _costs(count, context))


def contiguous(stream: TokenStream, context: int, first_token: int, batch_tokens: int) -> Pass:
    """A pass in rows that are contiguous parts of the stream, in chunks of `context` targets; the same for every pass.

    There are R = batch_tokens // context rows, fewer where a row would be shorter than a chunk. The n-th batch is the
    n-th chunk of every row, so that the state after one batch is the initial state of the next; chunk c of row r is the
    piece c * R + r. The first token of a chunk is the last label of the chunk before. Documents run on.
    """
    count = len(stream)
    num_rows = max(1, min(batch_tokens // context, count // context))
    longest = -(-count // num_rows)
    chunks = -(-longest // context)

    def collate(pieces: Sequence[int]) -> Batch:
        chunk, rows = np.divmod(np.asarray(pieces, dtype=np.int64), num_rows)
        starts, ends = rows * count // num_rows + chunk * context, (rows + 1) * count // num_rows
        stops = np.minimum(starts + context, ends)
        batch = _batch(stream, np.minimum(starts, stops), stops, first_token, False, pieces)
        return replace(batch, continued=Continued(tuple(rows.tolist()), not chunk[0]))

    return Pass(_plan(np.arange(chunks * num_rows), num_rows), collate, _costs(count, context))


def _batch(
    stream: TokenStream,
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    first_token: int,
    apart: bool,
    pieces: Sequence[int],
) -> Batch:
    """A batch with one row for each range `starts` to `stops` of targets in the stream.

    Position t of a row predicts `labels[t]`, the token after `tokens[t]`; both are `(B, L)`, as is `mask`, True where
    there is a target. `documents` `(B, L)` are the number of the document of each target within its row, from 0; left
    out where each row lies in one document, or documents run on.
    """
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
    inputs = {"tokens": torch.from_numpy(tokens)}
    if apart:
        ends = stream.document_at(np.stack([starts, np.maximum(stops - 1, starts)]))
        if (ends[0] != ends[1]).any():
            targets_at = np.minimum(places[:, 1:], (stops - 1)[:, None])
            inputs["documents"] = torch.from_numpy(stream.document_at(targets_at) - ends[0][:, None])
    truths = {"labels": torch.from_numpy(labels), "mask": torch.from_numpy(mask)}
    return Batch(list(pieces), inputs, targets, targets=truths)


def _plan(pieces: NDArray[np.int64], size: int) -> Plan:
    """Cut the pieces, in order, into batches of `size`; the last batch has the rest."""
    ends = np.minimum(np.arange(size, len(pieces) + size, size), len(pieces))
    return Plan(pieces.astype(np.int64), ends.astype(np.int64), np.arange(len(ends)))


def _costs(count: int, context: int) -> NDArray[np.int64]:
    """The positions of every piece, which are alike: one number for all, whatever their numbers."""
    return np.broadcast_to(np.array([[min(context, count)]]), (2 * (count + context), 1))


def num_tokens(characters: int) -> int:
    """The vocabulary size of subwords or words: one per 2,000 characters of text, from 1,000 to 32,000."""
    return min(32_000, max(1_000, characters // 2_000 // 500 * 500))


DOCUMENTS = Kind(
    reader=lambda data, labels: document_reader(data),
    fields=lambda data: ("text",),
    draw=lambda data: lambda name, size: draw_meals(name, size, data.seed),
    open=open_documents,
    units="documents",
)


@dataclass(frozen=True)
class Stream(Tokens):
    """Documents of which each token is read after those before it; asked with a prompt, or with a text to score."""

    sized: ClassVar = {"tokens": Sized("vocab_size", ("tokens", "target", "source"))}
    settles: ClassVar = ("d_features", "max_length")
    is_encoded_once: ClassVar = True
    same_shapes: ClassVar = True
    texts_are_examples: ClassVar = True
    sampled_bytes: ClassVar = 20_000_000
    tokens_of_size: ClassVar = {"tiny": 1_000_000, "small": 30_000_000}
    """Named size -> training tokens up to which it is chosen; base from there on."""

    kind: Kind = DOCUMENTS
    text_columns: Sequence[str] = ("prompt", "text")

    # Data -----------------------------------------------------------------------------------------------------

    def decided(self, texts: Sequence[str], train: Sequence[Document], usual: str = "byte_bpe") -> Any:
        amount = characters_of(train)
        usual = "word" if self.config.data.is_embedded else "char" if amount <= _FEW_CHARACTERS else usual
        return with_tokenizer(self.config, usual, lambda: num_tokens(amount), words=None)

    def train_tokenizer(self, examples: Sequence[Document]) -> TextTokenizer:
        return TextTokenizer.train([document.text for document in examples], self.config.tokenizer, exact=True)

    def rows(self) -> Mapping[str, Rows]:
        rows = {**super().rows()}
        if self.body is not None and "max_length" in self.body.config_class.model_fields:
            names = [str(n) for n in range(self.context)]
            rows["positions"] = Rows(names, "max_length", may_be_more=True)  # data.context may become shorter
        return rows

    # Settling -------------------------------------------------------------------------------------------------

    @property
    def context(self) -> int:
        """Tokens that the model sees at once."""
        return int(self.config.data.context)

    @property
    def end_token(self) -> bool:
        """True if an end token follows each document."""
        return bool(self.config.data.end_token)

    @property
    def first_token(self) -> int:
        """The token before the first token of a document: end, or start if there are no end tokens."""
        special = self.tokenizer.special
        return special.end if self.end_token else special.start

    @property
    def carries(self) -> bool:
        """True if the model carries a state from batch to batch."""
        return self.body is not None and issubclass(self.body, LanguageModel) and self.body.carries

    def size(self, work: Any) -> str:
        return size_for(len(work.encoded("train")), self.tokens_of_size)

    def fields(self, fields: dict[str, Any], work: Any) -> dict[str, Any]:
        """Use rotary positions in models that have them, unless positions are given or the size is base.

        A learned table needs more text: from 512,000 characters of Shakespeare in rows of 256 a tiny gpt learned 1.98
        nats with rotary positions and 2.45 with a table.
        """
        has_positions = "positions" in work.body_class.config_class.model_fields
        return {"positions": "rotary"} if has_positions and work.size != "base" and "positions" not in fields else {}

    # Examples as tokens ---------------------------------------------------------------------------------------

    def encode(self, examples: Sequence[Document], split: str = "", **further: Any) -> Any:
        """The stream of all documents, in the cache if it is worth it."""
        return TokenStream.of(examples, self.tokenizer, self.end_token)

    def plan(self, work: Any, split: str, draw: Draw) -> Pass:
        stream: Any = work.encoded(split)
        args = stream, self.context, self.first_token, self.config.training.batch_tokens
        plan = contiguous(*args) if self.carries else blocks(*args, draw, self.config.data.documents == "mask")

        def described(pieces: Sequence[int]) -> str:
            targets = plan.collate(pieces[:1]).targets
            text = self.tokenizer.decode(targets["labels"][0][targets["mask"][0]].tolist())
            return f"{len(pieces)} rows, the first {text[:80]!r}"

        return replace(plan, described=described)

    def num_bytes(self, split: str, work: Any) -> int:
        """Bytes of the raw texts of a split."""
        examples = work.splits.examples[split]
        return work.once(f"bytes of {split}", lambda: sum(len(document.text.encode()) for document in examples))  # type: ignore[no-any-return]

    # For people -----------------------------------------------------------------------------------------------

    def samples(self, work: Any) -> Iterator[str]:
        yield SAMPLES
        for documents in work.splits.examples.values():
            text = documents[0].text[:120]
            sides = [("text", text, self.tokenizer, self.tokenizer.encode(text).ids)]
            yield sample_lines(documents[0].origin, "", sides)

    # Questions ------------------------------------------------------------------------------------------------

    def example_of(self, text: str) -> Document:
        return Document(text)

    def prompt_tokens(self, ids: Sequence[int], min_tokens: int = 1) -> list[int]:
        """Prepend the first token to a prompt's tokens, unless `generation.first_token` is false.

        A prompt of fewer tokens than `min_tokens` always begins with the first token.
        """
        if len(ids) >= min_tokens and not self.config.generation.first_token:
            return [*ids]
        return [self.first_token, *ids]

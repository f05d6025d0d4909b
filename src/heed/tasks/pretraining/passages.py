"""Documents cut into rows of one or two texts, whose words are masked; questions with masks, or on two texts.

The rows of a pass and the masks in them are drawn from (seed, pass). Scored are always the same rows: each masked, then
each pair as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np

from heed.config.sections import with_tokenizer
from heed.data.batch import frame_size, plan_pass
from heed.data.corpus import characters_of
from heed.data.kinds import Kind
from heed.data.kinds.documents import Document
from heed.data.kinds.texts import texts_of
from heed.data.splits import Splits
from heed.data.tokens import MASK
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, InputError
from heed.models.base import TokenEncoder
from heed.tasks.base.report import printable
from heed.tasks.base.transfer import Parent, Started
from heed.tasks.base.vocabulary import embedding_of, size_for
from heed.tasks.contracts import Batch, Draw, Head, Pass
from heed.tasks.inputs.stream import DOCUMENTS
from heed.tasks.inputs.tokens import Tokens
from heed.tasks.pretraining.config import PretrainingHead, objectives
from heed.tasks.pretraining.filling import check_masks, check_objective
from heed.tasks.pretraining.neighbours import fill_from_neighbours
from heed.tasks.pretraining.rows import (
    FOLLOWS,
    FOLLOWS_NOT,
    NO_QUESTION,
    Cut,
    Masking,
    Passages,
    Rows,
    check_pairs,
    collate_rows,
    draw_rows,
    plain_text,
)
from heed.tasks.work import Work

Question = str | tuple[str, str]
"""A text with masks, or two texts."""
_SEEDS = 0, 2**32
"""Seed and pass number for masking in scoring; no training pass has that number."""
_SHOWN = {
    FOLLOWS: "the second text follows",
    FOLLOWS_NOT: "the second text is from another document",
    NO_QUESTION: "one text",
}


def num_pieces(characters: int) -> int:
    """The vocabulary size: one piece per 4,000 characters of text, from 1,000 to 30,000."""
    return min(30_000, max(1_000, characters // 4_000 // 500 * 500))


@dataclass(frozen=True)
class TextRows(Tokens):
    """Rows of one or two texts of documents."""

    is_encoded_once: ClassVar = True
    texts_are_examples: ClassVar = True
    sampled_bytes: ClassVar = 20_000_000

    kind: Kind = DOCUMENTS

    # Data -----------------------------------------------------------------------------------------------------

    def learn(self, config: Any, splits: Splits[Document], parent: Parent | None) -> tuple[Any, Self]:
        if parent is not None:
            return config, replace(self, tokenizers={"tokens": parent.tokenizer("tokens", self.sized["tokens"].alike)})
        return super().learn(config, splits, None)

    def decided(self, texts: Sequence[str], train: Sequence[Document], usual: str = "wordpiece") -> Any:
        amount = characters_of(train)
        return with_tokenizer(self.config, usual, lambda: num_pieces(amount), words=None)

    def train_tokenizer(self, examples: Sequence[Document]) -> TextTokenizer:
        plain = [plain_text(document.text)[0] for document in examples]
        return TextTokenizer.train_to_read(plain, self.config.tokenizer, mask=True)

    def size(self, work: Work) -> str:
        return size_for(len(work.encoded("train")), {"tiny": 20_000_000, "small": 300_000_000})

    # Settling -------------------------------------------------------------------------------------------------

    @property
    def objectives(self) -> PretrainingHead:
        """What is learned."""
        return objectives(self.config)

    @property
    def double_separator(self) -> bool:
        """True if two end tokens separate the texts of a pair."""
        return bool(self.config.model.settings.get("double_separator", False))

    @property
    def positions(self) -> int:
        """Tokens that the model can read at once, start and end tokens included."""
        return int(self.config.model.settings.get("max_length", self.config.data.max_length))

    def room(self, is_pair: bool) -> int:
        """Tokens that the model can read at once of a text, or of two."""
        return self.positions - frame_size(is_pair, self.double_separator)

    @property
    def cut(self) -> Cut:
        """How documents are cut into rows."""
        data, pairs = self.config.data, self.objectives.next_sentence
        return Cut(data.max_length - frame_size(pairs, self.double_separator), data.side_words, pairs)

    @cached_property
    def masking(self) -> Masking | None:
        """How words are masked; None if no words are masked.

        Raises:
            ConfigError: The tokenizer has no mask token.
        """
        tokenizer = self.tokenizer
        if not self.objectives.masked_words:
            return None
        if tokenizer.mask is None:
            raise ConfigError(
                "the tokenizer has no mask token, so no words can be masked; train a tokenizer here (leave "
                "tokenizer.from out), or set model.masked_words=false"
            )
        never = {*tokenizer.special, tokenizer.mask, *tokenizer.tags.values()}
        others = [i for i in range(tokenizer.vocab_size) if i not in never]
        return Masking(self.config.data, tokenizer.mask, np.array(others, dtype=np.int64))

    def fields(self, given: dict[str, Any], work: Work) -> dict[str, Any]:
        """As many positions as a row has and, with pairs, one head that initially attends to equal tokens.

        Raises:
            ConfigError: The model does not read framed texts, or has fewer positions.
        """
        body, asked = work.body_class, work.config.data.max_length
        if not (issubclass(body, TokenEncoder) and body.framed):
            raise ConfigError(
                f"model.name is {work.config.model.name!r}, which does not put a start and an end token around a "
                "text, as pretraining needs; use bert"
            )
        positions = given.get("max_length", asked)
        if isinstance(positions, int) and positions < asked:
            raise ConfigError(
                f"data.max_length is {asked}, but model.max_length is {positions}; raise model.max_length or "
                "lower data.max_length"
            )
        fields = {"max_length": asked, "matching_heads": int(objectives(work.config).next_sentence)}
        own = body.config_class.model_fields
        return {name: value for name, value in fields.items() if name in own and name not in given}

    def start(self, model: Any, work: Work) -> dict[str, Started]:
        if self.objectives.first_embeddings != "neighbours" or work.parent is not None:
            return {}
        passages: Any = work.encoded("train")
        return {"embeddings": fill_from_neighbours(embedding_of(model.body), passages)}

    def leave_out(self, work: Work) -> None:
        """Nothing: documents of which no rows can be made are refused, before a run folder exists."""
        passages: Any = work.encoded("train")
        check_pairs(draw_rows(passages, self.cut, work.config.training.seed, 0), self.cut)

    # Training -------------------------------------------------------------------------------------------------

    def encode(self, examples: Sequence[Document | Question], split: str = "", **further: Any) -> Any:
        """The tokens of all documents, as `Passages`; or questions as rows."""
        if len(examples) and not isinstance(examples[0], Document):
            return self.rows_of(cast(Sequence[Question], examples))
        return Passages.of(cast(Sequence[Document], examples), self.tokenizer)

    def plan(self, work: Work, split: str, draw: Draw) -> Pass:
        """A pass over rows. Without masked words only pairs are read.

        Each pair is weighted by its number of masked words, and by a factor of the whole pass, so that over the pass,
        and about so in each batch, pairs count as much as masked words, and the weight of a pair depends neither on the
        batch nor on the process.

        Raises:
            DataError: Pairs are needed, but no document has two texts, or there is only one document.
        """
        passages: Any = work.encoded(split)
        words, rows = self.objectives.masked_words, draw_rows(passages, self.cut, *draw)
        check_pairs(rows, self.cut)
        lengths, pairs = rows.lengths, rows.labels != NO_QUESTION
        weight = float(lengths.sum()) / float(lengths[pairs].sum()) if words and pairs.any() else 1.0

        def collate(pieces: Sequence[int]) -> Batch:
            batch = self.batch(rows.select(pieces), self.masking, draw)
            return replace(batch, targets={**batch.targets, "pair_weight": weight})

        def described(pieces: Sequence[int]) -> str:
            text = self.tokenizer.decode(passages.ids[rows.first[pieces[0]] : rows.first_end[pieces[0]]].tolist())
            return f"{len(pieces)} rows, the first {text[:80]!r}"

        chosen = None if words else np.flatnonzero(pairs)
        batches = plan_pass(lengths, work.config.training.batch_tokens, *draw, chosen)
        return Pass(batches, collate, lengths.reshape(-1, 1), described=described)

    def batch(self, rows: Rows, masking: Masking | None, seeds: tuple[int, int]) -> Batch:
        """Some rows, see `collate_rows`."""
        return collate_rows(rows, masking, seeds, self.double_separator, self.tokenizer.special)

    # Scoring --------------------------------------------------------------------------------------------------

    def scored_rows(self, passages: Passages) -> Rows:
        """The rows in which documents are scored, always the same."""
        return draw_rows(passages, self.cut, 0, None)

    def scored_units(self, encoded: Any) -> Rows:
        """What is scored of documents: rows with masked words, then pairs as they are."""
        rows, wanted = self.scored_rows(encoded), self.objectives
        masked = np.arange(len(rows) * wanted.masked_words)
        pairs = np.flatnonzero((rows.labels != NO_QUESTION) & wanted.next_sentence)
        chosen = rows.select(np.concatenate([masked, pairs]))
        return replace(chosen, masked=np.arange(len(chosen)) < len(masked))

    def scoring(self, encoded: Any, tokens: int) -> list[list[int]]:
        alike = (np.flatnonzero(encoded.masked == masked) for masked in (True, False))
        return [batch for chosen in alike for batch in plan_pass(encoded.lengths, tokens, chosen=chosen)]

    def collate(self, encoded: Any, indices: list[int], draw: Draw | None) -> Batch:
        """Rows that are all masked, all pairs or all texts with masks; only what is asked of them is a target."""
        rows = encoded.select(indices)
        batch = self.batch(rows, self.masking if rows.masked[0] else None, _SEEDS)
        asked, tokens = batch.targets, batch.inputs["tokens"]
        if rows.masked[0]:
            targets = {name: asked[name] for name in ("places", "words")}
        elif rows.labels[0] != NO_QUESTION:
            targets = {"order": asked["order"]}
        else:
            targets = {"places": (tokens == self.tokenizer.mask).flatten().nonzero().squeeze(1)}
        return replace(batch, indices=indices, targets=targets)

    # Questions ------------------------------------------------------------------------------------------------

    def example_of(self, text: str) -> str:
        return text

    def rows_of(self, questions: Sequence[Question]) -> Rows:
        """Texts with masks, all of which are read, or pairs, of which the parts are read where the two meet.

        Raises:
            ConfigError: The run has no head for masks or pairs; a text has no mask, or its masks lie further apart than
                the model can read; a text of a pair is blank.
        """
        rows, unread = [], []
        for question in questions:
            check_objective(self.objectives, self.tokenizer, not isinstance(question, str))
            row, gone = self._masked(question) if isinstance(question, str) else self._pair(*question)
            rows.append(row)
            unread.append(gone)
        return self.rows_joined(rows, unread)

    def rows_joined(self, rows: Sequence[Sequence[list[int]]], unread: Sequence[int]) -> Rows:
        """Rows of the tokens of one text, or of two, as they are."""
        ids = np.array([token for row in rows for text in row for token in text], dtype=np.int64)
        lengths = np.array([[len(row[0]), sum(map(len, row[1:]))] for row in rows], dtype=np.int64).reshape(-1, 2)
        ends = lengths.cumsum().reshape(-1, 2)
        starts = ends - lengths
        labels = np.array([FOLLOWS if len(row) > 1 else NO_QUESTION for row in rows], dtype=np.int64)
        passages = Passages(ids, np.zeros(len(ids), np.uint8), np.array([0, len(ids)]), np.zeros(0, np.uint8))
        places, masked = (starts[:, 0], ends[:, 0], starts[:, 1], ends[:, 1]), np.zeros(len(rows), bool)
        return Rows(passages, *places, labels, np.arange(len(rows)), masked, np.array(unread, dtype=np.int64))

    def _masked(self, text: str) -> tuple[list[list[int]], int]:
        if not text.strip():
            return [[]], 0
        check_masks(text, self.tokenizer)
        ids = self.tokenizer.encode_masked(self.as_read(text))
        row = self.window(ids)
        return [row], len(ids) - len(row)

    def window(self, ids: list[int]) -> list[int]:
        """A part of a text, with all its masks, that fits into the model's positions.

        Raises:
            ConfigError: The masks lie further apart.
        """
        room, places = self.room(is_pair=False), [n for n, token in enumerate(ids) if token == self.tokenizer.mask]
        if (span := places[-1] - places[0] + 1) > room:
            raise InputError(
                f"the masks span {span:,} tokens, but the model reads at most {room} at once; fill them one by one"
            )
        start = max(0, min(places[0] - (room - span) // 2, len(ids) - room))
        return ids[start : start + room]

    def _pair(self, first: str, second: str) -> tuple[list[list[int]], int]:
        for name, text in (("first", first), ("second", second)):
            if not text.strip():
                raise InputError(f"the {name} text of a pair is blank")
        room = self.room(is_pair=True)
        a, b = (self.tokenizer.encode(self.as_read(text)).ids for text in (first, second))
        total = len(a) + len(b)
        b = b[: max(room // 2, room - len(a))]
        a = a[max(0, len(a) + len(b) - room) :]
        return [a, b], total - len(a) - len(b)

    def as_read(self, text: str) -> str:
        """A text as the tokenizer is given it: as in training, or, in an imported run, as it is."""
        return text if getattr(self.config.data, "imported", None) is not None else plain_text(text)[0]

    def finished(self, head: Head, made: Sequence[Any], examples: Sequence[Any], encoded: Rows) -> list[Any]:
        unread = () if encoded.unread is None else encoded.unread.tolist()
        return [replace(one, unread=gone) for one, gone in zip(made, unread, strict=True)]

    def unknown_in(self, given: Question) -> list[str]:
        mask = MASK if self.tokenizer.mask is None else self.tokenizer.token(self.tokenizer.mask)
        plain = (self.as_read(one).replace(MASK, " ").replace(mask, " ") for one in texts_of(given))
        return [piece for one in plain for piece in self.tokenizer.unknown_in(one)]

    # For people -----------------------------------------------------------------------------------------------

    def samples(self, work: Any) -> Iterator[str]:
        """Rows as the model sees them in the first pass."""
        passages: Any = work.encoded("train")
        seeds = self.config.training.seed, 0
        rows = draw_rows(passages, self.cut, *seeds)
        follow, other, single = (int((rows.labels == label).sum()) for label in _SHOWN)
        pairs = f"{follow:,} pairs that follow, {other:,} that do not, {single:,} single texts"
        yield (
            f"\na pass has {len(rows):,} rows of {float(rows.lengths.mean()):.0f} tokens on average: "
            f"{pairs if follow + other else 'texts'}"
        )
        yield "\nsamples as the model sees them in the first pass; below each, the masked words to predict:"
        for label, what in _SHOWN.items():
            if len(first := rows.select(np.flatnonzero(rows.labels == label)[:1])):
                batch = self.batch(first, self.masking, seeds)
                yield f"  {what}"
                for ids in (batch.inputs["tokens"][0], batch.targets["words"]):
                    if len(ids):
                        yield f"    {printable(' '.join(map(self.tokenizer.token, ids.tolist())))}"

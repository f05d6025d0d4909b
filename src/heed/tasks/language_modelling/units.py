"""Units that scores are computed and resampled over: documents, or pieces of their text if there are few."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from heed.data.read.documents import Document
from heed.evaluation.measures import Array

FEW_DOCUMENTS = 20
"""With fewer documents than this, pieces of their text are resampled for intervals."""
PIECE = 1_000
"""Characters of a piece; the last one of a document has the rest."""
_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Units:
    """Documents, or pieces of documents, whose borders do not depend on a tokenizer.

    Attributes:
        documents: All documents.
        owner: `(units,)`, which document each unit is of.
        starts: `(units,)`, its first character in that document.
        stops: `(units,)`, one after its last character.
    """

    documents: Sequence[Document]
    owner: NDArray[np.int64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]

    @classmethod
    def of(cls, documents: Sequence[Document]) -> Units:
        """Use the documents themselves if there are enough of them, else pieces of 1,000 characters."""
        lengths = [len(document.text) for document in documents]
        if len(lengths) >= FEW_DOCUMENTS:
            count = len(lengths)
            return cls(documents, np.arange(count), np.zeros(count, np.int64), np.array(lengths, np.int64))
        starts = [np.arange(0, max(1, length), PIECE) for length in lengths]
        owner = np.repeat(np.arange(len(lengths)), [len(own) for own in starts])
        joined = np.concatenate(starts) if starts else np.zeros(0, np.int64)
        return cls(documents, owner, joined, np.minimum(joined + PIECE, np.array(lengths, np.int64)[owner]))

    def __len__(self) -> int:
        return len(self.owner)

    @property
    def are_pieces(self) -> bool:
        """True if the units are pieces, not documents."""
        return len(self.documents) < FEW_DOCUMENTS

    @property
    def name(self) -> str:
        """Name of the units, in the plural."""
        return f"pieces of {PIECE:,} characters" if self.are_pieces else "documents"

    @property
    def texts(self) -> list[str]:
        """The text of each unit."""
        places = zip(self.owner.tolist(), self.starts.tolist(), self.stops.tolist(), strict=True)
        return [self.documents[owner].text[start:stop] for owner, start, stop in places]

    @cached_property
    def sizes(self) -> Array:
        """Words, characters and bytes of each unit, `(units, 3)`; a word belongs to the unit that it begins in."""
        sizes = np.zeros((len(self), 3))
        sizes[:, 1] = self.stops - self.starts
        sizes[:, 2] = [len(text.encode()) for text in self.texts]
        if not self.are_pieces:
            sizes[:, 0] = [len(document.text.split()) for document in self.documents]
            return sizes
        for number, document in enumerate(self.documents):
            words = np.array([match.start() for match in _WORD.finditer(document.text)], dtype=np.int64)
            np.add.at(sizes[:, 0], self.at(number, words), 1)
        return sizes

    def at(self, document: int, characters: NDArray[np.int64]) -> NDArray[np.int64]:
        """The unit that each of some characters of a document is in."""
        first, last = np.searchsorted(self.owner, [document, document + 1])
        found: NDArray[np.int64] = first + np.searchsorted(self.starts[first:last], characters, side="right") - 1
        return found

"""Text to tokens and back, by the `tokenizers` library; its JSON travels with the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from heed.errors import RunError

__all__ = ["END", "PADDING", "SPECIAL_TOKENS", "START", "UNKNOWN", "Encoded", "TextTokenizer"]

SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")
PADDING, UNKNOWN, START, END = range(4)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A text as tokens: their ids, and the span of characters `(start, end)` each stands for."""

    ids: list[int]
    spans: list[tuple[int, int]]


class TextTokenizer:
    """A trained tokenizer. Ids 0 to 3 are padding, unknown, start and end."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    @classmethod
    def train_characters(cls, texts: Iterable[str]) -> TextTokenizer:
        """One token per Unicode character that occurs in the texts."""
        characters = sorted(set().union(*texts))
        vocabulary = {token: i for i, token in enumerate([*SPECIAL_TOKENS, *characters])}
        tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL_TOKENS[UNKNOWN]))
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
        tokenizer.decoder = decoders.Fuse()
        return cls(tokenizer)

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special ones included."""
        return self._tokenizer.get_vocab_size()

    def encode(self, text: str) -> Encoded:
        """One text to tokens, without start and end."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return Encoded(encoding.ids, encoding.offsets)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Many texts to ids, without start and end."""
        return [e.ids for e in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    def decode(self, ids: Sequence[int]) -> str:
        """Tokens back to text; special tokens are left out."""
        return self._tokenizer.decode([i for i in ids if i >= len(SPECIAL_TOKENS)])

    def token(self, token: int) -> str:
        """The text of one token."""
        return self._tokenizer.id_to_token(token) or SPECIAL_TOKENS[UNKNOWN]

    def unknown_in(self, text: str) -> list[str]:
        """The pieces of a text that training never saw, in order."""
        encoded = self.encode(text)
        pairs = zip(encoded.ids, encoded.spans, strict=True)
        return [text[start:end] for token, (start, end) in pairs if token == UNKNOWN]

    def save(self, path: Path) -> None:
        """Write the tokenizer as JSON."""
        self._tokenizer.save(str(path))

    @classmethod
    def load(cls, path: Path) -> TextTokenizer:
        """Read a tokenizer from JSON.

        Raises:
            RunError: The file is missing or is not a tokenizer.
        """
        if not path.is_file():
            raise RunError(f"{path} is missing")
        try:
            return cls(Tokenizer.from_file(str(path)))
        except Exception as error:
            raise RunError(f"{path} is not a tokenizer: {error}") from None

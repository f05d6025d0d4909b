"""Special tokens: ids and names; and marks within other tokens."""

from __future__ import annotations

SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")
BERT_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
"""Names of the same four tokens in a vocabulary of word pieces."""
PADDING, UNKNOWN, START, END = range(4)
MASK = "[MASK]"
MASKS = (MASK, "<mask>")
"""Names of the mask token, in vocabularies trained here and in imported ones."""
BLANK = "\u2581"
"""Represents the space before a word, as in SentencePiece."""
CONTINUED = "##"
"""Prefix of a word piece that is not the first of its word (WordPiece)."""
SIGNS = "$+<=>^`|~\u20ac\u00a3"
"""Characters that are punctuation marks in addition to those of Unicode."""

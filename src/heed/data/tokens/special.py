"""Tokens that stand for no text: their ids and names, and the marks within tokens that do."""

from __future__ import annotations

SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")
BERT_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
"""The names of the same four in a vocabulary of word pieces."""
PADDING, UNKNOWN, START, END = range(4)
MASK = "[MASK]"
MASKS = (MASK, "<mask>")
"""Names of the token that hides another, in vocabularies trained here and in imported ones."""
BLANK = "\u2581"
"""Stands for the blank before a word, as in SentencePiece."""
CONTINUED = "##"
"""Before a word piece that is not the first of its word (WordPiece)."""
SIGNS = "$+<=>^`|~\u20ac\u00a3"
"""Characters that are marks besides those that Unicode calls punctuation."""

"""Configuration shared by the tasks over texts that one encoder reads."""

from __future__ import annotations

from heed.config.sections import DataPath, ModelSection, RunConfig, TokenizerConfig


class TextModelSection(ModelSection):
    """Which model; all other fields are the model's and the task's own (`heed models NAME` lists them)."""

    name: str = "rnn"
    """File in `heed/models`."""
    word_vectors: DataPath | None = None
    """File of word vectors (text format of word2vec, GloVe or fastText) that initialise the embeddings, relative to
    the configuration; only for word tokenizers. The embeddings have the vectors' width unless a width is given."""
    vector_words: bool = False
    """Add all words of that file to the vocabulary, so that words outside the training texts have vectors too; by
    default only words of the training texts have them. Best with train_embeddings=false."""
    train_embeddings: bool = True
    """Train the embeddings; if false, they keep their initial values."""


class TextTokenizerConfig(TokenizerConfig):
    """How text becomes tokens."""

    extend: bool = False
    """Add the characters (for kind word, the words) that the tokenizer of another run (tokenizer.from, or --from)
    lacks; its own tokens keep their numbers and weights."""


class TextConfig(RunConfig):
    """Configuration shared by the tasks over texts that one encoder reads."""

    tokenizer: TextTokenizerConfig = TextTokenizerConfig()
    """How text becomes tokens."""
    model: TextModelSection = TextModelSection()
    """Which model."""

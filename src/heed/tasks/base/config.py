"""What the configurations of tasks with labelled texts share."""

from __future__ import annotations

from heed.config.sections import DataPath, ModelSection, RunConfig, TokenizerConfig


class TextModelSection(ModelSection):
    """Which model; all other fields are the model's and the task's own (`heed models NAME` lists them)."""

    name: str = "rnn"
    """File in `heed/models`."""
    word_vectors: DataPath | None = None
    """File of word vectors (text of word2vec, GloVe or fastText) to begin the embeddings with, relative to the
    configuration; only for word tokenizers. The width of the embeddings is theirs where none is given."""
    vector_words: bool = False
    """Whether all words of that file belong to the vocabulary, so that words which training never saw have their
    vectors too; by default only those of the training texts. Best with train_embeddings=false."""
    train_embeddings: bool = True
    """Whether the embeddings are trained; if not, they stay as given or drawn."""


class LabelledTokenizer(TokenizerConfig):
    """How text becomes tokens."""

    extend: bool = False
    """Add to the tokenizer of another run (tokenizer.from, or --from) the characters, of kind word the words, that it
    does not know; the tokens that it has keep their numbers and their weights."""


class LabelledConfig(RunConfig):
    """What the configurations of tasks with labelled texts share."""

    tokenizer: LabelledTokenizer = LabelledTokenizer()
    """How text becomes tokens."""
    model: TextModelSection = TextModelSection()
    """Which model."""

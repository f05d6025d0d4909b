"""What the configurations of tasks with labelled texts share."""

from __future__ import annotations

from heed.config.sections import DataPath, ModelSection, RunConfig


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


class LabelledConfig(RunConfig):
    """What the configurations of tasks with labelled texts share."""

    model: TextModelSection = TextModelSection()
    """Which model."""

"""The configuration of pretraining."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from heed.config.data import Documents, Sources
from heed.config.sections import EvaluationConfig, ModelSection, RunConfig, Section, TokenizerConfig, TrainingConfig


class PretrainingTokenizer(TokenizerConfig):
    """How text becomes tokens."""

    lowercase: bool = True
    """Lower-case the text and strip accents, as in the uncased models of Devlin et al. 2019."""


class PretrainingHead(Section):
    """The training objectives; these fields are in the `model` section, next to the model's own."""

    masked_words: bool = True
    """Predict masked words."""
    next_sentence: bool = True
    """Predict whether the second of two texts follows the first; without it texts are read one at a time."""
    pooling: Literal["mean", "last"] = "mean"
    """Input of the pooling layer that decides pairs: the mean of a row's states, or last, the state of [CLS], as in
    Devlin et al. 2019 and their checkpoints."""
    first_embeddings: Literal["neighbours", "drawn"] = "neighbours"
    """Initial embeddings: from co-occurrence of tokens in the training text (neighbours), or random (drawn). Tokens
    that `model.from` knows take its embeddings."""
    tied_output: bool = True
    """Use the embeddings as the output layer for masked words."""


def objectives(config: Any) -> PretrainingHead:
    """The objectives of a configuration; they are validated with the other fields of the model."""
    return PretrainingHead.model_construct(**config.model.settings)


class PretrainingModel(ModelSection):
    """Which model; all other fields are the model's and the task's own (`heed models NAME` lists them)."""

    name: str = "bert"
    """File in `heed/models`; a model that reads framed texts."""


class PretrainingTraining(TrainingConfig):
    """How a model is pretrained."""

    batch_tokens: int = Field(4_096, gt=0)
    """Tokens of one batch, padding included; on a GPU 32,000 by default, or a
    hundredth of a pass if that is less, but no fewer than elsewhere."""
    learning_rate: float = Field(0.001, gt=0)
    """Largest learning rate."""
    betas: tuple[float, float] = (0.9, 0.98)
    """Adam's decay rates of the first and second moment."""
    weight_decay: float = Field(0.01, ge=0)
    """Decay of matrices towards zero (not of biases and vectors)."""


class PretrainingEvaluation(EvaluationConfig):
    """How a pretrained model is scored."""

    select_by: Literal["auto", "loss", "masked_loss", "masked_accuracy", "next_loss", "next_accuracy"] = "auto"
    """Validation score that chooses the best checkpoint: auto is loss, the sum of the losses of masked words and
    of pairs."""


class PretrainingConfig(RunConfig):
    """The full configuration of a run of pretraining."""

    task: Literal["pretraining"] = "pretraining"
    """What is learned."""
    data: Annotated[Documents, Sources(Documents, "pretraining", hub=True)]
    """Where the texts come from."""
    tokenizer: PretrainingTokenizer = PretrainingTokenizer()
    """How text becomes tokens."""
    model: PretrainingModel = PretrainingModel()
    """Which model."""
    training: PretrainingTraining = PretrainingTraining(minutes=2.0)
    """How it is trained."""
    evaluation: PretrainingEvaluation = PretrainingEvaluation()
    """How it is scored."""

"""The configuration of images."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from heed.config.data import Sources, generated
from heed.config.pictures import AugmentSection, Pictures
from heed.config.sections import EvaluationConfig, ModelSection, RunConfig, Section, TrainingConfig


class ImagesModelSection(ModelSection):
    """Which image model; all other fields are the model's and the head's own (`heed models NAME` lists them)."""

    name: str = "cnn"
    """File in `heed/models`."""


class ImagesHead(Section):
    """Head that maps a picture's vector to labels; its fields are in the `model` section, with the model's own."""

    head: Literal["softmax", "sigmoid"] = "softmax"
    """softmax has one output for each label; sigmoid has one for two classes, the probability of the second."""


class ImagesTraining(TrainingConfig):
    """Settings of the training."""

    batch_size: int = Field(64, gt=0)
    """Number of pictures in a batch."""
    batch_tokens: int = Field(2_000, gt=0)
    """Not used: pictures are counted by batch_size."""
    learning_rate: float = Field(0.002, gt=0)
    """Largest learning rate."""
    betas: tuple[float, float] = (0.9, 0.99)
    """Adam's decay rates of the first and second moment."""
    weight_decay: float = Field(0.05, ge=0)
    """Decay of matrices towards zero (not of biases and vectors)."""

    @model_validator(mode="before")
    @classmethod
    def _budget(cls, values: Any) -> Any:
        return values  # the default budget depends on the data (`tasks.images.defaults`)

    @field_validator("batch_tokens")
    @classmethod
    def _no_tokens(cls, value: int) -> int:
        if value != cls.model_fields["batch_tokens"].default:
            raise ValueError(
                f"training.batch_tokens is {value:,}, but pictures have no tokens; training.batch_size counts the "
                "pictures of a batch"
            )
        return value


class ImagesEvaluation(EvaluationConfig):
    """Settings of the evaluation."""

    select_by: Literal["auto", "accuracy", "macro_f1", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is accuracy, then loss among equals."""


class ImagesConfig(RunConfig):
    """The configuration of a run over pictures."""

    task: Literal["images"] = "images"
    """What is learned."""
    data: Annotated[Pictures, Sources(Pictures, hub=True, digits=generated(1_297, 100, 400))]
    """Where the pictures come from."""
    augment: AugmentSection = AugmentSection()
    """Random changes of training pictures, drawn again in each pass."""
    model: ImagesModelSection = ImagesModelSection()
    """Which model."""
    training: ImagesTraining = ImagesTraining()
    """How it is trained."""
    evaluation: ImagesEvaluation = ImagesEvaluation()
    """How it is scored."""

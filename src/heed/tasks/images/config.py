"""The configuration of images."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from heed.config.augment import AugmentSection
from heed.config.data import by_name
from heed.config.pictures import (
    DigitPictures,
    HubPictures,
    MemoryPictures,
    PictureData,
    ShapePictures,
)
from heed.config.sections import EvaluationConfig, ModelSection, RunConfig, Section, TrainingConfig


class ImagesModelSection(ModelSection):
    """Which model of pictures; all other fields are the model's and the head's own (`heed models NAME` lists them)."""

    name: str = "cnn"
    """File in `heed/models`."""


class ImagesHead(Section):
    """From a picture's vector to labels; these fields stand in the `model` section beside the model's own."""

    head: Literal["softmax", "sigmoid"] = "softmax"
    """softmax has one output for each label; sigmoid one for two classes: the probability of the second."""


class ImagesTraining(TrainingConfig):
    """How a model of pictures is trained."""

    batch_size: int = Field(64, gt=0)
    """Pictures of one batch."""
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
        return values  # how long a run takes where nothing is said follows from the data (`tasks.images.defaults`)

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
    """How a classification of pictures is scored."""

    select_by: Literal["auto", "accuracy", "macro_f1", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is accuracy, or the loss where at most 200 pictures are
    validated on, of which the accuracy says little."""


class ImagesConfig(RunConfig):
    """Everything that decides a run over pictures."""

    task: Literal["images"] = "images"
    """What is learned."""
    data: Annotated[
        Annotated[PictureData, Tag("files")]
        | Annotated[HubPictures, Tag("hub")]
        | Annotated[MemoryPictures, Tag("memory")]
        | Annotated[DigitPictures, Tag("digits")]
        | Annotated[ShapePictures, Tag("shapes")],
        Discriminator(by_name("files", hub=True)),
    ]
    """Where the pictures come from."""
    augment: AugmentSection = AugmentSection()
    """How training pictures are changed, anew in each pass."""
    model: ImagesModelSection = ImagesModelSection()
    """Which model."""
    training: ImagesTraining = ImagesTraining()
    """How it is trained."""
    evaluation: ImagesEvaluation = ImagesEvaluation()
    """How it is scored."""

"""A picture classifier: an image model and one linear layer over the labels."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from heed.errors import ConfigError
from heed.models.base import ImageEncoder
from heed.tasks.images.config import ImagesHead


class Output(nn.Linear):
    """A linear layer that may have no outputs, for imported models without a classifier."""

    def reset_parameters(self) -> None:
        """Initialise the weights, if there are any."""
        if self.out_features:
            super().reset_parameters()


class PictureClassifier(nn.Module):
    """An image model with `logits = V z + b`; two classes may share one output, the logit of the second."""

    def __init__(self, body: ImageEncoder, num_outputs: int) -> None:
        super().__init__()
        self.body = body
        self.output = Output(body.d_output, num_outputs)

    def forward(self, pixels: Tensor) -> Tensor:
        """Normalised pictures `(batch, channels, height, width)` to logits `(batch, num_outputs)`."""
        return self.output(self.body(pixels))  # type: ignore[no-any-return]


def check_head(head: ImagesHead, labels: Sequence[str]) -> None:
    """Refuse a sigmoid head unless there are exactly two classes.

    Raises:
        ConfigError: The head is sigmoid and the number of classes is not two.
    """
    if head.head == "sigmoid" and len(labels) != 2:
        raise ConfigError(
            f"model.head sigmoid has one output for two classes, but there are {len(labels)} ({', '.join(labels)}); "
            "use softmax"
        )

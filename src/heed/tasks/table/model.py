"""Row classifier: a row encoder and a linear layer over the labels."""

from __future__ import annotations

from torch import Tensor, nn

from heed.models.base import RowEncoder


class RowClassifier(nn.Module):
    """A row encoder and a linear layer, `logits = V z + b`."""

    def __init__(self, body: RowEncoder, num_labels: int) -> None:
        super().__init__()
        self.body = body
        self.output = nn.Linear(body.d_output, num_labels)

    def forward(self, values: Tensor) -> Tensor:
        """Map rows `(batch, columns)` to logits `(batch, num_labels)`."""
        return self.output(self.body(values))  # type: ignore[no-any-return]

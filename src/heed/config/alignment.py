"""The configuration section of guided attention."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from heed.config.sections import DataPath, Section, listed

Head = Annotated[int, Field(ge=0)]


class AlignmentSection(Section):
    """Guided attention: a loss that pulls the attention to the source towards known links between words.

    It needs one of `files`, `data` and `automatic`; without them there is no such loss. Prediction and scoring never
    use the links.
    """

    files: list[DataPath] = []  # noqa: RUF012  # pydantic copies it
    """Links in the Pharaoh format, one line per pair: one file for data.train, then one for each of data.extra; the
    last corpora may have none. Relative to the configuration."""
    data: bool = False
    """Use the alignment that embedded data provides with its examples."""
    automatic: bool = False
    """Use a word alignment learned from the training pairs before training (IBM model 1 with a prior on the
    diagonal)."""
    base: Literal[0, 1] = 0
    """Number of the first word of a text in `files`: 0 or 1."""
    possible: Literal["use", "ignore"] = "use"
    """Links of `files` that are only possible (written 3p5): use them as sure ones, or ignore them."""
    min: float = Field(0.3, ge=0, lt=1)
    """Links of the automatic alignment with a smaller probability are left out."""
    loss: Literal["cross_entropy", "mse"] = "cross_entropy"
    """Cross-entropy of the weights under the links (- sum of a_true ln a_pred), or their mean squared difference, which
    is smaller and needs a larger weight, about 10."""
    weight: float = Field(1.0, gt=0, allow_inf_nan=False)
    """Weight of this loss."""
    layer: int = -1
    """Number of the layer, among those that attend to the source, from 0; negative numbers count from the last, -1."""
    heads: Literal["mean"] | Head | list[Head] = "mean"
    """Heads of that layer, from 0: mean is the mean over all, a number is one head, a list is the mean of these."""

    _one_file = field_validator("files", mode="before")(listed)

    @property
    def given(self) -> str:
        """The source of links in use, as a field and its value; "" for none."""
        ways = {"files": f"files={','.join(self.files)}", "data": "data=true", "automatic": "automatic=true"}
        used = [f"training.alignment.{shown}" for name, shown in ways.items() if getattr(self, name)]
        return " and ".join(used)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        used = [name for name in ("files", "data", "automatic") if getattr(self, name)]
        if len(used) > 1:
            raise ValueError(f"{self.given} cannot be combined; set only one of files, data and automatic")
        owners = {"base": "files", "possible": "files", "min": "automatic"}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value == field.get_default(call_default_factory=True):
                continue
            if not used:
                raise ValueError(
                    f"training.alignment.{name} is {value!r}, but there are no links; set "
                    "training.alignment.files=FILE, training.alignment.data=true or training.alignment.automatic=true"
                )
            if name in owners and owners[name] not in used:
                raise ValueError(
                    f"training.alignment.{name} is {value!r}, but it applies only to links from {owners[name]}, not "
                    f"from {used[0]}; remove the field"
                )
        if self.heads == []:
            raise ValueError("training.alignment.heads is an empty list; give numbers of heads, or mean")
        return self

"""Maps over one picture: attention, rollout, gradients and receptive fields, each over the part that the model sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from heed.data.pictures.decode import Array
from heed.data.pictures.sizing import Box
from heed.errors import ConfigError, nearest
from heed.models.base import ImageEncoder
from heed.observe.choice import Choice
from heed.observe.edits import Edit
from heed.observe.pictures.frames import PictureMap, Place, area_of, part_of
from heed.observe.pictures.gradients import class_activation, saliency
from heed.observe.pictures.seen import Patches, SeenAttention
from heed.observe.trace import Trace, edit, trace
from heed.tasks.base.looking import watched
from heed.tasks.images.model import PictureClassifier
from heed.tasks.images.task import Images

MAPS = ("attention", "rollout", "gradient", "saliency", "field")
"""Names of the maps that can be drawn over a picture."""


def patches_of_body(body: ImageEncoder, seen: Box) -> Patches | None:
    """The patches of a Vision Transformer and their places in the part of the picture that it sees; else None."""
    grid = getattr(body, "grid", None)
    if grid is None:
        return None
    config: Any = body.config
    size = (config.height, config.width)
    if config.stem == "conv":
        first, step = (0.0, 0.0), (size[0] / grid[0], size[1] / grid[1])
    else:
        stride = float(config.stride or config.patch_size)
        edge = (config.patch_size - stride) / 2  # overlapping patches are drawn around their centres
        first, step = (edge, edge), (stride, stride)
    return Patches(grid, int(body.class_token), size, step, area_of(seen, size, first, step, grid))  # type: ignore[arg-type]


class Looking:
    """One traced pass over a picture, and maps from it and from gradients of further passes."""

    def __init__(self, task: Images, model: PictureClassifier, picture: Array, edits: Sequence[Edit]) -> None:
        self.task, self.model, self.edits = task, model, edits
        self.sized = task.form.sized([picture])
        self.box = task.form.sizing.placed((picture.shape[0], picture.shape[1]))
        self.size = (task.form.sizing.height, task.form.sizing.width)
        self.pixels = task.form.tensor(self.sized).to(next(model.parameters()).device)
        with edit(model, *edits), watched(model) as seen:
            logits = model(self.pixels)
        self.seen: Trace = seen
        self.logits = logits[0].float().cpu()
        self.probabilities = task.probabilities(self.logits[None])[0]
        patches = patches_of_body(model.body, self.box)
        self.attention = None if patches is None else SeenAttention(seen, patches)

    def number_of(self, label: str | None) -> int:
        """The number of a label, by default the most probable; -1 without labels.

        Raises:
            ConfigError: There is no such label.
        """
        if label is None:
            return int(self.probabilities.argmax()) if self.task.labels else -1
        if label not in self.task.labels:
            raise ConfigError(
                f"unknown label '{label}'{nearest(label, self.task.labels)}; the labels are "
                f"{', '.join(self.task.labels[:20])}{', ...' if len(self.task.labels) > 20 else ''}"
            )
        return self.task.labels.index(label)

    def score(self, logits: Tensor, number: int) -> Tensor:
        """The score of one label, `(batch,)`, before softmax or sigmoid."""
        if self.task.sigmoid:
            return logits[:, 0] if number == 1 else -logits[:, 0]
        return logits[:, number]

    def maps(self, name: str, choice: Choice, patch: Place | None, number: int) -> list[PictureMap]:
        """The maps of one kind."""
        if name not in MAPS:
            raise ConfigError(f"unknown map '{name}'{nearest(name, MAPS)}; the maps are {', '.join(MAPS)}")
        if name in ("attention", "rollout"):
            assert self.attention is not None
            return (
                self.attention.maps(choice, patch)
                if name == "attention"
                else self.attention.rollout_maps(choice, patch)
            )
        if name == "gradient":
            return [self._activation(number)]
        return [self._saliency(number) if name == "saliency" else self._field(patch, number)]

    def _activation(self, number: int) -> PictureMap:
        """Grad-CAM over the last feature maps; for a Vision Transformer, over the states that its last block reads.

        After the last block only the class token is used, so the other tokens' states have no gradient there.
        """
        states, gradient = self._states(number)
        body = self.model.body
        patches = patches_of_body(body, self.box)
        name = self.task.labels[number]
        if patches is not None:
            on_grid = (part[0, patches.leading :].T.unflatten(1, patches.grid) for part in (states, gradient))
            caption = "Contribution to its score, from the states that the last block reads."
            area = patches.area
        else:
            on_grid = (part[0] for part in (states, gradient))
            caption = "Contribution to its score, from the last feature maps."
            area = self._unit_area((states.shape[2], states.shape[3]))
        grid = class_activation(*(part.float().cpu() for part in on_grid))
        if not bool(grid.any()):
            caption += " No region contributes to this score."
        return PictureMap(f"Grad-CAM of the label '{name}'", grid, area, "activation", caption=caption, reach=self.box)

    def _states(self, number: int) -> tuple[Tensor, Tensor]:
        """The states that Grad-CAM uses, and the gradient of the score with respect to them."""
        self.model.eval()
        with torch.enable_grad(), edit(self.model, *self.edits), trace(self.model, grad=True) as seen:
            # If all parameters are frozen, only the pixels have a gradient.
            score = self.score(self.model(self.pixels.detach().clone().requires_grad_()), number).sum()
            states = seen.tensors("states")
            if self.attention is not None:
                states = [*seen.tensors("placed"), *states][:-1]
            (gradient,) = torch.autograd.grad(score, states[-1])
        return states[-1].detach(), gradient

    def _saliency(self, number: int) -> PictureMap:
        self.model.eval()
        with edit(self.model, *self.edits):
            grid = saliency(lambda pixels: self.score(self.model(pixels), number), self.pixels).cpu()
        caption = "Size of the gradient of the label's score at each pixel, maximum over the channels."
        title = f"pixels on which the score of '{self.task.labels[number]}' depends"
        return PictureMap(title, grid, self.box, "gradient", caption=caption)

    def _field(self, unit: Place | None, number: int) -> PictureMap:
        """The receptive field of one unit of the last feature maps, and the gradient at each pixel."""
        body = self.model.body
        with torch.no_grad():
            rows, columns = body.features(self.pixels).shape[2:]
        if unit is None:
            unit = self._activation(number).best()
        row, column = unit
        if not (0 <= row < rows and 0 <= column < columns):
            raise ConfigError(
                f"no unit in row {row}, column {column}: the last feature maps of this model have {rows} rows "
                f"and {columns} columns, counted from 0"
            )
        grid = saliency(lambda pixels: body.features(pixels)[:, :, row, column].sum(1), self.pixels).cpu()
        receptive = getattr(body, "receptive", None)
        marked, sees = self.box, "The unit sees the whole picture"
        if (patches := patches_of_body(body, self.box)) is not None:
            top, left = row / rows, column / columns
            marked = part_of(patches.area, top, left, top + 1 / rows, left + 1 / columns)
            sees = "The unit sees the whole picture; frame: its patch"
        if receptive is not None:
            top, left, bottom, right = receptive.box(row, column)
            height, width = self.size
            marked = part_of(self.box, top / height, left / width, bottom / height, right / width)
            sees = f"Frame: the {receptive.size} x {receptive.size} of {width} x {height} pixels that the unit sees"
        title = f"receptive field of the unit in row {row}, column {column} of {rows} x {columns}"
        caption = f"{sees}; colours: how much the unit depends on each pixel."
        return PictureMap(title, grid, self.box, "gradient", caption=caption, marked=marked)

    def _unit_area(self, grid: Place) -> Box:
        """Area of the picture covered by the last feature maps, each unit around the centre of its field."""
        receptive = getattr(self.model.body, "receptive", None)
        if receptive is None:
            return self.box
        first = receptive.start + (receptive.size - receptive.stride) / 2
        return area_of(self.box, self.size, (first, first), (receptive.stride, receptive.stride), grid)

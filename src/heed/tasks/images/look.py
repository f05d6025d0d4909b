"""The look at a picture and its label: attention, gradients of the score, receptive fields, attention distance."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from PIL.Image import Image
from torch import Tensor

from heed.data.examples import Picture
from heed.data.kinds.pictures import pictures_of
from heed.data.pictures.decode import Array
from heed.data.pictures.sizing import Box
from heed.errors import ConfigError, nearest
from heed.models.base import ImageEncoder
from heed.observe.edits import Edit
from heed.observe.looks import Choice
from heed.observe.picture_drawing import ShownDistances, ShownPicture
from heed.observe.picture_looks import GridPlace, PictureLook, PictureMap, area_of, part_of
from heed.observe.picture_maps import Patches, SeenAttention, class_activation, distances_of, saliency
from heed.observe.shown import Shown
from heed.observe.trace import Trace, edit, trace
from heed.tasks.base.capabilities import capability
from heed.tasks.base.looking import watched
from heed.tasks.images.model import PictureClassifier
from heed.tasks.images.pictures import check_classes, places_of
from heed.tasks.images.steps import steps_of
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

    def maps(self, name: str, choice: Choice, patch: GridPlace | None, number: int) -> list[PictureMap]:
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

    def _field(self, unit: GridPlace | None, number: int) -> PictureMap:
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

    def _unit_area(self, grid: GridPlace) -> Box:
        """Area of the picture covered by the last feature maps, each unit around the centre of its field."""
        receptive = getattr(self.model.body, "receptive", None)
        if receptive is None:
            return self.box
        first = receptive.start + (receptive.size - receptive.stride) / 2
        return area_of(self.box, self.size, (first, first), (receptive.stride, receptive.stride), grid)


MOST_PICTURES = 128
"""Largest number of pictures read for the mean attention distance, as in the paper."""

_TOP = 5
_TOGETHER = 16


def look_at_picture(
    task: Images,
    model: PictureClassifier,
    picture: Array,
    source: str,
    *,
    edits: Sequence[Edit] = (),
    choice: Choice | None = None,
    maps: Sequence[str] = (),
    patch: GridPlace | None = None,
    label: str | None = None,
    steps: bool = False,
    title: str = "",
) -> PictureLook:
    """Look at the label that a model gives to a picture.

    Args:
        task: The task, which resizes and normalises pictures.
        model: The model to look at.
        picture: Decoded, upright, of any size, `(height, width, channels)`.
        source: The name of the picture, for display.
        edits: Changes of attention weights.
        choice: Which attention to show: by default the last layer, the mean of its heads.
        maps: Names from `MAPS`; by default attention, rollout and gradient, or, without attention, gradient,
            saliency and field.
        patch: The patch whose attention is shown, by default the class token; for `field`, the unit.
        label: The label whose score gradients explain; by default the most probable.
        steps: Include the steps from the picture to the label.
        title: The title.

    Raises:
        ConfigError: There is no such attention, patch, label or map, or the model has no attention.
    """
    choice = choice or Choice()
    look = Looking(task, model, picture, edits)
    attention = look.attention
    if attention is not None:
        choice.check(look.seen.mechanisms())
        choice.heads(attention.num_heads)
    elif unknown := [name for name in maps if name in ("attention", "rollout")]:
        raise ConfigError(
            f"model {task.config.model.name} has no attention and so no map '{unknown[0]}'; use gradient, "
            "saliency or field"
        )
    elif choice != Choice():
        raise ConfigError(
            f"model {task.config.model.name} has no attention, so --layer, --head and --mechanism do not apply"
        )
    usual: tuple[str, ...] = ("gradient", "saliency", "field")
    if attention is not None:
        usual = ("attention", "rollout", "gradient")
    if not task.labels:  # an imported model without a classifier has attention, but no score to take gradients of
        usual = usual[:2]
        if steps or label or not {*(maps or usual)} <= {"attention", "rollout"}:
            check_classes(task)
    number = look.number_of(label)
    drawn = [one for name in maps or usual for one in look.maps(name, choice, patch, number)]
    notes = [f"gradients of the score of '{task.labels[number]}'"] if label else []
    if attention is not None and not maps:
        notes.append(f"{choice_line(choice, attention)}; change with --map, --layer, --head and --patch")
    notes += ["edited: " + "; ".join(map(str, edits))] if edits else []
    ranked = sorted(range(len(task.labels)), key=lambda i: -float(look.probabilities[i]))
    top = tuple((task.labels[i], float(look.probabilities[i])) for i in ranked[:_TOP])
    return PictureLook(
        title or task.title,
        source,
        picture,
        look.box,
        look.size,
        task.prediction(look.probabilities).label if task.labels else "",
        top,
        tuple(drawn),
        attention.gallery(patch) if attention is not None else None,
        attention.distances() if attention is not None else None,
        steps_of(task, model, look.seen, look.sized, look.logits, look.probabilities, attention) if steps else (),
        tuple(notes),
        attention.every() if attention is not None else None,
    )


def choice_line(choice: Choice, attention: SeenAttention) -> str:
    """The layers and heads of the attention shown."""
    layers = {"all": "all layers", -1: "the last layer"}.get(choice.layer, f"layer {choice.layer}")
    heads = {"mean": f"the mean of {attention.num_heads} heads", "all": "each head"}
    return f"shown: {layers} of {len(attention.layers)}, {heads.get(str(choice.head), f'head {choice.head}')}"


def look_at_distances(task: Images, model: PictureClassifier, pictures: Sequence[Array], title: str = "") -> Shown:
    """The mean attention distance of each layer and head over several pictures, at most `MOST_PICTURES` of them.

    Raises:
        ConfigError: The model has no attention.
    """
    chosen = pictures[:: -(-len(pictures) // MOST_PICTURES)]
    device = next(model.parameters()).device
    patches = patches_of_body(model.body, Box(0, 0, 1, 1))
    if patches is None:
        raise ConfigError(
            f"{len(pictures)} pictures were given: for several, only the mean attention distance is shown, but model "
            f"{task.config.model.name} has no attention; give one picture"
        )
    each: list[Tensor] = []
    for start in range(0, len(chosen), _TOGETHER):
        pixels = task.form.tensor(task.form.sized(chosen[start : start + _TOGETHER])).to(device)
        with watched(model) as seen:
            model(pixels)
        each += [SeenAttention(seen, patches, entry=i).layer_distances() for i in range(len(pixels))]
    name = title or task.title
    return ShownDistances(f"{name}: mean attention distance", distances_of(each, patches))


def _are_names(pictures: Any) -> bool:
    return isinstance(pictures, list | tuple) and all(isinstance(one, str | Path) for one in pictures)


def place_of(text: str) -> GridPlace:
    """Parse a place on a grid, such as "3,5".

    Raises:
        ConfigError: The text is not a row and a column.
    """
    parts = text.replace(" ", "").split(",")
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        raise ConfigError(f"--patch is '{text}'; give row and column of a patch, counted from 0, as in --patch 3,5")
    return int(parts[0]), int(parts[1])


class LooksAtPictures:
    """Mixin of a run that looks inside at pictures."""

    task: Images
    model: PictureClassifier
    looks_at_several = True
    """True if several pictures can be looked at together (showing their mean attention distance)."""
    examples: Callable[[str], Sequence[Any]]

    def look(
        self,
        picture: Any,
        *,
        steps: bool = False,
        edits: Sequence[Edit] = (),
        mechanism: str | None = None,
        layer: int | Literal["all"] = -1,
        head: int | Literal["mean", "all"] = "mean",
        map: Sequence[str] = (),
        patch: GridPlace | str | None = None,
        label: str | None = None,
    ) -> Shown:
        """Look inside at one picture: attention maps, gradients of the score; notebooks display the result.

        Args:
            picture: A file's name, a Pillow image or an array; "test:17" is picture 17 of the run's test set. Give
                several, or a folder, for the mean attention distance of each layer over all of them.
            steps: Show every step from the picture to its label.
            edits: Changes of the attention weights (`heed.observe.edits`).
            mechanism: Only this attention ("encoder").
            layer: Which layer, from 0, from the end where negative, or "all".
            head: Which head, from 0, the "mean" of all, or "all" one by one.
            map: The map to draw over the picture: "attention", "rollout", "gradient", "saliency", "field", or several.
            patch: row and column of the patch whose attention is shown (for "field", the unit); default: class token.
            label: The label whose score gradients explain; by default the most probable.

        Raises:
            ConfigError: There is no such attention, patch, label or map.
            DataError: The picture cannot be read.
        """
        capability(self, "look")
        arrays, sources = self.opened(picture)
        title = self.task.title
        if len(arrays) != 1:
            return look_at_distances(self.task, self.model, arrays, title)
        look = look_at_picture(
            self.task,
            self.model,
            arrays[0],
            sources[0],
            edits=edits,
            choice=Choice(mechanism, layer, head),
            maps=(map,) if isinstance(map, str) else tuple(map),
            patch=place_of(patch) if isinstance(patch, str) else patch,
            label=label,
            steps=steps,
            title=title,
        )
        return ShownPicture(look, steps)

    def opened(self, pictures: Any) -> tuple[list[Array], list[str]]:
        """The pixels and the name of each of the given pictures."""
        pixels = self.task.access.pixels
        if isinstance(pictures, str | Path) or _are_names(pictures):
            texts = [str(pictures)] if isinstance(pictures, str | Path) else list(map(str, pictures))
            named = [pair for text in texts for pair in self._named(text)]
            named = named[:: -(-len(named) // MOST_PICTURES)]
            # `_named` has opened the run's data if one of its pictures is named.
            return self.task.access.pixels.read([place for place, _ in named]), [name for _, name in named]
        given = [pictures] if isinstance(pictures, Image) or getattr(pictures, "ndim", 0) in (2, 3) else pictures
        examples = pictures_of(given, pixels)
        return pixels.read([example.place for example in examples]), [example.origin for example in examples]

    def _named(self, text: str) -> list[tuple[str, str]]:
        """The places and names of the pictures that a text refers to.

        "test:17" is picture 17 of the run's test set, counted from 0, "test" the whole set; names used in reports work
        too. Anything else is a file, a folder or a pattern.
        """
        found = re.fullmatch(r"(train|valid|test)(?::(\d+))?", text)
        own: Sequence[Picture] = ()
        if Path(text).exists():  # the run's data stays closed: an imported run has none
            pass
        elif found is not None:
            splits = self.task.split_names
            if found[1] not in splits:
                raise ConfigError(f"no picture {text}: the run has no {found[1]} set, only {' and '.join(splits)}")
            own = self.examples(found[1])
            if found[2] is not None:
                if int(found[2]) >= len(own):
                    raise ConfigError(
                        f"no picture {text}: the {found[1]} set has {len(own):,} pictures, counted from 0"
                    )
                own = [own[int(found[2])]]
        elif "#" in text:
            every = (one for split in reversed(self.task.split_names) for one in self.examples(split))
            own = [one for one in every if text in (one.origin, one.place)][:1]
        return [(one.place, one.origin or one.place) for one in own] or [(one, one) for one in places_of([text])]

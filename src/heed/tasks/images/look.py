"""The look at a picture and its label: attention, gradients of the score, receptive fields, attention distance."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from PIL.Image import Image
from torch import Tensor

from heed.data.examples import Picture
from heed.data.pictures.decode import Array
from heed.data.pictures.sizing import Box
from heed.data.read.picture_memory import pictures_of
from heed.errors import ConfigError
from heed.observe.choice import Choice
from heed.observe.edits import Edit
from heed.observe.pictures.frames import PictureLook, Place
from heed.observe.pictures.seen import SeenAttention, distances_of
from heed.observe.pictures.shown import ShownDistances, ShownPicture
from heed.observe.shown import Shown
from heed.tasks.base.looking import watched
from heed.tasks.images.files import places_of
from heed.tasks.images.maps import Looking, patches_of_body
from heed.tasks.images.model import PictureClassifier
from heed.tasks.images.pictures import check_classes
from heed.tasks.images.steps import steps_of
from heed.tasks.images.task import Images

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
    patch: Place | None = None,
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


def place_of(text: str) -> Place:
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
        patch: Place | str | None = None,
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

"""The look at a picture and its label: attention, gradients of the score, receptive fields, attention distance."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from heed.data.kinds.pictures import pictures_of
from heed.data.pictures.decode import Decoded, eight_bits
from heed.data.pictures.sizing import Box
from heed.errors import ConfigError, nearest, whole_number
from heed.models.base import ImageEncoder
from heed.show.document import Shown
from heed.show.picture_drawing import ShownPicture
from heed.tasks import capability
from heed.tasks.base.labels import LabelPrediction, answer_of_labels
from heed.tasks.base.looking import check_beside, other_of, several_of, watched
from heed.tasks.contracts import Head
from heed.tasks.heads.labels import Labels
from heed.tasks.inputs.pictures import places_of
from heed.threads import sparing
from heed.watch.attribution import METHODS, Attribution, Picture, attribute, check_options, leave_one_out
from heed.watch.edits import Edit, Given, edits_of
from heed.watch.effects import Answer, NumberAnswer
from heed.watch.hints import Hint
from heed.watch.interventions import MOST_MAPS, effect_of
from heed.watch.looks import ROLLOUT, Choice
from heed.watch.maps import Axis
from heed.watch.picture_looks import GridPlace, PictureLook, PictureMap, area_of, part_of
from heed.watch.picture_maps import Patches, SeenAttention, cells_of, class_activation, saliency
from heed.watch.trace import Trace, edit, trace

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
    return Patches(grid, body.leading, size, step, area_of(seen, size, first, step, grid))  # type: ignore[arg-type]


def lacks_classes(head: Any) -> bool:
    """True for a model imported without a classifier: it has attention, but no score to take gradients of."""
    return not head.labels and not head.is_number


def check_classes(head: Head) -> None:
    """Refuse to predict with a model imported without a classifier.

    Raises:
        ConfigError: The model has no classes.
    """
    if lacks_classes(head):
        raise ConfigError(
            f"the model has no classes: it was imported from {head.config.data.name}, which has no classifier; "
            "train a classifier from it: heed train images FOLDER --from RUN"
        )


class Looking:
    """One traced pass over a picture, and maps from it and from gradients of further passes."""

    def __init__(self, work: Any, model: Any, picture: Decoded, edits: Sequence[Edit] = ()) -> None:
        self.head, self.model, self.edits = work.head, model, edits
        form = work.input.form
        self.box: Box = form.sizing.placed((picture.shape[0], picture.shape[1]))
        self.size = (form.sizing.height, form.sizing.width)
        self.pixels = form.tensor([picture]).to(next(model.parameters()).device)
        with edit(model, *edits), watched(model) as seen:
            logits = model(self.pixels)
        self.seen: Trace = seen
        of_labels = isinstance(self.head, Labels)
        answers = self.head.probabilities(logits.cpu().float()) if of_labels else self.head.decode(model, logits, None)
        self.answer: Tensor = answers[0]
        self.patches = patches_of_body(model.body, self.box)
        self.attention = None if self.patches is None else SeenAttention(seen, self.patches)

    def label(self, label: str | None = None) -> str:
        """The label itself, by default the most probable; "" without labels.

        Raises:
            ConfigError: There is no such label.
        """
        if label is None:
            return self.head.labels[int(self.answer.argmax())] if self.head.labels else ""
        self.head.target_score(self.answer, label, None)
        return label

    def named(self, label: str) -> str:
        """What the gradients are of, in titles: "the score of '7'"."""
        return f"the score of '{label}'" if label else self.head.target_score(self.answer, None, None).name

    def with_effects(self, maps: list[PictureMap]) -> list[PictureMap]:
        """Maps of attention with what the label does under other weights; as they are if there are many."""
        if self.patches is None or not 0 < sum(one.opens is not None for one in maps) <= MOST_MAPS:
            return maps

        def scores(rows: Tensor) -> Tensor:
            logits: Tensor = self.model(self.pixels.expand(len(rows), -1, -1, -1))
            return logits

        nothing = torch.zeros(1, dtype=torch.long, device=self.pixels.device)  # in place of the tokens of a text
        answer, leading = self._answer(nothing, scores), self.patches.leading
        places = [f"{row},{column}" for row in range(self.patches.grid[0]) for column in range(self.patches.grid[1])]
        key, tried = Axis("picture", "patch", ("class",) * leading + tuple(places)), list[PictureMap]()
        with edit(self.model, *self.edits):
            for one in maps:
                outside = one.weights.new_full((leading,), one.outside / max(1, leading))
                row = torch.cat([outside, one.weights.flatten()]).unsqueeze(0)
                effect = None if one.opens is None else effect_of(answer, row, key, one.opens)
                tried.append(replace(one, effect=effect))
        return tried

    def _answer(self, tokens: Tensor, scores: Callable[[Tensor], Tensor]) -> Answer:
        """The label, or the number, under other weights."""
        if isinstance(self.head, Labels):
            return answer_of_labels(self.head, self.model, tokens, scores)
        asked = self.head.target_score(self.answer, None, None)
        name = asked.name.removeprefix("the ")
        return NumberAnswer(
            self.model, tokens, lambda rows, _: asked.score(scores(rows))[:, None, None], lambda *_: name
        )

    def content(
        self, work: Any, picture: Decoded, source: str, maps: Sequence[PictureMap], notes: Sequence[str] = ()
    ) -> PictureLook:
        """A look with these maps over the picture."""
        said = None if lacks_classes(self.head) else self.head.predict(self.answer)
        ranked = said.ranked if isinstance(said, LabelPrediction) else []
        predicted = said.label if isinstance(said, LabelPrediction) else "" if said is None else said.summary()
        return PictureLook(
            work.title,
            source,
            eight_bits(picture, work.input.form.sizing.levels),
            self.box,
            self.size,
            predicted,
            tuple(ranked[:_TOP]),
            tuple(maps),
            notes=tuple(notes),
            kind=self.head.names,
        )

    def maps(self, name: str, choice: Choice, patch: GridPlace | None, label: str) -> list[PictureMap]:
        """The maps of one kind."""
        if name not in MAPS:
            raise ConfigError(f"unknown map '{name}'{nearest(name, MAPS)}; the maps are {', '.join(MAPS)}")
        if name in ("attention", "rollout"):
            assert self.attention is not None
            return (self.attention.maps if name == "attention" else self.attention.rollout_maps)(choice, patch)
        if name == "gradient":
            return [self._activation(label)]
        if name == "field":
            return [self._field(patch, label)]
        with edit(self.model, *self.edits):
            grid = saliency(self._scored(label)).cpu()
        of = "label's score" if label else "number"
        caption = f"Size of the gradient of the {of} at each pixel, maximum over the channels."
        title = f"gradient of {self.named(label)} at each pixel"
        return [PictureMap(title, grid, self.box, "gradient", caption=caption)]

    def _activation(self, label: str) -> PictureMap:
        """Grad-CAM over the last feature maps; for a Vision Transformer, over the states that its last block reads.

        After the last block only the class token is used, so the other tokens' states have no gradient there.
        """
        patches, read, area, caption = self.patches, self._scored(label), self.box, "last feature maps"
        self.model.eval()
        with torch.enable_grad(), edit(self.model, *self.edits), trace(self.model, grad=True) as seen:
            # If all parameters are frozen, only the pixels have a gradient.
            score = read.score(self.pixels.detach().clone().requires_grad_()).sum()
            states = seen.tensors("states")
            if patches is not None:
                states = [*seen.tensors("placed"), *states][:-1]
            both = (states[-1].detach(), *torch.autograd.grad(score, states[-1]))
        on_grid = [part[0].float().cpu() for part in both]
        if patches is not None:
            on_grid = [part[patches.leading :].T.unflatten(1, patches.grid) for part in on_grid]
            area, caption = patches.area, "states that the last block reads"
        elif (receptive := getattr(self.model.body, "receptive", None)) is not None:
            # each unit is drawn around the centre of its field
            first, (rows, columns) = receptive.start + (receptive.size - receptive.stride) / 2, on_grid[0].shape[1:]
            area = area_of(self.box, self.size, (first, first), (receptive.stride,) * 2, (rows, columns))
        grid = class_activation(*on_grid)
        of = "its score" if label else "the number"
        caption = f"Sum of the {caption}, weighted by the gradient of {of}; 0 where negative."
        if not bool(grid.any()):
            caption += " Here it is 0 everywhere."
        title = f"Grad-CAM of the label '{label}'" if label else f"Grad-CAM of {self.named(label)}"
        return PictureMap(title, grid, area, "activation", caption=caption, reach=self.box)

    def _scored(self, label: str, other: str | None = None) -> Picture:
        """The picture and the score of a label, minus that of another."""
        score = self.head.target_score(self.answer, label or None, other).score
        return Picture(self.model, self.pixels[0], lambda pixels: score(self.model(pixels)))

    def attribution(
        self, method: str, label: str, other: str | None = None, baseline: str = "mean", steps: int | None = None
    ) -> tuple[PictureMap, Attribution]:
        """What each place of the picture adds to the score of a label, minus that of another if one is given.

        Places are the patches of a Vision Transformer, else the cells of a grid of at most 8 x 8: values are summed
        over their pixels, and leave-one-out fills each with the baseline.
        """
        picture = self._scored(label, other)
        grid = getattr(self.model.body, "grid", None) or tuple(min(_CELLS, side) for side in self.size)
        cells = cells_of(self.size, grid)
        name = self.named(label) + ("" if other is None else f" minus that of '{other}'")
        title = f"{METHODS.get(method, method)}: part of each place in {name}"
        with edit(self.model, *self.edits):
            if method == "loo":
                parts = [(cells == cell).nonzero().squeeze(1).tolist() for cell in range(grid[0] * grid[1])]
                found = leave_one_out(picture, parts, baseline)  # type: ignore[arg-type]
                values = found.values
            else:
                found = attribute(picture, method, baseline=baseline, steps=steps)
                values = torch.zeros(grid[0] * grid[1], dtype=torch.float64).index_add(0, cells, found.values)
        drawn = PictureMap(title, values.reshape(grid), self.box, "value", signed=method != "grad", panel="attribution")
        return drawn, found

    def _field(self, unit: GridPlace | None, label: str) -> PictureMap:
        """The receptive field of one unit of the last feature maps, and the gradient at each pixel."""
        body = self.model.body
        with torch.no_grad():
            rows, columns = body.features(self.pixels).shape[2:]
        row, column = self._activation(label).best() if unit is None else unit
        if not (0 <= row < rows and 0 <= column < columns):
            raise ConfigError(
                f"no unit in row {row}, column {column}: the last feature maps of this model have {rows} rows "
                f"and {columns} columns, counted from 0"
            )
        of_unit = Picture(self.model, self.pixels[0], lambda pixels: body.features(pixels)[:, :, row, column].sum(1))
        marked, sees = self.box, "The unit sees the whole picture"
        if self.patches is not None:
            top, left = row / rows, column / columns
            marked = part_of(self.patches.area, top, left, top + 1 / rows, left + 1 / columns)
            sees = "The unit sees the whole picture; frame: its patch"
        elif (receptive := getattr(body, "receptive", None)) is not None:
            top, left, bottom, right = receptive.box(row, column)
            height, width = self.size
            marked = part_of(self.box, top / height, left / width, bottom / height, right / width)
            sees = f"Frame: the {receptive.size} x {receptive.size} of {width} x {height} pixels that the unit sees"
        title = f"receptive field of the unit in row {row}, column {column} of {rows} x {columns}"
        caption = f"{sees}; colours: size of the unit's gradient at each pixel."
        return PictureMap(title, saliency(of_unit).cpu(), self.box, "gradient", caption=caption, marked=marked)


_CELLS = 8
_TOP = 5


def look_at_picture(
    run: Any,
    picture: Decoded,
    source: str,
    *,
    edits: Sequence[Edit] = (),
    choice: Choice,
    maps: Sequence[str] = (),
    patch: GridPlace | None = None,
    label: str | None = None,
    attribution: str | None = None,
) -> PictureLook:
    """Look at the label that a model gives to a picture.

    `picture` is decoded, upright, `(height, width, channels)`; `source` is its name, for display; `maps` are by default
    attention, rollout and gradient, or, without attention, gradient, saliency and field. Others as `look`.

    Raises:
        ConfigError: There is no such attention, patch, label or map, or the model has no attention.
    """
    work, name = run.task, run.config.model.name
    look = Looking(work, run.model, picture, edits)
    attention = look.attention
    usual: tuple[str, ...] = ("gradient", "saliency", "field")
    if attention is not None:
        usual = ("attention", "rollout", "gradient")
        choice.check(look.seen.mechanisms())
        choice.heads(attention.num_heads)
    elif unknown := [kind for kind in maps if kind in ("attention", "rollout")]:
        raise ConfigError(
            f"model {name} has no attention and so no map '{unknown[0]}'; use gradient, saliency or field"
        )
    elif choice != Choice():
        raise ConfigError(f"model {name} has no attention, so --layer, --head and --mechanism do not apply")
    if lacks_classes(work.head):
        usual = usual[:2]
        if label or attribution or not {*(maps or usual)} <= {"attention", "rollout"}:
            check_classes(work.head)
    scored = look.label(label)
    drawn = [one for kind in maps or usual for one in look.maps(kind, choice, patch, scored)]
    drawn = drawn if lacks_classes(work.head) else look.with_effects(drawn)
    notes: list[str] = []
    if attribution is not None:
        placed, found = look.attribution(attribution, scored)
        drawn, notes = [placed, *drawn], [found.note]
    notes += [f"gradients of the score of '{scored}'"] if label else []
    if attention is not None and not maps:
        layers = {"all": "all layers", -1: "the last layer"}.get(choice.layer, f"layer {choice.layer}")
        heads = {"mean": f"the mean of {attention.num_heads} heads", "all": "each head"}
        shown = f"{layers} of {len(attention.layers)}, {heads.get(str(choice.head), f'head {choice.head}')}"
        notes.append(Hint(f"shown: {shown}", "map", "layer", "head", "patch"))
    notes += ["edited: " + "; ".join(map(str, edits))] if edits else []
    content = look.content(work, picture, source, drawn, notes)
    if attention is None:
        return content
    return replace(content, gallery=attention.gallery(patch), distances=attention.distances(), every=attention.every())


def look(
    run: Any,
    picture: Any,
    *,
    edits: Sequence[Given] = (),
    mechanism: str | None = None,
    layer: int | Literal["all"] = -1,
    head: int | Literal["mean", "all"] = "mean",
    map: Sequence[str] = (),
    patch: GridPlace | str | None = None,
    beside: Any = None,
    attribution: str | None = None,
    label: str | None = None,
) -> Shown:
    """Look inside at one picture: attention maps, gradients of the score; notebooks display the result.

    Args:
        run: A run over pictures.
        picture: A file's name, a Pillow image or an array; "test:17" is picture 17 of the run's test set.
        edits: Changes of the attention weights (`heed.watch.edits`), also as data or JSON.
        mechanism: Only this attention ("encoder").
        layer: Which layer, from 0, from the end where negative, or "all".
        head: Which head, from 0, the "mean" of all, or "all" one by one.
        map: The map to draw over the picture: "attention", "rollout", "gradient", "saliency", "field", or several.
        patch: row and column of the patch whose attention is shown (for "field", the unit); default: class token.
        beside: Also the maps of another network for the same label, and the differences: "untrained", "step-N" or
            another run.
        attribution: Also draw what each place adds to the score, by this method; see `attribute_places`.
        label: The label whose score is meant, in maps of gradients too; by default the most probable.

    Raises:
        ConfigError: There is no such attention, patch, label or map.
        DataError: The picture cannot be read.
    """
    capability(run, "look")
    pixels, source = opened(run, picture)
    if mechanism == ROLLOUT:
        raise ConfigError("--mechanism rollout is for texts; of a picture it is --map rollout")
    others = several_of(beside)
    if len(others) > 1:
        raise ConfigError(f"--beside takes one network for a picture, but {len(others)} were given")
    check_beside(others, edits)
    see = partial(
        look_at_picture,
        picture=pixels,
        source=source,
        choice=Choice(mechanism, layer, head),
        maps=(map,) if isinstance(map, str) else tuple(map),
        patch=place_of(patch) if isinstance(patch, str) else patch,
        attribution=attribution,
    )
    look, before = see(run, edits=edits_of(edits), label=label), list[str]()
    label = label or (look.label if look.top else None) or None
    if edits:
        plain = see(run, label=label)
        look, before = look.minus(plain, "with the edits minus without"), [f"without the edits: {plain.said}"]
    elif others:
        name, said, other = other_of(run, others[0])
        theirs = see(other, label=label)
        look, before = look.minus(theirs, f"minus that of {name}", name), [f"beside it: {said}: {theirs.said}"]
    return ShownPicture(replace(look, notes=(*look.notes, *before)))


class AttributedPlaces(ShownPicture):
    """What each place of a picture adds to a score: `weights`, and in `caption` what was computed."""

    @property
    def weights(self) -> Tensor:
        """The number of each place, `(rows, columns)`."""
        return self.maps[0].weights

    @property
    def caption(self) -> str:
        """What was computed, and how exactly the numbers add up."""
        return self.maps[0].caption


@sparing()
def attribute_places(
    run: Any,
    picture: Any,
    *,
    method: str = "ig",
    target: str | None = None,
    rather_than: str | None = None,
    baseline: str | None = None,
    steps: int | None = None,
    without: str | None = None,
    edits: Sequence[Given] = (),
) -> AttributedPlaces:
    """Attribute the score of a label to the places of one picture: its patches, or the cells of a grid.

    Args:
        run: A run over pictures.
        picture: As for `look`.
        method: "ig" (integrated gradients), "grad", "gradxinput" or "loo" (each place filled with the baseline).
        target: The label; by default the most probable.
        rather_than: Another label: the score is the difference of the two.
        baseline: What stands in for the pixels in "ig" and "loo": the picture's "mean" colour (the default), or
            "zero", the mean of the training pictures.
        steps: Steps of the integral; by default doubled until the error is at most 1 %, up to 400.
        without: For texts only; of a picture nothing can be deleted.
        edits: Changes of the attention weights under which the score is computed (`heed.watch.edits`).

    Raises:
        ConfigError: There is no such label, method or baseline, the method does not read an option, or several pictures
            were given.
        DataError: The picture cannot be read.
    """
    capability(run, "attribute")
    if without is not None:
        raise ConfigError(f"without {without!r} is for texts; a place of a picture is filled with the baseline")
    check_options(method, {"baseline": baseline, "steps": steps}, {"baseline": ("ig", "loo"), "steps": ("ig",)})
    check_classes(run.head)
    pixels, source = opened(run, picture)
    look = Looking(run.task, run.model, pixels, edits_of(edits))
    placed, of = look.attribution(method, look.label(target), rather_than, baseline or "mean", steps)
    return AttributedPlaces(look.content(run.task, pixels, source, [replace(placed, caption=of.note)]))


def opened(run: Any, picture: Any) -> tuple[Decoded, str]:
    """The pixels and the name of a picture.

    Raises:
        ConfigError: There is not exactly one, as in a folder.
        DataError: It cannot be read.
    """
    several = picture if isinstance(picture, list | tuple) else [picture]
    if all(isinstance(one, str | Path) for one in several):
        named = [pair for text in map(str, several) for pair in _named(run, text)]
    else:
        given = [picture] if getattr(picture, "ndim", 0) == 3 else picture
        named = [(example.place, example.origin) for example in pictures_of(given, run.input.access.pixels)]
    if len(named) != 1:
        raise ConfigError(f"{len(named):,} pictures were given; give exactly one")
    # `_named` has opened the run's data if one of its pictures is named.
    ((place, name),) = named
    return run.input.access.pixels.read([place])[0], name


def _named(run: Any, text: str) -> list[tuple[str, str]]:
    """The places and names of the pictures that a text refers to.

    "test:17" is picture 17 of the run's test set, counted from 0; names used in reports work too. Anything else is a
    file, a folder or a pattern.
    """
    named: Sequence[Any] = ()
    if os.path.exists(text):  # the run's data stays closed: an imported run has none
        pass
    elif found := re.fullmatch(r"(train|valid|test):(\d+)", text):
        splits = run.task.split_names
        if found[1] not in splits:
            raise ConfigError(f"no picture {text}: the run has no {found[1]} set, only {' and '.join(splits)}")
        named = run.examples(found[1])
        if whole_number(found[2]) >= len(named):
            raise ConfigError(f"no picture {text}: the {found[1]} set has {len(named):,} pictures, counted from 0")
        named = [named[whole_number(found[2])]]
    elif "#" in text:
        every = (one for split in reversed(run.task.split_names) for one in run.examples(split))
        named = [one for one in every if text in (one.origin, one.place)][:1]
    return [(one.place, one.origin or one.place) for one in named] or [(one, one) for one in places_of([text])]


def place_of(text: str) -> GridPlace:
    """Parse a place on a grid, such as "3,5".

    Raises:
        ConfigError: The text is not a row and a column.
    """
    if (found := re.fullmatch(r"(\d+),(\d+)", text.replace(" ", ""))) is None:
        raise ConfigError(f"--patch is '{text}'; give row and column of a patch, counted from 0, as in --patch 3,5")
    return whole_number(found[1]), whole_number(found[2])

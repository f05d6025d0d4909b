"""The look at a picture and its label: attention, gradients of the score, receptive fields, attention distance.

Its steps lead from the picture to the label, with every shape and some of the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heed.data.pictures.decode import Array
from heed.data.pictures.sizing import Box
from heed.errors import ConfigError, nearest
from heed.models.base import ImageEncoder
from heed.observe import palette
from heed.observe.attribution import LEFT_OUT, METHODS, Attribution, Picture, attribute, leave_one_out
from heed.observe.edits import Edit
from heed.observe.looks import Choice
from heed.observe.picture_drawing import ShownDistances, laid_over, ramp
from heed.observe.picture_looks import Figure, GridPlace, PictureLook, PictureMap, Step, StepTable, area_of, part_of
from heed.observe.picture_maps import Patches, SeenAttention, cells_of, class_activation, distances_of, saliency
from heed.observe.shown import Shown
from heed.observe.trace import Trace, edit, trace
from heed.tasks.base.deletions import Deletions, Judged, Looked, label_odds
from heed.tasks.base.looking import watched
from heed.tasks.images.pictures import check_classes
from heed.tasks.images.task import Images, PictureClassifier

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
            found = self.attention.maps if name == "attention" else self.attention.rollout_maps
            return found(choice, patch)
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
            caption = _SUM.format("states that the last block reads")
            area = patches.area
        else:
            on_grid = (part[0] for part in (states, gradient))
            caption = _SUM.format("last feature maps")
            area = self._unit_area((states.shape[2], states.shape[3]))
        grid = class_activation(*(part.float().cpu() for part in on_grid))
        if not bool(grid.any()):
            caption += " Here it is 0 everywhere."
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
        with edit(self.model, *self.edits):
            grid = saliency(self._scored(number)).cpu()
        caption = "Size of the gradient of the label's score at each pixel, maximum over the channels."
        title = f"gradient of the score of '{self.task.labels[number]}' at each pixel"
        return PictureMap(title, grid, self.box, "gradient", caption=caption)

    def _scored(self, number: int, other: int | None = None) -> Picture:
        """The picture and the score of a label, minus that of another."""

        def score(pixels: Tensor) -> Tensor:
            logits = self.model(pixels)
            return self.score(logits, number) - (0.0 if other is None else self.score(logits, other))

        return Picture(self.model, self.pixels[0], score)

    def attribution(
        self, method: str, number: int, other: int | None, baseline: str = "mean", steps: int | None = None
    ) -> tuple[PictureMap, Attribution]:
        """What each place of the picture adds to the score of a label, minus that of another if one is given.

        Places are the patches of a Vision Transformer, else the cells of a grid of at most 8 x 8: values are summed
        over their pixels, and leave-one-out fills each with the baseline.
        """
        picture, labels = self._scored(number, other), self.task.labels
        grid = getattr(self.model.body, "grid", None) or tuple(min(_CELLS, side) for side in self.size)
        cells = cells_of(self.size, grid)
        name = f"the score of '{labels[number]}'" + ("" if other is None else f" minus that of '{labels[other]}'")
        title = f"{METHODS.get(method, method)}: part of each place in {name}"
        with edit(self.model, *self.edits):
            if method == "loo":
                parts = [(cells == cell).nonzero().squeeze(1).tolist() for cell in range(grid[0] * grid[1])]
                found = leave_one_out(picture, parts, baseline)  # type: ignore[arg-type]
                values = found.values
            else:
                found = attribute(picture, method, baseline=baseline, steps=steps)
                values = torch.zeros(grid[0] * grid[1], dtype=torch.float64).index_add(0, cells, found.values)
        return PictureMap(title, values.reshape(grid), self.box, "value", signed=method != "grad"), found

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
        of_unit = Picture(self.model, self.pixels[0], lambda pixels: body.features(pixels)[:, :, row, column].sum(1))
        grid = saliency(of_unit).cpu()
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
        caption = f"{sees}; colours: size of the unit's gradient at each pixel."
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

_SUM = "Sum of the {}, weighted by the gradient of its score; 0 where negative."
_CELLS = 8
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
    attribution: str | None = None,
    rather_than: str | None = None,
    steps: bool = False,
    title: str = "",
) -> PictureLook:
    """Look at the label that a model gives to a picture.

    `picture` is decoded, upright, `(height, width, channels)`; `source` is its name, for display; `maps` are by default
    attention, rollout and gradient, or, without attention, gradient, saliency and field. Others as `ImagesRun.look`.

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
        if steps or label or attribution or not {*(maps or usual)} <= {"attention", "rollout"}:
            check_classes(task)
    number = look.number_of(label)
    drawn = [one for name in maps or usual for one in look.maps(name, choice, patch, number)]
    of_places: list[str] = []
    if attribution is not None:
        other = None if rather_than is None else look.number_of(rather_than)
        placed, found = look.attribution(attribution, number, other)
        drawn, of_places = [placed, *drawn], [found.note]
    elif rather_than is not None:
        raise ConfigError("--rather-than chooses the score of an attribution; add --attribution METHOD")
    notes = [*of_places, *([f"gradients of the score of '{task.labels[number]}'"] if label else [])]
    if attention is not None and not maps:
        notes.append(f"{_choice_line(choice, attention)}; change with --map, --layer, --head and --patch")
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


def _choice_line(choice: Choice, attention: SeenAttention) -> str:
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


_FIRST = 6
_SIDE = 192
_MOST_ROWS, _MOST_COLUMNS = 200, 400
_LABELS = 10


def steps_of(
    task: Images,
    model: PictureClassifier,
    seen: Trace,
    sized: Array,
    logits: Tensor,
    probabilities: Tensor,
    attention: SeenAttention | None,
) -> tuple[Step, ...]:
    """The steps of one traced pass over one sized picture `(1, height, width, channels)`."""
    picture = sized[0]
    first = [_read(task, picture)]
    if attention is not None:
        first += [*_patches(model.body, seen, picture, attention), *_blocks(task, model, seen, picture, attention)]
    else:
        first += _maps(seen)
    return (*first, *_label(task, model, seen, logits, probabilities, attention))


def _read(task: Images, picture: Array) -> Step:
    form = task.form
    channels = form.sizing.channels
    names = ("grey",) if channels == 1 else ("red", "green", "blue")
    rows = tuple(
        (name, f"{mean:.4f}", f"{deviation:.4f}")
        for name, mean, deviation in zip(names, form.normalisation.mean, form.normalisation.deviation, strict=True)
    )
    return Step(
        "the picture",
        (
            f"Resized to {picture.shape[1]} x {picture.shape[0]} pixels ({form.sizing.crop}), {channels} "
            f"channel{'s' * (channels > 1)}: {picture.size:,} numbers from 0 to 255.",
            "Each x becomes (x / 255 - mean) / deviation, with mean and deviation of its channel over the training "
            "pictures.",
        ),
        (Figure("as the model reads it", picture, _times(picture)),),
        StepTable(("channel", "mean", "deviation"), rows),
    )


def _times(picture: Array) -> int:
    """Enlargement factor of a small picture."""
    return max(1, _SIDE // int(max(picture.shape[:2])))


def _patches(body: Any, seen: Trace, picture: Array, attention: SeenAttention) -> list[Step]:
    """The steps before the blocks: cut, flatten, embed, add class token and positions."""
    patches, config = attention.patches, body.config
    rows, columns = patches.grid
    (embedded,), (placed,) = (seen.tensors(kind) for kind in ("embedded", "placed"))
    d_model = embedded.shape[-1]
    steps = []
    flat = seen.tensors("patches")
    if flat:
        size, stride, numbers = config.patch_size, config.stride or config.patch_size, flat[0].shape[-1]
        overlap = "" if stride == size else f", one every {stride} pixels, overlapping"
        steps += [
            Step(
                "patches",
                (f"{rows} x {columns} = {patches.count} patches of {size} x {size} pixels{overlap}, row by row.",),
                (Figure(f"{patches.count} patches", _apart(picture, patches.grid, size, stride), _times(picture)),),
            ),
            Step(
                "flattened vectors",
                (
                    f"Each patch becomes a vector of {picture.shape[2]} x {size} x {size} = {numbers} numbers: "
                    f"a matrix of {patches.count} x {numbers}.",
                    f"The first patch: {_first(flat[0][0, 0])}",
                ),
                (_matrix("one row per patch; blue above 0, orange below", flat[0][0]),),
            ),
            Step(
                "the shared linear layer",
                (
                    f"One layer for every patch: {numbers} x {d_model} weights and {d_model} biases turn "
                    f"{patches.count} x {numbers} into {patches.count} x {d_model}.",
                    f"The first patch: {_first(embedded[0, 0])}",
                ),
                (_matrix("one row per patch", embedded[0]),),
            ),
        ]
    else:
        steps.append(
            Step(
                "the convolutional stem",
                (
                    f"Convolutions of 3 x 3 with a stride of 2 turn the picture into {rows} x {columns} places of "
                    f"{d_model} numbers: {patches.count} x {d_model}.",
                ),
                (_matrix("one row per place", embedded[0]),),
            )
        )
    return [*steps, _placed(config, embedded, placed, attention)]


def _placed(config: Any, embedded: Tensor, placed: Tensor, attention: SeenAttention) -> Step:
    patches = attention.patches
    leading = patches.leading
    kinds = {"learned": "a learned vector of its place", "sinusoidal": "fixed sinusoids of its row and column"}
    with_class = f"Learned before the patches: {patches.read}. " if leading else ""
    if config.positions == "none":
        prose = f"{with_class}No positions are added: the model cannot tell where a patch lies."
        figures: tuple[Figure, ...] = ()
    else:
        added = placed[0, leading:] - embedded[0]
        prose = f"{with_class}Added to each: {kinds[config.positions]}. {placed.shape[1]} x {placed.shape[2]}."
        figures = (_similarity(added, patches.grid),)
    title = f"{patches.read} and positions" if leading else "positions"
    return Step(title, (prose, f"The first patch: {_first(placed[0, leading])}"), figures)


def _similarity(added: Tensor, grid: tuple[int, int]) -> Figure:
    """Cosine similarity of the middle position with every other, on the grid."""
    middle = (grid[0] // 2) * grid[1] + grid[1] // 2
    near = torch.cosine_similarity(added[middle : middle + 1].float(), added.float(), dim=-1).reshape(grid).cpu()
    caption = (
        f"cosine similarity of the position in row {grid[0] // 2}, column {grid[1] // 2} with every other; blue above 0"
    )
    return Figure(caption, _signed(near), max(4, 120 // max(grid)))


def _blocks(
    task: Images, model: PictureClassifier, seen: Trace, picture: Array, attention: SeenAttention
) -> list[Step]:
    """Each block: the change of the classified state, and the label if the block were the last."""
    body: Any = model.body
    states = [*seen.tensors("placed"), *seen.tensors("states")]
    what = attention.patches.read
    steps = []
    for i, (before, after) in enumerate(pairwise(states)):
        with torch.no_grad():
            read, last = (_vector(body, state) for state in (before, after))
            said = task.probabilities(model.output(last).float().cpu())[0]
            moved = torch.cosine_similarity(read.float(), last.float(), dim=-1)
        best = int(said.argmax())
        whole = attention.mean_map(i, picture)
        drawn = laid_over(picture, whole, (picture.shape[0] * _times(picture), picture.shape[1] * _times(picture)))
        steps.append(
            Step(
                f"block {i}",
                (
                    f"x = x + attention(norm(x)), then x = x + feed-forward(norm(x)); {attention.num_heads} heads.",
                    f"Cosine of the {what} before and after: {float(moved):.3f}. If this were the last block, the "
                    f"label would be {task.labels[best]} with {float(said[best]):.3f}.",
                ),
                (Figure(f"{whole.title}, 0 to {whole.largest:.3g}", drawn),),
            )
        )
    return steps


def _vector(body: Any, state: Tensor) -> Tensor:
    """What the output layer reads of a block's states `(1, tokens, d_model)`, `(1, d_output)`."""
    found: Tensor = body.read(body.norm(state))
    return found


def _maps(seen: Trace) -> list[Step]:
    """The feature maps of each stage of a convolutional network."""
    steps = []
    for i, state in enumerate(seen.tensors("states")):
        maps, rows, columns = state.shape[1:]
        mean = state[0].float().mean(0).cpu()
        shown = [Figure("mean of all maps", _heat(mean), max(1, _SIDE // max(rows, columns)))]
        for k in state[0].float().mean((1, 2)).argsort(descending=True)[:3].tolist():
            shown.append(Figure(f"map {k}", _heat(state[0, k].float().cpu()), max(1, _SIDE // 2 // max(rows, columns))))
        steps.append(
            Step(f"stage {i}", (f"{maps} feature maps of {rows} x {columns}; the strongest are shown.",), tuple(shown))
        )
    return steps


def _label(
    task: Images, model: PictureClassifier, seen: Trace, logits: Tensor, probabilities: Tensor,
    attention: SeenAttention | None,
) -> list[Step]:  # fmt: skip
    d = model.output.in_features
    body: Any = model.body
    states = seen.tensors("states")
    with torch.no_grad():
        if attention is None:
            vector, how = body.pooled(states[-1])[0], "the last feature maps, pooled"
        else:
            vector = _vector(body, states[-1])[0]
            how = f"the {attention.patches.read} after the last normalisation"
    ranked = probabilities.argsort(descending=True)[:_LABELS].tolist()
    if task.sigmoid:
        said = f"One output, {float(logits[0]):.3f}: its sigmoid is the probability of {task.labels[1]}."
        rows = tuple((task.labels[i], f"{float(probabilities[i]):.4f}") for i in ranked)
        table = StepTable(("label", "probability"), rows)
    else:
        said = f"{d} x {len(task.labels)} weights give a score for each label; softmax gives probabilities."
        scored = tuple((task.labels[i], f"{float(logits[i]):.3f}", f"{float(probabilities[i]):.4f}") for i in ranked)
        table = StepTable(("label", "score", "probability"), scored)
    return [
        Step("the picture's vector", (f"{d} numbers: {how}.", _first(vector)), (_matrix("", vector[None]),)),
        Step("sigmoid" if task.sigmoid else "softmax", (said,), (), table),
    ]


# Small pictures -----------------------------------------------------------------------------------------------


def _first(vector: Tensor) -> str:
    numbers = " ".join(f"{value:.3f}" for value in vector[:_FIRST].tolist())
    return f"{numbers} ... ({len(vector)} numbers, norm {float(vector.float().norm()):.3f})"


def _apart(picture: Array, grid: tuple[int, int], size: int, stride: int) -> Array:
    """The patches of a picture with gaps between them."""
    gap = max(1, size // 4)
    height, width = (count * (size + gap) - gap for count in grid)
    whole = np.full((height, width, picture.shape[2]), 225, dtype=np.uint8)
    for row in range(grid[0]):
        for column in range(grid[1]):
            y, x = row * (size + gap), column * (size + gap)
            whole[y : y + size, x : x + size] = picture[
                row * stride : row * stride + size, column * stride : column * stride + size
            ]
    return whole


def _matrix(caption: str, values: Tensor) -> Figure:
    """A matrix as a picture with one pixel per number."""
    cut = values.detach().float().cpu()[:_MOST_ROWS, :_MOST_COLUMNS]
    more = ""
    if cut.shape != values.shape:
        more = f"; the first {cut.shape[0]} x {cut.shape[1]} of {values.shape[0]} x {values.shape[1]}"
    times = max(1, min(8, 360 // max(cut.shape)))
    return Figure(f"{caption or 'blue above 0, orange below'}{more}", _signed(cut), times)


def _signed(values: Tensor) -> Array:
    """Numbers in blue above 0 and orange below, darker for larger absolute values."""
    largest = float(values.abs().max()) or 1.0
    levels = (values / largest).tolist()
    colors = [[palette.signed_shade(value) for value in row] for row in levels]
    return np.array([[[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in row] for row in colors], dtype=np.uint8)


def _heat(values: Tensor) -> Array:
    """Numbers from 0 to the largest, as colours."""
    largest = float(values.max())
    levels = (values.clamp_min(0) / largest if largest > 0 else values * 0).numpy()
    colors: Array = ramp()[0][np.round(levels * 255).astype(int)]
    return colors


def judged(task: Images, model: PictureClassifier, picture: Array, choice: Choice) -> list[Judged]:
    """The maps of a picture's patches, with what the log-odds of its label lose without each patch.

    A patch is left out by filling it with the mean colour of the picture, since the model reads a whole grid. The row
    of a map is that of the class token, or the mean of all without one.

    Raises:
        ConfigError: The model has no such attention.
    """
    look = Looking(task, model, picture, ())
    if look.attention is None:
        raise ConfigError(f"model {task.config.model.name} has no attention")
    choice.check(look.seen.mechanisms())
    patches, pixels, body = look.attention.patches, look.pixels, model.body
    config: Any = body.config
    side = config.patch_size if config.stem != "conv" else 0
    inside = []  # for rows, then columns: the pixels of each patch, `(patches, pixels)`
    for count, length, step in zip(patches.grid, patches.size, patches.step, strict=True):
        start = torch.arange(count).unsqueeze(1) * step
        places = torch.arange(length).unsqueeze(0) + 0.5
        inside.append((places > start) & (places < start + (side or step)))
    covers = (inside[0][:, None, :, None] & inside[1][None, :, None, :]).flatten(2).flatten(0, 1).to(pixels.device)
    colour, number = pixels.mean((2, 3), keepdim=True), look.number_of(None)

    def log_odds(rows: Tensor) -> Tensor:
        hidden = ((rows == LEFT_OUT).float() @ covers.float() > 0).view(len(rows), 1, *pixels.shape[2:])
        logits = model(torch.where(hidden, colour, pixels))
        return label_odds(logits, number, look.score(logits, number), task.sigmoid).unsqueeze(1)

    parts = [range(n, n + 1) for n in range(patches.count)]
    left_out = Deletions(model, torch.arange(patches.count, device=pixels.device), parts, log_odds)
    found = []
    for mechanism, layer in choice.layers(look.seen.mechanisms()):
        every = look.attention.weights[look.attention.layers.index(layer)].double()
        for head in choice.heads(len(every)):
            weights = every.mean(0) if head is None else every[head]
            row = (weights[0] if patches.leading else weights.mean(0))[patches.leading :]
            own = head if len(every) > 1 else None
            found.append(left_out.judged(mechanism, layer, [Looked(row, range(patches.count))], own))
    return found

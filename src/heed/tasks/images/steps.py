"""The steps from a picture to its label, with every shape and some of the numbers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heed.data.pictures.decode import Array
from heed.observe import palette
from heed.observe.picture_drawing import laid_over, ramp
from heed.observe.picture_looks import Figure, Step, StepTable
from heed.observe.picture_maps import SeenAttention
from heed.observe.trace import Trace
from heed.tasks.images.model import PictureClassifier
from heed.tasks.images.task import Images

_FIRST = 6
_SIDE = 192
_MOST_ROWS, _MOST_COLUMNS = 200, 400
_GAP = 2
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
    with_class = "A learned vector, the class token, is put before the patches. " if leading else ""
    if config.positions == "none":
        prose = f"{with_class}No positions are added: the model cannot tell where a patch lies."
        figures: tuple[Figure, ...] = ()
    else:
        added = placed[0, leading:] - embedded[0]
        prose = f"{with_class}Added to each: {kinds[config.positions]}. {placed.shape[1]} x {placed.shape[2]}."
        figures = (_similarity(added, patches.grid),)
    title = "class token and positions" if leading else "positions"
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
    what = "class token" if attention.patches.leading else "mean of the patches"

    def read(state: Tensor) -> Tensor:
        normed = body.norm(state)
        found: Tensor = normed[:, 0] if attention.patches.leading else normed.mean(1)
        return found

    steps = []
    for i, (before, after) in enumerate(pairwise(states)):
        with torch.no_grad():
            said = task.probabilities(model.output(read(after)).float().cpu())[0]
            moved = torch.cosine_similarity(read(before).float(), read(after).float(), dim=-1)
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
        elif attention.patches.leading:
            vector, how = body.norm(states[-1])[0, 0], "the class token after the last normalisation"
        else:
            vector, how = body.norm(states[-1])[0].mean(0), "the mean of the patches after the last normalisation"
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
    more = (
        ""
        if cut.shape == values.shape
        else f"; the first {cut.shape[0]} x {cut.shape[1]} of {values.shape[0]} x {values.shape[1]}"
    )
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

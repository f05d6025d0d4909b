"""Overviews of labelled pictures: the text of `heed check`, pages of samples and of wrongly labelled pictures."""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heed.data.findings import found_table
from heed.data.pictures.sizing import Sizing
from heed.errors import DataError
from heed.observe.page import page
from heed.tasks.base.labels import count_lines

if TYPE_CHECKING:
    from heed.data.examples import Picture

_MOST = 8
"""Largest number of sizes listed on a line."""


def form_line(sizing: Sizing) -> str:
    """The form of pictures, as a line of text."""
    colour = "grey" if sizing.channels == 1 else "red, green and blue"
    return f"pictures are read as {sizing.width} x {sizing.height} pixels, {colour}; other aspect ratios: {sizing.crop}"


def remarks_on(task: Any) -> list[str]:
    """The form of pictures, and the counts of labels, with warnings."""
    fix = " (data.class_weights=balanced weighs labels equally)" * (task.config.data.class_weights == "none")
    return [form_line(task.form.sizing), *count_lines(task.label_counts("train"), "picture", fix)]


def overview_of(task: Any) -> str:
    """Counts, findings in the files, sizes, mean and deviation of each channel, labels, samples."""
    form = task.form
    counted = [
        f"{split:10}" + "  ".join(f"{label} {count:,}" for label, count in task.label_counts(split).items())
        for split in task.split_names
    ]
    names = ("grey",) if form.sizing.channels == 1 else ("red", "green", "blue")
    values = zip(names, form.normalisation.mean, form.normalisation.deviation, strict=True)
    channels = [f"  {name:<8} mean {mean:.4f}  deviation {deviation:.4f}" for name, mean, deviation in values]
    return "\n".join(
        [
            task.splits.summary,
            *found_table(task.splits.found),
            "",
            *_sizes(task),
            "",
            "channels, from 0 to 1, over the training pictures (normalised to mean 0, deviation 1):",
            *channels,
            "",
            "labels:",
            *counted,
            "",
            "samples:",
            *_samples(task),
        ]
    )


def counts_of(task: Any) -> dict[str, Any]:
    """Per split: counts of pictures, of those left out by each rule, and of labels."""
    splits = task.splits
    return {
        name: {
            "examples": len(pictures),
            **(splits.counts[name].as_values() if name in splits.counts else {}),
            "labels": task.label_counts(name),
        }
        for name, pictures in splits.examples.items()
    }


def _sizes(task: Any) -> list[str]:
    """The original sizes of the pictures, the most frequent first."""
    lines = []
    for split in task.split_names:
        facts = task.access.pixels.facts([picture.place for picture in task.splits.examples[split]])
        counts = Counter((one.width, one.height, one.channels) for one in facts).most_common()
        some = ", ".join(f"{w} x {h} {'grey' if c == 1 else 'colour'} {n:,}" for (w, h, c), n in counts[:_MOST])
        more = f", ... ({len(counts):,} sizes)" if len(counts) > _MOST else ""
        lines.append(f"{split:10}{some}{more}")
    return ["sizes, width x height in pixels:", *lines]


def _samples(task: Any) -> list[str]:
    """A few pictures of each split, with label, size and notes."""
    lines = []
    for split in task.split_names:
        pictures = task.splits.examples[split]
        for picture in pictures[:: max(1, len(pictures) // 3)][:3]:
            (facts,) = task.access.pixels.facts([picture.place])
            said = f"{facts.width} x {facts.height}" + "".join(f", {note}" for note in facts.notes)
            lines.append(f"  {picture.origin}  {picture.label}  ({said})")
    return lines


SIDE = 144
"""Pixels of the longer side of a picture on a page."""
_EACH, _CLASSES = 4, 12
"""Largest numbers of pictures of each class and of classes on a page of samples."""
_AUGMENTED = 4
"""Number of augmented versions of each sample."""


class Tag(NamedTuple):
    """A picture as a self-contained `<img>`; without `uri`, `alt` says why it cannot be shown."""

    uri: str
    alt: str
    width: int = 0
    height: int = 0
    enlarged: bool = False


def picture_tag(pixels: NDArray[Any], alt: str) -> Tag:
    """A picture `(height, width, channels)`; small pictures are enlarged unsmoothed."""
    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    scale = SIDE / max(image.size)
    width, height = (max(1, round(scale * one)) for one in image.size)
    image.thumbnail((2 * SIDE, 2 * SIDE))
    file = io.BytesIO()
    image.save(file, "PNG")
    data = base64.b64encode(file.getvalue()).decode("ascii")
    return Tag(f"data:image/png;base64,{data}", alt, width, height, scale > 2)


def errors_page(task: Any, errors: Mapping[str, Sequence[Mapping[str, Any]]], title: str) -> str:
    """The wrong pictures of each set with true and predicted labels, most confident first."""
    wrong = [
        (name, [(error, _original(task, str(error["picture"]))) for error in found]) for name, found in errors.items()
    ]
    return page("tasks/images/page.html", title, hints=(), wrong=wrong, classes=(), augmented=0)


def samples_page(task: Any, title: str) -> str:
    """Pictures of every class: the original, the model's input, and augmented versions."""
    train = task.splits.examples["train"]
    by_label: dict[str, list[int]] = {label: [] for label in task.labels}
    for i, picture in enumerate(train):
        by_label[picture.label].append(i)
    hints = [f"{form_line(task.form.sizing)}."]
    if len(task.labels) > _CLASSES:
        hints.append(f"The first {_CLASSES} of {len(task.labels):,} classes.")
    classes = []
    for label in task.labels[:_CLASSES]:
        places = by_label[label]
        chosen = places[:: max(1, len(places) // _EACH)][:_EACH]
        classes.append((label, len(places), [_sample(task, i, train[i]) for i in chosen]))
    augmented = _AUGMENTED if task.config.augment.changes_pictures else 0
    return page("tasks/images/page.html", title, hints=hints, wrong=(), classes=classes, augmented=augmented)


def _sample(task: Any, index: int, picture: Picture) -> tuple[str, str, list[Tag]]:
    """File and size of a picture, then the picture, what the model reads, and augmented versions."""
    seen = task.sized("train").take([index])
    (facts,) = task.access.pixels.facts([picture.place])
    pictures = [_original(task, picture.place), picture_tag(seen[0], "")]
    if task.config.augment.changes_pictures:
        pictures += [picture_tag(task.augment.picture(seen[0], index, epoch), "") for epoch in range(_AUGMENTED)]
    return picture.origin, f"{facts.width} x {facts.height}", pictures


def _original(task: Any, place: str) -> Tag:
    try:
        return picture_tag(np.asarray(task.access.pixels.read([place])[0]), place)
    except DataError as error:
        return Tag("", str(error))

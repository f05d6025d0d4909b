"""HTML pages of pictures: wrongly labelled ones, and samples as the model sees them."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heed.errors import DataError
from heed.observe.draw_html import page_to_html
from heed.observe.labels import clean
from heed.tasks.images.overview import form_line

if TYPE_CHECKING:
    from heed.data.examples import Picture
    from heed.tasks.images.task import Images

SIDE = 144
"""Pixels of the longer side of a picture on a page."""
_EACH, _CLASSES = 4, 12
"""Largest numbers of pictures of each class and of classes on a page of samples."""
_AUGMENTED = 4
"""Number of augmented versions of each sample."""
CSS = """
.pictures { max-width: 84rem; }
.pictures .grid { display: flex; flex-wrap: wrap; gap: 1rem; }
.pictures figure { margin: 0; max-width: 11rem; }
.pictures figcaption { font-size: .8125rem; overflow-wrap: anywhere; }
.pictures figcaption .quiet, .pictures .quiet { color: var(--quiet); }
.pictures img { display: block; border: 1px solid var(--line); }
.pictures table { border-collapse: collapse; }
.pictures td { padding: .3rem .5rem .3rem 0; vertical-align: top; font-size: .8125rem; max-width: 14rem; }
.pictures th { text-align: left; font-weight: normal; color: var(--quiet); font-size: .8125rem; padding-right: .5rem; }
"""


def picture_tag(pixels: NDArray[Any], title: str) -> str:
    """A picture `(height, width, channels)` as a self-contained `<img>`; small pictures are enlarged unsmoothed."""
    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    scale = SIDE / max(image.size)
    width, height = (max(1, round(scale * one)) for one in image.size)
    image.thumbnail((2 * SIDE, 2 * SIDE))
    file = io.BytesIO()
    image.save(file, "PNG")
    data = base64.b64encode(file.getvalue()).decode("ascii")
    style = ' style="image-rendering:pixelated"' if scale > 2 else ""
    shown = escape(clean(title), quote=True)
    return f'<img src="data:image/png;base64,{data}" width="{width}" height="{height}" alt="{shown}"{style}>'


def errors_page(task: Images, errors: Mapping[str, Sequence[Mapping[str, Any]]], title: str) -> str:
    """The wrong pictures of each set with true and predicted labels, most confident first."""
    parts = []
    for name, wrong in errors.items():
        hint = f"{len(wrong):,} wrong pictures, most confident first." if wrong else "No errors."
        figures = "".join(_wrong(task, error) for error in wrong)
        parts.append(f'<h2>{_text(name)}</h2><p class="hint">{hint}</p><div class="grid">{figures}</div>')
    return _page(title, parts)


def _wrong(task: Images, error: Mapping[str, Any]) -> str:
    said = f"is <b>{_text(error['true'])}</b>, predicted <b>{_text(error['predicted'])}</b>"
    caption = f'{said} ({error["probability"]:.3f})<br><span class="quiet">{_text(str(error["origin"]))}</span>'
    return f"<figure>{_original(task, str(error['picture']))}<figcaption>{caption}</figcaption></figure>"


def samples_page(task: Images, title: str) -> str:
    """Pictures of every class: the original, the model's input, and augmented versions."""
    train = task.splits.examples["train"]
    by_label: dict[str, list[int]] = {label: [] for label in task.labels}
    for i, picture in enumerate(train):
        by_label[picture.label].append(i)
    parts = [f'<p class="hint">{_text(form_line(task.form.sizing))}.</p>']
    if len(task.labels) > _CLASSES:
        parts.append(f'<p class="hint">The first {_CLASSES} of {len(task.labels):,} classes.</p>')
    changes = task.config.augment.changes_pictures
    for label in task.labels[:_CLASSES]:
        places = by_label[label]
        chosen = places[:: max(1, len(places) // _EACH)][:_EACH]
        rows = "".join(_sample(task, i, train[i]) for i in chosen)
        heads = "<tr><th>original</th><th>model input</th>"
        heads += f'<th colspan="{_AUGMENTED}">augmented, in successive passes</th>' if changes else ""
        parts.append(
            f"<section><h2>{_text(label)}</h2>"
            f'<p class="quiet">{len(places):,} training picture{"s" * (len(places) != 1)}</p>'
            f"<table>{heads}</tr>{rows}</table></section>"
        )
    return _page(title, parts)


def _sample(task: Images, index: int, picture: Picture) -> str:
    seen = task.sized("train").take([index])
    (facts,) = task.access.pixels.facts([picture.place])
    said = f"{picture.origin}<br>{facts.width} x {facts.height}"
    cells = [f'{_original(task, picture.place)}<span class="quiet">{said}</span>', picture_tag(seen[0], "")]
    if task.config.augment.changes_pictures:
        cells += [picture_tag(task.augment.picture(seen[0], index, epoch), "") for epoch in range(_AUGMENTED)]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _original(task: Images, place: str) -> str:
    try:
        return picture_tag(np.asarray(task.access.pixels.read([place])[0]), place)
    except DataError as error:
        return f'<p class="hint">{_text(str(error))}</p>'


def _page(title: str, parts: Iterable[str]) -> str:
    header = f"<header><h1>{_text(title)}</h1></header><main>"
    return page_to_html(title, [header, *parts, "</main>"], css=CSS, kind="pictures")


def _text(text: str) -> str:
    return escape(clean(text))

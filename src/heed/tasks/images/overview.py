"""Output of `heed check` for labelled pictures."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from heed.data.pictures.sizing import Sizing
from heed.data.read.findings import found_table
from heed.tasks.base.labels import count_lines

if TYPE_CHECKING:
    from heed.tasks.images.task import Images

_MOST = 8
"""Largest number of sizes listed on a line."""


def form_line(sizing: Sizing) -> str:
    """The form of pictures, as a line of text."""
    colour = "grey" if sizing.channels == 1 else "red, green and blue"
    return f"pictures are read as {sizing.width} x {sizing.height} pixels, {colour}; other aspect ratios: {sizing.crop}"


def remarks_on(task: Images) -> list[str]:
    """The form of pictures, and the counts of labels, with warnings."""
    fix = " (data.class_weights=balanced weighs labels equally)" * (task.config.data.class_weights == "none")
    return [form_line(task.form.sizing), *count_lines(task.label_counts("train"), "picture", fix)]


def overview_of(task: Images) -> str:
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


def counts_of(task: Images) -> dict[str, Any]:
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


def _sizes(task: Images) -> list[str]:
    """The original sizes of the pictures, the most frequent first."""
    lines = []
    for split in task.split_names:
        facts = task.access.pixels.facts([picture.place for picture in task.splits.examples[split]])
        counts = Counter((one.width, one.height, one.channels) for one in facts).most_common()
        some = ", ".join(f"{w} x {h} {'grey' if c == 1 else 'colour'} {n:,}" for (w, h, c), n in counts[:_MOST])
        more = f", ... ({len(counts):,} sizes)" if len(counts) > _MOST else ""
        lines.append(f"{split:10}{some}{more}")
    return ["sizes, width x height in pixels:", *lines]


def _samples(task: Images) -> list[str]:
    """A few pictures of each split, with label, size and notes."""
    lines = []
    for split in task.split_names:
        pictures = task.splits.examples[split]
        for picture in pictures[:: max(1, len(pictures) // 3)][:3]:
            (facts,) = task.access.pixels.facts([picture.place])
            said = f"{facts.width} x {facts.height}" + "".join(f", {note}" for note in facts.notes)
            lines.append(f"  {picture.origin}  {picture.label}  ({said})")
    return lines

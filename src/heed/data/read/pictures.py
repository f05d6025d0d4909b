"""Readers of labelled pictures; errors name the file.

| given | read as |
|---|---|
| a folder | a folder for each class in it, at any depth below that; hidden files are left out |
| .zip, .tar, .tar.gz, ... | the same, in an archive; `photos.zip!train` is a folder in it |
| .csv, .tsv | a path and a label in each row |
| idx, gzipped or not | pictures, their labels in the file of the same name with "labels" for "images" |

Every picture is decoded once while it is read, so that a damaged one is found before training begins.
"""

from __future__ import annotations

from typing import Any

from heed.data.examples import Picture
from heed.data.pictures.source import Pixels
from heed.data.read.contents import Advice, no_advice
from heed.data.read.reader import Reader


def picture_reader(data: Any, pixels: Pixels, advice: Advice = no_advice) -> Reader[Picture]:
    """The reader of labelled pictures; `data` is a section of pictures, `pixels` gets to know where they are."""
    raise NotImplementedError

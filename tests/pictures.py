"""Small pictures for tests: files, folders of classes."""

import io

import numpy as np
from PIL import Image


def noise(seed=0, height=9, width=7, channels=3):
    """Random pixels; one channel is `(height, width)`."""
    shape = (height, width) if channels == 1 else (height, width, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def encoded(array, kind="PNG", **options):
    """The bytes of an image file with these pixels (an array or a Pillow image)."""
    file = io.BytesIO()
    image = array if isinstance(array, Image.Image) else Image.fromarray(array)
    image.save(file, kind, **options)
    return file.getvalue()


def folder_of(path, classes=("cat", "dog"), each=6, channels=3, first=0):
    """Make a folder with one subfolder for each class, all pictures different; return it."""
    for number, name in enumerate(classes):
        (path / name).mkdir(parents=True)
        for i in range(each):
            (path / name / f"{i}.png").write_bytes(encoded(noise(first + 1_000 * number + i, channels=channels)))
    return path

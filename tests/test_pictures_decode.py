"""Any picture as 8-bit grey or colours, the way a person would see it; and what is no picture, said."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from heed.data.pictures.decode import PictureError, decode, decoded, eight_bits, from_array, from_pillow
from pictures import encoded, noise


def test_png_keeps_every_pixel_and_its_channels():
    colours, grey = noise(1), noise(2, channels=1)
    assert (decode(encoded(colours)) == colours).all() and decode(encoded(colours)).dtype == np.uint8
    assert decode(encoded(grey)).shape == (9, 7, 1) and (decode(encoded(grey))[:, :, 0] == grey).all()


@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP", "TIFF", "PPM", "WEBP"])
def test_formats_that_lose_nothing_hold_the_same_pixels(kind):
    colours = np.repeat(noise(3, channels=1)[:, :, None] // 64 * 64, 3, axis=2)  # few colours, for a palette
    options = {"lossless": True} if kind == "WEBP" else {}
    assert (decode(encoded(colours, kind, **options), 3) == colours).all()


def test_jpeg_is_what_pillow_decodes():
    data = encoded(noise(4, 40, 30), "JPEG")
    with Image.open(io.BytesIO(data)) as image:
        assert (decode(data) == np.asarray(image)).all()


def test_channels_are_repeated_or_weighed_as_luma():
    colours, grey = noise(5), noise(6, channels=1)
    assert (decode(encoded(grey), 3) == grey[:, :, None]).all()
    luma = colours @ np.array([0.299, 0.587, 0.114])
    found = decode(encoded(colours), 1)
    assert found.shape == (9, 7, 1) and np.abs(found[:, :, 0] - luma).max() <= 1


def test_a_palette_is_read_as_its_colours():
    image = Image.fromarray(noise(7) // 128 * 255).quantize(8)
    assert image.mode == "P" and (decode(encoded(image)) == np.asarray(image.convert("RGB"))).all()


def test_a_palette_of_greys_is_one_channel():
    grey = noise(8, channels=1) // 32
    image = Image.fromarray(grey, "L").convert("P")
    image.putpalette([value for i in range(256) for value in (i, i, i)])
    assert decode(encoded(image)).shape == (9, 7, 1) and (decode(encoded(image))[:, :, 0] == grey).all()


def test_transparent_pixels_are_white_and_half_transparent_ones_between():
    pixels = np.zeros((1, 3, 4), np.uint8)
    pixels[0, :, 0], pixels[0, :, 3] = 200, [255, 0, 128]
    found = decode(encoded(pixels))
    assert found[0, 0].tolist() == [200, 0, 0] and found[0, 1].tolist() == [255, 255, 255]
    half = 128 / 255
    assert np.abs(found[0, 2] - (np.array([200, 0, 0]) * half + 255 * (1 - half))).max() <= 1
    grey = Image.fromarray(np.array([[[40, 255], [40, 0]]], np.uint8), "LA")
    assert decode(encoded(grey)).tolist() == [[[40], [255]]]


def test_a_transparent_colour_of_a_palette_is_white():
    image = Image.fromarray(np.array([[0, 1]], np.uint8), "P")
    image.putpalette([10, 20, 30, 200, 0, 0])
    assert decode(encoded(image, transparency=1)).tolist() == [[[10, 20, 30], [255, 255, 255]]]


def test_cmyk_is_read_as_colours():
    image = Image.new("CMYK", (8, 8), (0, 255, 255, 0))
    found = decode(encoded(image, "JPEG", quality=95))
    assert found.shape == (8, 8, 3) and np.abs(found - np.array([255, 0, 0])).max() < 12


def test_sixteen_bits_are_reduced_to_the_high_byte():
    values = np.array([[0, 255, 256, 65_535]], np.uint16)
    pixels, notes = decoded(encoded(values))
    assert eight_bits(pixels)[:, :, 0].tolist() == [[0, 0, 1, 255]]
    assert notes == ("16 bits a value, reduced to 8",)


def test_floating_point_pictures_are_read_from_zero_to_one():
    image = Image.fromarray(np.array([[0.0, 0.5, 1.0]], np.float32))
    assert eight_bits(decode(encoded(image, "TIFF")))[:, :, 0].tolist() == [[0, 128, 255]]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_is_upright_however_the_camera_was_held(orientation):
    upright = noise(9, 4, 6)
    # What a camera stores for each value of the EXIF tag 0x0112, by its definition: which side of the stored picture
    # is the top and which the left of the scene.
    stored = {
        1: upright, 2: upright[:, ::-1], 3: upright[::-1, ::-1], 4: upright[::-1],
        5: upright.transpose(1, 0, 2), 6: np.rot90(upright, 1), 7: upright[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(upright, -1),
    }[orientation]  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert (decode(encoded(np.ascontiguousarray(stored), exif=exif)) == upright).all()


def test_of_an_animation_the_first_frame_is_read():
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "lime")]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    pixels, notes = decoded(data)
    assert pixels[0, 0].tolist() == [255, 0, 0] and notes == ("animated, the first frame is used",)


def test_black_and_white_is_grey():
    image = Image.fromarray(np.array([[0, 255]], np.uint8)).convert("1")
    assert decode(encoded(image)).tolist() == [[[0], [255]]]


def refusal(data, **options):
    with pytest.raises(PictureError) as error:
        decode(data, **options)
    return error.value.rule, str(error.value)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP"])
def test_a_picture_that_is_cut_off_is_damaged(kind):
    data = encoded(noise(10, 64, 64), kind)
    rule, message = refusal(data[: len(data) // 2])
    assert rule == "damaged picture" and message.startswith("is cut off or damaged: ")


def test_an_empty_file_and_what_is_no_picture_are_named():
    assert refusal(b"") == ("empty file", "is empty (0 bytes)")
    rule, message = refusal(b"Dear all,\nthis is no picture")
    assert rule == "not a picture" and message == "is not a picture: it begins with b'Dear all,\\nthis is no'"
    assert (
        "HEIC" in refusal(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic")[1]
        and "save it as JPEG" in refusal(b"\0\0\0\x18ftypheic")[1]
    )
    assert refusal(b"%PDF-1.7 x")[1] == "is not a picture: it begins with b'%PDF-1.7 x'"


def bomb(width, height):
    """A PNG of a hundred bytes that names a huge size."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("side", [12_000, 50_000])
def test_a_small_file_that_names_a_huge_size_is_not_decoded(side):
    rule, message = refusal(bomb(side, side))
    assert rule == "too many pixels"
    assert message == f"has {side:,} x {side:,} = {side * side:,} pixels, more than data.max_pixels=100000000"


def test_the_bound_on_pixels_can_be_set():
    data = encoded(noise(11, 20, 20))
    assert refusal(data, max_pixels=399)[0] == "too many pixels" and decode(data, max_pixels=400).shape == (20, 20, 3)
    bound = Image.MAX_IMAGE_PIXELS
    assert refusal(bomb(20_000, 20_000), max_pixels=10**9)[0] == "damaged picture"  # now opened, and then cut off
    assert bound == Image.MAX_IMAGE_PIXELS


def test_arrays_in_all_usual_shapes_are_the_same_picture():
    colours, grey = noise(12), noise(13, channels=1)
    assert (from_array(colours) == colours).all() and (from_array(colours.transpose(2, 0, 1)) == colours).all()
    assert from_array(grey).shape == (9, 7, 1) and (from_array(grey[None]) == grey[:, :, None]).all()
    assert (from_array(grey / 255.0)[:, :, 0] == grey).all() and (
        from_array(grey.astype(np.int64))[:, :, 0] == grey
    ).all()
    assert from_array(np.array([[True, False]])).tolist() == [[[255], [0]]]
    assert from_array(np.array([[[9, 9, 9, 0]]], np.uint8)).tolist() == [[[255, 255, 255]]]
    assert (from_pillow(Image.fromarray(colours)) == colours).all()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(64), r"is an array of shape \(64,\), expected \(height, width\)"),
        (np.zeros((5, 5, 2)), r"is an array of shape \(5, 5, 2\)"),
        (np.full((2, 2), 300), "has values from 300 to 300, expected 0 to 255, or 0 to 1"),
        (np.full((2, 2), -1.0), "has values from -1 to -1"),
        (np.full((2, 2), np.nan), "has values from nan to nan"),
        (np.zeros((2, 2), complex), "is an array of complex128"),
        (np.array([["a"]]), "is an array of <U1, expected numbers"),
    ],
)
def test_an_array_that_is_no_picture_is_named(array, message):
    with pytest.raises(PictureError, match=message):
        decode(array)

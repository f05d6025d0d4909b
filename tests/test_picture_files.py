"""Labelled pictures from folders, tables and idx files, decoded to grey or colours; odd files are named."""

import gzip
import io
import os
import shutil
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from contract import data_of
from heed.cli import main
from heed.data.kinds.contents import picture_in
from heed.data.pictures import decode as decoding
from heed.data.pictures.decode import PictureError, Pixels, decode, decoded, eight_bits, from_array, from_pillow
from heed.errors import DataError
from heed.tasks.inputs.pictures import open_pictures
from pictures import encoded, folder_of, noise


def opened(train, **fields):
    data = data_of(
        "images", **{"train": [str(one) for one in (train if isinstance(train, list) else [train])], **fields}
    )
    pixels = Pixels.of(data)
    return open_pictures(data, pixels), pixels


def refusal(train, **fields):
    with pytest.raises(DataError) as error:
        opened(train, **fields)
    return str(error.value)


def labels_of(splits, split="train"):
    return sorted({one.label for one in splits.examples[split]})


@pytest.fixture
def photos(tmp_path):
    return folder_of(tmp_path / "photos")


# --- folders


def test_each_folder_is_a_class_and_pixels_are_found_by_place(photos):
    splits, pixels = opened(photos, valid=2)
    examples = [*splits.examples["train"], *splits.examples["valid"]]
    assert len(splits.examples["train"]) == 10 and {one.label for one in examples} == {"cat", "dog"}
    for one in examples:
        number = int(one.origin.split("/")[1].removesuffix(".png")) + 1_000 * (one.label == "dog")
        assert (pixels.read([one.place])[0] == noise(number)).all()
    facts = pixels.facts([one.place for one in examples])
    assert {(one.height, one.width, one.channels) for one in facts} == {(9, 7, 3)}


def test_the_same_pictures_are_held_out_wherever_the_folder_lies(photos, tmp_path):
    before = {one.digest for one in opened(photos, valid=3)[0].examples["valid"]}
    shutil.move(photos, tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "cat" / "0.png").rename(tmp_path / "elsewhere" / "cat" / "z.png")
    assert {one.digest for one in opened(tmp_path / "elsewhere", valid=3)[0].examples["valid"]} == before


def test_folders_inside_those_of_the_classes_belong_to_them(photos):
    (photos / "cat" / "siamese").mkdir()
    (photos / "cat" / "siamese" / "1.png").write_bytes(encoded(noise(77)))
    splits, _ = opened(photos, valid=2)
    assert labels_of(splits) == ["cat", "dog"] and splits.counts["train"].read == 13


def test_the_folder_above_the_classes_is_found(tmp_path):
    folder_of(tmp_path / "photos" / "data" / "animals")
    (tmp_path / "photos" / "README.txt").write_text("about")
    assert labels_of(opened(tmp_path / "photos", valid=2)[0]) == ["cat", "dog"]


@pytest.mark.parametrize(("train", "valid", "test"), [("train", "val", "test"), ("Training", "Validation", "Testing")])
def test_train_and_test_inside_are_the_sets(tmp_path, train, valid, test):
    for number, name in enumerate((train, valid, test)):
        folder_of(tmp_path / "photos" / name, first=10_000 * number, each=6 - number)
    splits, pixels = opened(tmp_path / "photos")
    assert {name: len(some) for name, some in splits.examples.items()} == {"train": 12, "valid": 10, "test": 8}
    assert any(one.startswith("data.test is ") and one.endswith(test) for one in splits.remarks)
    assert pixels.read([splits.examples["test"][0].place])[0].shape == (9, 7, 3)


def test_a_class_may_be_called_train(tmp_path):
    splits, _ = opened(folder_of(tmp_path / "photos", classes=("bus", "car", "train")), valid=3)
    assert labels_of(splits) == ["bus", "car", "train"] and "test" not in splits.examples


def test_an_empty_class_folder_is_warned_of(photos):
    (photos / "emu").mkdir()
    assert "class folder without a picture: 1 folder (emu)" in opened(photos, valid=2)[0].notes


def test_hidden_files_and_those_of_systems_are_left_alone(photos):
    for name in (".DS_Store", "Thumbs.db", "._0.png", ".hidden/1.png"):
        file = photos / "cat" / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"no picture")
    (photos / ".git").mkdir()
    (photos / ".git" / "x.png").write_bytes(b"no picture")
    assert opened(photos, valid=2)[0].counts["train"].read == 12


def test_links_are_followed_but_not_in_circles(photos, tmp_path):
    os.symlink(photos / "cat", tmp_path / "photos" / "puma", target_is_directory=True)
    os.symlink(photos, photos / "dog" / "again", target_is_directory=True)
    splits, _ = opened(photos, valid=2)
    assert labels_of(splits) == ["cat", "dog", "puma"]


def test_pictures_without_class_folders_say_what_is_expected(tmp_path):
    (tmp_path / "photos").mkdir()
    assert "contains 0 files and no folders; expected a folder for each class" in refusal(tmp_path / "photos")
    for i in range(3):
        (tmp_path / "photos" / f"{i}.png").write_bytes(encoded(noise(i)))
    assert (
        "contains 3 files and no folders; expected a folder for each class, with its pictures, or a table"
        in refusal(tmp_path / "photos")
    )
    (tmp_path / "photos" / "labels.csv").write_text("file,label\n0.png,a\n")
    assert f"to read its table, give {tmp_path}/photos/labels.csv" in refusal(tmp_path / "photos")


def test_a_picture_beside_the_class_folders_is_a_bad_one(photos):
    (photos / "lost.png").write_bytes(encoded(noise(99)))
    assert f"'{photos}/lost.png' is next to the class folders; move it into one of them" in refusal(photos)
    splits, _ = opened(photos, valid=2, bad_lines="skip")
    assert splits.counts["train"].filtered["in no class folder"] == 1


def test_a_folder_of_texts_is_no_folder_of_pictures(tmp_path):
    for name in ("good", "bad"):
        (tmp_path / "texts" / name).mkdir(parents=True)
        (tmp_path / "texts" / name / "1.txt").write_text(f"a {name} film")
    said = refusal(tmp_path / "texts")
    assert "contains no pictures: " in said and "it begins with b'a bad film" in said


def test_a_missing_folder_and_a_single_picture_are_named(tmp_path):
    assert refusal(tmp_path / "none") == f"no file '{tmp_path / 'none'}'"
    (tmp_path / "one.png").write_bytes(encoded(noise()))
    assert "is one picture; expected a folder with a folder for each class" in refusal(tmp_path / "one.png")


# --- odd files


@pytest.mark.parametrize(
    ("content", "rule", "reason"),
    [
        (b"notes about cats", "not a picture", "is not a picture: it begins with b'notes about cats'"),
        (encoded(noise(5, 60, 60))[:5_000], "damaged picture", "is cut off or damaged: "),
    ],
    ids=["text", "cut"],
)
def test_an_odd_file_is_an_error_or_left_out_and_counted(photos, content, rule, reason):
    file = photos / "cat" / "3.png"
    file.write_bytes(content)
    said = refusal(photos)
    assert said.startswith(f"'{file}' {reason}")
    assert said.endswith("; data.bad_lines=skip leaves such pictures out and counts them")
    splits, _ = opened(photos, valid=2, bad_lines="skip")
    counts = splits.counts["train"]
    assert (counts.read, counts.filtered[rule]) == (12, 1) and counts.kept == 9
    assert f"{rule}, left out: 1 picture (cat/3.png)" in splits.notes


def test_a_file_that_may_not_be_read_is_named(photos, monkeypatch):
    file, read = photos / "dog" / "2.png", decoding.open_regular

    def refused(path):
        if path == file:
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(decoding, "open_regular", refused)  # tests may run as root
    assert refusal(photos).startswith(f"'{file}' cannot be read: Permission denied")


@pytest.mark.parametrize(
    ("kind", "problem"),
    [("pipe", "it is a named pipe"), ("/dev/zero", "it is a device"), ("/dev/random", "it is a device")],
)
def test_what_would_never_end_is_not_waited_for(photos, kind, problem):
    for name in ("dog/2.png", "dog/0-images-idx3-ubyte"):
        path = photos / name
        path.unlink(missing_ok=True)
        os.mkfifo(path) if kind == "pipe" else path.symlink_to(kind)
    for path in (photos / "dog/2.png", photos / "dog/0-images-idx3-ubyte", photos / "dog"):
        picture_in(path)
    assert f"{problem}, expected a file" in refusal(photos)
    assert "contains no pictures" in refusal(photos / "dog/0-images-idx3-ubyte")


def test_an_animation_is_noted(photos):
    frames = [Image.new("RGB", (5, 5), colour) for colour in ("red", "blue")]
    frames[0].save(photos / "cat" / "a.gif", save_all=True, append_images=frames[1:])
    assert "animated, the first frame is used: 1 picture (cat/a.gif)" in opened(photos, valid=2)[0].notes


def test_the_same_picture_again_is_found_whatever_it_is_called(photos):
    shutil.copy(photos / "cat" / "0.png", photos / "cat" / "again.png")
    shutil.copy(photos / "cat" / "1.png", photos / "dog" / "a_cat.png")
    splits, _ = opened(photos, valid=2)
    assert "duplicate picture, kept: 1 picture (cat/again.png)" in splits.notes
    assert "duplicate picture with different labels, kept: 1 picture" in splits.notes
    assert opened(photos, valid=2, duplicates="drop")[0].counts["train"].filtered["duplicate picture"] == 1


def test_the_same_picture_in_training_and_test_is_found(photos, tmp_path):
    test = folder_of(tmp_path / "test", first=50_000, each=2)
    shutil.copy(photos / "dog" / "4.png", test / "dog" / "new_name.png")
    splits, _ = opened(photos, valid=2, test=[str(test)])
    assert "warning: test: picture is in the training set as well" in splits.notes
    dropped, _ = opened(photos, valid=2, test=[str(test)], overlap="drop")
    assert len(dropped.examples["train"]) == len(splits.examples["train"]) - 1


# --- archives


# --- tables


def test_a_table_names_pictures_relative_to_itself(photos, tmp_path):
    rows = [f"photos/{name}/{i}.png,{name},{name}{i}" for name in ("cat", "dog") for i in range(6)]
    (tmp_path / "labels.csv").write_text("\n".join(["image,animal,id", *rows]) + "\n")
    splits, pixels = opened(tmp_path / "labels.csv", valid=2)
    assert labels_of(splits) == ["cat", "dog"] and splits.examples["train"][0].origin.startswith("labels.csv:")
    assert "columns: path is 'image', label is 'animal' (2 values)" in "\n".join(splits.remarks)
    assert pixels.read([splits.examples["train"][0].place])[0].shape == (9, 7, 3)


def test_a_table_without_a_header_and_with_tabs_is_recognised(photos, tmp_path):
    rows = [f"{name}\tphotos/{name}/{i}.png" for name in ("cat", "dog") for i in range(6)]
    (tmp_path / "labels.tsv").write_text("\n".join(rows) + "\n")
    splits, _ = opened(tmp_path / "labels.tsv", valid=2)
    assert labels_of(splits) == ["cat", "dog"] and splits.counts["train"].read == 12
    assert "path is 1, label is 0 (2 values); the file has no header" in "\n".join(splits.remarks)


def test_columns_of_a_table_can_be_named(photos, tmp_path):
    rows = [f"photos/{name}/{i}.png;{name};{i % 2}" for name in ("cat", "dog") for i in range(6)]
    (tmp_path / "labels.csv").write_text("\n".join(["where;what;odd", *rows]) + "\n")
    assert labels_of(opened(tmp_path / "labels.csv", valid=2, columns={"label": "odd"})[0]) == ["0", "1"]
    said = refusal(tmp_path / "labels.csv")
    assert (
        "the label column is unclear; data.columns.path=NAME and data.columns.label=NAME choose from 'where' (" in said
    )
    assert said.endswith("'what' (cat, dog), 'odd' (0, 1)")
    said = refusal(tmp_path / "labels.csv", columns={"label": "wat"})
    assert "wat" in said and "did you mean 'what'?" in said


def test_a_row_that_names_no_file_is_a_bad_line(photos, tmp_path):
    (tmp_path / "labels.csv").write_text("path,label\nphotos/cat/0.png,cat\nphotos/cat/99.png,cat\nphotos/dog/1.png,\n")
    said = refusal(tmp_path / "labels.csv")
    assert f"'{tmp_path}/labels.csv' line 3 names 'photos/cat/99.png', but there is no file" in said
    assert "paths are relative to the table" in said
    with pytest.raises(DataError, match=r"no training pictures left|no validation pictures left"):
        opened(tmp_path / "labels.csv", bad_lines="skip")


def test_a_damaged_picture_of_a_table_is_named_with_its_line(photos, tmp_path):
    (photos / "cat" / "3.png").write_bytes(b"notes about cats")
    rows = [f"photos/{name}/{i}.png,{name}" for name in ("cat", "dog") for i in range(6)]
    (tmp_path / "labels.csv").write_text("\n".join(["path,label", *rows]) + "\n")
    said = refusal(tmp_path / "labels.csv")
    assert said.startswith(
        f"'{tmp_path}/labels.csv' line 5 ('photos/cat/3.png') is not a picture: it begins with b'notes"
    )
    splits, _ = opened(tmp_path / "labels.csv", valid=2, bad_lines="skip")
    assert "labels.csv: not a picture, left out: 1 picture (labels.csv:5)" in splits.notes


def test_a_table_of_texts_is_no_table_of_pictures(tmp_path):
    (tmp_path / "texts.csv").write_text("text,label\n" + "a fine film to see,good\nthe worst of all,bad\n" * 10)
    said = refusal(tmp_path / "texts.csv")
    assert "; data.columns.path=NAME chooses from 'text' (" in said and said.endswith("'label' (good, bad)")
    assert "no column contains picture paths: column 1 (good, bad) repeats its values next to the texts" in said


# --- idx


def write_idx(path, array, kind=8):
    data = bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.fixture
def idx(tmp_path):
    rng = np.random.default_rng(1)
    folder = tmp_path / "mnist"
    folder.mkdir()
    for split, count in (("train", 40), ("t10k", 10)):
        images = rng.integers(0, 256, (count, 5, 4), dtype=np.uint8)
        write_idx(folder / f"{split}-images-idx3-ubyte.gz", images)
        write_idx(folder / f"{split}-labels-idx1-ubyte.gz", np.arange(count, dtype=np.uint8) % 3)
    return folder


def test_idx_files_find_their_labels_by_name(idx):
    splits, pixels = opened(idx / "train-images-idx3-ubyte.gz", valid=5)
    assert len(splits.examples["train"]) == 35 and labels_of(splits) == ["0", "1", "2"]
    with gzip.open(idx / "train-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read()[16:], np.uint8).reshape(40, 5, 4)
    for one in splits.examples["train"]:
        number = int(one.place.rpartition("#")[2])
        assert one.label == str(number % 3) and (pixels.read([one.place])[0][:, :, 0] == images[number]).all()
    assert (Pixels().read([f"{idx}/train-images-idx3-ubyte.gz#7"])[0][:, :, 0] == images[7]).all()


def test_classes_of_idx_files_have_names(idx):
    files = {"valid": 5, "test": [str(idx / "t10k-images-idx3-ubyte.gz")]}
    splits, _ = opened(idx / "train-images-idx3-ubyte.gz", **files, classes=["shirt", "shoe", "bag"])
    assert len(splits.examples["test"]) == 10 and labels_of(splits, "test") == ["bag", "shirt", "shoe"]
    assert splits.examples["test"][1].label == "shoe"
    (idx.parent / "names.txt").write_text("shirt\nshoe\nbag\n")
    named, _ = opened(idx / "train-images-idx3-ubyte.gz", **files, classes=str(idx.parent / "names.txt"))
    assert [one.label for one in named.examples["test"]] == [one.label for one in splits.examples["test"]]
    assert "has the label 2 (the first one too large is at position 2), but data.classes names 2 classes" in refusal(
        idx / "train-images-idx3-ubyte.gz", classes=["a", "b"]
    )


def test_labels_can_be_given_after_the_pictures(idx):
    (idx / "train-labels-idx1-ubyte.gz").rename(idx / "answers")
    pictures = idx / "train-images-idx3-ubyte.gz"
    names = "'train-labels-idx1-ubyte' or 'train-labels-idx1-ubyte.gz'"
    assert f"has no file of labels next to it ({names})" in refusal(pictures)
    (idx / "answers").write_bytes(gzip.decompress((idx / "answers").read_bytes()))
    assert len(opened([pictures, idx / "answers"], valid=5)[0].examples["train"]) == 35


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda data: data[:-3], r"40 x 5 x 4 bytes are 800, but 797 follow its header"),
        (lambda data: data[:2] + bytes([0x0D]) + data[3:], "contains numbers of type float32, expected bytes"),
        (lambda data: data[:9], "is cut off: its header has 9 bytes, expected 16"),
    ],
)
def test_a_spoiled_idx_file_is_named(idx, spoil, message):
    path = idx / "train-images-idx3-ubyte.gz"
    (idx / "train-images-idx3-ubyte").write_bytes(spoil(gzip.decompress(path.read_bytes())))
    assert message in refusal(idx / "train-images-idx3-ubyte")


def test_an_idx_file_of_labels_alone_and_unequal_counts_are_named(idx):
    assert "contains labels, not pictures" in refusal(idx / "train-labels-idx1-ubyte.gz")
    write_idx(idx / "train-labels-idx1-ubyte.gz", np.zeros(39, np.uint8))
    assert "has 39 labels, and" in refusal(idx / "train-images-idx3-ubyte.gz")


# --- classes, workers, digits


def test_classes_that_are_not_named_are_bad_ones(photos):
    said = refusal(photos, classes=["cats", "dog"])
    assert "is of class 'cat', which is not in data.classes; did you mean 'cats'?" in said
    with pytest.raises(DataError, match=r"data.classes names 'dog' twice"):
        opened(photos, classes=["dog", "cat", "dog"])


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_the_result_does_not_depend_on_the_workers(tmp_path, workers):
    folder_of(tmp_path / "photos", each=70)
    splits, pixels = opened(tmp_path / "photos", workers=workers, valid=10)
    places = [one.place for one in splits.examples["train"]]
    assert [one.origin for one in splits.examples["train"]] == sorted(one.origin for one in splits.examples["train"])
    pixels.read(places)  # and then from the files again
    for place, array in zip(places, pixels.read(places), strict=True):
        name, file = place.split("/")[-2:]
        assert (array == noise(int(file.removesuffix(".png")) + 1_000 * (name == "dog"))).all()


def test_the_digits_are_those_of_scikit_learn_and_every_set_has_all_classes():
    from sklearn.datasets import load_digits

    digits = load_digits()
    data = data_of("images", name="digits")
    pixels = Pixels.of(data)
    splits = open_pictures(data, pixels)
    assert {name: len(some) for name, some in splits.examples.items()} == {"train": 1_297, "valid": 100, "test": 400}
    assert len({one.place for some in splits.examples.values() for one in some}) == 1_797
    for split in splits.examples:
        assert labels_of(splits, split) == list("0123456789")
    one = splits.examples["test"][5]
    number = int(one.place.removeprefix("digits#"))
    assert one.label == str(digits.target[number])
    assert (pixels.read([one.place])[0][:, :, 0] == np.rint(digits.images[number] * 255 / 16)).all()
    fewer = open_pictures(data_of("images", name="digits", train=50), pixels)
    assert [one.place for one in fewer.examples["test"]] == [one.place for one in splits.examples["test"]]
    other = open_pictures(data_of("images", name="digits", seed=2), pixels)
    assert [one.place for one in other.examples["test"]] != [one.place for one in splits.examples["test"]]


# --- pictures given to a task of texts or numbers


@pytest.mark.parametrize("task", ["classification", "translation", "tagging", "language_modelling", "table", "series"])
def test_a_task_of_texts_or_numbers_says_that_it_was_given_pictures(task, photos, idx, tmp_path, capsys):
    given = {
        "photos": "photos/cat/0.png",
        "mnist": "mnist/t10k-images-idx3-ubyte.gz",
        "mnist/train-images-idx3-ubyte.gz": "mnist/train-images-idx3-ubyte.gz",
        "photos/cat/1.png": "photos/cat/1.png",
    }
    for name, picture in given.items():
        with pytest.raises(SystemExit):
            main(["train", task, str(tmp_path / name), "--minutes", "1", "--out", str(tmp_path / "run")])
        said = capsys.readouterr().err
        assert f"'{tmp_path / picture}' is a picture or an idx file; {task} reads " in " ".join(said.split()), said
        assert not (tmp_path / "run").exists()


def test_names_of_pictures_are_no_texts(tmp_path, capsys):
    (tmp_path / "list.csv").write_text("file,label\n" + "".join(f"photos/cat/{i}.png,cat\n" for i in range(6)))
    with pytest.raises(SystemExit):
        main(["check", "classification", str(tmp_path / "list.csv")])
    assert "list.csv': no column contains texts" in capsys.readouterr().err


def test_texts_beside_pictures_stay_texts(tmp_path):
    rows = "".join(f"{i}.png,a small picture of a cat,cat\n{i}.jpg,a large dog in the sun,dog\n" for i in range(9))
    (tmp_path / "captions.csv").write_text("file,text,label\n" + rows)
    (tmp_path / "texts" / "good").mkdir(parents=True)
    for name in ("1.txt", "2.txt", "cover.png"):
        (tmp_path / "texts" / "good" / name).write_text("a text")
    assert (
        picture_in(tmp_path / "captions.csv") == picture_in(tmp_path / "texts") == picture_in(tmp_path / "none") == ""
    )


# --- Any picture as 8-bit grey or colours, the way a person would see it; and what is no picture, said


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


def decoding_refusal(data, **options):
    with pytest.raises(PictureError) as error:
        decode(data, **options)
    return error.value.rule, str(error.value)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP"])
def test_a_picture_that_is_cut_off_is_damaged(kind):
    data = encoded(noise(10, 64, 64), kind)
    rule, message = decoding_refusal(data[: len(data) // 2])
    assert rule == "damaged picture" and message.startswith("is cut off or damaged: ")


def test_an_empty_file_and_what_is_no_picture_are_named():
    assert decoding_refusal(b"") == ("empty file", "is empty (0 bytes)")
    rule, message = decoding_refusal(b"Dear all,\nthis is no picture")
    assert rule == "not a picture" and message == "is not a picture: it begins with b'Dear all,\\nthis is no'"
    assert (
        "HEIC" in decoding_refusal(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic")[1]
        and "save it as JPEG" in decoding_refusal(b"\0\0\0\x18ftypheic")[1]
    )
    assert decoding_refusal(b"%PDF-1.7 x")[1] == "is not a picture: it begins with b'%PDF-1.7 x'"


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
    rule, message = decoding_refusal(bomb(side, side))
    assert rule == "too many pixels"
    assert message == f"has {side:,} x {side:,} = {side * side:,} pixels, more than data.max_pixels=100000000"


def test_the_bound_on_pixels_can_be_set():
    data = encoded(noise(11, 20, 20))
    assert decoding_refusal(data, max_pixels=399)[0] == "too many pixels" and decode(data, max_pixels=400).shape == (
        20,
        20,
        3,
    )
    bound = Image.MAX_IMAGE_PIXELS
    assert (
        decoding_refusal(bomb(20_000, 20_000), max_pixels=10**9)[0] == "damaged picture"
    )  # now opened, and then cut off
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

"""Pictures as people have them: read as their authors meant them, or refused with the setting that reads them."""

import base64
import json

import numpy as np
import pytest
from PIL import Image

import heed
from commands import call
from heed.data.pictures.decode import decode, eight_bits, from_pillow
from heed.errors import DataError
from heed.serve.served import open_runs
from heed.tasks import task_class
from heed.tasks.images import ImagesConfig
from pictures import encoded, noise

LOW, HIGH = 1040, 1239
TINY = ("--model", "cnn", "model.size=tiny", "data.valid=4", "training.epochs=30", "training.threads=1")


def microscope(seed, bright, dtype=np.uint16):
    """12 x 12 values from 1040 to 1239: the bright half is to the left or to the right."""
    values = np.random.default_rng(seed).integers(LOW, LOW + 60, (12, 12))
    values[:, slice(0, 6) if bright == "left" else slice(6, 12)] += 139
    values[0, 0], values[0, 11] = (HIGH, LOW) if bright == "left" else (LOW, HIGH)
    return Image.fromarray(values.astype(dtype))


def sixteen(path, kind="png", dtype=np.uint16, each=16):
    for offset, label in ((0, "left"), (1000, "right")):
        (path / label).mkdir(parents=True)
        for i in range(each):
            microscope(offset + i, label, dtype).save(path / label / f"{i}.{kind}")
    return path


@pytest.mark.parametrize(
    ("kind", "dtype"), [("png", np.uint16), ("tif", np.uint16), ("tif", np.int32), ("tif", np.float32)]
)
def test_pictures_of_more_than_8_bits_are_scaled_by_the_range_of_the_training_set(
    tmp_path, capsys, monkeypatch, kind, dtype
):
    monkeypatch.chdir(tmp_path)
    sixteen(tmp_path / "photos", kind, dtype)
    code, out, err = call(capsys, "train", "images", "photos", "--out", "run", *TINY)
    said = "values of more than 8 bits: 1040 to 1239, as in the training pictures, become 0 to 255"
    assert code == 0 and (out + err).count(said) == 1
    assert json.loads((tmp_path / "run" / "pictures.json").read_text())["levels"] == [LOW, HIGH]
    run = heed.load("run")
    seen = run.task.encoded("train").take(range(20))
    assert (seen.min(), seen.max()) == (0, 255) and 80 < seen.mean() < 175
    assert run.evaluate("valid")["accuracy"]["value"] == 1.0


@pytest.fixture(scope="module")
def wide_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wide")
    sixteen(folder / "photos")
    run = heed.train(
        "images", train=str(folder / "photos"), out=folder / "run", model="cnn", size="tiny", valid=4, epochs=30
    )
    return run, folder


def test_a_picture_alone_is_scaled_as_in_training_wherever_it_is_read(wide_run, capsys):
    run, folder = wide_run
    values = np.full((12, 12), LOW, np.uint16)
    values[:, :6] += 60  # dimmer than the training pictures, and without their largest value
    values[0] = 0, 500, 60_000, *[LOW] * 9
    file = folder / "dim.png"
    Image.fromarray(values).save(file)
    (sized,) = run.input.form.sizing.apply_all([decode(file.read_bytes())])
    assert sized[1, :, 0].tolist() == [77] * 6 + [0] * 6  # 60 of 199, as 255 * 60 / 199
    assert sized[0, :3, 0].tolist() == [0, 0, 255]
    expected = run.predict(str(file)).probabilities
    assert run.predict(Image.open(file)).probabilities == pytest.approx(expected)
    (served,) = open_runs([str(folder / "run")])
    (answer,) = served.predict([served.read(base64.b64encode(file.read_bytes()).decode(), "input")], {})
    assert answer["probabilities"] == pytest.approx(expected, abs=1e-5)
    code, out, _ = call(capsys, "predict", str(folder / "run"), str(file), "--json")
    assert code == 0 and json.loads(out)["probabilities"] == pytest.approx(expected, abs=1e-5)
    assert run.look(str(file)).look.picture.max() == 255  # shown as it is seen
    again = heed.train(
        "images", train=str(folder / "photos"), parent=folder / "run", valid=4, steps=1, out=folder / "b"
    )
    assert again.input.form.sizing.levels == (LOW, HIGH)


def test_pictures_of_8_bits_are_as_they_were_and_have_no_levels(tmp_path):
    pixels = noise(3)
    assert (decode(encoded(pixels)) == pixels).all() and eight_bits(pixels, (0.0, 9.0)) is pixels
    values = np.array([[0, 255, 256, 65_535]], np.uint16)
    assert eight_bits(decode(encoded(values)))[:, :, 0].tolist() == [[0, 0, 1, 255]]
    assert eight_bits(np.full((1, 1, 1), 7, np.int32), (7.0, 7.0)).tolist() == [[[0]]]
    odd = np.array([[[np.nan], [-np.inf], [np.inf], [1.0]]], np.float32)
    assert eight_bits(odd, (0.0, 2.0)).ravel().tolist() == [0, 0, 255, 128]
    assert from_pillow(Image.fromarray(values)).ravel().tolist() == values.ravel().tolist()
    with pytest.raises(DataError, match=r"values from 0 to 65535, .* give 16 bits as a Pillow image"):
        heed.train("images", train=[(values, "a"), (values, "b")], out=tmp_path / "run")


def test_colours_of_16_bits_are_said_to_lose_their_lower_byte(tmp_path, capsys):
    """A PNG of 16-bit colours, which Pillow cannot write: its header, then rows of zeros."""
    import struct
    import zlib

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = [b"\0" + bytes([4, n]) * 3 * 8 for n in range(8)]
    head = struct.pack(">IIBBBBB", 8, 8, 16, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"".join(rows)))
    for name in ("a/1", "a/2", "b/1", "b/2"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / f"{name}.png").write_bytes(data + chunk(b"IEND", b"") + name.encode())
    code, out, err = call(capsys, "check", "images", str(tmp_path / "photos"), "data.valid=2")
    assert code == 0 and "colours of 16 bits a value, only the upper 8 are read: 4 pictures" in out + err


LABELS = ("cat", "dog") * 4


def table_of(path, rows, endings=(".jpg", ".png"), folder="photos"):
    """A table of these rows (a name in the table for each picture 0, 1, ...), and the pictures in a folder below."""
    inside = path / folder / "deep"
    inside.mkdir(parents=True)
    for i in range(8):
        (inside / f"{i}{endings[i % len(endings)]}").write_bytes(encoded(noise(i)))
    text = "".join(f"{row},{label}\n" for row, label in zip(rows, LABELS, strict=True))
    (path / "labels").mkdir()
    (path / "labels" / "train.csv").write_text("id,label\n" + text)
    return path


CHECK = ("check", "images", "labels/train.csv", "data.valid=2")


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("photos\\deep\\{}{}", "."),  # as Windows writes it
        ("..\\photos\\deep\\{}{}", None),
        ("deep/{}{}", "photos"),
        ("{}{}", "photos/deep"),
        ("{}", "photos/deep"),  # ids, as in Kaggle's tables
        ("deep\\{}", "photos"),
    ],
)
def test_a_table_names_pictures_in_a_folder_as_on_windows_or_by_id(tmp_path, capsys, monkeypatch, name, folder):
    monkeypatch.chdir(tmp_path)
    endings = (".jpg", ".PNG")
    table_of(tmp_path, [name.format(i, endings[i % 2]) for i in range(8)], endings)
    settings = () if folder is None else (f"data.folder={folder}",)
    code, out, err = call(capsys, *CHECK, *settings)
    assert (
        code == 0
        and "train: 6 of 8 pictures kept, 2 left out: held out for validation" in out + err
        and "path is 'id'" in out + err
    )
    assert ("the pictures that train.csv names are in" in out + err) == (folder is not None)
    code, _, _ = call(capsys, "train", *CHECK[1:], *settings, *TINY[:3], "training.steps=1", "--out", "run")
    assert code == 0
    code, out, err = call(capsys, "predict", "run", "--input", "labels/train.csv")
    assert code == 0 and len(out.splitlines()) == 8 and "\t\t" not in out
    code, out, err = call(capsys, "evaluate", "run", "labels/train.csv")
    assert code == 0 and "8 pictures" in out


@pytest.mark.parametrize(
    ("row", "settings", "said"),
    [
        ("9", (), "labels/train.csv' line 4 names '9', but there is no file '{0}/labels/9', also with no ending such"),
        ("9", (), "paths are relative to the table; data.folder sets another folder; data.bad_lines=skip"),
        ("9", ("data.folder=photos/deep",), "there is no file '{}/photos/deep/9'"),
        ("9", ("data.folder=photos/deep",), "paths are relative to data.folder, {}/photos/deep;"),
        ("3", ("data.folder=photos/deep",), "names '3', but there are {0}/photos/deep/3.jpg, {0}/photos/deep/3.png"),
    ],
)
def test_a_picture_that_a_table_names_in_vain_is_named_with_file_line_and_remedy(
    tmp_path, capsys, monkeypatch, row, settings, said
):
    monkeypatch.chdir(tmp_path)
    rows = [f"../photos/deep/{i}.png" if not settings else f"{i}.png" for i in range(8)]
    rows[2] = row
    table_of(tmp_path, rows, (".png",))
    (tmp_path / "photos" / "deep" / "3.jpg").write_bytes(encoded(noise(99)))
    code, _, err = call(capsys, *CHECK, "data.columns.path=id", *settings)
    assert code == 2 and said.format(tmp_path) in err


def test_a_folder_for_tables_is_refused_where_no_table_is(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = call(capsys, "check", "images", "photos", "data.folder=x")
    assert code == 2 and "data.folder is for the files that a table (.csv, .tsv) names" in err


def test_a_data_frame_of_ids_is_read_like_a_table(tmp_path):
    pandas = pytest.importorskip("pandas")
    table_of(tmp_path, [*map(str, range(8))])
    folder = tmp_path / "photos" / "deep"
    frame = pandas.DataFrame({"path": [*map(str, range(8))], "label": LABELS})
    run = heed.train(
        "images", train=frame, valid=2, steps=1, out=tmp_path / "run", settings={"data.folder": str(folder)}
    )
    assert {p.place for p in run.examples("train")} <= {*map(str, folder.iterdir())}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """30 pictures of 128 x 96 pixels."""
    folder = tmp_path_factory.mktemp("large") / "photos"
    for i in range(30):
        (folder / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        (folder / "ab"[i % 2] / f"{i}.jpg").write_bytes(encoded(noise(i, 96, 128), "JPEG"))
    return str(folder)


@pytest.mark.parametrize(
    ("settings", "seconds", "size", "said"),
    [
        ({"training.minutes": 1}, 1e-6, (96, 128), None),
        ({"training.minutes": 1}, 1e-5, (56, 72), "pictures of 72 x 56 pixels: about 1,190 updates fit into the time "
         "budget, of 128 x 96 only 390 (data.size=[96,128] keeps these)"),
        ({"training.minutes": 1}, 1e-3, (32, 40), "of 128 x 96 only 3 "),
        ({}, 1e-5, (80, 104), "pictures of 104 x 80 pixels: about 1,153 updates"),  # the default of two minutes
        ({"training.minutes": 1, "data.size": 64}, 1e-3, (64, 64), None),
        ({"training.steps": 9}, 1e-3, (96, 128), None),
        ({"training.epochs": 1}, 1e-3, (96, 128), None),
    ],
)  # fmt: skip
def test_pictures_are_read_as_large_as_the_time_budget_allows(photos, monkeypatch, settings, seconds, size, said):
    def measured(task, budget):
        assert not task.splits.remarks or "pictures of" not in task.splits.remarks[-1]
        return 0.0, seconds * task.planned.reuse

    monkeypatch.setattr("heed.tasks.images.seconds_of", measured)
    monkeypatch.setattr("heed.tasks.images.FEW", 10_000)  # these are many
    given = {"task": "images", "data": {"train": [photos]}, "training": {}, "model": {"size": "tiny"}}
    for name, value in settings.items():
        section, field = name.split(".")
        given[section][field] = value
    task = task_class("images").prepare(ImagesConfig.model_validate(given))
    assert task.input.form.sizing.shape == (*size, 3) and task.encoded("train").sizing == task.input.form.sizing
    assert (task.config.model.height, task.config.model.width) == size
    remarks = [one for one in task.splits.remarks if "fit into the time budget" in one and one.startswith("pictures")]
    assert len(remarks) == (said is not None) and (said is None or said in remarks[0])
    assert task.config.training.minutes == (None if settings.keys() & {"training.steps", "training.epochs"} else
                                            settings.get("training.minutes", 2.0))  # fmt: skip


def test_large_pictures_are_measured_before_a_short_run(photos, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("heed.tasks.base.sizing._SLOWEST", 0.0)  # the suite measures nothing
    code, out, err = call(capsys, "train", "images", photos, "--minutes", "0.02", "--out", str(tmp_path / "run"))
    assert code == 0 and "pictures are read as 40 x 32 pixels" in out + err and "only" in out + err
    assert json.loads((tmp_path / "run" / "pictures.json").read_text())["height"] == 32


@pytest.mark.parametrize(("model", "shift"), [("cnn", 1), ("resnet", 1), ("vit", 0)])
def test_pictures_are_shifted_for_convolutions_not_for_patches(tmp_path, model, shift):
    run = heed.train("images", data="digits", model=model, size="tiny", steps=1, out=tmp_path / "run")
    assert run.config.augment.crop == shift

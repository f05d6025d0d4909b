"""Pictures passed in Python, and those of data sets of the Hub (local folders that the same library reads)."""

import io
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from contract import data_of
from heed.data.findings import Findings
from heed.data.kinds.pictures import pictures_from_python
from heed.data.pictures.decode import Pixels
from heed.errors import DataError
from heed.tasks.inputs.pictures import open_pictures
from pictures import encoded, folder_of, noise

pytestmark = pytest.mark.usefixtures("datasets_cache")


def held(data, findings=None, **fields):
    """The examples of some data, and their pixels."""
    section = data_of("images", memory={}, **fields)
    examples = pictures_from_python(data, "train", section, findings or Findings())
    pixels = Pixels.of(section, {"train": examples})
    return examples, pixels.read([one.place for one in examples])


def refusal(data, **fields):
    with pytest.raises(DataError) as error:
        held(data, **fields)
    return str(error.value)


def test_a_stack_of_arrays_and_a_list_of_labels():
    stack = np.stack([noise(i) for i in range(4)])
    examples, arrays = held((stack, [3, 1, 2, 3]))
    assert [one.label for one in examples] == ["3", "1", "2", "3"] and examples[2].origin == "train[2]"
    assert all((array == one).all() for array, one in zip(arrays, stack, strict=True))
    grey, arrays = held((stack[..., 0], np.array(["a", "b", "a", "b"])))
    assert arrays[0].shape == (9, 7, 1) and [one.label for one in grey] == ["a", "b", "a", "b"]


def test_numbers_from_zero_to_one_are_judged_by_the_whole_set():
    bright, dark = np.full((2, 2), 1.0), np.full((2, 2), 0.5)
    _, arrays = held(([bright, dark], ["a", "b"]))
    assert [int(array[0, 0, 0]) for array in arrays] == [255, 128]
    _, arrays = held(([bright, np.full((2, 2), 200.0)], ["a", "b"]))  # 0 to 255, of which one is dark
    assert [int(array[0, 0, 0]) for array in arrays] == [1, 200]


def test_a_list_of_pictures_in_every_form(tmp_path):
    colours = noise(7)
    (tmp_path / "one.png").write_bytes(encoded(colours))
    forms = [
        str(tmp_path / "one.png"),
        tmp_path / "one.png",
        encoded(colours),
        Image.fromarray(colours),
        colours,
        colours.tolist(),
        {"bytes": encoded(colours), "path": None},
        {"bytes": None, "path": str(tmp_path / "one.png")},
    ]
    examples, arrays = held([(form, "cat") for form in forms])
    assert len(arrays) == len(forms) and all((array == colours).all() for array in arrays)
    assert len({one.digest for one in examples[:3]}) == 1  # the same file
    assert len({one.digest for one in examples[3:6]}) == 1  # the same pixels


def test_a_data_frame_and_a_dict_of_columns(tmp_path):
    folder_of(tmp_path / "photos", each=2)
    files = [str(tmp_path / "photos" / name / f"{i}.png") for name in ("cat", "dog") for i in range(2)]
    examples, arrays = held(pd.DataFrame({"image": files, "id": range(4), "class": ["cat", "cat", "dog", "dog"]}))
    assert [one.label for one in examples] == ["cat", "cat", "dog", "dog"] and (arrays[1] == noise(1)).all()
    _, arrays = held({"picture": np.stack([noise(1), noise(2)]), "label": ["a", "b"]})
    assert (arrays[1] == noise(2)).all()
    examples, _ = held(pd.DataFrame({"x": files, "y2": list("abab")}), columns={"path": "x", "label": "y2"})
    assert [one.label for one in examples] == list("abab")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([(np.zeros(64), "a")], "train[0] is an array of shape (64,), expected (height, width)"),
        ([(noise(1), None)], "train[0] has no label: column 1 is missing (None), expected a name or a number"),
        ([(noise(1), "a"), (17, "b")], "train[1] is the number 17, expected a path, an array, a Pillow image or"),
        ([("none.png", "a")], f"train[0] names 'none.png', but there is no file '{Path.cwd()}/none.png', also with no"),
        ([(b"hello you", "a")], "train[0] is not a picture: it begins with b'hello you'"),
        ((np.zeros((3, 4, 4)), ["a", "b"]), "train: the columns differ in length: 'picture' has 3, 'label' has 2"),
        ([], "train is empty"),
    ],
)
def test_what_cannot_be_used_is_named(data, message):
    assert refusal(data).startswith(message)


def test_a_class_that_is_not_listed_is_named_with_its_position():
    said = refusal([(noise(1), "cat"), (noise(2), "dogs")], classes=["cat", "dog"])
    assert said.startswith("train[1] is of class 'dogs', which is not in data.classes; did you mean 'dog'?")


def test_pictures_that_cannot_be_used_may_be_left_out():
    findings = Findings("skip")
    examples, arrays = held([(noise(1), "a"), (b"", "a"), (noise(2), ""), (noise(3), "b")], findings)
    assert [one.label for one in examples] == ["a", "b"] and (arrays[1] == noise(3)).all()
    assert dict(findings.left_out) == {"empty file": 1, "no label": 1}


def test_pictures_in_memory_are_held_out_and_compared_as_files_are():
    train = [(noise(i), "ab"[i % 2]) for i in range(30)]
    section = data_of("images", memory={}, valid=5, test=["test"])
    given = {"train": pictures_from_python([*train, train[3]], "train", section, Findings()),
             "test": pictures_from_python(train[:2], "test", section, Findings())}  # fmt: skip
    pixels = Pixels.of(section, given)
    splits = open_pictures(section, pixels, given)
    assert len(splits.examples["valid"]) >= 5 and "duplicate picture, kept: 1 picture" in splits.notes
    assert pixels.read([one.place for one in splits.examples["test"]])[1].shape == (9, 7, 3)


# --- data sets of the Hub


FEATURES = datasets.Features(
    {"img": datasets.Image(), "id": datasets.Value("int64"), "fine": datasets.ClassLabel(names=["cat", "dog"])}
)


def saved(folder, rows=20, features=FEATURES, **more):
    made = [{"img": Image.fromarray(noise(i)), "id": i, "fine": i % 2} for i in range(rows)]
    sets = {name: datasets.Dataset.from_list(some, features=features) for name, some in {"train": made, **more}.items()}
    datasets.DatasetDict(sets).save_to_disk(folder)
    return str(folder)


def of_hub(hub, **fields):
    data = data_of("images", hub=hub, **fields)
    pixels = Pixels.of(data)
    return open_pictures(data, pixels), pixels


def test_a_data_set_of_pictures_is_read_by_its_columns(tmp_path):
    test = [{"img": Image.fromarray(noise(100 + i)), "id": i, "fine": 1} for i in range(3)]
    splits, pixels = of_hub(saved(tmp_path / "set", test=test), valid=4)
    assert len(splits.examples["train"]) == 16 and {one.label for one in splits.examples["train"]} == {"cat", "dog"}
    assert [one.label for one in splits.examples["test"]] == ["dog"] * 3
    for i, array in enumerate(pixels.read([one.place for one in splits.examples["test"]])):
        assert (array == noise(100 + i)).all()
    one = splits.examples["train"][5]
    for _ in range(2):  # as kept since reading, then from the data set again
        assert (pixels.read([one.place])[0] == noise(int(one.place.rpartition("#")[2]))).all()
    some, _ = of_hub(str(tmp_path / "set"), train="train[:9]", valid=2)
    assert len(some.examples["train"]) == 7


def test_a_damaged_picture_of_a_data_set_is_named_by_its_row(tmp_path):
    file = io.BytesIO()
    Image.fromarray(noise(1)).save(file, "PNG")
    bad = [{"img": {"bytes": b"no picture", "path": None}, "id": 0, "fine": 0}]
    hub = saved(tmp_path / "set", test=bad)
    with pytest.raises(DataError, match=r"set split test row 1 is not a picture: it begins with b'no picture'"):
        of_hub(hub, valid=2)
    missing = [{"img": None, "id": 0, "fine": 0}, {"img": Image.fromarray(noise(1)), "id": 1, "fine": None}]
    splits, _ = of_hub(saved(tmp_path / "other", test=missing), valid=2, bad_lines="skip")
    assert splits.counts["test"].filtered == {"no picture": 1, "no label": 1}


def test_columns_of_a_data_set_that_are_unclear_or_missing_are_named(tmp_path):
    features = datasets.Features(
        {"img": datasets.Image(), "a": datasets.Value("string"), "b": datasets.Value("string")}
    )
    rows = [{"img": Image.fromarray(noise(i)), "a": "x", "b": "yz"[i % 2]} for i in range(8)]
    datasets.DatasetDict({"train": datasets.Dataset.from_list(rows, features=features)}).save_to_disk(tmp_path / "set")
    hub = str(tmp_path / "set")
    with pytest.raises(
        DataError, match=r"set' has no column 'label'; data.columns.label=NAME chooses from 'img', 'a', 'b'"
    ):
        of_hub(hub, valid=2)
    assert {one.label for one in of_hub(hub, valid=2, columns={"label": "b"})[0].examples["train"]} == {"y", "z"}
    with pytest.raises(DataError, match=r"data.columns.path: .*set has no column 'imgs'; did you mean 'img'\?"):
        of_hub(hub, valid=2, columns={"path": "imgs", "label": "b"})
    texts = datasets.Dataset.from_list([{"text": "a", "label": "b"}] * 4)
    datasets.DatasetDict({"train": texts}).save_to_disk(tmp_path / "texts")
    with pytest.raises(DataError, match=r"has no column of pictures; its columns: text, label"):
        of_hub(str(tmp_path / "texts"), valid=2)

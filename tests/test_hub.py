"""Data sets of the Hugging Face Hub, here as local folders that the same library reads; pictures passed in Python."""

import io
import sys
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pytest
import yaml
from datasets import ClassLabel, Dataset, DatasetDict, Features, Sequence, Translation, Value
from PIL import Image

import heed
from contract import data_of
from heed.cli import main
from heed.cli.options import held_out
from heed.cli.train import settings_from
from heed.config import config_text
from heed.data.findings import Findings
from heed.data.kinds.pictures import pictures_from_python
from heed.data.pictures.decode import Pixels
from heed.errors import ConfigError, DataError
from heed.tasks import check_config, task_class
from heed.tasks.inputs.few_pairs import open_pairs
from heed.tasks.inputs.pictures import open_pictures
from pictures import encoded, folder_of, noise

pytestmark = pytest.mark.usefixtures("datasets_cache")

COLUMNS = {"source": "translation.en", "target": "translation.yo"}
FEATURES = Features({"id": Value("int64"), "note": Value("string"), "translation": Translation(["en", "yo"])})


def rows(count, word):
    return [{"id": n, "note": None, "translation": {"en": f"{word} {n}", "yo": f"yo {word} {n}"}} for n in range(count)]


def saved(folder, **splits):
    DatasetDict({name: Dataset.from_list(r, features=FEATURES) for name, r in splits.items()}).save_to_disk(folder)
    return str(folder)


@pytest.fixture
def folder(tmp_path):
    blank = [{"id": 9, "note": "x", "translation": {"en": None, "yo": "y"}}]
    return saved(tmp_path / "set", train=[*rows(30, "w"), *blank], validation=rows(4, "v"), test=rows(5, "t"))


def opened(hub, **fields):
    splits = open_pairs(data_of("translation", **{"hub": hub, "columns": COLUMNS, **fields}))
    return splits.examples, splits.counts, splits.remarks


def test_a_nul_character_is_refused_or_left_out_as_in_a_file(tmp_path):
    hub = saved(tmp_path / "set", train=[*rows(9, "w"), *rows(1, "a\0b")])
    with pytest.raises(
        DataError,
        match=r"set split train row 10: column 'translation.en' contains a NUL character \('a\\x00b 0'\)",
    ):
        opened(hub, valid=2)
    _, counts, _ = opened(hub, valid=2, bad_lines="skip")
    assert counts["train"].filtered == {"NUL byte": 1, "held out for validation": 2} and counts["train"].read == 10


def test_its_splits_are_the_splits_and_everything_is_counted(folder):
    pairs, counts, remarks = opened(folder)
    assert [len(pairs[split]) for split in ("train", "valid", "test")] == [30, 4, 5]
    assert (counts["train"].read, counts["train"].filtered) == (31, {"source blank": 1})
    assert (pairs["train"][7].source, pairs["train"][7].target) == ("w 7", "yo w 7")
    assert pairs["test"][0].origin == f"{folder}:test:1"
    assert f"data.valid is the split 'validation' of {folder}" in remarks


def test_splits_may_be_named_cut_and_held_out(folder):
    pairs, counts, _ = opened(folder, train="train[:20]", valid="test", test=["validation"])
    assert [len(pairs[split]) for split in ("train", "valid", "test")] == [20, 5, 4]
    pairs, counts, _ = opened(folder, valid=6)
    assert [len(pairs[split]) for split in ("train", "valid")] == [24, 6]
    assert counts["train"].filtered["held out for validation"] == 6


def test_without_a_validation_split_pairs_are_held_out(tmp_path):
    pairs, _, remarks = opened(saved(tmp_path / "bare", train=rows(50, "w")), in_memory=10)
    assert (len(pairs["train"]), len(pairs["valid"]), "test" in pairs) == (40, 10, False)
    assert "10 pairs held out for validation" in " ".join(remarks)


def test_files_of_the_kinds_the_library_reads(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"source": "a", "target": "b"}\n{"source": "c", "target": "d"}\n' * 5)
    pairs, _, _ = opened(str(tmp_path), columns={})
    assert {pair.source for split in pairs.values() for pair in split} == {"a", "c"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"columns": {**COLUMNS, "target": "translation.yoo"}},
            r"data.columns.target: .* did you mean 'translation.yo'",
        ),
        ({"columns": {**COLUMNS, "target": "id"}}, r"column 'id' is the number 0, expected text"),
        ({"train": "trian"}, r"data.hub '.*set': Unknown split \"trian\"\. Should be one of \['train', 'validation'"),
        ({"config": "de-en"}, r"data.hub '.*set': BuilderConfig 'de-en' not found\. Available: \['default'\]"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(folder, fields, message):
    with pytest.raises(DataError, match=message):
        opened(folder, **fields)


def test_the_only_columns_of_texts_are_the_pair(folder):
    pairs, _, remarks = opened(folder, columns={})
    assert (pairs["train"][7].source, pairs["train"][7].target) == ("w 7", "yo w 7")
    assert "train: columns: source is 'translation.en', target is 'translation.yo'" in remarks


def test_a_data_set_on_the_command_line(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    config = settings_from(
        ["translation", "hub:set", "data.columns.source=translation.en"], {"data.valid": held_out(["7"])}
    )
    assert config.data.origin == "hub"
    assert (config.data.hub, config.data.valid, config.data.train) == (folder, 7, ["train"])
    assert check_config(yaml.safe_load(config_text(config)), "again") == config
    assert settings_from(["translation", "hub:user/name"], {}).data.name == "name"
    with pytest.raises(ConfigError, match=r"'hub:a/b' is a whole data set, so 'more.en' cannot be added"):
        settings_from(["translation", "hub:a/b", "more.en"], {})
    with pytest.raises(SystemExit) as ended:
        main(["check", "translation", "hub:set", *(f"data.columns.{side}={name}" for side, name in COLUMNS.items())])
    assert not ended.value.code and "train: 30 of 31 pairs kept, 1 left out: source blank" in capsys.readouterr().out


def test_a_configuration_beside_the_folder_and_a_whole_run(folder, tmp_path, monkeypatch):
    values = {
        "data": {"hub": "set", "columns": COLUMNS},
        "model": {"d_embedding": 6, "d_hidden": 6, "d_attention": 6, "size": "tiny"},
        "training": {"steps": 1, "threads": 1, "device": "cpu"},
        "evaluation": {"bootstrap": 5},
    }
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(values))
    monkeypatch.chdir("/")
    run = heed.train(tmp_path / "r.yaml", out=tmp_path / "run", quiet=True)
    assert run.config.data.hub == folder and run.config.tokenizer.kind == "bpe"
    assert run.report["data"]["train"]["examples"] == 30 and "chrf" in run.report["scores"]["test"]
    assert heed.load(tmp_path / "run").evaluate("test")["examples"] == 5


def test_without_a_network_it_says_what_to_do(tmp_path, monkeypatch, capsys):
    for place in ("huggingface_hub.constants.HF_HUB_OFFLINE", "datasets.config.HF_HUB_OFFLINE"):
        monkeypatch.setattr(place, True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        main(["check", "translation", "hub:user/name"])
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert err.startswith("heed: data.hub 'user/name' is not in the cache and cannot be fetched: ")
    assert err.endswith("run this once with network access, or set data.hub to the folder of a copy\n")
    assert err.count("\n") == 1


def test_the_only_two_columns_of_texts_are_the_pair(tmp_path):
    made = [{"n": i, "en": f"w {i}", "yo": f"y {i}"} for i in range(30)]
    DatasetDict({"train": Dataset.from_list(made)}).save_to_disk(tmp_path / "set")
    splits = open_pairs(data_of("translation", hub=str(tmp_path / "set"), valid=3))
    assert {(p.source[0], p.target[0]) for p in splits.examples["train"]} == {("w", "y")}
    assert splits.columns == {"source": "en", "target": "yo"}
    assert "train: columns: source is 'en', target is 'yo'" in splits.remarks


# --- texts with labels


def labelled(folder, labels, feature, **fields):
    table = Dataset.from_dict({"review": [f"text {n}" for n in range(len(labels))], "stars": labels})
    DatasetDict({"train": table.cast_column("stars", feature)}).save_to_disk(folder)
    values = {"hub": str(folder), "columns": {"text": "review", "label": "stars"}, "valid": 2, **fields}
    return check_config({"task": "classification", "data": values}, "test")


@pytest.mark.parametrize(
    ("labels", "feature", "fields", "wanted"),
    [
        ([0, 1] * 5, ClassLabel(names=["bad", "good"]), {}, [("bad",), ("good",)]),
        ([3, 5] * 5, Value("int64"), {}, [("3",), ("5",)]),
        (["a", "b"] * 5, Value("string"), {}, [("a",), ("b",)]),
        (
            [[0, 1], []] * 5,
            Sequence(ClassLabel(names=["x", "y"])),
            {"several_labels": True},
            [("x", "y"), ()],
        ),
    ],
)
def test_texts_and_labels_of_a_data_set(tmp_path, labels, feature, fields, wanted):
    config = labelled(tmp_path / "set", labels, feature, **fields)
    splits = task_class("classification").read_splits(config)
    texts = sorted((text for split in splits.examples.values() for text in split), key=lambda text: text.text)
    assert [text.labels for text in texts] == wanted * 5 and texts[3].text == "text 3"
    assert texts[3].origin == f"{tmp_path / 'set'}:train:4"
    assert splits.counts["train"].filtered == {"held out for validation": len(splits.examples["valid"])}


def test_columns_of_text_and_label_are_recognised_and_stored(tmp_path):
    labelled(tmp_path / "set", [0, 1] * 20, ClassLabel(names=["bad", "good"]))
    settings = {"training.threads": 1, "training.device": "cpu", "evaluation.bootstrap": 5, "data.valid": 8}
    run = heed.train("classification", hub=str(tmp_path / "set"), model="bag", steps=1, out=tmp_path / "run",
                     settings=settings, quiet=True)  # fmt: skip
    assert (run.config.data.columns.text, run.config.data.columns.label) == ("review", "stars")
    assert list(run.head.labels) == ["bad", "good"] and heed.load(tmp_path / "run").evaluate("valid")["examples"] >= 8
    assert "train: columns: text is 'review', label is 'stars'" in run.task.splits.remarks


@pytest.mark.parametrize(
    ("labels", "feature", "fields", "message"),
    [
        (
            [[0], [1]],
            Sequence(ClassLabel(names=["x", "y"])),
            {},
            r"train row 1: column 'stars' is a list, \['x'\]",
        ),
        (
            [0.5, 1.0],
            Value("float64"),
            {},
            r"train row 1: column 'stars' is the number 0.5, expected a label",
        ),
        ([0, None], ClassLabel(names=["x", "y"]), {}, r"set split train row 2: column 'stars' has no label"),
        (
            [0, 1],
            Value("int64"),
            {"columns": {"text": "review", "label": "star"}},
            r"no column 'star'; did you mean 'stars",
        ),
    ],
)
def test_labels_that_cannot_be_are_refused_with_their_row(tmp_path, labels, feature, fields, message):
    with pytest.raises(DataError, match=message):
        task_class("classification").read_splits(labelled(tmp_path / "set", labels, feature, **fields))


def test_a_format_of_files_is_refused_for_a_data_set():
    with pytest.raises(
        ConfigError, match=r"data.format is 'csv', which applies to files, but the data is a data set of the Hub"
    ):
        check_config({"task": "classification", "data": {"hub": "a/b", "format": "csv"}}, "test")


def test_without_the_extra_one_line_says_what_to_install(folder, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(SystemExit) as ended:
        main(["check", "translation", f"hub:{folder}"])
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert "pip install -e '.[hub]'" in err and len(err.splitlines()) == 1


# --- Pictures passed in Python, and those of data sets of the Hub (local folders that the same library reads)


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


PICTURE_FEATURES = datasets.Features(
    {"img": datasets.Image(), "id": datasets.Value("int64"), "fine": datasets.ClassLabel(names=["cat", "dog"])}
)


def saved_pictures(folder, rows=20, features=PICTURE_FEATURES, **more):
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
    splits, pixels = of_hub(saved_pictures(tmp_path / "set", test=test), valid=4)
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
    hub = saved_pictures(tmp_path / "set", test=bad)
    with pytest.raises(DataError, match=r"set split test row 1 is not a picture: it begins with b'no picture'"):
        of_hub(hub, valid=2)
    missing = [{"img": None, "id": 0, "fine": 0}, {"img": Image.fromarray(noise(1)), "id": 1, "fine": None}]
    splits, _ = of_hub(saved_pictures(tmp_path / "other", test=missing), valid=2, bad_lines="skip")
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

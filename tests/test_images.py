"""Classifying pictures: trained, scored, resumed and compared; batch normalisation, workers, augmentation."""

import json

import joblib
import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats

import heed
from commands import call, failing, output_of
from heed.config.sections import AugmentSection
from heed.data.pictures import sizing as ops
from heed.data.pictures.sizing import Augment
from heed.errors import ConfigError, DataError
from heed.models.vit import Vit, VitConfig
from heed.runs.train import train_config
from heed.sklearn import ImageClassifier
from heed.tasks import check_config, task_class
from heed.tasks.base.labels import LabelPrediction
from heed.tasks.images import top_labels
from heed.tasks.inputs.pictures import places_of
from heed.training.device import micro_batches_for
from heed.training.progress import Quiet
from reporters import Stopper

SMALL = {"model.name": "cnn", "model.num_filters": [4, 8], "model.convolutions": 1, "model.dropout": 0.0}
QUICK = {"training.threads": 1, "training.warmup": 0, "training.learning_rate": 0.01, "evaluation.bootstrap": 20}


def stripes(across: bool, seed: int, height: int = 12, width: int = 12) -> np.ndarray:
    """Stripes from left to right or from top to bottom, with noise."""
    draw = np.random.default_rng(seed)
    line = np.where((np.arange(height if across else width) + draw.integers(4)) % 4 < 2, 220, 40)
    picture = np.repeat(line[:, None], width, 1) if across else np.repeat(line[None], height, 0)
    return np.clip(picture + draw.normal(0, 20, picture.shape), 0, 255).astype(np.uint8)


def write_stripes(folder, count, first=0, size=(12, 12)):
    for label in ("across", "down"):
        (folder / label).mkdir(parents=True)
        for i in range(first, first + count):
            Image.fromarray(stripes(label == "across", i, *size)).save(folder / label / f"{i}.png")
    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return write_stripes(tmp_path_factory.mktemp("photos"), 40)


@pytest.fixture(scope="module")
def run(photos, tmp_path_factory):
    settings = {**SMALL, **QUICK, "training.batch_size": 16, "data.valid": 20}
    out = tmp_path_factory.mktemp("runs") / "run"
    return heed.train("images", train=photos, steps=30, out=out, settings=settings, quiet=True)


def prepare(photos, **data):
    return task_class("images").prepare(check_config({"task": "images", "data": {"train": [str(photos)], **data}}, "t"))


def test_a_folder_of_classes_is_learned_and_opened_again(run):
    assert run.report["scores"]["valid"]["accuracy"] > 0.9
    again = heed.load(run.folder)
    pictures = [stripes(across, seed) for across in (True, False) for seed in range(900, 910)]
    said = again.predict(pictures)
    assert [one.label for one in said] == ["across"] * 10 + ["down"] * 10
    assert said == run.predict(pictures)
    assert again.input.form == run.input.form and again.head.labels == ("across", "down")


def test_a_file_an_array_and_a_picture_of_pillow_are_the_same(run, photos):
    path = photos / "down" / "3.png"
    image = Image.open(path)
    expected = run.predict(str(path))
    for given in (path, image, np.asarray(image), np.asarray(image)[:, :, None]):
        assert run.predict(given).probabilities == pytest.approx(expected.probabilities, abs=1e-5)
    assert run.predict([path, image])[1].label == expected.label
    assert len(run.predict(photos / "down")) == 40
    frame = pytest.importorskip("pandas").DataFrame({"path": [str(path)] * 2})
    assert run.predict(frame)[1].label == expected.label
    with pytest.raises(DataError, match=r"pictures\[0\] \('missing.png'\) does not exist"):
        run.predict("missing.png")


def test_predictions_have_a_line_for_each_picture_and_say_which_could_not_be_read(run, photos, capsys, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes((photos / "down" / "1.png").read_bytes()[:60])
    words = ["predict", run.folder, photos / "across", broken, photos / "down" / "*1.png"]
    code, out, err = call(capsys, *words)
    assert code == 4
    rows = [line.split("\t") for line in out.splitlines()]
    assert len(rows) == 40 + 1 + 4
    assert all(row[1] == "across" for row in rows[:40]) and rows[40] == [str(broken), "", ""]
    said = err.splitlines()
    assert said[0].startswith(f"heed: '{broken}'") and said[0].endswith("; left empty")
    assert said[1] == "heed: 1 input could not be used (number 41); its output is empty"
    assert "broken.png" in failing(capsys, *words, "--bad-lines", "error")
    out = output_of(capsys, "predict", run.folder, photos / "down" / "1.png", "--nbest", "2")
    first, second = (line.split("\t") for line in out.splitlines())
    assert first[1:2] + second[1:2] == ["down", "across"] and float(first[2]) + float(second[2]) == pytest.approx(1)


def test_json_holds_every_probability(run, photos, capsys):
    path = str(photos / "down" / "1.png")
    _, out, _ = call(capsys, "predict", run.folder, "--json", stdin=f"{path}\n{path}\n")
    values = [json.loads(line) for line in out.splitlines()]
    assert len(values) == 2 and values[0]["picture"] == path and set(values[0]["probabilities"]) == {"across", "down"}
    said = failing(capsys, "predict", str(run.folder), str(run.folder))
    assert "contains no pictures (files that end in .jpg" in said


def test_evaluation_lists_the_wrong_ones_and_writes_them_as_a_page(run, photos, tmp_path, capsys):
    swapped = tmp_path / "swapped"
    (swapped / "across").mkdir(parents=True)
    (swapped / "down").mkdir()
    (swapped / "across" / "5.png").write_bytes((photos / "down" / "5.png").read_bytes())
    for i in range(3):
        (swapped / "down" / f"{i}.png").write_bytes((photos / "down" / f"{i}.png").read_bytes())
    page = tmp_path / "errors.html"
    out = output_of(capsys, "evaluate", run.folder, swapped, "--errors", "5", "--page", page)
    assert "75.00%" in out and "is across, predicted down" in out and "5.png" in out
    text = page.read_text()
    assert text.count("<img") == 1 and "predicted <b>down</b>" in text and "https://" not in text


def test_check_writes_samples_as_the_model_sees_them_augmented_too(photos, tmp_path, capsys):
    page = tmp_path / "check.html"
    out = output_of(
        capsys, "check", "images", photos, "data.valid=20", "data.size=8", "augment.flip=true", "--out", page
    )
    assert "pictures are read as 8 x 8 pixels, grey" in out and "12 x 12 grey 60" in out
    text = page.read_text()
    assert text.count("<img") == 2 * 4 * (1 + 1 + 4)  # classes, samples; file, sized, augmented
    assert "augmented, in successive passes" in text and "across" in text
    err = failing(capsys, "check", "table", "rows.csv", "--out", str(page))
    assert "--out is not available for table" in err


def test_scores_stand_beside_the_nearest_neighbour_on_pixels(run, photos):
    report = run.evaluate("valid")
    (name,) = report["baselines"]
    assert name == "nearest neighbour on pixels"
    train, valid = run.examples("train"), run.examples("valid")
    arrays = {p.place: np.asarray(Image.open(p.place)).astype(float).ravel() for p in (*train, *valid)}
    near = [min(train, key=lambda t, p=p: ((arrays[t.place] - arrays[p.place]) ** 2).sum()) for p in valid]
    right = np.mean([t.label == p.label for t, p in zip(near, valid, strict=True)])
    assert report["baselines"][name]["accuracy"]["value"] == pytest.approx(right)


def test_one_output_is_for_two_classes():
    with pytest.raises(ConfigError, match=r"model.head sigmoid has one output for two classes, but there are 10"):
        heed.train("images", data="digits", steps=1, settings={"model.head": "sigmoid"}, quiet=True)


def test_settings_of_texts_are_refused(photos):
    with pytest.raises(ConfigError, match=r"training.batch_size counts the pictures"):
        check_config({"task": "images", "data": {"train": ["x"]}, "training": {"batch_tokens": 100}}, "t")
    config = check_config({"task": "images", "data": {"train": [str(photos)]}, "tokenizer": {"kind": "char"}}, "t")
    with pytest.raises(ConfigError, match=r"tokenizer\.\w+ is \S+, which does not apply to images"):
        task_class("images").prepare(config)


def test_batches_of_a_pass_have_every_picture_once_and_nearly_one_size(photos):
    task = prepare(photos, valid=20)
    for epoch in (0, 1):
        batches = list(task.train_batches(epoch))
        assert sorted(i for batch in batches for i in batch) == list(range(60))
        assert {len(batch) for batch in batches} == {60}
    task.config = task.config.model_copy(
        update={"training": task.config.training.model_copy(update={"batch_size": 16})}
    )
    task.fit()
    assert sorted(map(len, task.train_batches(0))) == [15, 15, 15, 15]
    assert list(task.train_batches(0)) != list(task.train_batches(1))


def test_a_run_starts_from_one_with_other_classes_and_another_size(photos, tmp_path):
    """Positions are interpolated, the parent's normalisation stays, labels that both have keep their rows."""
    vit = {"model.name": "vit", "model.d_model": 16, "model.num_heads": 2, "model.d_ff": 16, "model.num_layers": 1}
    vit |= {"model.patch_size": 4, "data.valid": 20, **QUICK}
    parent = heed.train("images", train=photos, steps=3, out=tmp_path / "parent", settings=vit, quiet=True)
    others = write_stripes(tmp_path / "others", 20)
    (others / "across").rename(others / "over")
    given = {**QUICK, "data.valid": 10, "data.size": 16}
    child = heed.train("images", train=others, parent=parent.folder, steps=1, settings=given, quiet=True,
                       out=tmp_path / "child")  # fmt: skip
    assert child.config.model.name == "vit" and child.head.labels == ("down", "over")
    assert child.model.body.grid == (4, 4) and parent.model.body.grid == (3, 3)
    assert child.input.form.normalisation == parent.input.form.normalisation
    taken = child.report["parent"]
    assert "body.positions.table.weight" in taken["whole"] and "body.embedding.weight" in taken["whole"]
    assert taken["tokens"]["output.weight"] == {"taken": 1, "of": 2}
    same = heed.train("images", train=photos, parent=parent.folder, steps=1, settings={**QUICK, "data.valid": 20},
                      quiet=True, out=tmp_path / "same")  # fmt: skip
    assert same.input.form == parent.input.form and not same.report["parent"]["new"]


def test_data_in_python_is_trained_on_scored_and_resumed(tmp_path):
    arrays = [stripes(i % 2 == 0, i) for i in range(60)]
    labels = ["across" if i % 2 == 0 else "down" for i in range(60)]
    test = [(stripes(True, 100), "across"), (stripes(False, 101), "down")]
    settings = {**SMALL, **QUICK, "training.batch_size": 16}
    run = heed.train("images", train=(arrays, labels), valid=15, test=test, steps=20, out=tmp_path / "run",
                     settings=settings, quiet=True)  # fmt: skip
    assert run.report["scores"]["test"]["examples"] == 2
    again = heed.load(run.folder)
    scores = again.evaluate([*test, *zip(arrays[:10], labels[:10], strict=True)])
    assert scores["examples"] == 12 and scores["accuracy"]["value"] > 0.8
    with pytest.raises(DataError, match=r"passed in Python .* and is not stored"):
        again.evaluate("test")


def test_a_smaller_training_set_has_the_classes_of_the_whole(photos):
    config = check_config(
        {"task": "images", "data": {"train": [str(photos)], "valid": 20}, "training": {"train_size": 9}}, "t"
    )
    task = task_class("images").prepare(config)
    counts = task.report_counts()["train"]["labels"]
    assert sum(counts.values()) == 9 and set(counts.values()) == {4, 5}
    assert task.head.labels == ("across", "down") and len(task.splits.left_out) == 51


def test_an_estimator_of_scikit_learn_reads_arrays_and_files(photos, tmp_path):
    pictures = np.stack([stripes(i % 2 == 0, i) for i in range(60)])
    labels = np.array([10 if i % 2 == 0 else 20 for i in range(60)])
    estimator = ImageClassifier("cnn", steps=20, valid=15, settings={**QUICK, "training.batch_size": 16})
    assert estimator.fit(pictures, labels).score(pictures, labels) > 0.9
    shares = estimator.predict_proba(pictures[:3])
    assert shares.shape == (3, 2) and shares.sum(1) == pytest.approx(1)
    files = [str(photos / "across" / "1.png"), str(photos / "down" / "1.png")]
    assert estimator.predict(files).tolist() == [10, 20]
    joblib.dump(estimator, tmp_path / "fitted.joblib")
    assert joblib.load(tmp_path / "fitted.joblib").predict(files).tolist() == [10, 20]
    with pytest.raises(ValueError, match=r"expected pictures, as an array \(n, height, width\)"):
        estimator.predict(pictures[0])


def test_validation_worked_out_from_the_logits(photos):
    task = prepare(photos, valid=20)
    torch.manual_seed(0)
    model = task.build_model().eval()
    true = torch.tensor([task.head.labels.index(one.label) for one in task.splits.examples["valid"]])
    with torch.no_grad():
        logits = model(task.input.form.tensor(task.encoded("valid").take(range(len(true)))))
    found = task.validate(model)
    assert found["loss"] == pytest.approx(float(torch.nn.functional.cross_entropy(logits, true)), rel=1e-5)
    assert found["accuracy"] == pytest.approx(float((logits.argmax(1) == true).float().mean()))


def test_classes_come_as_they_are_listed_and_those_of_few_pictures_from_all(photos):
    assert prepare(photos, valid=20, classes=["down", "across"]).head.labels == ("down", "across")
    data = {"train": [str(photos)], "valid": [str(photos)]}
    config = check_config({"task": "images", "data": data, "training": {"train_size": 1}}, "t")
    assert task_class("images").prepare(config).head.labels == ("across", "down")


def test_the_pictures_of_a_folder_come_by_name(photos):
    assert places_of([str(photos / "down")]) == sorted(str(path) for path in (photos / "down").iterdir())


def test_five_labels_count_for_top_5_accuracy():
    shares = {label: (n + 1) / 28 for n, label in enumerate("abcdefg")}
    assert top_labels(LabelPrediction("g", ("g",), 0.25, shares)) == set("cdefg")


# --- How pictures are trained on: batch normalisation, divided batches, workers that feed them


VIT = {"name": "vit", "patch_size": 4, "d_model": 16, "num_heads": 2, "num_layers": 2, "d_ff": 16, "dropout": 0.0}


def config(model, **training):
    return check_config(
        {
            "task": "images",
            "data": {"name": "digits"},
            "model": model,
            "training": {"steps": 2, "batch_size": 8, "threads": 1, "device": "cpu", "train_size": 64, **training},
            "evaluation": {"bootstrap": 10},
        },
        "the test",
    )


@pytest.mark.parametrize(
    ("model", "training", "message"),
    [
        (
            {"name": "resnet", "size": "tiny"},
            {"activation_checkpointing": True},
            r"model 'resnet' has no Transformer blocks to recompute \(.* vit have them\); set it to false",
        ),
        (
            {"name": "resnet", "size": "tiny"},
            {"micro_batches": 2},
            r"training.micro_batches=2: model 'resnet' normalises by the mean and deviation of each batch, so "
            "micro-batches would change the gradient; remove the field and set a smaller batch size",
        ),
        (VIT | {"stem": "conv"}, {"micro_batches": 4}, "micro_batches=4: model 'vit' normalises by the mean"),
    ],
    ids=["checkpointing", "resnet", "stem"],
)
def test_what_batch_normalisation_cannot_do_is_refused_before_there_is_a_folder(tmp_path, model, training, message):
    with pytest.raises(ConfigError, match=message):
        train_config(config(model, **training), tmp_path / "run", Quiet())
    assert not (tmp_path / "run").exists()


def test_a_model_that_normalises_batches_is_never_divided_by_itself():
    picture, narrow = {"num_channels": 1, "height": 8, "width": 8}, {k: v for k, v in VIT.items() if k != "name"}
    models = [Vit(VitConfig(**picture, **narrow, stem=stem)) for stem in ("none", "conv")]
    assert [micro_batches_for(model, torch.device("cpu"), 1e9) for model in models] == [10, 1]


def test_a_vit_in_micro_batches_or_computed_again_has_the_same_gradient(tmp_path):
    weights = []
    for i, training in enumerate(({}, {"micro_batches": 3}, {"activation_checkpointing": True})):
        train_config(config(VIT, **training), tmp_path / str(i), Quiet())
        weights.append(heed.load(tmp_path / str(i)).model.state_dict())
    for other in weights[1:]:
        for name, tensor in weights[0].items():
            if name.endswith("w_key.bias"):  # softmax cancels it: its gradient is rounding, which Adam enlarges
                continue
            torch.testing.assert_close(other[name], tensor, rtol=1e-3, atol=1e-4, msg=lambda s, n=name: f"{n}: {s}")


CHANGES = {"flip": True, "crop": 1}


@pytest.fixture(scope="module")
def jpeg_photos(tmp_path_factory):
    """Sixty JPEG files of three sizes in two classes."""
    folder, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for i in range(60):
        (folder / "ab"[i % 2]).mkdir(exist_ok=True)
        shape = [(14, 12, 3), (12, 20, 3), (16, 16, 3)][i % 3]
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(folder / "ab"[i % 2] / f"{i}.jpg")
    return folder


def photos_config(jpeg_photos, **data):
    return check_config(
        {
            "task": "images",
            "data": {"train": [str(jpeg_photos)], "valid": 12, "size": 12, **data},
            "model": {"name": "cnn", "num_filters": [4, 8], "convolutions": 1, "dropout": 0.2},
            "augment": CHANGES,
            "training": {"steps": 12, "batch_size": 10, "threads": 1, "device": "cpu", "warmup": 2},
            "evaluation": {"bootstrap": 10},
        },
        "the test",
    )


def weights(path, made, **more):
    run, _ = train_config(made, path, Quiet(), **more)
    return (path / "model.safetensors").read_bytes(), run


@pytest.fixture(scope="module")
def plain(jpeg_photos, tmp_path_factory):
    return weights(tmp_path_factory.mktemp("runs") / "plain", photos_config(jpeg_photos, workers=0))


@pytest.mark.parametrize("data", [{"workers": 1}, {"workers": 4}, {"workers": 4, "in_memory": 0}])
def test_a_run_has_the_same_bits_with_any_number_of_workers_and_any_memory(plain, jpeg_photos, tmp_path, data):
    assert weights(tmp_path / "run", photos_config(jpeg_photos, **data))[0] == plain[0]


@pytest.mark.parametrize(
    ("labels", "given", "size", "flip", "crop", "said"),
    [
        (("cat", "dog"), {}, 128, True, 16, ["shifted by up to 16 pixels (augment.crop=0", "(augment.flip=false"]),
        (
            ("3", "7"),
            {},
            8,
            False,
            1,
            ["shifted by up to 1 pixel (", "since labels such as '3' may", "augment.flip=true"],
        ),
        (("turn left", "turn right"), {}, 12, False, 1, ["labels such as 'turn left' may be characters or directions"]),
        (("cat", "dog"), {"crop": 0}, 12, True, 0, ["in each pass half of them are mirrored"]),
        (("cat", "dog"), {"crop": 0, "flip": False}, 12, False, 0, []),
    ],
)
def test_few_pictures_are_changed_unless_their_labels_or_the_user_object(
    jpeg_photos, tmp_path, labels, given, size, flip, crop, said
):
    for old, new in zip("ab", labels, strict=True):
        (tmp_path / new).symlink_to(jpeg_photos / old, target_is_directory=True)
    values = photos_config(tmp_path, size=size).model_dump(by_alias=True) | {"augment": given}
    values["evaluation"]["select_by"] = "auto"
    task = task_class("images").prepare(check_config(values, "the test"))
    assert (task.config.augment.flip, task.config.augment.crop) == (flip, crop)
    assert task.config.evaluation.select_by == "accuracy"
    assert all(part in task.notes for part in said) and ("few training pictures" in task.notes) == bool(said)


def test_a_run_that_was_stopped_goes_on_with_the_same_changes(plain, jpeg_photos, tmp_path):
    assert train_config(photos_config(jpeg_photos), tmp_path / "run", Stopper(5))[0] is None
    assert weights(tmp_path / "run", photos_config(jpeg_photos), resume=True)[0] == plain[0]


# --- Random changes of pictures: what each does, and that what is drawn depends on the seed, the pass and the picture
# only


def pictures(batch: int, height: int = 32, width: int = 32, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(30, 240, (batch, height, width, channels)).astype(np.uint8)


# --- operations


def test_a_crop_is_cut_out_of_the_picture_with_a_black_border():
    batch = pictures(25, 6, 9, 3)
    tops, lefts = (part.reshape(-1) for part in np.meshgrid(np.arange(5), np.arange(5), indexing="ij"))
    wide = np.pad(batch, ((0, 0), (2, 2), (2, 2), (0, 0)))
    wanted = [wide[i, top : top + 6, left : left + 9] for i, (top, left) in enumerate(zip(tops, lefts, strict=True))]
    assert np.array_equal(ops.crop(batch, 2, tops, lefts), np.stack(wanted))
    large = ops.crop(batch[:1], 20, np.array([0]), np.array([40]))
    assert not large.any()  # a border wider than the picture may be all that is cut


def test_a_flip_mirrors_left_and_right_of_the_chosen():
    batch = pictures(3, 4, 5, 1)
    flipped = ops.flip(batch, np.array([True, False, True]))
    assert np.array_equal(flipped[0], batch[0][:, ::-1]) and np.array_equal(flipped[1], batch[1])
    assert np.array_equal(flipped[2], batch[2][:, ::-1])


# --- what is drawn

ALL = AugmentSection(flip=True, crop=4)


def test_draws_are_uniform_and_independent_of_one_another():
    cases = ((1, 0, "a"), (1, 0, "b"), (1, 1, "a"), (2, 0, "a"))
    numbers = [ops.uniform(seed, epoch, range(50_000), use) for seed, epoch, use in cases]
    numbers.append(np.roll(numbers[0], 1))
    for one in numbers:
        assert stats.kstest(one, "uniform").pvalue > 1e-3
    assert np.abs(np.corrcoef(numbers) - np.eye(5)).max() < 0.02
    counted = np.bincount((ops.uniform(1, 0, range(50_000), "c") * 14).astype(int), minlength=14)
    assert stats.chisquare(counted).pvalue > 1e-3


def test_a_change_depends_on_seed_pass_and_picture_and_not_on_its_batch():
    batch, indices = pictures(12), [40, 3, 7, 100, 8, 9, 1, 2, 77, 5, 6, 0]
    augment = Augment(ALL, seed=4)
    together = augment.pictures(batch, indices, epoch=2)
    for place, index in enumerate(indices):
        assert np.array_equal(augment.pictures(batch[place : place + 1], [index], epoch=2)[0], together[place])
    assert np.array_equal(Augment(ALL, seed=4).pictures(batch[::-1], indices[::-1], epoch=2), together[::-1])
    assert not np.array_equal(augment.pictures(batch, indices, epoch=3), together)
    assert not np.array_equal(Augment(ALL, seed=5).pictures(batch, indices, epoch=2), together)


def test_nothing_is_changed_where_nothing_is_asked_for():
    batch = pictures(3)
    augment = Augment(AugmentSection(), seed=1)
    assert augment.pictures(batch, [0, 1, 2], 0) is batch
    assert augment.pictures(batch[:0], [], 0).shape == (0, 32, 32, 3)

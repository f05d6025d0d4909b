"""ViT with random weights: the same states, maps and logits, in and out again; in use without `transformers`."""

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import heed
from checkpoints import changed, randomise, refused, round_trip, with_field
from heed.errors import ConfigError, RunError
from heed.runs.checkpoints import import_checkpoint
from heed.watch.trace import trace

transformers = pytest.importorskip("transformers")
CLOSE = dict(rtol=1e-5, atol=1e-5)
WITH_TEACHER = "ForImageClassificationWithTeacher"
CLASSES = ("bird", "cat", "dog", "fish")
SHAPES = [
    # width, heads, layers, inner, patch, height, width of a picture, channels
    (8, 1, 1, 16, 4, 8, 8, 1), (12, 3, 2, 20, 4, 12, 8, 3), (16, 4, 3, 8, 2, 6, 10, 3), (24, 2, 1, 24, 8, 16, 16, 1),
    (20, 5, 2, 40, 1, 3, 4, 3), (12, 2, 2, 12, 3, 9, 9, 3), (32, 4, 4, 64, 16, 32, 32, 3),
]  # fmt: skip


def vit(folder, n=1, kind="ForImageClassification", classes=CLASSES, name="ViT", **more):
    """A model with random weights, saved in a folder with its `preprocessor_config.json`."""
    width, heads, layers, inner, patch, height, across, channels = SHAPES[n % len(SHAPES)]
    config = getattr(transformers, f"{name}Config")(
        hidden_size=width, num_attention_heads=heads, num_hidden_layers=layers, intermediate_size=inner,
        patch_size=patch if n % 2 else [patch, patch], image_size=height if height == across else [height, across],
        num_channels=channels, layer_norm_eps=(1e-12, 1e-6)[n % 2],
        id2label=dict(enumerate(classes)), label2id={one: i for i, one in enumerate(classes)}, **more,
    )  # fmt: skip
    config._attn_implementation = "eager"
    model = randomise(getattr(transformers, f"{name}{kind}")(config), n)
    model.save_pretrained(folder)
    processor = transformers.ViTImageProcessorPil(
        size={"height": height, "width": across}, resample=(2, 3)[n % 2], image_mean=[0.4, 0.5, 0.6][:channels],
        image_std=[0.2, 0.25, 0.3][:channels],
    )  # fmt: skip
    processor.save_pretrained(folder)
    return model


def pixels_of(run, seed=1):
    sizing = run.input.form.sizing
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(3, sizing.channels, sizing.height, sizing.width, generator=generator)


def assert_same(run, model):
    """The run and a model of `transformers` compute the same states, maps and logits."""
    pixels = pixels_of(run)
    with torch.no_grad(), trace(run.model) as seen:
        vector = run.model.body.eval()(pixels)
        states = seen.tensors("states")
        maps = [seen.maps("encoder", layer).weights for layer in range(len(states))]
    with torch.no_grad():
        out = model(pixels, output_hidden_states=True, output_attentions=True)
        normed = getattr(model, model.base_model_prefix, model).layernorm(out.hidden_states[-1])
    assert len(states) == len(out.attentions)
    for layer, state in enumerate(states):
        torch.testing.assert_close(state, out.hidden_states[layer + 1], **CLOSE)
        torch.testing.assert_close(torch.as_tensor(maps[layer]), out.attentions[layer], **CLOSE)
    torch.testing.assert_close(vector, normed[:, : run.model.body.leading].flatten(1), **CLOSE)
    if hasattr(out, "logits"):
        with torch.no_grad():
            torch.testing.assert_close(run.model.eval()(pixels), out.logits, **CLOSE)


@pytest.mark.parametrize("n", range(8))
def test_random_models_compute_the_same_in_and_out(tmp_path, n):
    kind = "Model" if n % 4 == 3 else "ForImageClassification"
    model = vit(tmp_path / "theirs", n, kind)
    _, written = round_trip(tmp_path, model, assert_same)
    assert written.architecture == f"ViT{kind}" and written.difference == 0
    before, after = (load_file(tmp_path / one / "model.safetensors") for one in ("theirs", "ours"))
    assert {name for name in before if name not in after} <= {"pooler.dense.weight", "pooler.dense.bias"}
    # Biases of zero stand where the model has none.
    assert all(name.endswith((".query.bias", ".key.bias", ".value.bias")) for name in after if name not in before)


@pytest.mark.parametrize(("n", "kind"), [(0, "Model"), (1, WITH_TEACHER), (2, WITH_TEACHER), (4, WITH_TEACHER)])
def test_a_distilled_deit_computes_the_same_in_and_out(tmp_path, n, kind):
    model = vit(tmp_path / "theirs", n, kind, name="DeiT")
    _, written = round_trip(tmp_path, model, assert_same)
    assert written.architecture == f"DeiT{kind}"
    before, after = (load_file(tmp_path / one / "model.safetensors") for one in ("theirs", "ours"))
    for name in before.keys() & after.keys():
        if not name.endswith("classifier.bias"):
            assert torch.equal(before[name], after[name]), name
    for name in before.keys() - after.keys():
        assert name.startswith("pooler.dense")


def test_a_look_at_a_distilled_deit_names_both_tokens(tmp_path, pictures):
    vit(tmp_path / "theirs", 1, WITH_TEACHER, classes=CLASSES[:2], name="DeiT")
    run = import_checkpoint(tmp_path / "theirs", tmp_path / "run").run
    assert "Weight on the class and distillation tokens" in run.look(str(pictures[0])).json()


def test_a_deit_with_one_head_is_refused(tmp_path):
    vit(tmp_path / "theirs", 1, name="DeiT")
    with pytest.raises(ConfigError, match=r"one head and a distillation token that it does not read.*import one"):
        import_checkpoint(tmp_path / "theirs", tmp_path / "run")


def assert_predicts(run, model, folder, pictures):
    """A run and `transformers`, with the files of a folder, give pictures the same probabilities."""
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    for path in pictures:
        with torch.no_grad():
            given = processor(Image.open(path), return_tensors="pt")
            theirs = model(**given).logits.softmax(-1)[0]
        own = run.predict(str(path)).probabilities
        named = [model.config.id2label[i] for i in range(len(theirs))]
        torch.testing.assert_close(torch.tensor([own[name] for name in named]), theirs, **CLOSE)


def folder_of(root, seed=1, size=(40, 30), classes=CLASSES[:2], count=12):
    """A folder of colour pictures for each class, brighter from class to class."""
    random = np.random.default_rng(seed)
    paths = []
    for number, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        for i in range(count):
            array = random.integers(40 * number, 130 + 40 * number, (*size, 3), dtype=np.uint8)
            paths.append(root / name / f"{i}.png")
            Image.fromarray(array).save(paths[-1])
    return paths


@pytest.fixture
def pictures(tmp_path):
    return folder_of(tmp_path / "photos")[::6]


# --- other files


NEW_NAMES = (
    ("encoder.layer.", "layers."), ("attention.attention.query", "attention.q_proj"),
    ("attention.attention.key", "attention.k_proj"), ("attention.attention.value", "attention.v_proj"),
    ("attention.output.dense", "attention.o_proj"), ("intermediate.dense", "mlp.fc1"), ("output.dense", "mlp.fc2"),
)  # fmt: skip


def new_name(name):
    for old, new in NEW_NAMES:
        name = name.replace(old, new)
    return name


def test_names_in_memory_and_a_missing_prefix_are_read(tmp_path):
    model = vit(tmp_path / "theirs")
    changed(tmp_path / "theirs", lambda given: {new_name(name): one for name, one in given.items()})
    assert {name.removeprefix("vit.") for name in load_file(tmp_path / "theirs/model.safetensors")} == {
        name.removeprefix("vit.") for name in model.state_dict()
    }
    imported = import_checkpoint(tmp_path / "theirs", tmp_path / "run")
    assert not imported.unused
    assert_same(imported.run, model)
    changed(tmp_path / "theirs", lambda given: {name.removeprefix("vit."): one for name, one in given.items()})
    assert_same(import_checkpoint(tmp_path / "theirs", tmp_path / "bare").run, model)


def test_a_body_alone_has_no_classes_and_says_so(tmp_path, pictures):
    vit(tmp_path / "theirs", 1, "Model")
    imported = import_checkpoint(tmp_path / "theirs", tmp_path / "run")
    assert set(imported.unused) == {"pooler.dense.weight", "pooler.dense.bias"}
    assert "no classes: train a classifier from it with heed train images FOLDER --from RUN" in str(imported)
    run = heed.load(tmp_path / "run")
    assert run.head.labels == ()
    card = (tmp_path / "run" / "README.md").read_text()
    assert "heed look run PICTURE" in card and "heed train images FOLDER --from run" in card
    assert "heed predict" not in card and "heed evaluate" not in card
    for use in (run.predict, run.evaluate):
        with pytest.raises(
            ConfigError, match=r"no classes: .* theirs, which has no classifier; train a classifier .* --from RUN"
        ):
            use(str(pictures[0]) if use == run.predict else tmp_path / "photos")
    seen = str(run.look(str(pictures[0])))
    assert "attention rolled" in seen and "label" not in seen
    with pytest.raises(ConfigError, match="has no classifier"):
        run.look(str(pictures[0]), map="gradient")


def test_without_the_file_of_the_processor_the_default_is_named(tmp_path):
    vit(tmp_path / "theirs", 1)
    (tmp_path / "theirs/preprocessor_config.json").unlink()
    imported = import_checkpoint(tmp_path / "theirs", tmp_path / "run")
    assert (
        "pictures: 8 x 12, 3 channels, crop squash, bilinear, mean 0.5 0.5 0.5, deviation 0.5 0.5 0.5, since "
        "preprocessor_config.json is missing: the default of ViT"
    ) in str(imported)
    assert "4 classes: bird, cat, dog, fish" in str(imported)


@pytest.mark.parametrize(
    ("file", "field", "value", "words"),
    [
        ("config.json", "hidden_act", "relu", ('hidden_act is "relu"', "'gelu'")),
        ("config.json", "patch_size", [4, 2], ("patch_size is [4, 2]", "valid integer")),
        ("config.json", "image_size", "8", ('image_size is "8"', "valid list")),
        ("config.json", "num_channels", 4, ("num_channels is 4", "1 or 3")),
        ("config.json", "model_type", "swin", ("model_type is 'swin'; supported: ", "vit")),
        ("config.json", "architectures", ["ViTForMaskedImageModeling"], ("ViTForMaskedImageModeling", "ViTModel")),
        ("config.json", "problem_type", "multi_label_classification", ('problem_type is "multi_label', "one label")),
        ("config.json", "id2label", {"0": "a"}, ("id2label is", "two labels or more")),
        ("config.json", "id2label", {"0": "a", "1": "b"}, ("'classifier.weight' has shape (4, 12)", "(2, 12)")),
        ("preprocessor_config.json", "size", {"height": 9, "width": 9}, ("size is", "image_size in config.json")),
    ],
)
def test_what_heed_lacks_is_refused_by_name(tmp_path, file, field, value, words):
    vit(tmp_path / "theirs", 1)
    with_field(tmp_path / "theirs", file, **{field: value})
    refused((ConfigError, RunError), tmp_path / "theirs", *words)


# --- runs that start from an imported one, and runs that were trained here


def train(out, data, **settings):
    settings = {"training.threads": 1, "training.batch_size": 8, **settings}
    parent = settings.pop("parent", None)
    return heed.train("images", train=data, valid=6, out=out, steps=2, parent=parent, settings=settings, quiet=True)


def test_other_classes_start_from_an_imported_model_and_are_exported(tmp_path):
    vit(tmp_path / "theirs", 6)
    parent = heed.import_model(tmp_path / "theirs", tmp_path / "parent", quiet=True)
    photos = folder_of(tmp_path / "photos", classes=("cat", "newt", "dog"))
    run = train(tmp_path / "child", str(tmp_path / "photos"), parent=parent.folder)
    assert run.input.form == parent.input.form  # its pictures are what the weights were made for
    assert run.head.labels == ("cat", "dog", "newt") and run.config.model.name == "vit"
    written = heed.export(run, "huggingface", out=tmp_path / "out")
    assert written.numbered_as == "theirs"
    model = transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "out").eval()
    assert_predicts(run, model, tmp_path / "out", photos[::12])


def test_another_resolution_computes_what_transformers_interpolates(tmp_path):
    model = vit(tmp_path / "theirs", 6)
    parent = heed.import_model(tmp_path / "theirs", tmp_path / "parent", quiet=True)
    folder_of(tmp_path / "photos", classes=CLASSES)
    settings = {"data.size": [64, 48], "training.learning_rate": 1e-12, "training.weight_decay": 0}
    run = train(tmp_path / "child", str(tmp_path / "photos"), parent=parent.folder, **settings)
    pixels = pixels_of(run)
    assert pixels.shape[2:] == (64, 48)
    rows = len(parent.model.body.positions.table.weight), len(run.model.body.positions.table.weight)
    assert run.report["interpolated"]["rows"] == {"body.positions.table.weight": list(rows)} and rows[0] != rows[1]
    assert run.report["interpolated"]["to"] == [64, 48]
    model.vit.embeddings.patch_size = 16  # theirs interpolates for one number only
    with torch.no_grad():
        theirs = model(pixels, interpolate_pos_encoding=True).logits
        torch.testing.assert_close(run.model.eval()(pixels), theirs, **CLOSE)


SMALL = {
    "model.name": "vit", "model.d_model": 12, "model.num_heads": 2, "model.num_layers": 1, "model.d_ff": 16,
    "model.patch_size": 8, "data.size": 16,
}  # fmt: skip


@pytest.mark.parametrize("crop", ["squash", "centre"])
def test_a_run_trained_here_is_read_by_transformers(tmp_path, crop):
    photos = folder_of(tmp_path / "photos", size=(16, 16))
    run = train(tmp_path / "run", str(tmp_path / "photos"), **SMALL, **{"data.crop": crop})
    written = heed.export(tmp_path / "run", "huggingface", out=tmp_path / "out")
    assert written.architecture == "ViTForImageClassification" and not written.numbered_as
    model = transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "out").eval()
    assert_predicts(run, model, tmp_path / "out", photos[::12])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model.name": "cnn"}, "model 'cnn' cannot be exported to huggingface; these can: bert"),
        ({"model.pooling": "mean"}, "vit cannot express model.pooling=mean: it classifies the state of a class token"),
        ({"model.positions": "sinusoidal"}, "vit cannot express model.positions=sinusoidal"),
        ({"model.stem": "conv"}, "vit cannot express model.stem=conv"),
        ({"model.stride": 4}, "vit cannot express model.stride=4: its patches do not overlap"),
        (
            {"model.head": "sigmoid"},
            "model.head is sigmoid: Hugging Face checkpoints of this task support only softmax",
        ),
    ],
)
def test_what_vit_cannot_express_is_refused_by_field(tmp_path, settings, message):
    folder_of(tmp_path / "photos", size=(16, 16), count=8)
    base = {"data.size": 16} if settings.get("model.name") == "cnn" else SMALL
    run = train(tmp_path / "run", str(tmp_path / "photos"), **{**base, **settings})
    with pytest.raises(ConfigError) as caught:
        heed.export(run, "huggingface", out=tmp_path / "out")
    assert message in str(caught.value)
    assert not (tmp_path / "out").exists()

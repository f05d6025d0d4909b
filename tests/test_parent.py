"""A run that starts from another: tensors by name and shape, vectors of tokens by their text, tokenizers whole."""

import json

import pytest
import torch
import yaml

import heed
from heed.cli import main
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.registry import list_models
from heed.tasks import check_config
from heed.tasks.base.transfer import Parent, axes_of
from heed.tasks.translation.task import Translation

DECODERS = {name: body for name, body in list_models() if body.interface == "pair_decoder"}
SMALL = {
    "model.d_embedding": 6,
    "model.d_hidden": 6,
    "model.d_attention": 6,
    "training.threads": 1,
    "training.device": "cpu",
    "evaluation.bootstrap": 5,
    "tokenizer.kind": "char",
}


def write(folder, name, pairs):
    path = folder / name
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return str(path)


def texts(letters, count=24):
    return [(letters[n % 5 :] + letters[: n % 3], letters[: n % 4 + 1] + str(n % 10)) for n in range(count)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("family")
    write(folder, "parent.tsv", texts("abcdefgh"))
    write(folder, "child.tsv", texts("efghijklm"))
    return folder


@pytest.fixture(scope="module")
def parent(folder):
    return heed.train(
        "translation", train=folder / "parent.tsv", steps=4, out=folder / "parent", settings=SMALL, quiet=True
    )


def prepared(folder, parent, model=None, tokenizer=None, train="child.tsv"):
    values = {
        "data": {"train": str(folder / train)},
        "model": {"from": str(parent.folder), **(model or {})},
        "tokenizer": {"kind": "char"} if tokenizer is None else tokenizer,
    }
    return Translation.prepare(check_config(values, "test"))


def of_model(name, fields):
    """A task with a tiny model; its vocabularies are never read."""
    config = check_config({"data": {"name": "copy"}, "model": {"name": name, "size": "tiny", **fields}}, "test")
    return Translation(config, (TextTokenizer.train_characters("a"),) * 2, None)


# --- weights


def test_a_child_has_its_parents_fields_and_what_fits_of_its_weights(folder, parent):
    task = prepared(folder, parent)
    assert (task.config.model.name, task.config.model.size) == ("bahdanau", parent.config.model.size)
    assert task.config.model.model_extra["d_hidden"] == 6
    torch.manual_seed(1)
    model = task.build_model()
    drawn = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    taken = task.start_from_parent(model)
    assert torch.equal(state, torch.get_rng_state())  # the run draws what it would draw without a parent
    theirs = parent.model.state_dict()
    sides = {
        "source_embedding.weight": (task.source_tokenizer, parent.task.source_tokenizer),
        "target_embedding.weight": (task.target_tokenizer, parent.task.target_tokenizer),
        "output.weight": (task.target_tokenizer, parent.task.target_tokenizer),
        "output.bias": (task.target_tokenizer, parent.task.target_tokenizer),
    }
    assert taken.new == () and set(taken.tokens) == set(sides)
    for name, tensor in model.state_dict().items():
        if name not in sides:
            assert name in taken.whole and torch.equal(tensor, theirs[name]), name
            continue
        own, other = sides[name]
        known = {other.token(i): i for i in range(other.vocab_size)}
        found = 0
        for i in range(own.vocab_size):
            if own.token(i) in known:
                assert torch.equal(tensor[i], theirs[name][known[own.token(i)]])
                found += 1
            else:
                assert torch.equal(tensor[i], drawn[name][i])
        assert taken.tokens[name] == (found, own.vocab_size) and 4 < found < own.vocab_size
    own, other = sides["source_embedding.weight"]
    assert own.encode("e").ids != other.encode("e").ids  # by text, not by number


def test_tensors_of_another_shape_are_new_and_named(folder, parent):
    task = prepared(folder, parent, model={"d_attention": 9})
    taken = task.start_from_parent(task.build_model())
    assert taken.new and all(name.startswith("attention.") for name in taken.new)
    assert "encoder" in " ".join(taken.whole)
    assert f"new: {', '.join(taken.new)}" in str(taken)


def test_another_size_is_not_filled_with_the_parents_fields(folder, parent):
    task = prepared(folder, parent, model={"size": "small"})
    assert task.config.model.model_extra["d_hidden"] == 256
    with pytest.raises(
        ConfigError, match=r"model.from: no matrix of .*parent \(bahdanau\) fits .*: model\.d_\w+ is \d+ in that run"
    ):
        task.start_from_parent(task.build_model())


def test_a_run_from_itself_starts_where_it_ended(folder, parent):
    task = prepared(folder, parent, train="parent.tsv", tokenizer={"from": str(parent.folder)})
    model = task.build_model()
    task.start_from_parent(model)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, parent.model.state_dict()[name]), name


@pytest.mark.parametrize("name", DECODERS)
def test_the_axes_of_the_vocabularies_are_found_in_every_model(name):
    body = DECODERS[name]
    sizes = {"source_vocab_size": 17, "target_vocab_size": 19}  # no other width of a tiny model
    config = body.config_class(**{**body.config_class.sizes["tiny"], **sizes})
    axes = axes_of(of_model(name, sizes))
    for tensor_name, tensor in body(config).state_dict().items():
        sides = {17: "source", 19: "target"}
        expected = {axis: sides[size] for axis, size in enumerate(tensor.shape) if size in sides}
        assert axes[tensor_name] == expected
    assert {side for over in axes.values() for side in over.values()} == {"source", "target"}


def test_one_table_for_both_sides_is_the_targets(folder):
    fields = {"source_vocab_size": 17, "target_vocab_size": 17, "shared_embeddings": True}
    axes = axes_of(of_model("transformer", fields))
    assert {side for over in axes.values() for side in over.values()} == {"target"}
    assert axes["target_embedding.weight"]


@pytest.mark.parametrize("shared", [False, True])
def test_tied_tables_reach_every_name(shared, tmp_path):
    for name, letters in (("a.tsv", "abcdefgh"), ("b.tsv", "defghijk")):
        write(tmp_path, name, texts(letters))
    fields = {"name": "transformer", "size": "tiny", "d_model": 8, "d_ff": 8, "shared_embeddings": shared}
    values = {
        "data": {"train": str(tmp_path / "a.tsv")},
        "tokenizer": {"kind": "char", "shared": shared},
        "model": fields,
        "training": {"steps": 2, "threads": 1, "device": "cpu"},
    }
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(values))
    old = heed.train(tmp_path / "a.yaml", out=tmp_path / "old", quiet=True)
    values |= {"data": {"train": str(tmp_path / "b.tsv")}, "model": {"from": str(old.folder)}}
    task = Translation.prepare(check_config(values, "test"))
    model = task.build_model()
    taken = task.start_from_parent(model)
    assert model.output.weight is model.target_embedding.weight and taken.new == ()
    theirs, mine = old.task.target_tokenizer.encode("d").ids, task.target_tokenizer.encode("d").ids
    assert theirs != mine
    assert torch.equal(model.output.weight[mine[0]], old.model.target_embedding.weight[theirs[0]])
    if shared:
        assert model.source_embedding is model.target_embedding


# --- tokenizers


def test_the_parents_tokenizers_are_taken_as_they_are(folder, parent):
    task = prepared(folder, parent, tokenizer={"from": str(parent.folder), "sampling": 0.1})
    for side in ("source", "target"):
        mine, theirs = getattr(task, f"{side}_tokenizer"), getattr(parent.task, f"{side}_tokenizer")
        assert mine.first_difference(theirs) == "" and mine.vocab_size == theirs.vocab_size
    assert task.config.tokenizer.kind == "char" and task.config.tokenizer.sampling == 0.1
    assert task.report_counts()["train"]["source_unknown"] > 0  # letters that only the child has


def test_a_tag_joins_the_parents_tokens(folder, parent):
    values = {
        "data": {
            "train": str(folder / "child.tsv"),
            "extra": [{"files": str(folder / "parent.tsv"), "tag": "<bt>"}],
        },
        "model": {"from": str(parent.folder)},
        "tokenizer": {"from": str(parent.folder)},
    }
    task = Translation.prepare(check_config(values, "test"))
    assert task.source_tokenizer.tags == {"<bt>": parent.task.source_tokenizer.vocab_size}
    taken = task.start_from_parent(task.build_model())
    total = task.source_tokenizer.vocab_size
    assert taken.tokens["source_embedding.weight"] == (total - 1, total)


def test_a_field_that_contradicts_the_parents_tokenizers_is_refused(folder, parent):
    with pytest.raises(ConfigError, match=r"tokenizer.kind is 'bpe', but .*parent unchanged, with 'char'"):
        prepared(folder, parent, tokenizer={"from": str(parent.folder), "kind": "bpe"})


# --- whole runs


def test_a_child_run_says_what_it_took_and_needs_its_parent_no_more(folder, parent, tmp_path, monkeypatch, capsys):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "old").symlink_to(parent.folder)
    monkeypatch.chdir(tmp_path)
    words = ["train", "translation", folder / "child.tsv", "--from", "last", "--out", "child", "training.steps=2"]
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words), "tokenizer.kind=char", "training.threads=1", "training.device=cpu"])
    _, err = capsys.readouterr()
    assert not ended.value.code, err
    assert f"from {tmp_path / 'runs' / 'old'}: " in err and "; new: none" in err
    assert "source_embedding.weight: " in err
    report = json.loads((tmp_path / "child" / "report.json").read_text())["parent"]
    assert report["run"] == str(tmp_path / "runs" / "old") and "encoder" in " ".join(report["whole"])
    assert report["tokens"]["output.bias"]["taken"] < report["tokens"]["output.bias"]["of"]
    stored = yaml.safe_load((tmp_path / "child" / "config.yaml").read_text())
    assert stored["model"]["from"] == report["run"] and stored["tokenizer"]["from"] is None
    (tmp_path / "runs" / "old").unlink()
    assert heed.load("child").predict("efg").finished in (True, False)


def test_from_python(folder, parent, tmp_path):
    settings = {"training.threads": 1, "training.device": "cpu", "tokenizer.from": str(parent.folder)}
    run = heed.train(
        "translation",
        train=folder / "child.tsv",
        parent=parent.folder,
        steps=1,
        out=tmp_path / "child",
        settings=settings,
        quiet=True,
    )
    assert run.report["parent"]["new"] == []
    assert heed.ensemble([parent, run]).predict("ab")  # one vocabulary


def test_what_is_no_finished_run_is_refused_by_its_field(folder, parent, tmp_path):
    (tmp_path / "empty").mkdir()
    for name, message in [
        ("nowhere", "no run folder 'nowhere'"),
        (str(tmp_path / "empty"), "is not a run folder"),
    ]:
        with pytest.raises(ConfigError, match=f"model.from: .*{message}"):
            Parent.open(name, "model.from")
    begun = tmp_path / "begun"
    begun.mkdir()
    for file in parent.folder.iterdir():
        if file.is_file() and file.suffix != ".safetensors":
            (begun / file.name).write_bytes(file.read_bytes())
    with pytest.raises(ConfigError, match=r"from: .*begun' has no final model\.safetensors: training has not"):
        Parent.open(str(begun), "tokenizer.from")

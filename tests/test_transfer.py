"""A run that starts from another, of its task or not: tensors by name, rows by their names, tokenizers whole."""

import json
import random
from dataclasses import replace

import pytest
import torch
import yaml

import heed
from heed.cli import main
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.registry import list_models
from heed.tasks import check_config, task_class, task_names
from heed.tasks.base.transfer import axes_of
from heed.tasks.translation import TASK
from heed.tasks.work import Work
from small_runs import SMALL

TRAINING = {"training.threads": 1, "training.device": "cpu", "training.batch_tokens": 200, "evaluation.bootstrap": 5}
EMBEDDING, OTHER = "body.inputs.embedding.weight", "source_embedding.weight"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("transfer"), random.Random(1)
    words = "one two three four five six seven".split()
    texts = [" ".join(rng.choices(words, k=3)) for _ in range(30)]
    (folder / "labels.txt").write_text("".join(f"{'ab'[n % 2]} {text}\n" for n, text in enumerate(texts)))
    (folder / "others.txt").write_text("".join(f"{'cba'[n % 3]} {text} eight\n" for n, text in enumerate(texts)))
    (folder / "lines.txt").write_text("".join(f"{text}\n" for text in texts))
    (folder / "pairs.tsv").write_text("".join(f"{text} nine\t{text.upper()}\n" for text in texts))
    tags = {word: f"B-{'xy'[n % 2]}" if n < 4 else "O" for n, word in enumerate(words)}
    lines = ["".join(f"{word}\t{tags[word]}\n" for word in f"zero {text}".split()[1:]) for text in texts]
    (folder / "tags.conll").write_text("\n".join(lines))
    rows = [(rng.random(), rng.random(), rng.random(), n % 3) for n in range(30)]
    table = [f"{b:.3f},{a:.3f},{'qpr'[k]}\n" for a, b, _, k in rows if k < 2]
    (folder / "old.csv").write_text("width,length,label\n" + "".join(table))
    table = [f"{a:.3f},{c:.3f},{b:.3f},{'qpr'[k]}\n" for a, b, c, k in rows]
    (folder / "new.csv").write_text("length,depth,width,label\n" + "".join(table))
    (folder / "old.series.csv").write_text("sold,made\n" + "".join(f"{a:.3f},{b:.3f}\n" for a, b, *_ in rows))
    (folder / "new.series.csv").write_text(
        "left,made,sold\n" + "".join(f"{a:.3f},{b:.3f},{c:.3f}\n" for a, b, c, _ in rows)
    )
    return folder


def trained(folder, task, file, name, **fields):
    settings = TRAINING | {"data.valid": 6} | {key.replace("__", "."): value for key, value in fields.items()}
    return heed.train(task, train=folder / file, steps=2, out=folder / name, settings=settings, quiet=True)


@pytest.fixture(scope="module")
def labels(folder):
    return trained(folder, "classification", "labels.txt", "labels", model__d_embedding=5, model__d_hidden=4)


@pytest.fixture(scope="module")
def pairs(folder):
    widths = {"model__d_embedding": 6, "model__d_hidden": 4, "model__d_attention": 4}
    return trained(folder, "translation", "pairs.tsv", "pairs", tokenizer__kind="word", **widths)


def child(folder, parent, task, file, data=None, tokenizer=None, **model):
    """A new run's task, its model, how that was drawn, and what it took from its parent."""
    values = {
        "task": task,
        "data": {"train": str(folder / file), "valid": 6, **(data or {})},
        "model": {"from": str(parent.folder), **model},
        "tokenizer": tokenizer or {},
    }
    new = task_class(task).prepare(check_config(values, "test"))
    torch.manual_seed(1)
    model = new.build_model()
    drawn = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    taken = new.parent.copy_into(model, new)
    assert torch.equal(state, torch.get_rng_state())
    return new, model.state_dict(), drawn, taken


def assert_rows(own, drawn, theirs, names, known, axis=0):
    """Each row is the parent's of the same name, and as drawn where the parent has none; some are of either kind."""
    found = [name in known for name in names]
    assert any(found) and own.shape[axis] == len(names)
    for i, name in enumerate(names):
        expected = theirs.select(axis, known.index(name)) if name in known else drawn.select(axis, i)
        assert torch.equal(own.select(axis, i), expected), name
    return sum(found), len(found)


# --- across tasks


def test_a_tagger_starts_from_a_classifier_and_a_classifier_of_other_labels_from_the_tagger(folder, labels):
    task, own, drawn, taken = child(folder, labels, "tagging", "tags.conll", characters="cnn", num_filters=3)
    fields = task.config.model.model_extra
    assert (fields["d_embedding"], fields["d_hidden"], fields["d_features"]) == (5, 4, 3)
    assert not set(taken.whole) & {"body.encoder.weight_ih_l0"}  # it reads characters too
    task, own, drawn, taken = child(folder, labels, "tagging", "tags.conll", head="crf")
    theirs = labels.model.state_dict()
    assert all(name.startswith("body.encoder.") and torch.equal(own[name], theirs[name]) for name in taken.whole)
    assert {name for name in own if name.startswith("body.")} == {*taken.whole, EMBEDDING}
    tokens = task.tokenizers()["tokens"].tokens, labels.tokenizer.tokens
    assert taken.tokens == {EMBEDDING: assert_rows(own[EMBEDDING], drawn[EMBEDDING], theirs[EMBEDDING], *tokens)}
    assert taken.new and all(name.startswith("head.") for name in taken.new)
    assert all(torch.equal(own[name], drawn[name]) for name in taken.new)

    run = trained(folder, "tagging", "tags.conll", "tags", model__head="crf", **{"model__from": str(labels.folder)})
    assert run.report["parent"]["run"] == str(labels.folder) and run.config.model.model_extra["d_hidden"] == 4
    task, own, drawn, taken = child(folder, run, "classification", "others.txt")
    theirs = run.model.state_dict()
    assert task.config.model.model_extra["head"] == "softmax" and list(task.head.labels) == ["a", "b", "c"]
    tokens = task.tokenizers()["tokens"].tokens, run.tokenizer.tokens
    known, total = assert_rows(own[EMBEDDING], drawn[EMBEDDING], theirs[EMBEDDING], *tokens)
    assert taken.tokens == {EMBEDDING: (known, total)} and known == total - 1  # "eight"
    assert all(torch.equal(own[name], theirs[name]) for name in taken.whole)
    assert {"output.weight", "output.bias"} < set(taken.new) and not any("body" in name for name in taken.new)


def test_a_classifier_starts_from_the_encoder_of_a_translator(folder, pairs):
    tokenizer = {"from": str(pairs.folder)}
    task, own, _, taken = child(folder, pairs, "classification", "others.txt", tokenizer=tokenizer)
    fields, theirs = task.config.model.model_extra, pairs.model.state_dict()
    assert (task.config.model.name, fields["cell"], fields["d_embedding"]) == ("rnn", "gru", 6)
    assert (
        task.tokenizers()["tokens"].first_difference(pairs.input.source_tokenizer) == ""
        and not task.config.tokenizer.shared
    )
    assert torch.equal(own[EMBEDDING], theirs[OTHER]) and taken.tokens[EMBEDDING] == (len(own[EMBEDDING]),) * 2
    assert all(torch.equal(own[name], theirs[name.removeprefix("body.")]) for name in taken.whole)
    assert {f"body.{name}" for name in theirs if name.startswith("encoder.")} == set(taken.whole)
    assert not any("body" in name for name in taken.new)

    with pytest.raises(ConfigError, match=r"no matrix of .*pairs \(bahdanau\) fits the new model \(rnn\)"):
        child(folder, pairs, "tagging", "tags.conll", size="tiny")  # a size has fields of its own


@pytest.mark.parametrize("tied", [True, False])
def test_a_classifier_starts_from_a_language_model_with_its_positions(folder, tied):
    data = {"data__held_out": 0.3, "data__format": "lines", "data__context": 12, "tokenizer__kind": "word"}
    fields = {"d_model": 8, "num_heads": 2, "num_layers": 1, "positions": "learned", "tied_output": tied}
    fields = {f"model__{key}": value for key, value in fields.items()}
    parent = trained(folder, "language_modelling", "lines.txt", f"lm-{tied}", **data, **fields)
    tokenizer = {"from": str(parent.folder)}
    task, own, _, taken = child(folder, parent, "classification", "labels.txt", tokenizer=tokenizer)
    assert task.config.model.name == "gpt" and task.config.model.model_extra["max_length"] == 12
    weights = parent.model.state_dict()
    assert torch.equal(own[EMBEDDING], weights["embedding.weight"])
    for name, tensor in weights.items():
        if name not in ("embedding.weight", "output.weight"):
            assert torch.equal(own[f"body.{name}"], tensor), name
    assert {name.partition(".")[0] for name in taken.new} == {"pooling", "output"}


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_a_classifier_reads_its_bert_as_the_pairs_were_read(folder, pooling):
    fields = {"d_model": 8, "num_heads": 2, "num_layers": 1, "d_ff": 8, "pooling": pooling}
    fields = {f"model__{key}": value for key, value in fields.items()}
    data = {"data__format": "lines", "data__max_length": 16, "model__next_sentence": False}
    parent = trained(folder, "pretraining", "lines.txt", f"read-{pooling}", **data, **fields)
    task, *_ = child(folder, parent, "classification", "labels.txt", tokenizer={"from": str(parent.folder)})
    assert task.config.model.model_extra["pooling"] == pooling


@pytest.mark.parametrize("shared", [False, True])
def test_the_table_of_the_source_is_found_whatever_its_name(folder, shared):
    fields = {"model__d_model": 8, "model__d_ff": 8, "model__shared_embeddings": shared, "tokenizer__shared": shared}
    name = f"transformer{shared}"
    parent = trained(
        folder, "translation", "pairs.tsv", name, model__name="transformer", tokenizer__kind="bpe", **fields
    )
    tokenizer = {"from": str(parent.folder)} if shared else {"kind": "bpe"}
    task, own, drawn, taken = child(
        folder, parent, "classification", "others.txt", None, tokenizer, name="encoder", d_model=8
    )
    tokens = task.tokenizers()["tokens"].tokens, parent.input.source_tokenizer.tokens
    assert_rows(own[EMBEDDING], drawn[EMBEDDING], parent.model.state_dict()[OTHER], *tokens)
    assert set(taken.tokens) == {EMBEDDING} and not task.config.tokenizer.shared


def test_a_translator_takes_the_source_of_a_classifier_and_no_target(folder, labels):
    fields = {
        "name": "seq2seq",
        "d_embedding": 5,
        "d_hidden": 4,
        "cell": "lstm",
        "bidirectional": True,
        "num_layers": 1,
    }
    task, own, drawn, taken = child(folder, labels, "translation", "pairs.tsv", tokenizer={"kind": "word"}, **fields)
    tokens = task.input.source_tokenizer.tokens, labels.tokenizer.tokens
    assert set(taken.tokens) == {OTHER} and "target_embedding.weight" in taken.new
    assert_rows(own[OTHER], drawn[OTHER], labels.model.state_dict()[EMBEDDING], *tokens)
    assert {f"body.{name}" for name in taken.whole} == {n for n in labels.model.state_dict() if "body.encoder" in n}
    with pytest.raises(ConfigError, match=r"labels is a run of classification and has no tokenizer for target"):
        child(folder, labels, "translation", "pairs.tsv", tokenizer={"from": str(labels.folder)}, **fields)
    rows = trained(folder, "table", "old.csv", "no tokens")
    with pytest.raises(
        ConfigError, match=r"tokenizer.from: .*no tokens is a run of table and has no tokenizer for tok"
    ):
        child(folder, labels, "classification", "others.txt", tokenizer={"from": str(rows.folder)})


# --- one task, other rows


def test_two_classes_with_one_output_are_taken_only_as_the_same_two(folder):
    parent = trained(folder, "classification", "labels.txt", "two", model__head="sigmoid")
    task, own, _, taken = child(folder, parent, "classification", "labels.txt")
    assert task.config.model.model_extra["head"] == "sigmoid" and taken.tokens["output.weight"] == (1, 1)
    assert torch.equal(own["output.weight"], parent.model.state_dict()["output.weight"])
    (folder / "third.txt").write_text((folder / "labels.txt").read_text().replace("a ", "c ", 15))
    *_, taken = child(folder, parent, "classification", "third.txt", head="sigmoid")
    assert {"output.weight", "output.bias"} == set(taken.new)


def test_a_table_takes_columns_and_labels_by_name(folder):
    parent = trained(folder, "table", "old.csv", "old", model__size="tiny", model__d_hidden=7)
    task, own, drawn, taken = child(folder, parent, "table", "new.csv")
    theirs, first = parent.model.state_dict(), "body.layers.0.weight"
    assert (task.config.model.size, task.config.model.model_extra["d_hidden"]) == ("tiny", 7)
    assert task.input.standard.columns == ("length", "depth", "width") and task.head.labels == ("p", "q", "r")
    columns, labels = task.input.standard.columns, task.head.labels
    before = parent.input.standard.columns, parent.task.head.labels
    assert before == (("width", "length"), ("p", "q"))
    assert assert_rows(own[first], drawn[first], theirs[first], columns, before[0], 1) == (2, 3)
    for name in ("output.weight", "output.bias"):
        assert assert_rows(own[name], drawn[name], theirs[name], labels, before[1]) == (2, 3)
    assert set(taken.tokens) == {first, "output.weight", "output.bias"} and taken.new == ()


def test_a_series_takes_columns_by_name_and_a_table_fits_no_series(folder):
    parent = trained(folder, "series", "old.series.csv", "series", data__window=5, data__horizon=2, model__d_hidden=7)
    task, own, drawn, taken = child(folder, parent, "series", "new.series.csv", {"window": 5, "horizon": 2})
    theirs, columns = parent.model.state_dict(), (task.input.columns, parent.input.columns)
    assert columns == (("left", "made", "sold"), ("sold", "made")) and task.config.model.model_extra["d_hidden"] == 7
    for name, known in taken.tokens.items():
        axis = 1 if "encoder" in name else 0
        assert assert_rows(own[name], drawn[name], theirs[name], *columns, axis) == known == (2, 3)
    assert len(taken.tokens) == 3 and taken.new == ()
    with pytest.raises(ConfigError, match=r"no matrix of .*series \(rnn\) fits the new model \(mlp\)"):
        child(folder, parent, "table", "new.csv")


def test_every_kind_of_row_that_a_task_names_is_found_in_its_model(labels, pairs, untrained):
    more = {"summarisation": {"pointer": True}, "language_modelling": {"positions": "learned"}}
    small = [untrained(task, **more.get(task, {})) for task in SMALL]
    runs = [labels, pairs, *small]
    assert {run.config.task for run in runs} == set(task_names())
    for run in runs:
        found = {kind for over in axes_of(run.task).values() for kind in over.values()}
        assert found == set(run.task.axes()), run.config.task
        for name, over in axes_of(run.task).items():
            for axis, kind in over.items():
                assert run.model.state_dict()[name].shape[axis] == len(run.task.axes()[kind])


# --- translators from translators


DECODERS = {name: body for name, body in list_models() if body.interface == "pair_decoder"}
CHARACTERS = {
    "model.d_embedding": 6,
    "model.d_hidden": 6,
    "model.d_attention": 6,
    "training.threads": 1,
    "training.device": "cpu",
    "evaluation.bootstrap": 5,
    "tokenizer.kind": "char",
}


def write(family, name, pairs):
    path = family / name
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return str(path)


def texts(letters, count=24):
    return [(letters[n % 5 :] + letters[: n % 3], letters[: n % 4 + 1] + str(n % 10)) for n in range(count)]


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    family = tmp_path_factory.mktemp("family")
    write(family, "parent.tsv", texts("abcdefgh"))
    write(family, "child.tsv", texts("efghijklm"))
    return family


@pytest.fixture(scope="module")
def parent(family):
    return heed.train(
        "translation", train=family / "parent.tsv", steps=4, out=family / "parent", settings=CHARACTERS, quiet=True
    )


def prepared(family, parent, model=None, tokenizer=None, train="child.tsv"):
    values = {
        "data": {"train": str(family / train)},
        "model": {"from": str(parent.folder), **(model or {})},
        "tokenizer": {"kind": "char"} if tokenizer is None else tokenizer,
    }
    return TASK.prepare(check_config(values, "test"))


def of_model(name, fields):
    """A task with a tiny model; its vocabularies are never read."""
    config = check_config({"data": {"name": "copy"}, "model": {"name": name, "size": "tiny", **fields}}, "test")
    tokenizer = TextTokenizer.train_characters("a")
    return Work(
        TASK, config, replace(TASK.input, tokenizers={"source": tokenizer, "target": tokenizer}), TASK.head, None
    )


# --- weights


def test_a_child_has_its_parents_fields_and_what_fits_of_its_weights(family, parent):
    task = prepared(family, parent)
    assert (task.config.model.name, task.config.model.size) == ("bahdanau", parent.config.model.size)
    assert task.config.model.model_extra["d_hidden"] == 6
    torch.manual_seed(1)
    model = task.build_model()
    drawn = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    taken = task.parent.copy_into(model, task)
    assert torch.equal(state, torch.get_rng_state())  # the run draws what it would draw without a parent
    theirs = parent.model.state_dict()
    sides = {
        "source_embedding.weight": (task.input.source_tokenizer, parent.input.source_tokenizer),
        "target_embedding.weight": (task.input.target_tokenizer, parent.input.target_tokenizer),
        "output.weight": (task.input.target_tokenizer, parent.input.target_tokenizer),
        "output.bias": (task.input.target_tokenizer, parent.input.target_tokenizer),
    }
    assert taken.new == () and set(taken.tokens) == set(sides)
    for name, tensor in model.state_dict().items():
        if name not in sides:
            assert name in taken.whole and torch.equal(tensor, theirs[name]), name
            continue
        own, other = sides[name]
        found, total = assert_rows(tensor, drawn[name], theirs[name], own.tokens, other.tokens)
        assert taken.tokens[name] == (found, total) and 4 < found < total
    own, other = sides["source_embedding.weight"]
    assert own.encode("e").ids != other.encode("e").ids  # by text, not by number


def test_tensors_of_another_shape_are_new_and_named(family, parent):
    task = prepared(family, parent, model={"d_attention": 9})
    taken = task.parent.copy_into(task.build_model(), task)
    assert taken.new and all(name.startswith("attention.") for name in taken.new)
    assert "encoder" in " ".join(taken.whole)
    assert f"new: {', '.join(taken.new)}" in str(taken)


def test_another_size_is_not_filled_with_the_parents_fields(family, parent):
    task = prepared(family, parent, model={"size": "small"})
    assert task.config.model.model_extra["d_hidden"] == 256
    with pytest.raises(
        ConfigError, match=r"model.from: no matrix of .*parent \(bahdanau\) fits .*: model\.d_\w+ is \d+ in that run"
    ):
        task.parent.copy_into(task.build_model(), task)


def test_a_run_from_itself_starts_where_it_ended(family, parent):
    task = prepared(family, parent, train="parent.tsv", tokenizer={"from": str(parent.folder)})
    model = task.build_model()
    task.parent.copy_into(model, task)
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
    task = TASK.prepare(check_config(values, "test"))
    model = task.build_model()
    taken = task.parent.copy_into(model, task)
    assert model.output.weight is model.target_embedding.weight and taken.new == ()
    theirs, mine = old.input.target_tokenizer.encode("d").ids, task.input.target_tokenizer.encode("d").ids
    assert theirs != mine
    assert torch.equal(model.output.weight[mine[0]], old.model.target_embedding.weight[theirs[0]])
    if shared:
        assert model.source_embedding is model.target_embedding


# --- tokenizers


def test_a_tag_joins_the_parents_tokens(family, parent):
    values = {
        "data": {"train": str(family / "child.tsv"), "extra": [{"files": str(family / "parent.tsv"), "tag": "<bt>"}]},
        "model": {"from": str(parent.folder)},
        "tokenizer": {"from": str(parent.folder)},
    }
    task = TASK.prepare(check_config(values, "test"))
    assert task.input.source_tokenizer.tags == {"<bt>": parent.input.source_tokenizer.vocab_size}
    taken = task.parent.copy_into(task.build_model(), task)
    total = task.input.source_tokenizer.vocab_size
    assert taken.tokens["source_embedding.weight"] == (total - 1, total)


# --- whole runs


def test_a_child_run_says_what_it_took_and_needs_its_parent_no_more(family, parent, tmp_path, monkeypatch, capsys):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "old").symlink_to(parent.folder)
    monkeypatch.chdir(tmp_path)
    words = ["train", "translation", family / "child.tsv", "--from", "last", "--out", "child", "training.steps=2"]
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

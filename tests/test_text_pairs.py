"""Classification of pairs of texts: read from every kind of data, cut, trained, used and looked at."""

import json
import random

import pytest
import torch

import heed
from contract import config_of
from heed.data.tokens.tokenizer import END, START
from heed.errors import ConfigError, DataError
from heed.serve.served import Served
from heed.tasks import check_config, task_class
from heed.tasks.base.predictions import question_of

WORDS = "red old big cat dog man sun sea".split()
TRAINING = {"training.threads": 1, "training.device": "cpu", "evaluation.bootstrap": 5, "tokenizer.min_count": 1}
PAIR = {"data.columns.text": ["premise", "hypothesis"]}
SMALL = {"model.d_model": 8, "model.num_heads": 2, "model.d_ff": 8, "model.num_layers": 1, "model.max_length": 40}


def drawn(count, seed=1):
    rng = random.Random(seed)
    rows = []
    for n in range(count):
        first = rng.sample(WORDS, 3)
        second = [first[n % 3]] if n % 2 else [rng.choice([w for w in WORDS if w not in first])]
        rows.append((" ".join(first), " ".join(second), "yes" if n % 2 else "no"))
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, rows = tmp_path_factory.mktemp("pairs"), drawn(40)
    table = "premise\thypothesis\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows)
    (folder / "pairs.tsv").write_text(table)
    (folder / "pairs.csv").write_text(table.replace("\t", ","))
    fields = ("premise", "hypothesis", "label")
    (folder / "pairs.jsonl").write_text("".join(json.dumps(dict(zip(fields, row, strict=True))) + "\n" for row in rows))
    (folder / "plain.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def run(folder):
    settings = TRAINING | PAIR | SMALL | {"tokenizer.kind": "word", "data.valid": 8}
    return heed.train(
        "classification", train=folder / "pairs.tsv", model="bert", steps=2, out=folder / "run", settings=settings,
        quiet=True,
    )  # fmt: skip


def prepared(folder, file, columns, **model):
    data = {"train": str(folder / file), "valid": 8, "columns": columns}
    model = model or {"name": "bert", **{key.removeprefix("model."): value for key, value in SMALL.items()}}
    config = config_of("classification", data, tokenizer={"kind": "word", "min_count": 1}, model=model)
    return task_class("classification").prepare(config)


@pytest.mark.parametrize(
    ("file", "columns"),
    [
        ("pairs.tsv", {"text": ["premise", "hypothesis"]}),
        ("pairs.csv", {"text": "premise", "second": "hypothesis", "label": "label"}),
        ("pairs.jsonl", {"text": ["premise", "hypothesis"]}),
        ("plain.tsv", {"text": [0, 1], "label": 2}),
    ],
)
def test_pairs_are_read_from_two_columns(folder, file, columns):
    task = prepared(folder, file, columns)
    texts = [*task.splits.examples["train"], *task.splits.examples["valid"]]
    assert sorted((one.text, one.second, *one.labels) for one in texts) == sorted(drawn(40))
    assert task.input.pairs and task.unit == "pair"


@pytest.mark.parametrize("model", [{"name": "bert", "size": "tiny", "max_length": 6}, {"name": "han", "size": "tiny"}])
def test_batches_are_planned_by_the_tokens_that_are_read(folder, model):
    task = prepared(folder, "pairs.tsv", {"text": ["premise", "hypothesis"]}, **model)
    read = [task.input.tokens_of(encoded) for encoded in task.encoded("train")]
    assert {len(tokens) for tokens in read} == ({4} if model["name"] == "bert" else {5})  # 3 words, END, 1 word
    assert task.costs("train").tolist() == [len(tokens) + 2 * task.input.is_framed for tokens in read]
    assert any("longer than the model's 4 tokens" in line for line in task.notes.splitlines()) == task.input.is_framed


def test_the_model_reads_both_texts_framed(folder):
    task = prepared(folder, "pairs.tsv", {"text": ["premise", "hypothesis"]})
    model = task.build_model()
    read = []
    model.body.register_forward_hook(lambda module, given, result: read.append(given))
    batch = task.batch_of([("red old", "big")])
    model(**batch.inputs)
    (tokens, mask), number = read[0], task.input.tokenizer.tokens.index
    assert tokens.tolist() == [[START, number("red"), number("old"), END, number("big"), END]] and mask.all()
    assert task.config.model.model_extra["pooling"] == "mean"
    assert model.body.segments_of(tokens).tolist() == [[0, 0, 0, 0, 1, 1]]
    both = task.batch_of([("red old", "big"), ("red", "big cat dog")])
    torch.testing.assert_close(model.eval()(**both.inputs)[:1], model(**batch.inputs))


def test_two_end_tokens_stand_between_the_texts_where_the_model_wants_them(folder):
    fields = {key.removeprefix("model."): value for key, value in SMALL.items()}
    columns = {"text": ["premise", "hypothesis"]}
    task = prepared(folder, "pairs.tsv", columns, name="bert", double_separator=True, **fields)
    assert task.input.tokens_of(task.input.encode_texts([("red", "big")])[0])[1:3] == [END, END]


@pytest.mark.parametrize("name", ["rnn", "cnn", "han", "bag", "encoder"])
def test_other_models_read_an_end_token_between_the_texts(folder, name):
    task = prepared(folder, "pairs.tsv", {"text": ["premise", "hypothesis"]}, name=name, size="tiny")
    encoded = task.input.encode_texts([("red old", "big"), ("red", "")])
    assert [task.input.tokens_of(one).index(END) for one in encoded] == [2, 1]
    model = task.build_model().eval()
    assert len(task.answers(model, encoded)) == 2


def test_of_a_pair_that_is_too_long_the_longer_text_is_cut_first(folder):
    task = prepared(folder, "pairs.tsv", {"text": ["premise", "hypothesis"]})
    long, short = " ".join(["red"] * 60), "big cat"
    (encoded,) = task.input.encode_texts([(long, short)])
    ids = task.input.tokens_of(encoded)
    assert len(ids) == 38 and ids.index(END) == 35 and encoded.cut == 25  # 40 positions, three of them special
    (answer,) = task.answers(task.build_model(), task.input.encode_texts([(long, short)]))
    assert answer.shape == (2,)
    (encoded,) = task.input.encode_texts([(long, long)])
    assert task.input.tokens_of(encoded).index(END) == 19 and len(task.input.tokens_of(encoded)) == 38


def test_a_run_predicts_pairs_in_every_form(run, folder):
    first = run.predict(("red old", "big"))
    assert first.label in ("yes", "no")
    in_a_batch = run.predict([("red old", "big"), ("red", "cat")])[0]
    assert in_a_batch.label == first.label and in_a_batch.probability == pytest.approx(first.probability, abs=1e-6)
    assert run.predict("red old\tbig") == first
    import pandas

    frame = pandas.DataFrame({"id": [1], "premise": ["red old"], "hypothesis": ["big"]})
    assert run.predict(frame)[0] == first
    with pytest.raises(
        DataError, match=r"the input is the text 'red old', expected two texts: \(first, second\), or both"
    ):
        run.predict("red old")
    with pytest.raises(DataError, match=r"texts\[1\] is the text 'red', expected two texts"):
        run.predict([("red old", "big"), "red"])


def test_a_run_is_scored_on_pairs_from_files_and_from_memory(run, folder):
    of_file = run.evaluate(folder / "pairs.csv")
    assert of_file["accuracy"] == run.evaluate([*drawn(40)])["accuracy"]
    assert "TF-IDF and a linear SVM" in json.dumps(of_file)
    held = heed.train(
        "classification", train=drawn(40), valid=8, model="rnn", steps=1, out=folder / "held",
        settings=TRAINING | {"data.columns.text": [0, 1]}, quiet=True,
    )  # fmt: skip
    assert heed.load(folder / "held").predict([("red old", "big")])[0] == held.predict(("red old", "big"))


def test_a_look_at_a_pair_names_the_special_tokens(run):
    look = run.look(("red old", "zebra big"), mechanism="encoder").look
    (seen,) = [one for one in look.maps if one.mechanism == "encoder"]
    names = [run.tokenizer.token(START), run.tokenizer.token(END)]
    assert list(seen.key.labels) == [names[0], "red", "old", names[1], "?zebra", "big", names[1]]
    added = next(one for one in look.shadings if one.title.startswith("Contribution of each word"))
    assert added.axis.labels == ("red", "old", "?zebra", "big")
    assert any("never seen in training: zebra" in note for note in look.notes)


def test_the_command_line_takes_two_texts_or_a_file_of_pairs(run, folder, capsys):
    from heed.__main__ import main

    def heed_says(*words):
        with pytest.raises(SystemExit) as ended:
            main([*map(str, words)])
        return ended.value.code, *capsys.readouterr()

    code, out, _ = heed_says("predict", run.folder, "red old", "big", "red", "cat")
    assert code == 0 and len(out.splitlines()) == 2
    assert out == heed_says("predict", run.folder, "red old\tbig", "red\tcat")[1]
    code, _, err = heed_says("predict", run.folder, "red old")
    assert code != 0 and "reads pairs of texts, but 1 text was given; give two for each pair: 'FIRST' 'SECOND'" in err
    (folder / "two.tsv").write_text("hypothesis\tpremise\nbig\tred old\ncat\tred\n")
    (folder / "lines.txt").write_text("red old\tbig\n\nred\tcat\n")
    code, of_columns, err = heed_says("predict", run.folder, "--input", folder / "two.tsv")
    assert of_columns == out and "columns: the texts are 'premise' and 'hypothesis'" in err
    code, of_lines, err = heed_says("predict", run.folder, "--input", folder / "lines.txt")
    assert of_lines.splitlines() == [out.splitlines()[0], "", out.splitlines()[1]], err
    (folder / "one.txt").write_text("red old\n")
    code, _, err = heed_says("predict", run.folder, "--input", folder / "one.txt")
    assert code != 0 and "one.txt' line 1 has 1 column, expected two texts with a tab between them: 'red old'" in err
    code, out, _ = heed_says("look", run.folder, "red old", "big")
    assert code == 0 and "red" in out
    code, out, _ = heed_says("predict", run.folder, "--json", "red old", "big")
    assert (json.loads(out)["text"], json.loads(out)["second"]) == ("red old", "big")


def test_a_pair_has_two_named_fields_over_http(run):
    served = Served("run", run.folder)
    pair = {"text": "red old", "second": "big"}
    assert served.kind == "pair" and served.read(pair) == ("red old", "big")
    (answer,) = served.predict([served.read(pair)], {})
    assert (answer["text"], answer["second"], answer["label"]) == (
        "red old",
        "big",
        run.predict(("red old", "big")).label,
    )
    for wrong in ("red old\tbig", ["red old", "big"], {"text": "red old"}, pair | {"third": "x"}):
        with pytest.raises(DataError, match=r"(?s)input.* is .*: .*(dictionary|'text' or 'second')"):
            served.read(wrong)
    with pytest.raises(DataError, match=r'inputs\.second is " ": the text is blank'):
        served.read(pair | {"second": " "}, "inputs")


def test_a_look_shows_both_texts_of_a_pair(run):
    shown = run.look(("red old", "big"))
    assert (shown.look.source, shown.look.second) == ("red old", "big")
    assert [line.split(maxsplit=1) for line in shown.text().splitlines()[1:3]] == [
        ["text", "red old"],
        ["second", "big"],
    ]


def test_tabs_inside_the_texts_of_a_pair_stay(run, tmp_path):
    rows = [{"premise": "red\told", "hypothesis": "big\tcat", "label": "yes"}] * 2
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for one in [*run.read([tmp_path / "a.jsonl"]), *run.read_data([("red\told", "big\tcat", "yes")])]:
        assert (one.text, one.second) == ("red\told", "big\tcat") == question_of(run.input, one)
    assert run.predict(("red\told", "big\tcat")) == run.predict(("red old", "big cat"))


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ({"columns": {"text": ["a", "b", "c"]}}, ConfigError, r"text is \['a', 'b', 'c'\], expected one column, or"),
        ({"columns": {"second": 1}, "format": "lines"}, ConfigError, r"second is 1, but data.format lines has"),
        ({"columns": {"text": ["premise", "hypotesis"]}}, DataError, r"no column 'hypotesis'; did you mean 'hypoth"),
        ({}, DataError, r"chooses the first, data.columns.text=\[premise,hypothesis\] reads both as a pair"),
    ],
)  # fmt: skip
def test_what_is_no_pair_is_said(folder, data, error, message):
    rows = [(f"{a} in the {b}", f"{b} on the {a}", label) for a, b, label in drawn(40)]
    (folder / "long.tsv").write_text("premise\thypothesis\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows))
    values = {"task": "classification", "data": {"train": str(folder / "long.tsv"), **data}, "training": {"steps": 1}}
    with pytest.raises(error, match=message):
        task_class("classification").prepare(check_config(values, "the test"))


def test_a_pair_of_which_one_text_is_blank_is_left_out(folder):
    (folder / "blank.tsv").write_text((folder / "pairs.tsv").read_text() + " \tred\tyes\nred\t\tno\n")
    task = prepared(folder, "blank.tsv", {"text": ["premise", "hypothesis"]})
    assert task.splits.counts["train"].read == 42 and "blank" in task.splits.notes

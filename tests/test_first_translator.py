"""From two files to a translator, as a new user types it: every command, every output, every refusal."""

import json
import random
import re
import unicodedata
from functools import partial

import pytest
import yaml
from sacrebleu.metrics import BLEU, CHRF, TER

import commands
import heed
from heed.cli import main
from heed.data.examples import Pair
from heed.errors import ConfigError
from heed.runs.card import scores_text
from heed.watch.maps import MERGED

WORDS = {
    "the cat": "ologbo náà",
    "a dog": "aja kan",
    "my friend": "ọ̀rẹ́ mi",
    "the teacher": "olùkọ́ náà",
    "sees": "rí",
    "likes": "fẹ́ràn",
    "buys": "ra",
    "a book": "ìwé kan",
    "the house": "ilé náà",
    "two apples": "ápù méjì",
}
SMALL = [f"model.d_{part}=12" for part in ("hidden", "embedding", "attention", "readout")]
SMALL += [
    "training.threads=1",
    "training.device=cpu",
    "evaluation.bootstrap=30",
    "tokenizer.kind=bpe",
    "tokenizer.vocab_size=70",
]


def corpus(count, seed):
    rng, names = random.Random(seed), list(WORDS)
    for _ in range(count):
        parts = [rng.choice(names[:4]), rng.choice(names[4:7]), rng.choice(names[7:])]
        number = rng.randrange(1000)
        yield " ".join(parts) + f", {number}.", " ".join(WORDS[part] for part in parts) + f", {number}."


def write(folder, name, pairs):
    for side, ending in enumerate(("en", "yo")):
        text = "".join(pair[side] + "\n" for pair in pairs)
        (folder / f"{name}.{ending}").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name, count, seed in (("my", 300, 1), ("dev", 30, 2), ("test", 25, 3)):
        write(folder, name, list(corpus(count, seed)))
    return folder


@pytest.fixture
def call(capsys, monkeypatch, data):
    """Run a command beside the data; gives its exit code, stdout and stderr."""
    monkeypatch.chdir(data)
    monkeypatch.setenv("COLUMNS", "100")
    return partial(commands.call, capsys)


@pytest.fixture(scope="module")
def run(data):
    """A run of 30 updates with a test set; most tests only read it."""
    pytest.MonkeyPatch().setenv("COLUMNS", "100")
    words = ["train", "translation", data / "my.en", data / "my.yo", "--out", data / "run", "--seed", 2]
    words += ["--size", "tiny"]
    words += ["--valid", f"{data / 'dev.en'},{data / 'dev.yo'}", "--test", data / "test.en", "--test", data / "test.yo"]
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words), *SMALL, "training.steps=30", "training.learning_rate=0.01"])
    assert not ended.value.code
    return heed.load(data / "run")


def texts(data, name):
    return (data / name).read_text(encoding="utf-8").splitlines()


# --- train, check


def test_the_run_knows_its_data(run, data):
    counts = run.report["data"]
    assert [counts[split]["examples"] for split in ("train", "valid", "test")] == [300, 30, 25]
    assert counts["train"]["filtered"] == {} and counts["train"]["read"] == 300
    assert counts["train"]["source_tokens"] == sum(
        map(len, run.input.source_tokenizer.encode_all(texts(data, "my.en")))
    )
    assert run.config.data.train == [str(data / "my.en"), str(data / "my.yo")]
    assert (run.config.evaluation.select_by, run.config.model.size, run.config.training.seed) == ("chrf", "tiny", 2)
    assert (run.folder / "README.md").read_text(encoding="utf-8").count("chrF")


def test_training_on_two_files_alone_holds_out_by_itself(call, data):
    (data / "blanks.en").write_text("\n".join(["", *texts(data, "my.en")[:60], "x"]) + "\n", encoding="utf-8")
    (data / "blanks.yo").write_text("\n".join(["y", *texts(data, "my.yo")[:60], " "]) + "\n", encoding="utf-8")
    code, out, err = call("train", "translation", "blanks.en", "blanks.yo", *SMALL, "training.steps=2")
    assert code == 0
    assert "12 pairs held out for validation by a hash of the source" in err
    assert "48 of 62 pairs kept, 1 left out: source blank, 1 left out: target blank" in err
    assert "valid:" in out and "selected" in out
    report = json.loads((data / "runs" / "blanks-bahdanau-1" / "report.json").read_text())
    assert report["data"]["train"]["filtered"] == {
        "source blank": 1,
        "target blank": 1,
        "held out for validation": report["data"]["valid"]["examples"],
    }
    assert call("predict", "last", "the cat")[0] == 0  # the newest under runs/
    assert heed.load().folder.name == "blanks-bahdanau-1"


def test_a_configuration_names_files_beside_itself(call, data, tmp_path, monkeypatch):
    recipe = tmp_path / "recipe"
    (recipe / "corpus").mkdir(parents=True)
    write(recipe / "corpus", "a", list(corpus(30, 7)))
    values = {"data": {"train": ["corpus/a.en", "corpus/a.yo"], "valid": 5, "test": ["corpus/a.en", "corpus/a.yo"]}}
    (recipe / "r.yaml").write_text(yaml.safe_dump(values))
    monkeypatch.chdir(tmp_path)
    assert call("train", recipe / "r.yaml", *SMALL, "training.steps=1", "--out", tmp_path / "made")[0] == 0
    again = heed.load(tmp_path / "made")
    assert again.config.data.train == [str(recipe / "corpus" / name) for name in ("a.en", "a.yo")]
    monkeypatch.chdir("/")
    assert again.evaluate("test")["examples"] == 30  # found from anywhere


def test_check_counts_everything_and_shows_what_the_model_sees(call, run):
    code, out, err = call("check", "translation", "my.en", "my.yo", "--test", "test.en,test.yo", "--valid", 20, *SMALL)
    assert (code, err) == (0, "")
    valid = re.search(r"^valid: (\d+) of \1 pairs kept$", out, re.MULTILINE)[1]
    assert f"train: {300 - int(valid)} of 300 pairs kept, {valid} left out: held out for validation" in out
    assert "test: 25 of 25 pairs kept" in out and "tokenizer bpe: " in out
    for split in ("train", "valid", "test"):
        for side in ("source", "target"):
            assert re.search(rf"^{split}\s+{side}\s+[\d,]+\s+\d+\s+\d+\s+\d+\s+\d+\.\d\d%$", out, re.MULTILINE)
    assert re.search(r"^  my.en:\d+\n    source  [\w ]+, \d+\.\n {12}\u2581\w.*\n    target  ", out, re.MULTILINE)
    assert re.search(r"^  test.en:1\n    source  ", out, re.MULTILINE)


def test_a_dry_run_writes_nothing_and_predicts(call, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = [data / "my.en", data / "my.yo"]
    code, out, err = call("train", "translation", *files, *SMALL, "training.steps=50", "--dry-run")
    assert (code, err) == (0, "")
    assert list(tmp_path.iterdir()) == []
    assert re.search(
        r"^predicted: 50 updates \(\d+\.\d passes over the data\), .+, [\d,]+ MiB of memory, up to [\d,]+ MiB on disk$",
        out,
        re.MULTILINE,
    )
    assert "parameters" in out and "240 of 300 pairs kept" in out
    settled = yaml.safe_load(out[: out.index("train: 2")])
    assert settled["tokenizer"]["kind"] == "bpe" and settled["model"]["size"] == "scarce"


# --- predict


def test_every_line_in_is_a_line_out(call, run, data):
    lines = ["the cat sees a book, 5.", "", "a dog", "   ", "", "my friend likes the house, 77."]
    expected = [prediction.text for prediction in run.predict(lines)]
    assert expected[1] == expected[3] == expected[4] == ""
    (data / "in.txt").write_bytes(b"\xef\xbb\xbf" + "".join(f"{line}\r\n" for line in lines).encode())
    code, out, _ = call("predict", "run", "--input", "in.txt")
    assert code == 0 and out == "".join(text + "\n" for text in expected)
    assert call("predict", "run", "the cat", "", "--align")[1].split("\n")[1:] == ["\t", ""]  # no links


def test_a_folder_in_is_a_folder_out(call, run, data):
    (data / "texts").mkdir()
    for name, text in {"a.txt": "the cat\n\na dog\n", "b.txt": "my friend", ".hidden": "\xff"}.items():
        (data / "texts" / name).write_text(text, encoding="latin-1")
    code, out, err = call("predict", "run", "--input", "texts", "--out", "out")
    assert (code, out) == (0, "")
    assert ".hidden" in err and "wrote out/a.txt" in err
    assert sorted(path.name for path in (data / "out").iterdir()) == ["a.txt", "b.txt"]
    assert (data / "out" / "a.txt").read_text(encoding="utf-8").split("\n") == [
        *(p.text for p in run.predict(["the cat", "", "a dog"])),
        "",
    ]
    assert call("predict", "run", "--input", "test.en", "--out", "one.yo")[0] == 0
    assert len((data / "one.yo").read_text(encoding="utf-8").split("\n")) == 26


def test_samples_prefixes_and_alignments(call, run):
    text = "the cat sees a book, 5."
    sampled = ["predict", "run", text, "a dog", "--sample", "--temperature", 2]
    one, again, other = (call(*sampled, "--seed", seed)[1] for seed in (3, 3, 4))
    assert one == again != other and one.count("\n") == 2
    alone = call("predict", "run", "a dog", "--sample", "--temperature", 2, "--seed", 3)[1]
    assert alone == one.splitlines(keepends=True)[1]  # whatever stands beside it
    greedy = call("predict", "run", text)[1]
    assert call("predict", "run", text, "--sample", "--top-k", 1)[1] == greedy
    begun = call("predict", "run", text, "a dog", "--prefix", "aja kan")[1].splitlines()
    assert len(begun) == 2 and all(line.startswith("aja kan") for line in begun)
    values = json.loads(call("predict", "run", text, "--json", "--align")[1])
    assert all(len(link) == 2 for link in values["alignment"])


def test_predict_refuses_in_one_line(call, run, data):
    for words, message in [
        (["x", "--temperature", 2], "--temperature 2.0 applies only to sampled outputs; add --sample"),
        (["x", "--seed", 2], "--seed 2 applies only to sampled outputs"),
        (["x", "--sample", "--beam", 3], "--beam 3 searches and --sample draws"),
        (["x", "--sample", "--temperature", 0], r"temperature is 0.0, expected"),
        (["x", "--sample", "--top-p", 2], r"top_p is 2.0, expected"),
        (["x", "--prefix", "\u732b"], "prefix '\u732b' has '\u732b', which was never seen in training"),
        (["--input", "test.en", "--out", "test.en"], "--out 'test.en' is the input; it would be overwritten"),
        (["--input", "test.en", "--out", "none/a"], "cannot write 'none/a': No such file"),
        (["--input", "."], r"'.' is a folder; name the folder for the outputs with --out"),
        (["--input", ".", "--out", "."], "its files would be overwritten"),
    ]:
        code, out, err = call("predict", "run", *words)
        assert (code, out) == (2, ""), words
        assert re.match("heed: .*" + message, err) and err.count("\n") == 1, err
    assert len(texts(data, "test.en")) == 25


# --- evaluate, look


def test_scores_are_sacrebleus(call, run, data):
    code, out, err = call("evaluate", "run", "test.en", "test.yo", "--json")
    assert (code, err) == (0, "")
    (report,) = json.loads(out).values()
    outputs = [prediction.text for prediction in run.predict(texts(data, "test.en"))]
    references = texts(data, "test.yo")
    for name, metric in (("bleu", BLEU()), ("chrf", CHRF()), ("ter", TER())):
        assert report[name]["value"] == pytest.approx(metric.corpus_score(outputs, [references]).score, abs=1e-9)
        assert report[name]["signature"] == str(metric.get_signature())
        assert report[name].get("low", 0.0) <= report[name]["value"] <= report[name].get("high", 100.0)
    assert sum(bucket["examples"] for bucket in report["by_source_length"]) == 25
    assert (
        report
        == json.loads(call("evaluate", "run", "--json")[1])["test"]
        == json.loads(json.dumps(run.report["scores"]["test"]))
    )


def test_scores_on_training_files_are_said_to_be_optimistic(call, run, data):
    for side in ("en", "yo"):
        seen, new = texts(data, f"my.{side}"), texts(data, f"test.{side}")
        (data / f"both.{side}").write_text("\n".join([*seen[:7], *new[:5]]) + "\n", encoding="utf-8")
    code, _, err = call("evaluate", "run", "both.en", "both.yo")
    assert code == 0
    assert err == "heed: 7 of 12 pairs are also in the training set, so their scores are optimistic\n"


@pytest.mark.parametrize("command", ["predict", "look"])
def test_the_name_of_a_file_in_place_of_a_text_is_noticed(call, run, command):
    code, _, err = call(command, "run", "test.en")
    said = "heed: 'test.en' is the name of a file, but was read as a text"
    more = "; to read the file: --input test.en" if command == "predict" else ""
    assert code == 0 and f"{said}{more}" in err.splitlines()
    assert "name of a file" not in call(command, "run", "a dog")[2]


def test_a_look_at_several_texts_is_refused(run):
    with pytest.raises(ConfigError, match=r"text is the list \['a dog', 'a cat'\], expected one text"):
        run.look(["a dog", "a cat"])


def test_evaluating_files_with_blank_lines(call, run, data):
    (data / "some.tsv").write_text("the cat\tologbo náà\n\n \tx\na dog\t\n", encoding="utf-8")
    code, out, err = call("evaluate", "run", "some.tsv", "--json")
    assert code == 0, err
    assert json.loads(out)["some.tsv"]["examples"] == 4


def test_a_look_shows_words_and_says_how_they_came_about(call, run):
    target = "aja kan rí ìwé kan, 5."
    look = json.loads(call("look", "run", "a dog sees a book, 5.", "--target", target, "--as", "json")[1])
    (shown,) = look["maps"]
    assert shown["key"]["labels"] == ["a", "dog", "sees", "a", "book", ",", "5", "."]
    assert shown["query"]["labels"] == [*unicodedata.normalize("NFC", target[:-4]).split(), ",", "5", ".", "end"]
    assert shown["query"]["kind"] == shown["key"]["kind"] == "word"
    assert MERGED in shown["caption"]
    assert all(sum(row) == pytest.approx(1, abs=1e-3) for row in shown["weights"])
    for form in ("text", "html"):
        assert MERGED.split(":")[0] in call("look", "run", "a dog", "--as", form)[1]
    assert "rows: target words, columns: source words" in call("look", "run", "a dog")[1]


# --- refusals


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("check translation my.en test.yo", r"'.*/test.yo' has 25 lines but '.*/my.en' has 300; line N of one"),
        ("train translation my.en my.yo --valid no.en,no.yo", r"no file '.*/no.en'$"),
        ("check translatoin my.en my.yo", r"'translatoin' is neither .*; did you mean 'translation'\?$"),
        (
            "train translation my.en my.yo learning_rate=0.1",
            r"'learning_rate=0.1' is neither a file nor a field with its section; did you mean training.learning_rate",
        ),
        ("train translation my.en my.yo a=1", r"'a=1' is neither a file nor a field .*: SECTION.FIELD=VALUE$"),
        (
            "train my.en my.yo",
            r"name its task first \(classification, .*\), for example: heed train translation my.en my.yo$",
        ),
        ("train translation", r"needs its training files, for example: heed train translation my.en my.yo$"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(call, data, words, message):
    before = sorted(data.rglob("*"))
    code, out, err = call(*words.split())
    assert code == 2 and out == "" and "Traceback" not in err
    assert err.splitlines()[-1].startswith("heed: ") and re.search(message, err.splitlines()[-1]), err
    assert words.startswith("train") or err.count("\n") == 1
    assert sorted(data.rglob("*")) == before, "nothing is made"


def test_check_lists_every_bad_line_before_it_refuses(call, data):
    (data / "latin.yo").write_bytes("x\ncafé\n".encode("latin-1") * 150)
    code, out, err = call("check", "translation", "my.en", "latin.yo")
    assert code == 2 and "not UTF-8, left out: 150 lines (2, 4, 6, ...)" in out
    assert re.match(r"heed: '.*/latin.yo' line 2: byte 0xe9 at position 4 \(after 'caf'\) is not", err)


@pytest.mark.parametrize(
    ("command", "name", "message"),
    [
        ("train", "last", r"'last' is neither a task nor a YAML file; to resume a run: heed train last --resume$"),
        (
            "check",
            "last",
            r"no run under .*runs; train one, name its folder, or try the run that comes with heed: example$",
        ),
        ("check", "made", r"made' is not a run folder: it has no format.json$"),
    ],
)
def test_a_run_in_place_of_a_task_is_answered_in_one_line(call, tmp_path, monkeypatch, command, name, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "config.yaml").write_text("task: translation\n")
    code, out, err = call(command, name)
    assert code == 2 and out == "" and re.search(message, err.splitlines()[-1]), err


def test_outputs_cut_off_at_the_largest_length_are_counted(run, data):
    opened = heed.load(data / "run")
    opened.task.config = opened.config.model_copy(
        update={"generation": opened.config.generation.model_copy(update={"max_length": 1})}
    )
    pairs = [Pair("the cat sees a dog", "x"), Pair("a dog", "y")]
    report = opened.score(pairs)
    assert report["cut_off"] == sum(not out.finished for out in opened.predict([p.source for p in pairs])) > 0
    assert f"{report['cut_off']} outputs were cut off at generation.max_length" in scores_text(opened, {"test": report})

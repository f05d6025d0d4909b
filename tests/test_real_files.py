"""Files as people have them: each is read as its authors meant it, or refused with the setting that reads it."""

import pytest
from datasets import ClassLabel, Dataset, Features, Sequence, Value

import heed
from commands import call
from contract import data_of
from heed.data.findings import Findings
from heed.data.kinds.pairs import pair_reader
from heed.data.kinds.tagged import read_sentences, sentence_reader
from heed.data.kinds.texts import labels_in, text_reader
from heed.data.readers import examples_from_python
from heed.errors import DataError

UD = (
    "# sent_id = 1\n# text = Dogs don't bark.\n"
    "1\tDogs\tdog\tNOUN\tNNS\tNumber=Plur\t4\tnsubj\t_\t_\n"
    "2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "2\tdo\tdo\tAUX\tVBP\t_\t4\taux\t_\t_\n"
    "3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t_\t_\n"
    "4\tbark\tbark\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No\n"
    "4.1\tbark\tbark\tVERB\tVB\t_\t_\t_\t0:root\t_\n"
    "5\t.\t.\tPUNCT\t.\t_\t4\tpunct\t_\t_\n\n"
)
WORDS = ("Dogs", "do", "n't", "bark", ".")
UPOS, XPOS = ("NOUN", "AUX", "PART", "VERB", "PUNCT"), ("NNS", "VBP", "RB", "VB", ".")
FORTY = [f"{word} {pos} {tag}" for word, pos, tag in zip(WORDS, XPOS, ("B-PER", "O", "O", "O", "O"), strict=True)]


def read_tags(path, text, **columns):
    path.write_text(text, encoding="utf-8")
    findings = Findings()
    return read_sentences([path], data_of("tagging", columns=columns), findings), findings


@pytest.mark.parametrize(
    ("columns", "tags", "said"),
    [
        ({}, UPOS, "CoNLL-U: the words are FORM, the tags UPOS"),
        ({"label": "xpos"}, XPOS, "CoNLL-U: the words are FORM, the tags XPOS"),
        ({"label": 4}, XPOS, "CoNLL-U: the words are FORM, the tags XPOS"),
        ({"word": "lemma", "label": "UPOS"}, UPOS, "CoNLL-U: the words are LEMMA, the tags UPOS"),
    ],
)
def test_conll_u_is_read_as_forms_and_parts_of_speech(tmp_path, columns, tags, said):
    sentences, findings = read_tags(tmp_path / "en.conllu", UD * 2, **columns)
    words = ("dog", "do", "not", "bark", ".") if "word" in columns else WORDS
    assert [(one.words, one.tags) for one in sentences] == [(words, tags)] * 2
    assert said in findings.remarks
    assert list(map(str, findings.found)) == ["multiword token or empty node, left out: 4 lines (4, 8, 14, ...)"]


def test_a_column_that_conll_u_does_not_have_is_refused_with_the_names_it_has(tmp_path):
    with pytest.raises(DataError, match=r"data\.columns\.label cannot be xpo; did you mean 'xpos'\?"):
        read_tags(tmp_path / "en.conllu", UD, label="xpo")
    with pytest.raises(DataError, match=r"line 5: the tag is empty"):
        read_tags(tmp_path / "en.conllu", UD.replace("\tAUX\t", "\t\t"))


def test_conll_u_is_tagged_line_by_line_and_named_to_other_tasks(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = [UD.replace("Dogs", f"{a}{b}ogs") for a in "DBFHL" for b in "xyz"]
    (tmp_path / "en.conllu").write_text("".join(texts))
    words = ("train", "tagging", "en.conllu", "--out", "run", "--model", "rnn", "training.steps=2", "data.valid=2")
    code, out, err = call(capsys, *words, "model.d_embedding=8", "model.d_hidden=8")
    assert code == 0 and "CoNLL-U: the words are FORM, the tags UPOS" in out + err
    (tmp_path / "one.conllu").write_text(UD)
    code, out, _ = call(capsys, "predict", "run", "--columns", "--input", "one.conllu")
    rows, given = [line.split("\t") for line in out.splitlines()], [line.split("\t") for line in UD.splitlines()]
    assert code == 0 and [row[:3] + row[4:] for row in rows] == [row[:3] + row[4:] for row in given]
    assert rows[3] == given[3] and rows[7] == given[7] and {rows[n][3] for n in (2, 4, 5)} <= set(UPOS)
    code, _, err = call(capsys, "train", "classification", "en.conllu", "--out", "other")
    assert code == 2 and "it is CoNLL-U" in err and "heed train tagging en.conllu" in err


NUMBERED = "".join(f"{n} {line}\n" for n, line in enumerate(FORTY, start=1)) + "\n"
LISTED = (
    "data.columns.word=NAME chooses from 0 (1, 2, 3, ...), 1 (Dogs, do, n't, ...), 2 (NNS, VBP, RB, ...), "
    "3 (B-PER, O); the file has no header"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (NUMBERED * 2, f"the words are numbers; {LISTED}"),
        (NUMBERED.replace(" B-", "\tB-").replace(" ", "\t").replace(".\tO", ".\tO"), "the words are numbers"),
        (
            "".join(f"{line} {'+-'[n % 2]}\n" for n, line in enumerate(FORTY * 2)),
            "the last column contains only + and -; data.columns.label=NAME chooses from 0 (Dogs, do, n't, ...), 1 (NN",
        ),
        (
            "".join(f"{line} train\n" for line in FORTY * 2),
            "the last column contains only train; data.columns.label=NAME",
        ),
        (
            "".join(line.replace(" ", "\t") + "\t\n" for line in FORTY),
            "the last column contains only blanks; data.columns.label=NAME",
        ),
    ],
)
def test_a_column_of_numbers_is_no_word_and_one_without_tags_no_tag(tmp_path, text, message):
    with pytest.raises(DataError) as raised:
        read_tags(tmp_path / "a.conll", text)
    assert message in str(raised.value)
    word = int(text[0] == "1")
    (sentence, *_), _ = read_tags(tmp_path / "a.conll", text, word=word, label=word + 2)
    assert sentence.words[:5] == WORDS and sentence.tags[:5] == ("B-PER", "O", "O", "O", "O")


def test_a_file_without_entities_is_no_file_without_tags(tmp_path):
    (sentence,), _ = read_tags(tmp_path / "a.conll", "".join(f"{line[:-1]}O\n" for line in FORTY[1:] * 3))
    assert set(sentence.tags) == {"O"}


def test_classes_of_a_data_set_in_memory_have_their_names():
    features = Features({"text": Value("string"), "label": ClassLabel(names=["bad", "good"])})
    rows = [{"text": f"text {n}", "label": n % 2} for n in range(30)]
    steps = {"training.steps": 1, "model.d_embedding": 8, "model.d_hidden": 8}
    run = heed.train(
        "classification", train=Dataset.from_list(rows, features=features), model="rnn", out=None, settings=steps
    )
    assert sorted(run.head.labels) == ["bad", "good"]


def test_entities_of_a_data_set_in_memory_have_their_names():
    names = ["O", "B-PER", "I-PER"]
    features = Features({"tokens": Sequence(Value("string")), "ner_tags": Sequence(ClassLabel(names=names))})
    rows = [{"tokens": ["Ann", "Lee", f"w{n}"], "ner_tags": [1, 2, 0]} for n in range(30)]
    for data in (
        Dataset.from_list(rows, features=features),
        Dataset.from_list(rows, features=features).select(range(9)),
    ):
        sentences = examples_from_python(
            data, "train", sentence_reader(data_of("tagging")), ("words", "tags"), Findings()
        )
        assert {one.tags for one in sentences} == {("B-PER", "I-PER", "O")}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "text,label\nsome text,1.0\nmore text,1\n"),
        ("a.tsv", "text\tlabel\nsome text\t1.0\nmore text\t1\n"),
        ("a.jsonl", '{"text": "some text", "label": 1.0}\n{"text": "more text", "label": "1.0"}\n'),
        ("a.txt", "1.0 some text\n1 more text\n"),
        ("b.txt", "__label__1.0 some text\n__label__1 more text\n"),
    ],
)
def test_a_whole_number_is_the_same_label_in_every_form(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    read = list(text_reader(data_of("classification")).read([tmp_path / name], Findings()))
    assert [(one.text, one.labels) for one in read] == [("some text", ("1",)), ("more text", ("1",))]
    held = examples_from_python(
        [("some text", 1.0), ("more text", "1.0")],
        "train",
        text_reader(data_of("classification")),
        ("text", "label"),
        Findings(),
    )
    assert [one.labels for one in held] == [("1",), ("1",)]


def test_a_label_with_a_fraction_or_known_from_training_stays():
    assert [labels_in(text, data_of("classification")) for text in ("1.5", "01", "v1.0", "1.0.0")] == [
        ("1.5",), ("01",), ("v1.0",), ("1.0.0",),
    ]  # fmt: skip
    assert labels_in("1.0", data_of("classification"), {"1.0"}) == ("1.0",)


def test_a_byte_order_mark_inside_a_field_is_left_out_and_counted(tmp_path):
    (tmp_path / "a.tsv").write_text("\ufeffone\t\ufeffuno\ntwo\tdos\n", encoding="utf-8")
    findings = Findings()
    pairs = list(pair_reader().read([tmp_path / "a.tsv"], findings))
    assert [(one.source, one.target) for one in pairs] == [("one", "uno"), ("two", "dos")]
    assert list(map(str, findings.found)) == ["byte-order mark, left out: 1 line (1)"]

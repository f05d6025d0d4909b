"""Summarisation: columns by name, cut documents, the lead, copying by a pointer, and a whole run."""

import gzip
import json
import random

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import heed
from commands import call
from contract import config_of, task_and_model
from heed import trace
from heed.attention import Rows
from heed.data.batch import plan_pass
from heed.data.examples import Pair
from heed.data.findings import Findings
from heed.data.tokens import END, START
from heed.errors import ConfigError, DataError
from heed.evaluation.text_scores import rouge_measures
from heed.generation import SearchOptions, generate
from heed.generation.pointer import PointerGenerator
from heed.registry import body_class, list_models, model_config
from heed.tasks import task_class
from heed.tasks.inputs.pairs import Pairs
from heed.tasks.summarisation import Lead
from notes import NoteSource

SMALL = {"name": "bahdanau", "size": "tiny", "d_embedding": 16, "d_hidden": 16, "d_attention": 16}
NOTES = NoteSource().sample("train", 80)


def write(path, rows, names=("body", "subject")):
    lines = [json.dumps({"id": n, names[0]: a, names[1]: b, "note": "x"}) for n, (a, b) in enumerate(rows)]
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return str(path)


def prepared(data, **sections):
    sections = {"model": SMALL, "tokenizer": {"kind": "word", "min_count": 1}, **sections}
    return task_and_model(config_of("summarisation", data, **sections))


@pytest.fixture
def mails(tmp_path):
    return write(tmp_path / "mails.jsonl", [(note.source, note.target) for note in NOTES])


# --- data


@pytest.mark.parametrize(
    ("ending", "names"),
    [
        ("jsonl", ("document", "summary")),
        ("jsonl.gz", ("body", "subject")),
        ("csv", ("article", "highlights")),
        ("tsv", ("document", "summary")),
    ],
)
def test_columns_are_found_by_their_usual_names(tmp_path, names, ending):
    path = tmp_path / f"mails.{ending}"
    rows = [(f"one two {n}, three", f"one {n}") for n in range(12)]
    if ending.startswith("jsonl"):
        write(path, rows, names)
    else:
        comma = ending == "csv"
        cells = [("id", *names), *((str(n), *row) for n, row in enumerate(rows))]
        lines = [",".join(f'"{c}"' for c in row) if comma else "\t".join(row) for row in cells]
        path.write_text("\n".join(lines) + "\n")
    task, _ = prepared({"train": str(path), "valid": 4})
    assert sorted((p.source, p.target) for s in ("train", "valid") for p in task.splits.examples[s]) == sorted(rows)


def test_a_line_without_one_of_the_columns_is_named_and_does_not_hide_them(tmp_path):
    write(tmp_path / "m.jsonl", [(f"body {n}", f"subject {n}") for n in range(5)])
    with open(tmp_path / "m.jsonl", "a", encoding="utf-8") as file:
        file.write('{"body": "a", "topic": "b"}\n')
    with pytest.raises(DataError, match=r"m\.jsonl' line 6 has no field 'subject'; valid: body, topic"):
        prepared({"train": str(tmp_path / "m.jsonl"), "valid": 1})


def test_columns_that_are_given_win(tmp_path):
    path = write(tmp_path / "mails.jsonl", [(f"a b {n}", f"a {n}") for n in range(12)])
    task, _ = prepared({"train": path, "valid": 4, "columns": {"target": "note"}})
    assert {pair.target for pair in task.splits.examples["train"]} == {"x"}


def test_the_only_other_field_is_the_summary_and_is_said(tmp_path):
    path = write(tmp_path / "m.jsonl", [(f"a b {n}", f"a {n}") for n in range(12)], ("document", "summry"))
    task, _ = prepared({"train": path, "valid": 4})
    assert "target is 'summry'" in task.notes


@pytest.mark.parametrize(
    "data",
    [
        [("a b", "c"), ("d e", "f")],
        {"subject": ["c", "f"], "id": [1, 2], "body": ["a b", "d e"]},
        [{"highlights": "c", "article": "a b"}, {"highlights": "f", "article": "d e"}],
    ],
)
def test_data_in_python_has_the_same_names(data):
    config = config_of("summarisation", {"train": "mails.jsonl"})
    held = task_class("summarisation").read_data(data, "train", config, Findings())
    assert [(pair.source, pair.target) for pair in held] == [("a b", "c"), ("d e", "f")]


# --- long documents


def test_long_documents_are_cut_counted_and_named(tmp_path):
    rows = [(" ".join(f"w{i}" for i in range(4 + n)), f"w{n % 4}") for n in range(12)]
    path, tests = write(tmp_path / "mails.jsonl", rows), write(tmp_path / "test.jsonl", rows[-2:])
    data = {"train": path, "valid": 4, "test": tests, "max_source": 10}
    task, model = prepared(data)
    full = task.input.source_tokenizer.encode(rows[-1][0]).ids
    assert len(full) == 15
    assert task.encoded("test")[1].source == full[:10]
    assert task.report_counts()["test"]["cut"] == 2
    cut = sum(len(pair.source.split()) > 10 for pair in task.splits.examples["train"])
    assert task.report_counts()["train"]["cut"] == cut > 0
    remark = "test: 2 documents are longer than data.max_source 10 tokens; only the beginning is read: test.jsonl:1"
    assert remark in task.notes
    texts = [rows[0][0], " ".join(rows[-1][0].split()[:10])]
    assert task.input.cut_in(texts) == []
    # What is behind the cut cannot change what is written.
    torch.manual_seed(0)
    both = task.head.translate(task, model, [rows[-1][0], texts[1]], max_length=5)
    assert both[0][0].ids == both[1][0].ids


def test_data_max_source_must_leave_room(mails):
    with pytest.raises(ConfigError, match=r"data\.max_source is 600 and data\.max_length 300.*data\.max_length=700"):
        config_of("summarisation", {"train": mails, "max_source": 600, "max_length": 300})
    assert config_of("summarisation", {"train": mails, "max_source": 600}).data.max_length == 700


def test_batches_hold_documents_of_like_length():
    """Batches of like summaries are what a translation would make of documents: more of them is padding."""
    rng = np.random.default_rng(0)
    lengths = np.stack([rng.integers(3, 150, 3_000), rng.integers(1, 9, 3_000)], axis=1).astype(np.int32)

    def real(costs):
        batches = plan_pass(costs(lengths), 3_000, 1, 0)
        return lengths.sum() / sum(len(batch) * lengths[batch].max(0).sum() for batch in batches)

    assert real(Pairs(documents=True).costs_of) > 0.9 > real(Pairs().costs_of)


# --- the lead


def test_the_lead_is_as_long_as_scores_best_on_other_documents():
    filler = " and then some more words that nobody needs. Another sentence follows here."
    pairs = [Pair(f"alpha beta {n} gamma{filler}", f"alpha beta {n} gamma") for n in range(5)]
    lead = Lead.chosen(pairs)
    assert (lead.count, lead.unit, lead.name) == (4, "word", "first 4 words")
    assert lead.of(pairs[0].source) == "alpha beta 0 gamma"
    said = [f"a sentence of {'many ' * n}words" for n in (2, 9)]
    longer = [Pair(f"{one.capitalize()}. Another one.", one) for one in said]
    assert Lead.chosen(longer) == Lead(1, "sentence")
    assert Lead(1, "sentence").of(longer[0].source) == "A sentence of many many words."
    assert Lead(1, "sentence").name == "first sentence"


# --- copying


def pointer_of(name="bahdanau", vocab_size=12):
    torch.manual_seed(0)
    fields = {"source_vocab_size": vocab_size, "target_vocab_size": vocab_size}
    body = body_class(name, ("pair_decoder",))
    return PointerGenerator(body(model_config(body, "tiny", fields))).eval()


def sources():
    source = torch.tensor([[5, 6, 7, 5, 8], [9, 4, 0, 0, 0]])
    return source, torch.tensor([[True] * 5, [True, True, False, False, False]])


DECODERS = [name for name, body in list_models() if body.interface == "pair_decoder"]


@pytest.mark.parametrize("name", [name for name in DECODERS if name not in ("rnn", "seq2seq")])
def test_the_probabilities_are_those_of_the_equation(name):
    model = pointer_of(name)
    (source, mask), target = sources(), torch.tensor([[START, 5, 6], [START, 9, 4]])
    with torch.no_grad():
        log_probs = model(source, mask, target)
        memory = model.body.encode(source, mask)
        hidden = model.body.step(target, model.body.start(memory, Rows.repeat(2)))[0]
        generated = torch.softmax(model.body.output(hidden), -1).double().numpy()
    states = memory.keys[-1].value.transpose(1, 2).flatten(2).double().numpy()  # (B, S, d)
    weight = {key: value.detach().double().numpy() for key, value in model.state_dict().items() if "body" not in key}
    gate = 1 / (1 + np.exp(-(hidden.double().numpy() @ weight["gate.weight"].T + weight["gate.bias"])))
    matrix = weight["attention.score.w_key.weight"]
    expected = gate * generated
    for b in range(2):
        for t in range(3):
            query = hidden[b, t].double().numpy()
            scores = np.where(mask[b], states[b] @ matrix.T @ query / np.sqrt(len(query)), -np.inf)
            weights = np.exp(scores - scores.max())
            for j, share in enumerate(weights / weights.sum()):
                expected[b, t, source[b, j]] += (1 - gate[b, t, 0]) * share
    np.testing.assert_allclose(log_probs.exp().numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(expected.sum(-1), 1, atol=1e-6)
    assert_close(model.logits(log_probs).logsumexp(-1), torch.zeros(2, 3), atol=1e-5, rtol=0)


def test_steps_equal_the_full_pass_and_beams_find_the_best_output():
    model, (source, mask) = pointer_of(), sources()
    target = torch.tensor([[START, 5, 6, 7], [START, 9, 4, 4]])
    with torch.no_grad():
        full = model(source, mask, target)
        state = model.start(model.encode(source, mask), Rows.repeat(2))
        for t in range(4):
            hidden, state = model.step(target[:, t : t + 1], state)
            assert_close(hidden[:, 0], full[:, t])
        options = SearchOptions(end_token=END, max_length=3, beam_size=8, num_best=3, forbidden=(0, START))
        prompt = torch.full((2, 1), START)
        found = generate(model, model.encode(source, mask), prompt, options).hypotheses
        for row, hypotheses in enumerate(found):
            for one in hypotheses:
                tokens = [*one.tokens, *([END] if one.finished else [])]
                read = torch.tensor([[START, *tokens[:-1]]])
                log_probs = model(source[row : row + 1], mask[row : row + 1], read)[0]
                assert sum(log_probs[t, token].item() for t, token in enumerate(tokens)) == pytest.approx(one.log_prob)


def test_the_map_of_the_copying_attention_is_where_it_copies_from():
    model, (source, mask) = pointer_of(), sources()
    with torch.no_grad(), trace(model, mechanism="copy") as seen:
        model(source, mask, torch.tensor([[START, 5], [START, 9]]))
    weights = seen.maps("copy").weights
    assert weights.shape == (2, 1, 2, 5)
    assert_close(weights.sum(-1), torch.ones(2, 1, 2))
    assert (weights[1, :, :, 2:] == 0).all()


def test_a_pointer_copies_words_that_were_in_no_summary(tmp_path):
    """The summary is the word behind "named"; those of the test documents only ever stood elsewhere in training."""
    rng = random.Random(0)
    words, names, new = ["one", "two", "three"], [f"n{i}" for i in range(40)], [f"new{i}" for i in range(6)]

    def document(name, other):
        return f"{rng.choice(words)} {other} {rng.choice(words)} named {name} {rng.choice(words)}"

    rows = [(document(name, rng.choice(names + new)), name) for name in names * 5]
    rows += [(document(name, other), name) for other in new for name in rng.sample(names, 4)]
    tests = [(document(name, rng.choice(names)), name) for name in new]
    paths = write(tmp_path / "train.jsonl", rows), write(tmp_path / "test.jsonl", tests)

    settings = {
        **{f"model.d_{key}": 32 for key in ("embedding", "hidden", "attention")},
        **{"model.pointer": True, "tokenizer.kind": "word", "tokenizer.min_count": 1, "data.valid": 8},
        **{"training.threads": 1, "training.learning_rate": 0.01, "training.batch_tokens": 400},
        **{"training.validate_every": 150, "evaluation.bootstrap": 5, "training.device": "cpu"},
    }
    common = {"model": "bahdanau", "size": "tiny", "steps": 150, "quiet": True, "settings": settings}
    run = heed.train("summarisation", train=paths[0], test=paths[1], out=tmp_path / "run", **common)
    assert run.report["scores"]["test"]["exact_match"]["value"] > 0.8


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"name": "seq2seq", "pointer": True}, "model 'seq2seq' has no attention to the source"),
        ({"name": "bahdanau", "pointer": True}, r"tokenizer\.shared=false"),
    ],
)
def test_a_pointer_needs_attention_and_one_vocabulary(mails, model, message):
    shared = "shared" not in message
    with pytest.raises(ConfigError, match=message):
        prepared({"train": mails, "valid": 8}, model=model, tokenizer={"kind": "word", "shared": shared})


# --- a whole run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEED_CACHE", str(tmp_path_factory.mktemp("cache")))
        rows = [(note.source, note.target) for note in NOTES]
        train, test = write(folder / "mails.jsonl", rows[:60]), write(folder / "test.jsonl", rows[60:])
        settings = {f"model.{key}": value for key, value in SMALL.items() if key not in ("name", "size")}
        settings |= {"data.valid": 10, "data.max_source": 30, "model.pointer": True, "evaluation.bootstrap": 20}
        settings |= {"training.threads": 1, "training.device": "cpu", "tokenizer.kind": "word"}
        return heed.train(
            "summarisation",
            train=train,
            test=test,
            size="tiny",
            steps=3,
            out=folder / "r",
            quiet=True,
            settings=settings,
        )


def test_the_lead_of_the_report_is_a_baseline_without_the_data(run, tmp_path, monkeypatch):
    opened = heed.load(run.folder)
    gone = opened.task.config.data.model_copy(update={"train": [str(tmp_path / "gone.jsonl")]})
    monkeypatch.setattr(opened.task, "config", opened.task.config.model_copy(update={"data": gone}))
    baselines = opened.report["scores"]["test"]["baselines"]
    lead = next(iter(baselines))
    chosen = Lead.chosen(run.examples("valid"))
    assert Lead.named(lead) == chosen and Lead.named("nearest training document") is None
    assert list(opened.baselines(run.examples("test"))) == [lead]
    for one in (Lead(1, "word"), Lead(30, "word"), Lead(1, "sentence"), Lead(3, "sentence")):
        assert Lead.named(one.name) == one


def test_a_run_reports_rouge_beside_bleu_with_intervals_and_the_lead(run):
    scores = run.report["scores"]["test"]
    for name in ("rouge1", "rouge2", "rougeL", "bleu", "chrf"):
        value = scores[name]["value"]
        assert scores[name].get("low", value) <= value <= scores[name].get("high", value)
        assert ("low" in scores[name]) == (value > 0)
    (lead, nearest) = scores["baselines"]
    assert lead.startswith("first ") and nearest == "nearest training document"
    examples = run.examples("test")
    expected = rouge_measures(
        [Lead.chosen(run.examples("valid")).of(pair.source) for pair in examples], [pair.target for pair in examples]
    )
    assert scores["baselines"][lead]["rouge2"]["value"] == pytest.approx(expected[1].score())
    assert scores["cut"] > 0
    assert run.config.evaluation.select_by == "rougeL"
    lines = "\n".join(run.head.report(scores))
    assert "ROUGE-2 by document tokens:" in lines
    assert (
        f"{scores['cut']} documents are longer than data.max_source; only the beginning was read: test.jsonl:" in lines
    )


def test_predict_reads_documents_of_a_column_and_names_those_that_it_cut(run, capsys):
    file = run.config.data.test[0]
    code, out, err = call(capsys, "predict", run.folder, "--input", file)
    documents = [pair.source for pair in run.examples("test")]
    assert code == 0 and out.splitlines() == [one.text for one in run.predict(documents)]
    long = run.input.cut_in(documents)
    unread = [run.predict(documents)[n].unread for n in long[:5]]
    assert unread == [len(run.input.source_tokenizer.encode(documents[n]).ids) - 30 for n in long[:5]]
    first = [f"{left} of '{file}' line {n + 1}" for left, n in zip(unread, long[:5], strict=True)]
    assert f"tokens not read: {', '.join(first)}" in err
    assert f"{len(long)} inputs are longer than the model reads (data.max_source); tokens not read: " in err

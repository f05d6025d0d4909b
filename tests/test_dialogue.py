"""Dialogue end to end: conversations, what models read of a history, responses, scores, a terminal."""

import builtins
import gzip
import io
import json
import random
import sys

import numpy as np
import pytest
import torch

import heed
from commands import call
from contract import data_of
from heed.cli import main
from heed.cli.predict import ask, outputs_of
from heed.data.examples import Conversation
from heed.data.findings import Findings
from heed.data.kinds.conversations import conversation_reader, conversations_from_python, read_conversations
from heed.data.splits import open_splits
from heed.data.tokens import START
from heed.errors import ConfigError, DataError
from heed.evaluation.measures import share
from heed.generation import SamplingOptions
from heed.tasks import check_config
from heed.tasks.dialogue import TASK, by_conversation, by_turns_read
from heed.tasks.inputs.turns import Speakers

SMALL = {
    "hred": {"d_embedding": 8, "d_hidden": 8, "d_context": 8, "d_attention": 8},
    "bahdanau": {"d_embedding": 8, "d_hidden": 8, "d_attention": 8},
    "transformer": {"d_model": 8, "num_heads": 2, "d_ff": 8},
}
ANSWERS = {"red": "a rose", "blue": "the sea", "green": "the grass", "white": "the snow"}
MODELS = ["hred", "bahdanau"]


def conversations(count, seed=1, other="ask"):
    """One speaker names a colour, and some turns later the other one says what has it."""
    rng = random.Random(seed)
    for _ in range(count):
        colour = rng.choice(list(ANSWERS))
        turns = [(other, f"think of {colour}"), ("bot", "i do")]
        for _ in range(rng.randint(0, 2)):
            turns += [(other, rng.choice(["wait", "not yet", "still wait"])), ("bot", "i do")]
        yield [*turns, (other, "what is it"), ("bot", ANSWERS[colour])]


def lines(count, seed=1, **fields):
    for turns in conversations(count, seed, **fields):
        yield json.dumps({"turns": [{"speaker": who, "text": text} for who, text in turns]}) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("dialogue")
    (path / "train.jsonl").write_text("".join(lines(120)))
    (path / "test.jsonl").write_text("".join(lines(12, seed=2)))
    return path


def values(folder, model, steps=1, data=None, **training):
    return {
        "task": "dialogue",
        "data": {"train": str(folder / "train.jsonl"), "valid": 10, "test": str(folder / "test.jsonl"), **(data or {})},
        "tokenizer": {"kind": "word", "min_count": 1},
        "model": {"name": model, "size": "tiny", **SMALL[model]},
        "training": {"steps": steps, "threads": 1, "batch_tokens": 300, "validate_every": 1_000, **training},
        "evaluation": {"bootstrap": 20},
    }


def prepared(folder, model, **data):
    return TASK.prepare(check_config(values(folder, model, data=data), "test"))


@pytest.fixture(scope="module")
def runs(folder):
    """A model of each kind that has learned the answers."""
    made = {}
    for model in MODELS:
        settings = values(
            folder, model, steps=140 if model == "hred" else 200, learning_rate=0.02, warmup=20, data={"respond": "bot"}
        )
        settings["training"]["batch_tokens"] = 150
        settings["model"] |= {"d_embedding": 16, "d_hidden": 24}
        if model == "hred":
            settings["model"] |= {"d_context": 24, "d_attention": 24, "turn_attention": False}
        (folder / f"{model}.yaml").write_text(json.dumps(settings))
        made[model] = heed.train(folder / f"{model}.yaml", out=folder / model, quiet=True)
    return made


# --- what is read


def test_a_joined_history_has_the_token_of_its_speaker_before_each_turn(folder):
    task = prepared(folder, "bahdanau")
    talk = task.input.encode([Conversation(("think of red", "i do", "wait"), ("ask", "bot", ""))])
    assert [(one.conversation, one.turn) for one in talk.responses] == [(0, 1), (0, 2)]
    source = task.input.reading.source(talk.conversations[0])
    assert [task.input.tokenizer.token(i).strip("▁") for i in source] == [
        *("<ask>", "think", "of", "red"),
        *("<bot>", "i", "do"),
        *("<turn>", "wait"),
    ]
    batch = task.input.reading.batch([[one] for one in talk.responses], [0, 1])
    assert batch.targets["starts"].tolist() == [task.input.speakers.tags[task.input.speakers.number("bot")], START]
    assert not set(task.input.speakers.tags) & {token for turn in talk.conversations[0] for token in turn.ids}


def test_the_oldest_turns_are_left_out_and_counted(folder):
    history = Conversation(("think of red", "i do", "not yet", "i do", "what is it"))
    for data, expected in (
        ({"history": 2}, ["<turn>", "i", "do", "<turn>", "what", "is", "it"]),
        ({"max_length": 8, "max_turn": 7}, ["<turn>", "i", "do", "<turn>", "what", "is", "it"]),
        ({"max_length": 6, "max_turn": 2}, ["<turn>", "i", "do", "<turn>", "what", "is"]),
    ):
        task = prepared(folder, "bahdanau", **data)
        turns = task.input.encode([history]).conversations[0]
        assert [task.input.tokenizer.token(i).strip("▁") for i in task.input.reading.source(turns)] == expected
        assert task.input.reading.read(turns).first == 3
    counts = task.report_counts()["train"]
    assert counts["responses"] == counts["turns"] - counts["examples"]
    assert 0 < counts["history_cut"] < counts["responses"] and counts["turns_cut"] > 0
    assert "; the rest is not read, and they are not trained on as responses" in task.overview()
    assert "(data.max_length 6 tokens)" in task.overview()


@pytest.mark.parametrize(("model", "history"), [("hred", None), ("hred", 2), ("bahdanau", 2), ("transformer", None)])
def test_a_reference_scores_the_same_whatever_shares_its_batch(folder, model, history):
    task = prepared(folder, model, history=history)
    torch.manual_seed(1)
    body = task.build_model()
    examples = list(task.splits.examples["test"])[:5]
    together, _, tokens = task.judged(body, task.input.encode(examples)).T
    alone = np.concatenate([task.judged(body, task.input.encode([one])) for one in examples])
    assert together == pytest.approx(alone[:, 0], rel=1e-4)
    assert tokens.tolist() == alone[:, 2].tolist()
    if history == 2:  # what was said before is not read
        longer = [Conversation(("wait", *one.turns), ("ask", *one.speakers)) for one in examples]
        talk = task.input.encode(longer)
        kept = [place for place, one in enumerate(talk.responses) if one.turn > 2]
        scores = task.judged(body, talk)[:, 0]
        talk = task.input.encode(examples)
        asked = [place for place, one in enumerate(talk.responses) if one.turn > 1]
        assert [scores[n] for n in kept] == pytest.approx([together[n] for n in asked], rel=1e-4)


def test_responses_of_one_speaker(folder):
    task = prepared(folder, "hred", respond="bot")
    assert task.input.speakers.named == ("ask", "bot")  # who begins comes first
    one = task.splits.examples["test"][0]
    assert task.input.responses(one) == [n for n in range(1, len(one.turns)) if one.speakers[n] == "bot"]
    with pytest.raises(ConfigError, match=r"data.respond is 'bott', .* are ask, bot; did you mean 'bot'"):
        prepared(folder, "hred", respond="bott")


def test_speakers_with_names_that_tokens_have_already():
    names = Speakers.of([Conversation(("a", "b", "c"), ("s", "two  words", "two words"))]).names
    assert names == ("", "s", "two  words", "two words")


# --- trained models


@pytest.mark.parametrize("model", MODELS)
def test_models_learn_an_answer_that_depends_on_an_earlier_turn(runs, model):
    run = runs[model]
    scores = run.report["scores"]["test"]
    assert scores["exact_match"]["value"] > 0.9, scores
    assert scores["perplexity"]["low"] <= scores["perplexity"]["value"] < 1.5
    assert scores["examples"] == 12 and scores["responses"] > 24
    assert sum(one["responses"] for one in scores["by_turns_read"]) == scores["responses"]
    assert scores["common"][0] == {"text": "i do", "count": scores["common"][0]["count"]}
    base = scores["baselines"]
    assert base["most frequent response"]["exact_match"]["value"] == pytest.approx(
        scores["common"][0]["count"] / scores["responses"]
    )
    assert set(base) == {"most frequent response", "response to the nearest history"}
    text = run.head.report(scores)
    assert any("responses" in line and "intervals over conversations" in line for line in text)


def test_the_response_to_the_nearest_history_is_a_training_response(runs):
    run = heed.load(runs["hred"].folder)
    turns, every = ("think of blue", "i do", "what is it"), run.examples("train")
    (response,) = run.baseline_writers["response to the nearest history"]([Conversation(turns)])
    responses = ((one, n) for one in every for n in run.task.input.responses(one))
    assert response in {one.turns[n] for one, n in responses if one.turns[n - 2 : n] == turns[1:]}


@pytest.mark.parametrize("model", MODELS)
def test_all_forms_of_a_conversation_have_the_same_response(runs, model):
    run = heed.load(runs[model].folder)
    turns = ["think of blue", "i do", "wait", "i do", "what is it"]
    spoken = [{"speaker": who, "text": text} for who, text in zip(["ask", "bot"] * 3, turns, strict=False)]
    forms = [turns, "\t".join(turns), " __eou__ ".join(turns), {"turns": spoken}, json.dumps({"turns": spoken})]
    forms.append(Conversation(tuple(turns), ("ask", "bot", "ask", "bot", "ask")))
    assert {run.predict(one).text for one in forms} == {"the sea"}
    both = run.predict([turns, ["think of red", "i do", "what is it"]])
    assert [one.text for one in both] == ["the sea", "a rose"] and len(both.to_frame()) == 2
    assert len(run.candidates([turns], num_best=3, beam_size=3)[0]) == 3
    with pytest.raises(
        ConfigError, match=r"speaker is 'me', but the speakers of the training conversations are ask, bot"
    ):
        run.predict(turns, speaker="me")
    with pytest.raises(TypeError, match="predict has no keyword 'beam'"):
        run.predict(turns, beam=2)


def test_a_chat_keeps_its_history(runs):
    run = runs["hred"]
    chat = run.chat()
    assert (chat.speaker, chat.partner) == ("bot", "ask")
    assert chat.say("think of green").text == "i do"
    assert chat.say("what is it").text == "the grass"
    assert chat.history == Conversation(
        ("think of green", "i do", "what is it", "the grass"), ("ask", "bot", "ask", "bot")
    )
    with pytest.raises(ConfigError, match="a turn is blank"):
        chat.say("  ")


def test_a_response_is_written_piece_by_piece(runs):
    turns = ["think of green", "i do", "what is it"]
    for run in runs.values():
        for options in ({}, {"sampling": SamplingOptions(seed=3)}):
            pieces = list(run.write(turns, **options))
            assert "".join(pieces) == run.predict(turns, **options).text
        assert list(run.write(turns)) == ["the", " grass"]
        chat = run.chat()
        assert "".join(chat.write("think of green")) == "i do"
        assert chat.turns == ["think of green", "i do"]
        with pytest.raises(ConfigError, match="by greedy search or sampling only; set beam_size=1"):
            list(run.write(turns, beam_size=2))
        with pytest.raises(ConfigError, match="speaker is 'me'"):
            list(run.write(turns, "me"))
        searching = run.chat(beam_size=2)
        with pytest.raises(ConfigError, match="by greedy search or sampling only"):
            list(searching.write("wait"))
        assert searching.turns == []  # a turn without a response is removed


def test_a_chat_needs_no_names_of_speakers(folder, tmp_path):
    (tmp_path / "train.txt").write_text("".join(f"think of {n}\ti do\n" for n in range(20)))
    given = values(folder, "bahdanau")
    given["data"] = {"train": str(tmp_path / "train.txt"), "valid": 2}
    (tmp_path / "run.yaml").write_text(json.dumps(given))
    run = heed.train(tmp_path / "run.yaml", out=tmp_path / "run", quiet=True)
    first, second = (run.chat(max_length=3) for _ in range(2))
    assert first.speaker == first.partner == ""
    said = first.say("think of red").text
    assert "".join(second.write("think of red")) == said and len(second.turns) == 2


# --- commands


class Terminal(io.StringIO):
    """Stdout of a terminal that keeps what was shown at a time."""

    def __init__(self):
        super().__init__()
        self.shown = []

    def flush(self):
        if text := self.getvalue()[sum(map(len, self.shown)) :]:
            self.shown.append(text)

    def isatty(self):
        return True


def test_a_terminal_shows_a_response_while_it_is_written(runs, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    with pytest.raises(SystemExit):
        main(["predict", str(runs["hred"].folder), "think of green", "i do", "what is it"])
    assert terminal.shown == ["the", " grass", "\n"]
    typed = iter(["think of green", "what is it", ""])
    monkeypatch.setattr(builtins, "input", lambda prompt: next(typed))
    ask(outputs_of(runs["hred"], {}))
    assert terminal.getvalue().endswith("i do\nthe grass\n") and " grass" in terminal.shown
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"think of blue\ti do\twhat is it\n")))
    with pytest.raises(SystemExit):
        main(["predict", str(runs["hred"].folder)])
    assert terminal.getvalue().endswith("\nthe sea\n") and terminal.shown[-2:] == [" sea", "\n"]


def test_a_run_that_reads_few_turns_of_every_speaker(runs, folder, tmp_path, monkeypatch, capsys):
    """The terminal says how many turns were cut; runs of different speakers are not compared."""
    (tmp_path / "run.yaml").write_text(json.dumps(values(folder, "bahdanau", data={"history": 2})))
    run = heed.train(tmp_path / "run.yaml", out=tmp_path / "run", quiet=True)
    typed = iter(["think of red", "wait", ""])
    monkeypatch.setattr(builtins, "input", lambda prompt: next(typed))
    ask(outputs_of(run, {"length": 2}))
    assert "(the first of 3 turns is not read)" in capsys.readouterr().out
    assert run.input.num_cut(run.input.conversation(["a", "b", "c", "d"])) == 2
    code, _, err = call(capsys, "compare", run.folder, runs["hred"].folder)
    assert code == 2 and "the runs were trained on responses of different speakers" in err


def test_predict_reads_arguments_files_and_lines(runs, folder, tmp_path, capsys):
    run = runs["hred"].folder
    code, out, _ = call(capsys, "predict", run, "think of red", "i do", "what is it")
    assert (code, out) == (0, "a rose\n")
    code, out, err = call(capsys, "predict", run, "--input", folder / "test.jsonl", "--json", "--speaker", "ask")
    first = json.loads(out.splitlines()[0])
    assert code == 0 and len(out.splitlines()) == 12 and "12 conversations of" in err
    assert first["speaker"] == "ask" and first["turns_cut"] == 0 and first["turns"][0]["speaker"] == "ask"
    path = tmp_path / "talks.txt"
    path.write_text("think of red\ti do\twhat is it\nthink of blue\ti do\twait\ti do\twhat is it\n")
    code, out, _ = call(capsys, "predict", run, "--input", path)
    assert out.splitlines() == ["a rose", "the sea"]
    path = tmp_path / "talks.jsonl"
    path.write_text('{"turns": ["think of red", "i do", "what is it"]}\n{"turns": 5}\n{"turns": ["think of red"]}\n')
    code, out, err = call(capsys, "predict", run, "--input", path, "--bad-lines", "skip")
    assert code == 4 and [bool(line) for line in out.split("\n")[:3]] == [True, False, True] and "line 2" in err
    code, out, _ = call(capsys, "predict", run, "think of zebras", "--nbest", 2)
    assert code == 0 and len(out.splitlines()) == 2
    for words, message in (
        (["a", ""], "turn 2 of the conversation is blank"),
        (["a", "--speaker", "you"], "--speaker is 'you', but the speakers"),
        (["a", "--nbest", 3, "--beam", 2], "--nbest 3 needs a --beam of at least 3"),
        (["--input", folder / "hred.yaml"], "has neither __eou__ nor a tab"),
    ):
        code, _, err = call(capsys, "predict", run, *words)
        assert code == 2 and message in err, err


def test_evaluate_check_and_compare(runs, folder, tmp_path, capsys):
    code, out, err = call(capsys, "evaluate", runs["hred"].folder, folder / "test.jsonl")
    assert code == 0 and "test.jsonl: 12 conversations" in out and "baseline (response to the nearest history)" in out
    (tmp_path / "ask.jsonl").write_text(
        '{"turns": [{"speaker": "bot", "text": "a"}, {"speaker": "ask", "text": "b"}]}\n'
    )
    code, _, err = call(capsys, "evaluate", runs["hred"].folder, tmp_path / "ask.jsonl")
    assert code == 2 and "no conversation has a response (data.respond bot)" in err
    code, out, _ = call(capsys, "check", "dialogue", folder / "train.jsonl")
    assert code == 0 and "speakers: ask, bot; responses of both" in out and "ask: think of" in out
    (tmp_path / "own.jsonl").write_text(
        "".join(
            f'{{"dialog": [{{"who": "a", "says": "one {n}"}}, {{"who": "b", "says": "two {n}"}}]}}\n' for n in range(40)
        )
    )
    code, out, _ = call(capsys, "check", "dialogue", tmp_path / "own.jsonl", "data.columns.text=says")
    assert "(other fields: 'who'); if one of these is the speaker, set" in out and "speakers: none named" in out
    code, out, _ = call(
        capsys, "check", "dialogue", tmp_path / "own.jsonl", "data.columns.text=says", "data.columns.speaker=who"
    )
    assert "other fields" not in out and "speakers: a, b" in out
    code, out, err = call(capsys, "compare", *(run.folder for run in runs.values()))
    assert code == 0, err
    assert "An example is a whole conversation" in out and "perplexity" in out


def test_conversations_without_a_response_are_refused(tmp_path):
    (tmp_path / "train.txt").write_text("a b\tc d e\nf\tg h i\n" * 3)
    settings = {"data": {"train": str(tmp_path / "train.txt"), "valid": 1, "max_turn": 1}, "task": "dialogue"}
    with pytest.raises(
        DataError, match=r"no training conversation has a turn after its first one with at most data.max_turn 1"
    ):
        TASK.prepare(check_config(settings, "test"))
    settings["data"]["respond"] = "host"
    with pytest.raises(ConfigError, match=r"data.respond is 'host', but the conversations name no speakers"):
        TASK.prepare(check_config(settings, "test"))
    with pytest.raises(ConfigError, match=r"data.max_turn is 9, but data.max_length is 9"):
        check_config({**settings, "data": {"train": "x", "max_turn": 9, "max_length": 9}}, "test")


def test_the_parts_of_a_conversation_keep_the_names_that_the_user_gave_them(folder, tmp_path, capsys):
    def renamed(name):
        text = (folder / name).read_text()
        for old, new in [("turns", "dialog"), ("speaker", "who"), ("text", "said")]:
            text = text.replace(f'"{old}"', f'"{new}"')
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    data = {"train": renamed("train.jsonl"), "test": renamed("test.jsonl")}
    data["columns"] = {"turns": "dialog", "speaker": "who", "text": "said"}
    (tmp_path / "run.yaml").write_text(json.dumps(values(folder, "bahdanau", data=data)))
    run = heed.train(tmp_path / "run.yaml", out=tmp_path / "run", quiet=True).folder
    code, out, err = call(capsys, "predict", run, "think of red", "i do", "what is it", "--json")
    assert code == 0, err
    assert [turn["said"] for turn in json.loads(out)["dialog"]] == ["think of red", "i do", "what is it"]
    assert [turn["who"] for turn in json.loads(out)["dialog"]] == ["ask", "bot", "ask"]
    code, out, err = call(capsys, "predict", run, "--input", data["test"])
    assert code == 0 and len(out.splitlines()) == 12, err
    code, out, err = call(capsys, "look", run, "think of red", "i do", "what is it")
    assert code == 0 and "1 ask" in out, err


def test_validation_is_that_of_the_references(folder):
    task = prepared(folder, "bahdanau")
    torch.manual_seed(0)
    model = task.build_model().eval()
    nll, correct, tokens = task.judged(model, task.encoded("valid")).T
    found = task.validate(model)
    assert found["loss"] == pytest.approx(sum(nll) / sum(tokens))
    assert found["token_accuracy"] == pytest.approx(sum(correct) / sum(tokens))


def test_responses_count_for_their_conversation_and_by_the_turns_before_them():
    measure = share("right", "right", [1, 0, 1, 1], [2, 1, 1, 4])
    (found,) = by_conversation([measure], [0, 2, 2, 0], 3)
    assert found.statistics.tolist() == [[2, 6], [0, 0], [1, 2]]
    ranges = by_turns_read(measure, [1, 1, 2, 3])
    assert sum(part["responses"] for part in ranges) == 4
    assert ranges[0] == {"first": 1, "last": 1, "responses": 2, "right": pytest.approx(1 / 3)}


# --- Conversations: read from files and from Python, held out and compared as wholes; the embedded ones


SPOKEN = [{"speaker": "A", "text": "Hi there"}, {"speaker": "B", "text": "Hello"}, {"speaker": "A", "text": "Bye"}]


def section(path, **fields):
    return data_of("dialogue", **{"train": str(path), **fields})


def write_talks(path, *lines):
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


@pytest.mark.parametrize(
    "line",
    [
        {"turns": SPOKEN},
        {"id": 7, "dialogue": [{"utterance": one["text"], "role": one["speaker"]} for one in SPOKEN], "acts": [1]},
        {"messages": [{"content": one["text"], "role": one["speaker"]} for one in SPOKEN]},
        {"spoken": [{"from": one["speaker"], "value": one["text"]} for one in SPOKEN], "topic": "greetings"},
    ],
    ids=["turns", "dialogue", "messages", "the only list"],
)
def test_json_lines_of_several_layouts_are_one_conversation(tmp_path, line):
    (found,) = read_conversations([path := write_talks(tmp_path / "a.jsonl", line)], section(path))
    assert found == Conversation(("Hi there", "Hello", "Bye"), ("A", "B", "A"))
    assert found.origin == "a.jsonl:1"
    assert Conversation.from_rows(found.to_rows()) == found


def test_turns_may_be_plain_texts_and_fields_may_be_named(tmp_path):
    (found,) = read_conversations(
        [path := write_talks(tmp_path / "a.jsonl", {"turns": ["Hi", " two\nlines ", "", "Bye"]})], section(path)
    )
    assert found == Conversation(("Hi", "two lines", "Bye"))
    path = write_talks(tmp_path / "b.jsonl", {"a": ["x"], "b": [{"said": "Hi", "text": "no", "who": 3}]})
    columns = {"turns": "b", "text": "said", "speaker": "who"}
    (found,) = read_conversations([path], section(path, columns=columns))
    assert found == Conversation(("Hi",), ("3",))


def test_blank_turns_take_their_speaker_with_them(tmp_path):
    turns = [{"speaker": who, "text": text} for who, text in (("A", "Hi"), ("B", " "), ("C", "Bye"))]
    (found,) = read_conversations([path := write_talks(tmp_path / "a.jsonl", {"turns": turns})], section(path))
    assert found == Conversation(("Hi", "Bye"), ("A", "C"))


@pytest.mark.parametrize(
    ("name", "lines", "fields"),
    [
        ("a.txt", ["Hi there __eou__ Hello __eou__ Bye __eou__"], {}),
        ("a.txt", ["Hi there\tHello\tBye"], {}),
        ("a.txt", ["Hi there __eou__ Hello __eou__ Bye __eou__\t3\t1 1 2"], {}),
        ("a.txt", ["3\tHi there __eou__ Hello __eou__ Bye"], {"columns": {"turns": 1}}),
        ("a.txt", ["Hi there || Hello || Bye"], {"separator": " || "}),
        ("a.txt", ["Hi there\tHello\tBye"], {"separator": r"\t"}),
        ("a.txt", ["", "Hi there", "Hello", "Bye", "", ""], {"separator": ""}),
    ],
)
def test_text_with_a_separator(tmp_path, name, lines, fields):
    path = write_talks(tmp_path / name, *lines)
    (found,) = read_conversations([path], section(path, **fields))
    assert found == Conversation(("Hi there", "Hello", "Bye"))


def test_packed_files_and_several_paragraphs(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"Hi\nHello\n\n\nWho?\nMe.\n"))
    found = list(read_conversations([path], section(path, separator="")))
    assert [one.turns for one in found] == [("Hi", "Hello"), ("Who?", "Me.")]
    assert [one.origin for one in found] == ["a.txt.gz:1", "a.txt.gz:5"]


@pytest.mark.parametrize(
    ("name", "line", "fields", "message"),
    [
        ("a.txt", "Hi there. Hello.", {}, r"nor a tab between turns \(its first line: 'Hi there. Hello.'\)"),
        ("a.txt", "Hi\tHello", {"columns": {"turns": "x"}}, "data.columns.turns is 'x', but 'a.txt' is a text file"),
        (
            "a.txt",
            "1\tHi|Yes",
            {"columns": {"turns": 2}, "separator": "|"},
            "line 1 has 2 columns, so data.columns.turns",
        ),
        ("a.jsonl", {"a": ["x"], "b": ["y"]}, {}, r"line 1 has no field .* turns \(fields: 'a', 'b'\)"),
        ("a.jsonl", {"turn": ["x"]}, {"columns": {"turns": "turns"}}, "has no field 'turns'; did you mean 'turn'"),
        ("a.jsonl", {"turns": "Hi"}, {}, "field 'turns' is the text 'Hi', expected a list"),
        ("a.jsonl", {"turns": ["Hi", 3]}, {}, r"field 'turns'\[1\] is the number 3, expected a text or an object"),
        ("a.jsonl", {"turns": [{"said": "Hi"}]}, {}, r"\[0\] has no field .* the text \(fields: 'said'\)"),
        ("a.jsonl", {"turns": [{"text": 3}]}, {}, r"\[0\]: field 'text' is the number 3, expected text"),
        (
            "a.jsonl",
            {"turns": [{"text": "a", "who": "b"}]},
            {"columns": {"speaker": "whom"}},
            "no field 'whom'; did you",
        ),
        ("a.jsonl", '{"turns": [', {}, "line 1 is not JSON"),
    ],
)
def test_bad_conversations_are_named_with_file_line_and_value(tmp_path, name, line, fields, message):
    path = write_talks(tmp_path / name, line)
    with pytest.raises(DataError, match=message):
        list(read_conversations([path], section(path, **fields)))


def test_bad_lines_may_be_left_out_and_are_counted(tmp_path):
    path = write_talks(
        tmp_path / "a.jsonl", {"turns": ["a", "b"]}, {"turns": [1]}, {"turns": ["one"]}, {"turns": ["c", "d"]}
    )
    data = section(path, bad_lines="skip", valid=1)
    splits = open_splits(data, conversation_reader(data))
    assert len(splits.examples["train"]) == len(splits.examples["valid"]) == 1
    assert "1 left out: a turn is not text" in splits.notes
    assert "1 left out: fewer than two turns" in splits.notes
    assert "1 conversation held out for validation by a hash of the conversation" in splits.notes


def test_only_the_first_conversations_are_read_where_that_is_asked_for(tmp_path):
    path = write_talks(tmp_path / "a.jsonl", *({"turns": [f"a{n}", f"b{n}"]} for n in range(9)), "broken")
    test = write_talks(tmp_path / "t.jsonl", *({"turns": [f"c{n}", f"d{n}"]} for n in range(5)))
    data = section(path, test=str(test), first={"train": 6, "test": 2}, valid=2)
    splits = open_splits(data, conversation_reader(data))
    assert {name: len(one) for name, one in splits.examples.items()} == {"train": 4, "valid": 2, "test": 2}
    assert "train: only the first 6 conversations are read (data.first)" in splits.notes


def test_conversations_of_python():
    findings = Findings()
    held = conversations_from_python([["a", "b"], {"turns": SPOKEN}, SPOKEN], "train", section("x").columns, findings)
    assert [len(one.turns) for one in held] == [2, 3, 3] and held[2].speakers == ("A", "B", "A")
    for data, message in (
        ("a", "train is the text 'a', expected a list of conversations"),
        (["a b"], r"train\[0\] is the text 'a b', expected a list of turns"),
        ([["a", None]], r"train\[0\]\[1\] is missing \(None\)"),
    ):
        with pytest.raises(DataError, match=message):
            conversations_from_python(data, "train", section("x").columns, findings)

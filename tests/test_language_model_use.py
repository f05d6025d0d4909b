"""Using a language model from Python and from the command line: predict, choices, scores, streams, messages."""

import json
import shlex
import sys

import pytest

import heed
from commands import call
from continuing import random_run, trained_run, write_texts
from heed.cli import main
from heed.errors import ConfigError
from heed.generation import SamplingOptions
from pages import lines_of, page, run_blocks
from test_dialogue import Terminal

PROMPTS = ["I love", "They eat the café with", "W"]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write_texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def folder(file, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    trained_run(file, out)
    return out


@pytest.fixture(scope="module")
def run(folder):
    return heed.load(folder)


def refused(capsys, *words):
    code, out, err = call(capsys, *words)
    assert code == 2 and not out
    return err.removeprefix("heed: ").strip()


# --- Python


@pytest.mark.parametrize("kind", ["byte", "byte_bpe", "bpe", "unigram", "word"])
def test_streams_hold_whole_characters_and_blanks_where_they_are(file, kind):
    run = random_run(file, "attention_lm", kind, sharpness=1.0)
    for seed in range(5):
        options = {"length": 60, "sampling": SamplingOptions(seed=seed, temperature=2.0)}
        pieces = list(run.write("They eat the caf", **options))
        assert "".join(pieces) == run.predict("They eat the caf", **options).text
        assert not "".join(pieces).endswith("\ufffd")
        if kind == "word":
            assert len(pieces) > 3 and " " in "".join(pieces)


def test_what_is_not_given_is_the_configuration_s(run):
    assert len(run.predict("I", stop=["no such text"]).log_probs) <= run.config.generation.max_length == 100
    assert len(run.predict("I", length=7).log_probs) <= 7
    with pytest.raises(ConfigError, match="candidates takes several texts"):
        run.candidates("I")


# --- predict


def test_predict_writes_one_line_for_each_prompt(run, folder, capsys, tmp_path):
    expected = run.predict(PROMPTS, length=9)
    code, out, err = call(capsys, "predict", folder, *PROMPTS, "--length", 9)
    assert (code, err) == (0, "")
    assert out.splitlines() == [one.text.translate({10: " ", 9: " "}) for one in expected]
    (tmp_path / "prompts").write_text("\n".join(PROMPTS) + "\n")
    assert call(capsys, "predict", folder, "-i", tmp_path / "prompts", "--length", 9)[1] == out
    lines = call(capsys, "predict", folder, *PROMPTS, "--length", 9, "--json")[1].splitlines()
    for line, one in zip(map(json.loads, lines), expected, strict=True):
        assert line["prompt"] == one.prompt and line["text"] == one.text and line["finished"] == one.finished
        assert tuple(line["tokens"]) == one.tokens and line["stopped_by"] is None
        assert line["log_prob"] == pytest.approx(one.log_prob, abs=1e-5)
        assert sum(line["log_probs"]) == pytest.approx(one.log_prob, abs=1e-4)


def test_options_of_writing_do_what_they_say(run, folder, capsys):
    def written(*words):
        code, out, err = call(capsys, "predict", folder, "They eat", *words)
        assert code == 0, err
        return out

    drawn = SamplingOptions(0.7, 9, 0.9, 4)
    words = ("--sample", "--temperature", 0.7, "--top-k", 9, "--top-p", 0.9, "--seed", 4, "--length", 30)
    assert written(*words) == run.predict("They eat", sampling=drawn, length=30).text + "\n"
    assert written(*words) == written(*words)
    both = run.candidates(["They eat"], num_best=2, sampling=drawn, length=30)[0]
    assert [line.split("\t")[0] for line in written(*words, "--nbest", 2).splitlines()] == [
        f"{c.score:.4f}" for c in both
    ]
    penalty = run.predict("They eat", repetition_penalty=1.5, length=30).text
    assert written("--repetition-penalty", 1.5, "--length", 30) == penalty + "\n"
    beam = run.predict("They eat", beam_size=3, length=5).text
    assert written("--beam", 3, "--length", 5) == beam + "\n"
    whole = run.predict("They eat", sampling=SamplingOptions(seed=1), length=60).text
    cut = written("--sample", "--length", 60, "--stop", "never seen text", "--stop", whole[5:8])
    assert cut == whole[: whole.find(whole[5:8])] + "\n"


def test_stop_texts_may_be_line_breaks(file, tmp_path, capsys):
    (tmp_path / "poem.txt").write_text("a\nb\nc\nab\nbc\n" * 40)
    out = tmp_path / "run"
    trained_run(tmp_path / "poem.txt", out, format="text", valid=[str(tmp_path / "poem.txt")])
    run = heed.load(out)
    drawn = ((seed, run.predict("a", sampling=SamplingOptions(seed=seed), length=40).text) for seed in range(50))
    seed, text = next((seed, text) for seed, text in drawn if "\n" in text)
    words = ("predict", out, "a", "--sample", "--seed", seed, "--length", 40)
    assert call(capsys, *words, "--stop", r"\n")[1] == text[: text.index("\n")] + "\n"
    assert call(capsys, *words)[1] == text + "\n"  # one prompt: as written


def test_prompts_longer_than_the_context_and_unknown_characters_are_named(folder, capsys):
    code, _, err = call(capsys, "predict", folder, "pizza " * 20, "--length", 3)
    assert code == 0 and "the prompt of 120 tokens is longer than the context of 64: only the last 64 were read" in err
    _, _, err = call(capsys, "predict", folder, "pizza " * 20, "garden " * 30, "I", "--length", 3)
    assert (
        "2 prompts are longer than the context of 64 tokens: of the longest, with 210, only the last 64 were read"
        in err
    )
    _, _, err = call(capsys, "predict", folder, "I love 日本", "--length", 3)
    assert err == "heed: 2 characters were never seen in training: '日' (1), '本' (1)\n"


def test_a_terminal_shows_the_text_as_it_is_written(run, folder, monkeypatch):
    text = run.predict("I love", length=30).text
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    with pytest.raises(SystemExit):
        main(["predict", str(folder), "I love", "--length", "30"])
    assert terminal.shown == [*text, "\n"]


# --- choices


def test_choices_are_ranked_and_what_counts_is_said(run, folder, capsys):
    choices = ["pizza with", "the café", "cold water"]
    words = [word for choice in choices for word in ("--choice", choice)]
    code, out, err = call(capsys, "predict", folder, "I love", *words)
    assert (
        code == 0
        and err == "heed: ranked by the total log-probability of each choice, in nats; end tokens are not counted\n"
    )
    head, *lines = out.splitlines()
    ranked = run.rank("I love", choices)
    assert head.split() == "probability log-prob per token per byte tokens choice".split()
    for line, one in zip(lines, ranked, strict=True):
        numbers, choice = line.split()[:5], line[len(head) - len("choice") :]
        assert choice == one.choice and int(numbers[4]) == len(one.tokens)
        found = [one.probability, one.log_prob, one.per_token, one.per_byte]
        assert [float(n) for n in numbers[:4]] == pytest.approx(found, abs=1e-3)
    _, out, err = call(capsys, "predict", folder, "I love", *words, "--end", "--json")
    assert "the end token after it is counted" in err
    said = json.loads(out)
    assert said["end_token"] and said["prompt"] == "I love"
    for line, one in zip(said["choices"], run.rank("I love", choices, end=True), strict=True):
        assert line["choice"] == one.choice and line["log_prob"] == pytest.approx(one.log_prob, abs=1e-5)
        assert tuple(line["tokens"]) == one.tokens and line["tokens"][-1] == "</s>"


def test_a_file_has_a_prompt_on_each_line_and_each_gets_the_choices(run, folder, capsys, tmp_path):
    prompts, choices = ["I love", '{"prompt": "They"}'], ["pizza", "the café"]
    (tmp_path / "prompts").write_text("\n".join(prompts) + "\n")
    words = ["-i", tmp_path / "prompts", "--choice", choices[0], "--choice", choices[1]]
    _, out, _ = call(capsys, "predict", folder, *words, "--json")
    for line, prompt in zip(map(json.loads, out.splitlines()), prompts, strict=True):
        assert line["prompt"] == prompt
        assert [one["choice"] for one in line["choices"]] == [one.choice for one in run.rank(prompt, choices)]
    _, out, _ = call(capsys, "predict", folder, *words)
    assert [n for n, line in enumerate(out.splitlines()) if line in prompts] == [0, 4]


def test_choices_that_make_no_sense_are_refused(folder, capsys, tmp_path):
    def said(*words):
        return refused(capsys, "predict", folder, *words)

    assert said("I", "--choice", "a", "--choice", " ") == "--choice 2 is blank: ' '"
    assert said("I", "--choice", "a", "--sample").startswith(
        "--choice ranks given continuations and writes none, so --sample does not apply"
    )
    assert said("I", "--end") == "--end applies only to ranked choices; add --choice"
    (tmp_path / "empty").write_text("")
    where = f"'{tmp_path / 'empty'}'"
    assert said("-i", tmp_path / "empty", "--choice", "a") == (
        f"there is no prompt in {where}; give one, or a file with --input"
    )


# --- scores and what else is refused


def test_score_gives_every_token(run, folder, capsys):
    text = "I love the garden"
    code, out, err = call(capsys, "predict", folder, text, "--score")
    scored, lines = run.score(text), out.splitlines()
    assert (code, err) == (0, "") and len(lines) == len(text) + 2
    for line, p, rank, character in zip(lines[1:-1], scored.log_probs, scored.ranks, text, strict=True):
        nats, bits, place, token = line.split()
        assert float(nats) == pytest.approx(p, abs=1e-3) and float(bits) == pytest.approx(-p / 0.693147, abs=2e-3)
        assert int(place) == rank and token == (character if character != " " else "\u2423")
    assert lines[-1].startswith(f"log-probability {scored.log_prob:.4f} nats of 17 tokens; {scored.bits_per_byte:.4f}")
    said = json.loads(call(capsys, "predict", folder, text, "--score", "--json")[1])
    assert said["text"] == text and tuple(said["ranks"]) == scored.ranks
    assert said["log_prob"] == pytest.approx(sum(said["log_probs"]), abs=1e-4)
    _, _, err = call(capsys, "predict", folder, "pizza " * 20, "--score")
    assert "1 text is longer than the context of 64 tokens: later tokens are predicted from the 48 to 64 tokens" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--score", "--beam", "2"], "--score writes nothing, so --beam does not apply to it"),
        (["--score", "--choice", "a"], "--score reads whole texts and --choice ranks continuations; give only one"),
        (["--temperature", "2"], "--temperature 2.0 applies only to sampled outputs; add --sample"),
        (["--sample", "--beam", "2"], "--beam 2 searches and --sample draws; give only one"),
        (
            ["--beam", "3", "--length", "90"],
            "a beam cannot write beyond the model's context: length is 90, and the context 64",
        ),
        (["--align"], "--align does not apply to a run of language_modelling"),
    ],
)
def test_options_that_say_nothing_are_refused(folder, capsys, words, message):
    assert refused(capsys, "predict", folder, "I love", *words).startswith(message)


# --- the page


PAGE = page("docs/language-models.md")


def test_the_commands_of_the_page_run(folder, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("prompts.txt", "choices.txt", "lines.txt"):
        (tmp_path / name).write_text("I love\nthe garden\n")
    part = PAGE[PAGE.index("### Continue a text") : PAGE.index("## Embedded data")]
    lines = [line for line in lines_of(part) if line.startswith(("heed predict", "heed look"))]
    commands = [shlex.split(line, comments=True) for line in lines]
    assert len(commands) > 12
    for command in commands:
        if command[1:] == ["predict", "RUN"]:
            continue  # asks
        code, out, err = call(capsys, *(str(folder) if word == "RUN" else word for word in command[1:]))
        if "--words" in command:  # for models of subwords, as the page says
            assert (code, "the tokens of this model are characters" in err) == (2, True)
        else:
            assert code == 0 and (out or "wrote" in err), command


def test_the_program_of_the_page_runs(folder, capsys):
    run_blocks(PAGE[PAGE.index("### Continue a text") :].replace("RUN", str(folder)))
    assert capsys.readouterr().out

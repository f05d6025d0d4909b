"""Using language models: predicting, choosing, ranking, scoring and streaming texts, and looking at them."""

import json
import math
import shlex
import sys

import numpy as np
import pytest
import torch

import heed
from commands import call
from continuing import SMALL, random_run, trained_run, write_texts
from heed.cli import main
from heed.data.tokens import END, START
from heed.errors import ConfigError
from heed.generation import SamplingOptions
from heed.tasks import options_of
from heed.tasks.heads.continuing import join
from heed.watch.edits import Uniform, ZeroHead
from heed.watch.trace import edit
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


# --- Looking at language models: one causal map of prompt and output, steps, surprisal, edits, for every model


SENTENCE = "I love the café"
every_model = pytest.mark.parametrize("model", list(SMALL))


def attention_maps(look):
    return [one for one in look.maps if one.is_distribution]


def numpy_maps(model, ids):
    """The weights of every layer and head by the paper's equation, from what each attention module is given."""
    maps, hooks = [], []

    def weights(module, args):
        x = args[0][0].double().numpy()
        d = module.d_head if hasattr(module, "d_head") else x.shape[1] // module.num_heads

        def heads(linear):
            y = x @ linear.weight.detach().double().numpy().T
            y += 0 if linear.bias is None else linear.bias.detach().double().numpy()
            return y.reshape(len(x), module.num_heads, d).transpose(1, 0, 2)

        scores = heads(module.w_query) @ heads(module.w_key).transpose(0, 2, 1) / math.sqrt(d)
        scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
        exp = np.exp(scores - scores.max(-1, keepdims=True))
        maps.append(exp / exp.sum(-1, keepdims=True))

    for _, module in sorted(heed.watch.edits.attention_of(model).items(), key=lambda item: item[1].layer):
        hooks.append(module.register_forward_pre_hook(weights))
    with torch.no_grad():
        model(torch.tensor([ids]))
    for hook in hooks:
        hook.remove()
    return maps


@pytest.mark.parametrize("model", ["attention_lm", "gpt"])
def test_maps_are_the_softmax_of_the_equation(file, model):
    run = random_run(file, model)
    look = run.look(SENTENCE, length=7, layer="all", head="all").look
    written = run.predict(SENTENCE, length=7)
    ids = [END, *run.input.tokenizer.encode(SENTENCE).ids, *written.ids]
    expected = [head for layer in numpy_maps(run.model, ids) for head in layer]
    assert len(look.maps) == len(expected) == 4
    for one, weights in zip(look.maps, expected, strict=True):
        assert np.abs(one.weights.double().numpy() - weights).max() < 1e-6
    prompt, output = look.maps[0].key.parts
    assert (prompt.label, output.label, output.start) == ("prompt", "output", 1 + len(SENTENCE))
    labels = ["end", *SENTENCE, *(f"+{c}" for c in written.text)]
    assert all(list(axis.labels) == labels for one in look.maps for axis in (one.query, one.key))


@every_model
def test_one_pass_sees_what_the_steps_saw(file, model):
    run = random_run(file, model)
    shown = run.look(SENTENCE, length=7, layer="all", head="all").look
    with heed.trace(run.model) as seen:
        written = run.predict(SENTENCE, length=7)
    assert shown.target == written.text and shown.source == SENTENCE
    count = 1 + len(SENTENCE) + len(written.ids)
    for one in attention_maps(shown):
        steps = seen.maps(one.mechanism, one.layer).weights[0, one.head].double()
        # The steps never read the last token that was written, where the length cut the text off.
        whole = one.weights.double()[: len(steps), : steps.shape[1]]
        assert np.abs(steps.numpy() - whole.numpy()).max() < 1e-6
        assert len(one.query) >= count - 1 and (one.mask.sum(1) > 0).all()
        assert torch.allclose(one.weights.sum(1), torch.ones(len(one.query)), atol=1e-5)
        assert torch.equal(one.mask.sum(1), torch.arange(1, len(one.query) + 1))  # it grows by one token a row
    names = {one.mechanism for one in shown.maps}
    assert (
        names
        == {
            "attention_lm": {"decoder"},
            "gpt": {"decoder"},
            "rnn": {"forward"},
            "lstmn": {"self", "forward", "tape"},
            "self_rnn": {"self", "forward"},
        }[model]
    )


@every_model
def test_every_step_has_its_candidates_states_and_gates(file, model):
    run = random_run(file, model)
    shown = run.look(SENTENCE, length=7, steps=True)
    written = run.predict(SENTENCE, length=7)
    ids = [END, *run.input.tokenizer.encode(SENTENCE).ids, *written.ids]
    with torch.no_grad():
        probabilities = torch.softmax(run.model.logits(run.model(torch.tensor([ids])))[0], -1)
    frames = shown.look.encoder + shown.look.decoder
    assert len(shown.look.encoder) == 1 + len(SENTENCE) and len(shown.look.decoder) == len(written.tokens)
    # The last frame of the prompt and the first of the output tell of the same place.
    for place, frame in zip([*range(1 + len(SENTENCE)), *range(len(SENTENCE), len(ids))], frames, strict=False):
        best = probabilities[place].topk(5)
        assert [p for _, p in frame.top] == pytest.approx(best.values.tolist(), abs=1e-5)
        special = {START: "start", END: "end"}
        names = [special.get(i, run.input.tokenizer.token(i)) for i in best.indices.tolist()]
        assert [token for token, _ in frame.top] == names
        if model in ("rnn", "lstmn", "self_rnn"):
            assert frame.gates and all(0 < gate < 1 for gate in frame.gates.values())
        for step in frame.attention:
            assert float(step.weights.sum()) == pytest.approx(1, abs=1e-5) and len(step.key) <= place + 1
    for frame, token, log_prob in zip(shown.look.decoder, written.tokens, written.log_probs, strict=True):
        assert frame.token == ("end" if token == "</s>" else token)
        assert dict(frame.top).get(frame.token, 0) == pytest.approx(math.exp(log_prob), abs=1e-5)
    text = shown.text()
    assert f"prompt step 1 of {1 + len(SENTENCE)}: reads end" in text
    assert f"output step 1 of {len(written.tokens)}: writes" in text
    assert "encoder" not in text and "decoder step" not in text


@every_model
def test_a_given_text_is_shaded_by_surprisal(file, model):
    run = random_run(file, model)
    shown = run.look(SENTENCE, given=True, steps=True)
    (shading,), scored = shown.look.shadings, run.score(SENTENCE)
    assert shading.weights == pytest.approx(scored.bits, abs=1e-4) and shading.axis.labels == tuple(SENTENCE)
    assert shading.darkest == max(shading.weights)
    assert [int(other.split()[1].rstrip(",")) for other in shading.others] == list(scored.ranks)
    assert shown.target == "" and len(shown.look.decoder) == len(SENTENCE) and not shown.look.encoder
    assert all("+" not in label for one in shown.maps for label in one.key.labels)
    assert "written" not in shown.text()
    page = shown.html()
    assert all(f">{c}<" in page for c in set(SENTENCE) - {" "}) and "Surprisal" in page
    values = json.loads(shown.json())
    assert values["shadings"][0]["weights"] == pytest.approx(scored.bits, abs=1e-4)


def test_subwords_are_shown_as_they_are(file):
    run = random_run(file, "gpt", "byte_bpe")
    shown = run.look("I love the café", length=3)
    tokens = run.input.tokenizer.encode("I love the café").ids
    assert len(attention_maps(shown.look)[0].query) >= len(tokens) + 1
    assert shown.look.shadings[0].axis.labels[:2] == ("I", " love")
    assert "\u2423love" in shown.html() and "café" in shown.html()


def test_edits_hold_while_the_output_is_written(file):
    run = random_run(file)
    for change in (Uniform("decoder"), ZeroHead("decoder", 0, 1)):
        shown = run.look(SENTENCE, length=12, edits=[change], layer=0, head="all").look
        with edit(run.model, change):
            assert shown.target == run.predict(SENTENCE, length=12).text
        first, second = shown.maps
        rows = torch.arange(1, len(first.query) + 1)
        if isinstance(change, Uniform):
            assert torch.allclose(first.weights[:, 0], 1 / rows)
        else:
            assert second.weights.abs().max() == 0 and torch.allclose(first.weights.sum(1), torch.ones(len(rows)))
        assert any(note.startswith("edited: ") for note in shown.notes)
    with pytest.raises(ConfigError, match="the model has decoder layer 0"):
        run.look(SENTENCE, edits=[Uniform("self")])


def test_beyond_the_context_the_last_window_is_shown(file):
    run = random_run(file, "attention_lm", "char", 12)
    shown = run.look(SENTENCE, length=8).look
    (one,) = shown.maps
    assert len(one.query) == 12 and any("the last 12 tokens are shown" in note for note in shown.notes)
    assert shown.target == run.predict(SENTENCE, length=8).text


def test_an_output_that_fills_the_context_is_shaded_alone(file):
    run = random_run(file, "attention_lm", "char", 8)
    look = run.look(SENTENCE, length=20).look
    (shading,) = look.shadings
    assert shading.title == "Surprisal of the generated text in bits"
    assert len(shading.weights) == len(shading.axis) == 7


def test_what_there_is_not_is_refused(file):
    run = random_run(file, "rnn")
    with pytest.raises(ConfigError, match="no 'decoder' attention: this model has no attention"):
        run.look(SENTENCE, mechanism="decoder")
    for chosen in ({"layer": 0}, {"head": 1}):
        with pytest.raises(ConfigError, match="this model has no attention, so --layer and --head do not apply"):
            run.look(SENTENCE, **chosen)
    with pytest.raises(ConfigError, match="--words does not apply: the tokens of this model are characters"):
        random_run(file, "gpt", "char").look(SENTENCE, words=True)
    with pytest.raises(ConfigError, match="--given writes nothing, so --length and --beam do not apply"):
        run.look(SENTENCE, given=True, length=3)
    with pytest.raises(ConfigError, match="the text is blank"):
        run.look(" ")
    with pytest.raises(ConfigError, match="no head 7: there are 2"):
        random_run(file).look(SENTENCE, head=7)


# --- Ranking continuations and scoring texts: sums of recomputed log-probabilities, whatever the tokenizer


PROMPT, CHOICES = "I love", ["pizza with my friend!", "the café", "a", "We see"]


def recomputed(run, ids):
    """The log-probability of each token and its rank, each from one pass over all tokens before it."""
    first = END if run.input.end_token else START
    found = []
    for n, token in enumerate(ids):
        with torch.no_grad():
            hidden = run.model(torch.tensor([[first, *ids[:n]]]))
            logits = run.model.logits(hidden)[0, -1].double().numpy()
        log_probs = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
        found.append((log_probs[token], 1 + int((logits > logits[token]).sum())))
    return found


@pytest.mark.parametrize(
    ("model", "kind"),
    [("rnn", "char"), *(("attention_lm", kind) for kind in ("char", "byte", "byte_bpe", "bpe", "word"))],
)
def test_a_text_is_scored_token_by_token(file, model, kind):
    run = random_run(file, model, kind)
    text = "They eat the café, with my friend"
    scored, ids = run.score(text), run.input.tokenizer.encode(text).ids
    expected = recomputed(run, ids)
    assert np.allclose(scored.log_probs, [p for p, _ in expected], atol=1e-5)
    assert scored.ranks == tuple(rank for _, rank in expected)
    assert scored.log_prob == pytest.approx(sum(scored.log_probs)) and len(scored.tokens) == len(ids)
    assert sum(scored.bits) == pytest.approx(-scored.log_prob / math.log(2))
    assert scored.num_bytes == 34 and scored.bits_per_byte == pytest.approx(sum(scored.bits) / 34)
    assert scored.perplexity == pytest.approx(math.exp(-scored.log_prob / len(ids)))
    assert scored.end_log_prob == pytest.approx(recomputed(run, [*ids, END])[-1][0], abs=1e-5)
    assert scored.spans[-1][1] == len(text)


def test_an_empty_text_has_no_scores(file):
    scored = random_run(file).score("")
    assert scored.tokens == () and scored.log_prob == 0 and math.isnan(scored.bits_per_byte)


@pytest.mark.parametrize(
    ("kind", "end"), [("char", True), *((kind, False) for kind in ("char", "byte", "byte_bpe", "bpe", "word"))]
)
def test_totals_are_sums_of_the_scores_of_prompt_and_choice_as_one_text(file, kind, end):
    run = random_run(file, "attention_lm", kind)
    ranked = run.rank(PROMPT, CHOICES, end=end)
    assert sorted(one.place for one in ranked) == [0, 1, 2, 3]
    assert [one.log_prob for one in ranked] == sorted((one.log_prob for one in ranked), reverse=True)
    for one in ranked:
        assert one.choice == CHOICES[one.place]
        scored = run.score(f"{PROMPT} {one.choice}")
        counted = [p for p, (_, stop) in zip(scored.log_probs, scored.spans, strict=True) if stop > len(PROMPT)]
        counted += [scored.end_log_prob] if end else []
        assert one.log_prob == pytest.approx(sum(counted), abs=1e-5) and len(one.tokens) == len(counted)
        assert one.per_token == pytest.approx(one.log_prob / len(counted))
        assert one.num_bytes == len(f" {one.choice}".encode())  # no token of these spans the border
        assert one.per_byte == pytest.approx(one.log_prob / one.num_bytes)
    totals = np.array([one.log_prob for one in ranked])
    assert np.allclose([one.probability for one in ranked], np.exp(totals) / np.exp(totals).sum())


def test_without_a_prompt_a_choice_is_scored_as_a_text(file):
    run = random_run(file)
    for one in run.rank("", CHOICES):
        assert one.log_prob == pytest.approx(run.score(one.choice).log_prob)


def test_a_token_across_the_border_counts_as_a_whole(file):
    run = random_run(file, "attention_lm", "byte_bpe")
    assert run.score("I love pizza").spans[-1] == (6, 12)
    (spanning,), (after,) = run.rank("I love ", ["pizza"]), run.rank("I love", ["pizza"])
    assert spanning.tokens == after.tokens == ("\u2581pizza",) and spanning.num_bytes == 6
    assert spanning.log_prob == pytest.approx(after.log_prob)


@pytest.mark.parametrize(
    ("prompt", "choice", "text"),
    [
        ("I love", "pizza", "I love pizza"),
        ("I love ", "pizza", "I love pizza"),
        ("I love", " pizza", "I love pizza"),
        ("I love\n", "pizza", "I love\npizza"),
        ("", "pizza", "pizza"),
        ("我爱吃", "披萨", "我爱吃披萨"),
        ("我说\uff0c", "披萨", "我说\uff0c披萨"),
        ("나는", "먹는다", "나는 먹는다"),
        ("I love", "披萨", "I love 披萨"),
    ],
)
def test_a_blank_is_added_where_neither_side_has_one(prompt, choice, text):
    assert join(prompt, choice) == text


def test_beyond_the_context_tokens_are_scored_from_most_of_it(file):
    run = random_run(file, "attention_lm", "char", 16)
    prompt = "We see cold water with my friend! I love"
    ranked = {one.choice: one for one in run.rank(prompt, CHOICES)}
    for choice in CHOICES:
        ids = run.input.tokenizer.encode(f"{prompt} {choice}").ids
        for place, log_prob in zip(range(len(prompt), len(ids)), ranked[choice].log_probs, strict=True):
            start = -(-max(0, place + 1 - 16) // 4) * 4  # windows advance by a quarter of the context
            with torch.no_grad():
                hidden = run.model(torch.tensor([ids[start - 1 : place]]))
                expected = torch.log_softmax(run.model.logits(hidden)[0, -1].double(), -1)[ids[place]]
            assert log_prob == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ([], "there are no choices to rank"),
        (["a", " \n"], r"choice 2 is blank: ' \\n'"),
        (["a", "b", "a"], "choice 'a' occurs twice"),
        ("pizza", r"rank takes several choices; for one, write \['pizza'\]"),
    ],
)
def test_choices_that_cannot_be_ranked_are_refused(file, choices, message):
    with pytest.raises(ConfigError, match=message):
        random_run(file).rank("I love", choices)


def test_an_end_token_counts_only_where_documents_have_one(file):
    run = random_run(file, end_token=False)
    assert run.score("I love").end_log_prob is None and len(run.rank("I", ["love"])) == 1
    with pytest.raises(ConfigError, match=r"this run has no end token to count \(data.end_token is false\)"):
        run.rank("I", ["love"], end=True)


def test_unknown_pieces_of_choices_are_those_behind_the_prompt(file):
    """A word after a blank is another token than at the start of a text: alone, "the" would be unknown."""
    run = random_run(file, "attention_lm", "word")
    assert run.input.tokenizer.unknown_in("pizza") == ["pizza"] and not run.input.tokenizer.unknown_in("I love pizza")
    given = options_of("language_modelling", "predict", {"choice": ["pizza", "zzz"]})
    outputs = run.outputs(given)
    outputs.expect(["I love"], None)
    assert outputs.unknown_in("I love") == ["zzz"]

"""Runs that write together: the mean of their probabilities in every search; the candidates of a beam search."""

import json
import math
import re
from dataclasses import asdict, replace
from html import escape

import pytest
import torch

import heed
from commands import call
from heed.attention import Rows
from heed.errors import ConfigError
from heed.generation import Ensemble, SamplingOptions, SearchOptions, generate
from heed.models.base import PairDecoder
from heed.registry import list_models
from heed.show.beams import BeamNode, Beams, ShownBeams
from heed.tasks import MissingCapabilityError, tasks_with
from heed.tasks.dialogue.look import histories_of
from heed.tasks.heads.continuing import _never_written
from heed.visible import clean
from test_generation import END, make_pair_model, make_sources, next_log_probs, starts

LAST_TOKEN, VOCABULARY = 3, 9
DECODERS = {name: body for name, body in list_models() if body.interface == "pair_decoder"}


def build(name, seed, **fields):
    body = DECODERS[name]
    torch.manual_seed(seed)
    sizes = {"source_vocab_size": 11, "target_vocab_size": VOCABULARY}
    model = body(body.config_class(**{**body.config_class.sizes["tiny"], **sizes, **fields, "dropout": 0.0})).eval()
    assert isinstance(model, PairDecoder)
    with torch.no_grad():  # far from uniform, and different from one another
        for parameter in model.output.parameters():
            parameter.mul_(3).add_(torch.randn_like(parameter), alpha=0.5)
    return model


@pytest.fixture(scope="module")
def members():
    """Every pair decoder there is, and one of them twice, at another width."""
    return [build(name, seed) for seed, name in enumerate(DECODERS)] + [build("bahdanau", 99, d_hidden=24)]


@pytest.fixture(scope="module")
def together(members):
    return Ensemble(members)


@pytest.fixture(scope="module")
def batch():
    body = DECODERS["bahdanau"]
    return body.example(body.config_class(source_vocab_size=11, target_vocab_size=VOCABULARY), 1)


def log_probs(model, batch):
    with torch.no_grad():
        return torch.log_softmax(model.logits(model(**batch)), dim=-1)


def test_probabilities_are_the_members_mean(together, members, batch):
    mean = torch.stack([log_probs(member, batch).exp() for member in members]).mean(0)
    torch.testing.assert_close(log_probs(together, batch).exp(), mean, atol=1e-6, rtol=0)
    with torch.no_grad():  # its logits are log-probabilities already
        logits = together.logits(together(**batch))
    torch.testing.assert_close(logits, torch.log_softmax(logits, -1), atol=1e-5, rtol=0)


def test_a_model_with_itself_is_the_model(members, batch):
    twice = Ensemble([members[0], members[0]])
    torch.testing.assert_close(log_probs(twice, batch), log_probs(members[0], batch), atol=1e-5, rtol=0)
    assert len({id(p) for p in twice.parameters()}) == len(list(members[0].parameters()))


def test_steps_equal_the_full_pass_and_rows_can_be_chosen(together, batch):
    full = log_probs(together, batch)
    rows = torch.tensor([2, 0, 0])
    with torch.no_grad():
        memory = together.encode(batch["source"], batch["source_mask"])
        state = together.start(memory, Rows.repeat(3))
        _, state = together.step(batch["target"][:, :2], state)
        state = state.select(rows)
        hidden, _ = together.step(batch["target"][rows, 2:], state)
        torch.testing.assert_close(together.logits(hidden), full[rows, 2:], atol=1e-5, rtol=0)
        alone = together.start(memory.select(torch.tensor([1])), Rows.repeat(1))
        hidden, _ = together.step(batch["target"][1:2], alone)
        torch.testing.assert_close(together.logits(hidden), full[1:2], atol=1e-5, rtol=0)


@pytest.mark.parametrize("beam", [1, 4])
def test_searches_rank_by_the_mean_probability(together, batch, beam):
    """What a search reports for its output is what the ensemble gives that output by teacher forcing."""
    options = SearchOptions(end_token=LAST_TOKEN, max_length=7, beam_size=beam, num_best=beam, forbidden=(0, 2))
    with torch.no_grad():
        memory = together.encode(batch["source"], batch["source_mask"])
    prompt = torch.full((3, 1), 2)
    found = generate(together, memory, prompt, options).hypotheses
    for source, hypotheses in enumerate(found):
        for hypothesis in hypotheses:
            target = torch.tensor([[2, *hypothesis.tokens, *([LAST_TOKEN] if hypothesis.finished else [])]])
            one = {
                "source": batch["source"][source : source + 1],
                "source_mask": batch["source_mask"][source : source + 1],
            }
            forced = log_probs(together, {**one, "target": target[:, :-1]})[0]
            expected = forced.gather(1, target[0, 1:, None]).squeeze(1)
            torch.testing.assert_close(torch.tensor(hypothesis.log_probs), expected, atol=1e-5, rtol=0)
    drawn = generate(together, memory, prompt, options, sampling=SamplingOptions(seed=5))
    assert drawn == generate(together, memory, prompt, options, sampling=SamplingOptions(seed=5))


# --- runs


SMALL = {
    "data.train": 120,
    "data.valid": 20,
    "data.test": 15,
    "data.length": [2, 5],
    "model.d_embedding": 12,
    "model.d_attention": 12,
    "training.batch_tokens": 200,
    "training.threads": 1,
    "training.device": "cpu",
    "training.learning_rate": 0.01,
    "evaluation.bootstrap": 20,
}


def trained(folder, seed, **further):
    settings = {**SMALL, "model.d_hidden": 12, **further}
    return heed.train("translation", data="copy", steps=25, seed=seed, out=folder, settings=settings, quiet=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return [trained(folder / "a", 1), trained(folder / "b", 2, **{"model.d_hidden": 20, "model.cell": "lstm"})]


def test_an_ensemble_of_runs_predicts_and_scores(runs):
    both = heed.ensemble([runs[0], runs[1].folder])
    text = "3 1 4"
    one = both.predict(text, beam_size=3)
    ids = [*one.ids, *([LAST_TOKEN] if one.finished else [])]
    assert len(one.token_probs) == len(ids)
    report = both.evaluate("test")
    assert report["examples"] == 15 and "alignment_error" not in report
    pairs = both.task.splits.examples["test"]
    nll = [run.task.judged(run.model, run.input.encode(pairs))[:, 0] for run in runs]
    mixed = both.task.judged(both.model, both.input.encode(pairs))[:, 0]
    # Jensen: the mean of probabilities is at least the geometric mean, so its loss is at most the mean loss.
    assert all(m <= (a + b) / 2 + 1e-4 for m, a, b in zip(mixed, *nll, strict=True))
    assert both.align(text, one) == runs[0].align(text, one)
    assert repr(both).startswith("<heed ensemble of ")


def test_the_commands_take_further_runs(runs, capsys):
    a, b = (str(run.folder) for run in runs)

    both = heed.ensemble([a, b])
    lines = ["3 1 4", "", "2 2"]
    code, out, _ = call(capsys, "predict", a, "--with", b, stdin="\n".join(lines) + "\n")
    assert code == 0 and out == "".join(p.text + "\n" for p in both.predict(lines))
    code, out, _ = call(capsys, "evaluate", a, "--with", b, "--json")
    report = json.loads(out)["test"]
    assert report == json.loads(json.dumps(both.evaluate("test")))
    assert report["perplexity"] != heed.load(a).evaluate("test")["perplexity"]
    code, out, err = call(capsys, "predict", a, "--with", "nowhere", "x")
    assert (code, out, err) == (2, "", "heed: no run folder 'nowhere'\n")


def test_other_vocabularies_are_refused_by_their_first_difference(runs, tmp_path):
    other = trained(tmp_path / "c", 3, **{"tokenizer.kind": "word", "tokenizer.min_count": 1})
    with pytest.raises(ConfigError, match=r"a' and '.*c' cannot form an ensemble: their source tokenizers differ"):
        heed.ensemble([runs[0], other])
    with pytest.raises(ConfigError, match="an ensemble needs at least one run"):
        heed.ensemble([])


def test_runs_may_differ_in_tags_of_the_source_but_not_of_the_target(runs):
    tagged = heed.load(runs[1].folder)
    tagged.task.input.source_tokenizer.add_tags(["<bt>"])
    heed.ensemble([runs[0], tagged])
    tagged.task.input.target_tokenizer.add_tags(["<bt>"])
    with pytest.raises(ConfigError, match=r"target tokenizers differ: the tags \(none\) and <bt>"):
        heed.ensemble([runs[0], tagged])


# --- The candidates of a beam search, against a plain search by whole passes; their table, files and refusals


TEXT, WIDTH, LIMIT = "one two three", 3, 6


@pytest.fixture
def writer(untrained):
    """An untrained run whose outputs end early, its limits set."""

    def make(name, beam_size=WIDTH, length_penalty=0.6):
        run = untrained(name)
        tied = run.model.output.weight
        with torch.no_grad():
            tied *= 6
        changed = {"max_length": LIMIT, "beam_size": beam_size, "length_penalty": length_penalty}
        generation = run.task.config.generation.model_copy(update=changed)
        run.task.config = run.task.config.model_copy(update={"generation": generation})
        run.task.fit()
        return run

    return make


def looked(run, **options):
    length = {"length": LIMIT} if run.config.task == "language_modelling" else {}
    return run.beams(TEXT, **length, **options)


def of_model(run):
    """Log-probabilities of the next token after a prefix, by a pass over all of it, and the tokens never written."""
    read = run.readable(TEXT)
    if run.config.task == "language_modelling":
        prompt = run.input.prompt_tokens(run.input.tokenizer.encode(TEXT).ids)[-(8 + 1 - LIMIT) :]  # of a context of 8
        return next_log_probs(run.model, prompt), _never_written(run.input)
    if run.config.task == "dialogue":
        (source,) = histories_of(run.input, [read], None)
    else:
        source = run.input.framed(run.input.source_tokenizer.encode(read).ids)
    with torch.no_grad():
        memory = run.input.memory(run.model, [source], torch.device("cpu"))
    return next_log_probs(run.model, [run.input.first_token(source)], memory), run.head.never_written(run.model)


def plain_search(of, never, end, penalty, early="never"):
    """Every ranked candidate of each step: (tokens, log-probability of the last, of all, rank, fate)."""
    rows, nodes, scores = [((), 0.0)], [], []
    for length in range(1, LIMIT + 1):
        found = []
        for tokens, total in rows:
            found += [(total + p, (*tokens, n), p) for n, p in enumerate(of(tokens)) if n not in never]
        found = sorted(found, reverse=True)[: 2 * WIDTH]
        rows = []
        for rank, (total, tokens, p) in enumerate(found, start=1):
            fate = "left out"
            if tokens[-1] == end:
                fate = "ended"
            elif len(rows) < WIDTH:
                fate = "cut off" if length == LIMIT else "continued"
                rows.append((tokens, total))
            if fate in ("ended", "cut off"):
                scores.append(total / length**penalty)
            nodes.append((tokens, p, total, rank, fate))
        if length == LIMIT or (scores and max(scores) >= rows[0][1] / LIMIT**penalty):
            break
    last = {tokens for tokens, *_, fate in nodes if fate in ("ended", "cut off")}
    opened = {tokens for tokens, *_, fate in nodes if fate == "continued" and len(tokens) == length}
    whole = {tokens[:n] for tokens in last | opened for n in range(1, LIMIT + 1)}
    return [
        (*rest, "open" if rest[0] in opened else "dropped" if fate == "continued" and rest[0] not in whole else fate)
        for *rest, fate in nodes
    ]


@pytest.mark.parametrize("penalty", [0.6, 2.0])
@pytest.mark.parametrize("name", tasks_with("beams"))
def test_every_node_is_that_of_a_plain_search_and_the_output_that_of_predict(name, penalty, writer):
    run = writer(name, length_penalty=penalty)
    tokenizer = [*run.task.tokenizers().values()][-1]
    beams = looked(run).beams
    expected = plain_search(*of_model(run), tokenizer.special.end, penalty)
    finished = "cut off" if name == "language_modelling" else "ended"
    assert len(beams.nodes) == len(expected) and {finished, "left out"} <= {one.fate for one in beams.nodes}
    written = {-1: ()}
    for i, (one, (tokens, p, total, rank, fate)) in enumerate(zip(beams.nodes, expected, strict=True)):
        written[i] = (*written[one.parent], one.token)
        pieces = [tokenizer.token(n) if n == tokenizer.special.end else tokenizer.piece(n) for n in tokens]
        assert (written[i], one.rank, one.fate, one.step) == (tuple(pieces), rank, fate, len(tokens) - 1)
        found = one.log_prob, one.total, one.score
        assert found == pytest.approx((p, total, total / len(tokens) ** penalty), abs=1e-4)
    over = [one for one in beams.nodes if one.fate in ("ended", "cut off")]
    assert beams.nodes[beams.last].score == max(one.score for one in over)
    path = [beams.nodes[i] for i in beams.path]
    plain = {"length": LIMIT} if name == "language_modelling" else {}
    output = run.predict(TEXT, **plain)
    assert beams.output == output.text and written[beams.last] == output.tokens
    if name == "language_modelling":  # whose outputs are scored again, in double precision
        assert tuple(one.log_prob for one in path) == output.log_probs
        assert path[-1].score == pytest.approx(output.score, abs=1e-6)
    else:
        assert tuple(math.exp(one.log_prob) for one in path) == output.token_probs
        assert path[-1].score == output.score
    assert beams.history.endswith(": " + " ".join(str(one.rank) for one in path))


@pytest.mark.parametrize("early_stopping", ["never", "heuristic", "full"])
def test_watching_changes_no_bit_and_candidates_are_those_of_the_steps(early_stopping):
    model, seen = make_pair_model(), {}
    options = SearchOptions(END, 8, beam_size=3, num_best=3, early_stopping=early_stopping)
    watched = replace(options, watch=lambda source, found: seen.setdefault(source, []).append(found))
    plain, other = (generate(model, model.encode(*make_sources(9)), starts(9), one) for one in (options, watched))
    assert plain == other and sorted(seen) == [*range(9)]
    for number, step in enumerate(plain.steps):
        for source in set(step.sources):
            rows = [i for i, one in enumerate(step.sources) if one == source and step.totals[i] > -math.inf]
            kept = [one for one in seen[source][number] if one.fate == "kept"]
            assert [(one.token, one.total) for one in kept] == [(step.tokens[i], step.totals[i]) for i in rows]
    for source, hypotheses in enumerate(plain.hypotheses):
        over = [one for found in seen[source] for one in found if one.fate in ("ended", "cut off")]
        assert [one.score for one in hypotheses] == sorted((one.score for one in over), reverse=True)[:3]


def node(step, parent, token, rank, fate="continued", p=0.5, score=-1.0):
    return BeamNode(step, parent, token, math.log(p), -1.0, score, rank, fate)


NODES = (
    node(0, -1, "▁a", 1),  # 0
    node(0, -1, "▁b", 2),  # 1
    node(0, -1, "x", 3, "left out", 0.01),  # 2
    node(1, 1, "c\x1b", 1, score=-0.9),  # 3
    node(1, 0, "d", 2),  # 4, dropped
    node(1, 0, "</s>", 3, "ended", score=-0.7),  # 5
    node(2, 3, "</s>", 1, "ended", score=-0.5),  # 6
    node(2, 3, "e", 2, score=-2.0),  # 7, open
)
MADE = Beams.of("a model", "some text", "b c", NODES, beam_size=2, length_penalty=1.0, notes=("edited: nothing",))


def test_fates_and_the_rows_of_the_table():
    assert [one.fate for one in MADE.nodes] == [
        "continued", "continued", "left out", "continued", "dropped", "ended", "ended", "open",
    ]  # fmt: skip
    assert MADE.path == [1, 3, 6] and MADE.history == "the output's rank at each step: 2 1 1"
    table, whole = MADE.table(every=False), MADE.table(every=True)
    assert table.rows == ("▁a 1.1", "● ▁b 1.2", "● c\x1b 2.1", "</s> 2.3", "● </s> 3.1")
    assert table.notes == ("kept", "kept", "kept, after 1.2", "ended, after 1.1", "ended, after 2.1")
    assert whole.rows[2] == "x 1.3" and [*whole.notes][2::2] == ["left out", "dropped, after 1.1", "ended, after 2.1"]
    assert whole.values.tolist() == [[one.log_prob, one.total, one.score] for one in MADE.nodes]
    assert replace(MADE, beam_size=1).table(every=False).rows == ("● ▁b 1.2", "● c\x1b 2.1", "● </s> 3.1")


@pytest.mark.parametrize("every", [False, True])
def test_every_form_has_the_whole_table(every):
    shown, table = ShownBeams(MADE, every), MADE.table(every)
    text, page, svg = shown.text(width=80), shown.html(), shown.svg()
    assert max(map(len, text.splitlines())) <= 80
    assert "edited: nothing" in text and "beam of 2, 3 steps, 2 finished outputs" in text
    assert "    ● c␛ 2.1 -0.693 -1.000 -0.900  kept, after 1.2\n" in text and ("x 1.3" in text) == every
    assert page.count('<th scope="row">') == len(table.rows) == (8 if every else 5)
    for label, note in zip(table.rows, table.notes, strict=True):
        label = clean(label)
        assert re.search(rf"^ *{re.escape(label)} .*  {note}$", text, re.MULTILINE)
        assert re.search(rf"<bdi>{escape(label)}</bdi></th>.*<td class=\"note\">{note}</td>", page)
        assert f">{escape(label)}</text>" in svg and f">{note}</text>" in svg
    assert svg == ShownBeams(MADE, every).svg() and svg.count(">-0.693<") == len(table.rows) - every
    talk = ShownBeams(replace(MADE, source="A: Hi.\nB: Yes?")).text()
    assert "\nsource  A: Hi.\n        B: Yes?\noutput  b c\n" in talk


def test_many_steps_and_long_tokens_fit_too():
    nodes = [node(0, -1, "token" * 30, 1)]
    for step in range(1, 40):
        last = len(nodes) - 1
        nodes += [node(step, last, "</s>", 1, "ended", score=-step), node(step, last, "y" * 90, 2)]
    deep = ShownBeams(Beams.of("a model", "text", "out", nodes, beam_size=50, length_penalty=1.0), every=True)
    assert max(map(len, deep.text(width=80).splitlines())) <= 80
    assert deep.scene().width < 1100 and deep.png().startswith(b"\x89PNG")


def test_json_has_every_node(writer):
    beams = looked(writer("translation")).beams
    content = json.loads(ShownBeams(beams).json())
    assert (content["format"], content["shows_dropped"], content["last"]) == ("heed-beams-1", False, beams.last)
    assert len(content["nodes"]) == len(beams.nodes)
    for written, one in zip(content["nodes"], beams.nodes, strict=True):
        assert {k: v for k, v in written.items() if type(v) is not float} == {
            k: v for k, v in asdict(one).items() if type(v) is not float
        }
        numbers = written["log_prob"], written["total"], written["score"]
        assert numbers == pytest.approx((one.log_prob, one.total, one.score), rel=1e-5)


def test_edits_act_on_the_search(writer):
    run = writer("translation")
    edit = {"edit": "uniform", "mechanism": "cross"}
    edited = looked(run, edits=[edit]).beams
    assert edited.notes == (f"edited: {json.dumps(edit)}",) and edited.nodes != looked(run).beams.nodes
    with heed.edit(run, edit):
        assert run.predict(TEXT).text == edited.output


def test_a_greedy_search_has_no_candidates(writer):
    with pytest.raises(ConfigError, match="with a beam of 1 the search is greedy: one path; add --beam 4, or see"):
        writer("translation").beams(TEXT, beam_size=1)


@pytest.mark.parametrize("name", ["classification", "pretraining"])
def test_tasks_without_beams_are_refused(name, untrained):
    run = untrained(name)
    with pytest.raises(MissingCapabilityError, match=rf"`beams` is not available for {name}"):
        run.beams(TEXT)


def test_the_command(small_run, call):
    run = str(small_run("translation"))
    code, out, _ = call("beams", run, "one two", "--beam", "2", "--all", "--as", "json")
    assert code == 0 and '"format":"heed-beams-1"' in out and '"shows_dropped":true' in out
    code, out, _ = call("beams", run, "one two", "--beam", "2")
    assert code == 0 and "● " in out and "left out, " not in out
    code, _, err = call("beams", run, "one", "two")
    assert code != 0 and "beams takes one text, but 2 were given; put a text with spaces in quotes" in err

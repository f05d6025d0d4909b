"""Runs written for CTranslate2: the same model, the same searches, and what is refused."""

import copy
import dataclasses
import json
import re
import shlex
import shutil
import sys

import pytest
import torch
import yaml

import heed
from commands import call
from heed.config import TokenizerConfig
from heed.data.batch import pad_rows
from heed.data.tokens import END, START
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, RunError
from heed.exchange import ctranslate2 as exporting
from heed.exchange.ctranslate2 import CTranslate2Writer, write_model
from heed.generation import SamplingOptions, SearchOptions, generate
from heed.models.transformer import Transformer, TransformerConfig
from heed.tasks.translation import _ends_alike
from pages import blocks, page

pytest.importorskip("ctranslate2")

PAGE = page("docs/export.md")
FORBIDDEN = (0, 1, 2)
SOURCE = TextTokenizer.train_characters(["abcdefghijklmnopqrst uvwxyz,.\n\t\u00e4\u5b57"])
TARGET = TextTokenizer.train(["a bat sat on a mat, a cat ate the bat"] * 9, TokenizerConfig(kind="bpe", vocab_size=40))


def build(seed=1, **fields):
    """A Transformer whose outputs depend on the source and end at different lengths."""
    torch.manual_seed(seed)
    fields = {"d_model": 16, "num_heads": 4, "num_layers": 2, "d_ff": 24, **fields}
    vocabularies = {"source_vocab_size": SOURCE.vocab_size, "target_vocab_size": TARGET.vocab_size}
    model = Transformer(TransformerConfig(**{**vocabularies, **fields})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5).add_(torch.randn_like(parameter), alpha=0.3)
        model.output.bias[list(FORBIDDEN)] = -torch.inf  # what may not be written is left out before the softmax too
        model.output.bias[END] += 2
    return model


def make_sources(count, seed=1):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 12, (count,), generator=generator).tolist()
    return [torch.randint(4, SOURCE.vocab_size, (n,), generator=generator).tolist() for n in lengths]


def write(model, sources, options):
    with torch.no_grad():
        memory = model.encode(*pad_rows(sources))
    return generate(model, memory, torch.full((len(sources), 1), START), options).hypotheses


def exported(model, folder, quantization="float32", target=TARGET):
    positions = write_model(model, SOURCE, target, folder, quantization, 64)
    return CTranslate2Writer(folder, SOURCE, target, positions)


def outputs(groups):
    return [[(h.tokens, h.finished) for h in group] for group in groups]


# --- the model


@pytest.mark.parametrize(
    ("norm", "positions", "tied"), [("pre", "sinusoidal", True), ("post", "learned", False), ("pre", "learned", False)]
)
def test_both_engines_write_the_same(tmp_path, norm, positions, tied):
    model = build(norm=norm, positions=positions, max_length=40, tied_output=tied)
    writer = exported(model, tmp_path)
    sources = make_sources(30)
    greedy = SearchOptions(END, 14, forbidden=FORBIDDEN)
    for options in (greedy, dataclasses.replace(greedy, min_length=5)):
        ours, theirs = write(model, sources, options), writer.write(sources, options)
        assert outputs(theirs) == outputs(ours)
        assert len({h.tokens for (h,) in ours}) > 4  # no accident of a model that says one thing
        for (mine,), (its,) in zip(ours, theirs, strict=True):
            assert its.score == pytest.approx(mine.score, abs=1e-4)
            assert its.log_probs == pytest.approx(mine.log_probs, abs=1e-4)
    one_by_one = [writer.write([source], greedy)[0] for source in sources]
    assert outputs(one_by_one) == outputs(writer.write(sources, greedy))
    beam = dataclasses.replace(greedy, beam_size=5, num_best=3, length_penalty=0.5)
    same = [
        a == b for a, b in zip(outputs(write(model, sources, beam)), outputs(writer.write(sources, beam)), strict=True)
    ]
    assert sum(same) > 5


FIELDS = {
    "unequal": {"num_layers": 1, "decoder_layers": 3, "decoder_heads": 2, "decoder_d_ff": 12},
    "gelu": {"activation": "gelu", "scaled_embeddings": False},
    "tanh": {"activation": "gelu_tanh", "norm": "pre"},
    "silu": {"activation": "silu", "norm_eps": 0.01},
    "normalized": {"normalized_embeddings": True, "norm": "pre"},
}


@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS)
def test_further_fields_are_expressed(tmp_path, fields):
    model = build(**fields)
    writer = exported(model, tmp_path)
    options = SearchOptions(END, 20, forbidden=FORBIDDEN)
    assert outputs(write(model, make_sources(8), options)) == outputs(writer.write(make_sources(8), options))


def test_one_table_for_both_sides(tmp_path):
    both = {"source_vocab_size": SOURCE.vocab_size, "target_vocab_size": SOURCE.vocab_size, "shared_embeddings": True}
    model = build(**both)
    writer = exported(model, tmp_path, target=SOURCE)
    options = SearchOptions(END, 10, forbidden=FORBIDDEN)
    assert outputs(writer.write(make_sources(10), options)) == outputs(write(model, make_sources(10), options))
    assert (tmp_path / "shared_vocabulary.json").is_file()


def test_what_does_not_fit_the_positions_is_refused(tmp_path):
    model = build(positions="learned", max_length=9)
    with torch.no_grad():
        model.output.bias[END] = -50.0  # never ends
    writer = exported(model, tmp_path)
    with pytest.raises(ConfigError, match=r"a text of 10 tokens does not fit the 9 positions .*; shorten it"):
        writer.write([[5] * 10], SearchOptions(END, 5))
    with pytest.raises(ConfigError, match=r"an output does not fit the 9 positions .*; give max_length 8"):
        writer.write([[5] * 9], SearchOptions(END, 12))
    assert len(writer.write([[5] * 9], SearchOptions(END, 8))[0][0].tokens) == 8


# --- a run

SETTINGS = {
    "task": "translation",
    "data": {"name": "copy", "length": [2, 6], "train": 400, "valid": 20, "test": 5},
    "model": {"name": "transformer", "d_model": 16, "num_heads": 2, "num_layers": 1, "d_ff": 32, "norm": "pre"},
    "training": {"steps": 60, "batch_tokens": 400, "threads": 1, "device": "cpu", "learning_rate": 0.01},
    "generation": {"max_length": 9},
    "evaluation": {"bootstrap": 5},
}
TEXTS = ["12", "345", "", "6 7", "x9"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    path = folder / "copy.yaml"
    path.write_text(yaml.safe_dump(SETTINGS))
    run = heed.train(path, out=folder / "run", quiet=True)
    return run, run.export(), run.export("ctranslate2", "int8")


def copied(run, tmp_path):
    return heed.load(shutil.copytree(run.folder, tmp_path / "run"))


def test_an_export_says_how_it_did_and_is_complete(trained):
    run, float32, int8 = trained
    assert float32.folder == run.folder / "export" / "ctranslate2-float32" and float32.engine == "ctranslate2"
    assert int8.engine == "ctranslate2-int8" and int8.size < float32.size
    assert float32.check.greedy == 0 and float32.check.log_prob < 1e-3
    assert re.search("16 validation sentences: 0 outputs differ; log-prob", str(float32))
    assert {p.name for p in float32.folder.iterdir()} >= {"model.bin", "tokenizer.source.json", "export.json"}
    told = json.loads((float32.folder / "export.json").read_text())
    assert told["check"]["sentences"] == 16 and told["quantization"] == "float32"
    state = heed.check_run(run.folder)
    assert state.whole and state.files["export/ctranslate2-int8/model.bin"] == "ok"


def test_predictions_are_the_runs_own(trained, capsys):
    run, *_ = trained
    ours, theirs = run.predict(TEXTS), run.predict(TEXTS, engine="ctranslate2")
    assert [p.ids for p in theirs] == [p.ids for p in ours] and theirs[2].text == ""
    for mine, its in zip(ours, theirs, strict=True):
        assert (its.text, its.tokens, its.finished) == (mine.text, mine.tokens, mine.finished)
        assert its.token_probs == pytest.approx(mine.token_probs, abs=1e-4)
        assert its.score == pytest.approx(mine.score, abs=1e-4)
    lines = [call(capsys, "predict", run.folder, *TEXTS, "--engine", name)[1] for name in ("torch", "ctranslate2")]
    assert lines[0] == lines[1] and lines[0].count("\n") == len(TEXTS)
    assert len(run.candidates(["123"], 4, engine="ctranslate2-int8", beam_size=5)[0]) == 4
    shown = run.candidates(["123"], 3, engine="ctranslate2", length_penalty=0.0)[0]
    assert [c.score for c in shown] == sorted((c.log_prob for c in shown), reverse=True)


def test_links_come_from_the_runs_own_attention(trained, capsys):
    run, *_ = trained
    commands = [("predict", run.folder, "123", "--align", "--engine", engine) for engine in ("torch", "ctranslate2")]
    (code, ours, _), (_, theirs, _) = (call(capsys, *words) for words in commands)
    assert code == 0 and re.search(r"\t\d-0", ours) and theirs == ours


def test_questions_on_a_terminal_go_to_the_engine_too(trained, capsys, monkeypatch):
    run, *_ = trained
    monkeypatch.setattr("heed.cli.predict.interactive", lambda: True)
    answers = iter(["12", ""])
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    asked = []
    written = CTranslate2Writer.write
    monkeypatch.setattr(CTranslate2Writer, "write", lambda *words: asked.append(words) or written(*words))
    code, out, _ = call(capsys, "predict", run.folder, "--engine", "ctranslate2")
    assert code == 0 and f"{run.predict('12').text}    (log-probability" in out and len(asked) == 1


def test_a_wrong_model_is_caught_and_not_kept(trained, tmp_path, monkeypatch):
    run = copied(trained[0], tmp_path)
    before = sorted(p.name for p in (run.folder / "export" / "ctranslate2-float32").iterdir())

    def altered(model, *rest):
        with torch.no_grad():
            model.decoder[0].feed_forward.inner.weight[0, 0] += 0.5
            size = write_model(model, *rest)
            model.decoder[0].feed_forward.inner.weight[0, 0] -= 0.5
        return size

    monkeypatch.setattr(exporting, "write_model", altered)
    with pytest.raises(RunError, match=r"the exported model differs .*; the export was"):
        run.export()
    assert sorted(p.name for p in (run.folder / "export" / "ctranslate2-float32").iterdir()) == before
    assert not list((run.folder / "export").glob(".*"))


def test_another_output_is_caught(trained, tmp_path, monkeypatch):
    run = copied(trained[0], tmp_path)
    written = CTranslate2Writer.write

    def others(self, sources, options):
        return written(self, sources, dataclasses.replace(options, min_length=6))

    monkeypatch.setattr(CTranslate2Writer, "write", others)
    with pytest.raises(RunError, match=r"exported model differs by .*: '.*' instead of '.*' for"):
        run.export()


def test_a_weak_model_is_exported(tmp_path):
    """Hardly trained, and with scores that favour short outputs, which CTranslate2 drops on the way."""
    weak = copy.deepcopy(SETTINGS)
    weak["data"]["length"], weak["training"]["steps"] = [2, 12], 10
    weak["generation"] = {"max_length": 30, "length_penalty": 0.0}
    (tmp_path / "weak.yaml").write_text(yaml.safe_dump(weak))
    run = heed.train(tmp_path / "weak.yaml", out=tmp_path / "run", quiet=True)
    done = run.export()
    assert (done.folder / "model.bin").is_file() and done.check.log_prob < 1e-3
    ours, theirs = (run.predict("12", engine=engine, beam_size=1).ids for engine in ("torch", "ctranslate2"))
    assert ours == theirs


def test_a_run_without_its_data_is_checked_on_random_tokens(trained, tmp_path, monkeypatch):
    run = copied(trained[0], tmp_path)

    def gone(config, *given):
        raise ConfigError("no file")

    monkeypatch.setattr("heed.tasks.inputs.pairs.open_pairs", gone)
    assert "sentences of random tokens (the run's data cannot be read)" in str(heed.export(run))


def test_an_export_computes_the_outputs_that_are_the_same(trained, tmp_path, capsys, monkeypatch):
    run = copied(trained[0], tmp_path)
    note = "a few texts at a time are written by the run's export (ctranslate2); --engine torch does without it\n"
    command = "predict", run.folder, *TEXTS

    def outputs(*flags):
        code, out, err = call(capsys, *command, *flags)
        assert code == 0
        return out, err

    plain = outputs("--beam", 1, "--json", "--engine", "torch")
    exported = outputs("--beam", 1, "--json")
    assert note not in plain[1] and note in exported[1]
    for ours, theirs in zip(*(map(json.loads, text.splitlines()) for text, _ in (plain, exported)), strict=True):
        assert ours.keys() == theirs.keys() and ours["text"] == theirs["text"]
        assert ours["log_prob"] == pytest.approx(theirs["log_prob"], abs=1e-4)
    assert note not in outputs("--beam", 5)[1]  # heed's beam goes on longer
    assert outputs("--beam", 1, "--length", 90_000)[0]  # by torch: the export has no positions for it
    assert note not in outputs("--sample")[1] and note not in outputs("--prefix", "1", "--beam", 1)[1]
    with monkeypatch.context() as patch:
        patch.setattr(exporting.importlib.util, "find_spec", lambda name: None)
        assert outputs("--beam", 1, "--json") == plain
    stale = run.folder / "export" / "ctranslate2-float32" / "model.bin"
    stale.write_bytes(b"?")
    out, err = outputs("--beam", 1, "--json")
    assert out == plain[0]
    assert re.search(r"model\.bin is altered.*; until then torch computes the outputs", err)
    assert heed.ensemble([run, run]).writer("auto") is None


def test_an_export_is_opened_only_for_searches_that_it_does_alike_and_faster(trained, monkeypatch):
    run = heed.load(trained[0].folder)
    opened = []
    monkeypatch.setattr(type(run), "writer", lambda run, engine: opened.append(engine))
    for count, options in (9, {"beam_size": 1}), (1, {"beam_size": 5}), (1, {"sampling": SamplingOptions()}):
        run.predict(["12"] * count, engine="auto", **options)
    assert not opened
    same = {"beam_size": 4, "renormalize": True, "early_stopping": "full"}
    assert _ends_alike(SearchOptions(END, 8, **same)) and not _ends_alike(SearchOptions(END, 8, beam_size=4))
    run.predict(["12"] * 8, engine="auto", beam_size=1)
    assert opened == ["auto"]


# --- refusals


def test_what_was_exported_must_be_whole_and_of_these_weights(trained, tmp_path):
    run = copied(trained[0], tmp_path)
    path = run.folder / "export" / "ctranslate2-int8" / "model.bin"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(RunError, match=r"model.bin is altered: .*export .* --to ctranslate2 --quantization int8$"):
        run.predict("12", engine="ctranslate2-int8")
    assert heed.check_run(run.folder).files["export/ctranslate2-int8/model.bin"].startswith("altered")
    (run.folder / "model.safetensors").write_bytes(b"others")
    with pytest.raises(RunError, match=r"have changed since it was exported; export the run again with: heed exp"):
        run.predict("12", engine="ctranslate2")


def test_what_the_engine_cannot_do_is_refused(trained, capsys):
    run, *_ = trained
    with pytest.raises(ConfigError, match=r"engine 'ctranslate2' cannot draw outputs \(sampling\); use engine 'torch'"):
        run.predict("12", engine="ctranslate2", sampling=SamplingOptions())
    with pytest.raises(ConfigError, match=r"cannot continue a prefix \('1'\)"):
        run.predict("12", engine="ctranslate2", prefix="1")
    with pytest.raises(ConfigError, match=r"unknown engine 'ctranslate'; did you mean 'ctranslate2'"):
        run.predict("12", engine="ctranslate")
    with pytest.raises(ConfigError, match=r"quantization is 'int9'; did you mean 'int8'"):
        run.export(quantization="int9")
    with pytest.raises(ConfigError, match=r"cannot export to 'onnx'; valid: ctranslate2"):
        run.export("onnx")
    both = heed.ensemble([run, run])
    with pytest.raises(ConfigError, match=r"engine 'ctranslate2' runs one model"):
        both.predict("12", engine="ctranslate2")
    with pytest.raises(ConfigError, match="`export` is not available for an ensemble"):
        both.export()
    code, _, err = call(capsys, "predict", run.folder, "12", "--engine", "ctranslate2", "--sample")
    assert code == 2 and err.startswith("heed: engine 'ctranslate2' cannot draw") and err.count("\n") == 1


def test_other_models_and_tasks_are_refused(tmp_path, capsys):
    settings = {**SETTINGS, "model": {"name": "bahdanau", "d_hidden": 8, "d_embedding": 8, "d_attention": 8}}
    settings["training"] = {**SETTINGS["training"], "steps": 1}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(settings))
    run = heed.train(tmp_path / "a.yaml", out=tmp_path / "run", quiet=True)
    code, _, err = call(capsys, "export", run.folder, "--to", "ctranslate2")
    expected = "heed: model 'bahdanau' cannot be exported: CTranslate2 supports only"
    assert code == 2 and err.startswith(expected) and err.count("\n") == 1
    with pytest.raises(RunError, match=r"was not exported for ctranslate2; export it with: heed export .*/run --to c"):
        run.predict("12", engine="ctranslate2")
    (tmp_path / "t.tsv").write_text("text\tlabel\na film\tgood\nno film\tbad\n" * 20)
    options = {"steps": 1, "model": "bag", "quiet": True, "settings": {"training.device": "cpu"}}
    labels = heed.train("classification", train=tmp_path / "t.tsv", out=tmp_path / "labels", **options)
    with pytest.raises(ConfigError, match="`export` is not available for classification; it is for summarisation"):
        labels.export()
    code, _, err = call(capsys, "predict", labels.folder, "a", "--engine", "ctranslate2")
    expected = "heed: --engine does not apply to a run of classification; it is for summarisation, translation\n"
    assert code == 2 and err == expected


def test_a_missing_library_is_one_line(trained, monkeypatch, tmp_path):
    run = copied(trained[0], tmp_path)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    command = r"install it: pip install -e '.\[export\]'"
    with pytest.raises(ConfigError, match=command):
        run.export()
    with pytest.raises(ConfigError, match=command):
        run.predict("12", engine="ctranslate2")


# --- the page


def test_the_commands_of_the_page(trained, tmp_path, capsys, monkeypatch):
    copied(trained[0], tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.en").write_text("123\n45\n")
    commands = re.findall(r"^heed .*", PAGE, flags=re.MULTILINE)
    assert {shlex.split(line)[1] for line in commands} == {"export", "predict", "check"}
    for line in commands:
        code, _, err = call(capsys, *shlex.split(line, comments=True)[1:])
        assert code == 0, (line, err)


def test_the_python_of_the_page(trained, tmp_path, capsys, monkeypatch):
    copied(trained[0], tmp_path)
    monkeypatch.chdir(tmp_path)
    within, alone = blocks(PAGE, "python")
    exec(within, {})
    expected = capsys.readouterr().out.splitlines()[-1]
    exec(alone, {})
    assert capsys.readouterr().out == expected + "\n"

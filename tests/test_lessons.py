"""Lessons: every stated value of the two lectures, remarks on their pages, matrices of one's own, and refusals."""

import json
import math
import re
from functools import partial

import numpy as np
import pytest
import torch
import yaml

import commands
import reference
from heed.errors import ConfigError
from heed.lessons import run_lesson
from heed.lessons.lesson import TRAINED, _paths
from heed.lessons.schema import LessonFile, Step, Values
from heed.show.number_tables import table_scene
from heed.show.scene import Label
from pages import blocks, page
from test_draw import Page

DOCS = page("docs/lessons.md")
FOUR = ["The", "animal", "street", "."]


@pytest.fixture(scope="module")
def lion():
    return run_lesson("lion")


@pytest.fixture(scope="module")
def animal():
    return run_lesson("animal")


@pytest.fixture
def own(tmp_path):
    """Write a file of one's own and run it; gives the lesson."""

    def run(row=None, **fields):
        path = tmp_path / "my.yaml"
        path.write_text(yaml.safe_dump(fields), encoding="utf-8")
        return run_lesson(path, row=row)

    return run


def stated(name):
    return yaml.safe_load(_paths()[name].read_text(encoding="utf-8"))


def by_loops(x, file, divisor, mask=None):
    """The lesson's attention by the slow reference: one vector pair at a time, nothing of heed."""
    x = np.asarray(x.tolist() if isinstance(x, torch.Tensor) else x, dtype=float)
    q, k, v = (
        x if f"w_{n}" not in file else x @ np.array(file[f"w_{n}"], dtype=float) for n in ("query", "key", "value")
    )
    return reference.attend(q, k, v, mask, lambda a, b: reference.dot(a, b) / divisor)


# The two lectures


@pytest.mark.parametrize(("name", "divisor"), [("lion", math.sqrt(3)), ("animal", 2.0)])
def test_weights_and_context_agree_with_the_slow_reference(name, divisor):
    file, lesson = stated(name), run_lesson(name)
    x = file.get("input") or list(file["embeddings"].values())
    for stage, context_and_weights in {
        "all-rows": by_loops(x, file, divisor),
        "unlearned": by_loops(x, {}, 1.0),
    }.items():
        context, weights = context_and_weights
        np.testing.assert_allclose(lesson[stage]["context"].numpy(), context, atol=1e-12)
        np.testing.assert_allclose(lesson[stage]["weights"].numpy(), weights, atol=1e-12)


def test_every_number_of_the_lion_is_right_to_three_decimals(lion):
    # 33 queries, 33 keys, 22 values, 22 of the context, 33 of the uniform rows, 8 other weights, 3 scales
    assert len(lion.checks) == 33 + 33 + 22 + 22 + 33 + 8 + 3
    assert lion.mismatches == ()
    names = [check.name for check in lion.checks]
    assert len(set(names)) == len(names)
    assert "expected weights[hungry][lion]" in names


def test_a_wrong_number_is_reported_by_name(own):
    file = stated("lion")
    file["expected"]["context"][6][1] = 3.501
    lesson = own(**file)
    assert [(c.name, c.printed, c.tolerated) for c in lesson.mismatches] == [
        ("expected context[zebra][1]", 3.501, False)
    ]
    assert "DIFFERS: off by more than 0.0005\n" in lesson.text()
    assert "154 values: 1 off by more than 0.0005, 153 equal to three decimals\n" in lesson.text()


def test_the_lion_under_the_three_scales(lion):
    scales = lion["scales"]
    assert [round(float(w), 3) for w in scales["weights"][:, 2]] == [0.981, 0.883, 0.622, 0.598]
    assert scales.tables[0].rows == ("no scale", "sqrt(3) query width", "sqrt(10) model width", "sqrt(11) rows")
    assert "sqrt(10) model width: over all rows, weights differ by up to 0.261" in scales.lines[1]  # "by up to .26-.29"
    assert "sqrt(11) rows: over all rows, weights differ by up to 0.285" in scales.lines[2]


def test_the_moments_of_the_lion_are_named(lion):
    found = {(moment.kind, moment.rows) for moment in lion.moments}
    assert found == {
        ("zero query", (0, 4, 8)),
        ("one-hot row", (2, 10)),
        ("one-hot row", (3,)),  # attacked finds itself
        ("tie", (6,)),
        ("equal rows", (0, 4, 8)),
        ("equal rows", (1, 5, 9)),
    }
    tie = next(moment for moment in lion.moments if moment.kind == "tie")
    assert tie.text == "zebra: attacked, zebra tie with 0.500 each"


def test_remarks_on_the_lion_state_its_numbers(lion):
    size, scales, place, adjectives = lion["remarks"].lines
    numbers, tokens = lion["all-rows"], list(lion.tokens)
    assert "11 x 11" in size and "The query's width is right" in scales
    for word, remark in {"in": place, "hungry": adjectives, "slow": adjectives, "tall": adjectives}.items():
        row = tokens.index(word)
        query, weights = numbers["query"][row], numbers["weights"][row]
        assert int(weights.argmax()) == tokens.index("lion")
        assert f"({', '.join(f'{value:g}' for value in query.tolist())})" in remark and word in remark
        assert f"{float(weights.max()):.3f}" in remark


def test_every_printed_number_of_the_animal_is_within_the_tolerance(animal):
    checks = animal["checks"].checks
    file = stated("animal")
    printed = [c for c in checks if c.name.startswith("printed")]
    assert len(printed) == 3 * 3 * 4 + 1
    assert all(c.tolerance == file["tolerance"] == 0.05 and c.tolerated for c in printed)
    worst = {
        n: max(c.difference for c in printed if c.name.startswith(f"printed {n}")) for n in ("query", "key", "value")
    }
    assert {name: round(value, 3) for name, value in worst.items()} == {"query": 0.003, "key": 0.022, "value": 0.030}


def test_the_mismatches_of_the_animal_are_named(animal):
    differing = {c.name: c for c in animal.mismatches}
    assert all(c.tolerated for c in differing.values())
    from_inputs = differing["printed scores[The][The]"]
    assert (from_inputs.printed, round(from_inputs.computed, 3), from_inputs.tolerated) == (16.676, 16.714, True)
    # what was computed elsewhere from the same numbers agrees to three decimals
    exact = [c for c in animal.checks if c.name.startswith("unlearned")]
    assert len(exact) == 6 + 4
    assert all(c.equal for c in exact)
    # the text names every one
    for check in differing.values():
        assert check.name in animal.text()


def test_remarks_on_the_animal_state_what_its_printed_numbers_give(animal):
    file, (context, misprint, _) = stated("animal"), animal["remarks"].lines
    own, printed = np.array(file["embeddings"]["."]), np.array([-0.013, 0.095, 0.050, 0.043])
    cosine = printed @ own / np.linalg.norm(printed) / np.linalg.norm(own)
    assert "(-0.013, 0.095, 0.050, 0.043)" in context
    assert f"{printed @ own / (own @ own):.4f} times its own embedding (cosine {cosine:.5f})" in context
    wrong = [own[0], 0.1368, *own[2:]] @ np.array(file["w_query"])
    for query in (wrong, file["printed"]["query"]["."]):
        assert f"({', '.join(f'{value:.3f}' for value in query)})" in misprint
    # It is over twelve words: no sum over the four that have numbers is set against it.
    assert not [check.name for check in animal.checks if check.name.startswith("printed context")]


def test_the_printed_score_follows_from_the_printed_vectors_as_far_as_rounding_allows(animal):
    q, k = (np.array(stated("animal")["printed"][name]["The"]) for name in ("query", "key"))
    gap = 16.676 - q @ k
    allowed = 0.0005 * (abs(q).sum() + abs(k).sum()) + 4 * 0.0005**2 + 0.0005  # of each number, and of the score
    assert 0 < gap < allowed
    (note,) = animal["checks"].lines
    assert f"{q @ k:.3f}" in note and f"{gap:.4f} off" in note and f"allows {allowed:.4f}" in note
    assert "16.714" in note and "so this does follow" in note


def test_the_animal_says_what_the_page_leaves_open(animal):
    file = stated("animal")
    left_out = [token for token in file["tokens"] if token not in file["embeddings"]]
    assert len(left_out) == 8 and f"({', '.join(left_out)})" in animal["input"].lines[0]
    assert "this word is street is inferred" in animal["input"].lines[1]
    _, claim = animal["unlearned"].lines
    assert "1.000 for The, animal and street" in claim and '0.724 for ".", which gives 0.490 of it to street' in claim
    assert round(float(animal["unlearned"]["weights"][3, FOUR.index("street")]), 3) == 0.490
    assert "do not divide their scores at this point" in animal["one-word"].lines[0]


def test_the_animal_grows_word_by_word(animal):
    one, two, every = animal["one-word"], animal["two-words"], animal["all-rows"]
    assert one["weights"].tolist() == [[1.0]]
    torch.testing.assert_close(two["scores"], every["scores"][:2, :2])
    torch.testing.assert_close(two["scaled"] * 2, two["scores"])


@pytest.mark.parametrize("width", [2, 6])
def test_other_widths_are_ours_and_repeat(animal, width):
    stage = animal[f"width-{width}"]
    assert stage["W_Q"].shape == (4, width)
    assert stage["context"].shape == (4, width)
    assert "OURS, made from seed 1" in stage.prose[1]
    again = run_lesson("animal")[f"width-{width}"]
    assert torch.equal(stage["W_V"], again["W_V"])
    weights = {f"w_{n}": stage[f"W_{s}"].tolist() for n, s in zip(("query", "key", "value"), "QKV", strict=True)}
    context, _ = by_loops(animal["input"]["x"], weights, math.sqrt(width))
    np.testing.assert_allclose(stage["context"].numpy(), context, atol=1e-12)


# Stages


def test_stages_come_in_the_order_of_the_notes(lion, animal):
    assert [stage.name for stage in lion.stages] == [
        *("input", "projections", "one-row", "two-rows", "all-rows", "unlearned", "scales", "checks"),
        "remarks",
    ]
    assert [stage.name for stage in animal.stages] == [
        *("input", "unlearned", "projections", "one-word", "two-words", "all-rows", "scales", "width-2", "width-6"),
        *("checks", "remarks"),
    ]
    assert all(len(stage.prose) == 2 for stage in (*lion.stages, *animal.stages))


def test_notes_stand_below_their_stage(own):
    fields = {"tokens": ["a", "b"], "input": [[1, 0], [0, 1]]}
    lesson = own(**fields, notes={"all-rows": ["one line", "another"]})
    assert lesson["all-rows"].lines == ("one line", "another")
    with pytest.raises(ConfigError, match=re.escape("no stage 'al-rows'; did you mean 'all-rows'?")):
        lesson["al-rows"]
    with pytest.raises(ConfigError, match=re.escape("my.yaml: notes: no stage 'al-rows'; did you mean 'all-rows'?")):
        own(**fields, notes={"al-rows": ["x"]})


def test_one_row_is_that_row_of_all_rows():
    lesson = run_lesson("lion", row="in")
    for name in ("scores", "weights", "context"):
        torch.testing.assert_close(lesson["one-row"][name][0], lesson["all-rows"][name][7])
    assert "in against every key" in lesson.only(["one-row"]).text()


def test_a_row_may_be_a_number_or_a_token():
    assert run_lesson("lion", row="8")["one-row"].title == run_lesson("lion", row=8)["one-row"].title == "Row: the (8)"
    with pytest.raises(ConfigError, match=re.escape("'the' occurs at 4 and 8; give one of these numbers")):
        run_lesson("lion", row="the")
    with pytest.raises(ConfigError, match=re.escape("no token 'zeebra'; did you mean 'zebra'?")):
        run_lesson("lion", row="zeebra")
    with pytest.raises(ConfigError, match=re.escape("there is no number 11; numbers go from 0 to 10")):
        run_lesson("lion", row=11)


# Matrices of one's own


def test_tokens_and_input_are_enough(own):
    lesson = own(tokens=["a", "b"], input=[[0, 0], [3, 4]])
    e = math.exp(25 / math.sqrt(2))
    expected = torch.tensor([[0.5, 0.5], [1 / (1 + e), e / (1 + e)]], dtype=torch.float64)
    torch.testing.assert_close(lesson["all-rows"]["weights"], expected)
    assert lesson.moments[0].kind == "zero query"
    names = [stage.name for stage in lesson.stages]
    assert "projections" not in names and names[:2] == ["input", "unlearned"]


def test_causal_and_mask_together(own):
    fields = {"tokens": ["a", "b", "c"], "input": [[1, 0], [0, 1], [1, 1]], "causal": True}
    mask = np.tril(np.ones((3, 3), dtype=bool))
    context, weights = by_loops(fields["input"], {}, math.sqrt(2), mask)
    lesson = own(**fields)
    np.testing.assert_allclose(lesson["all-rows"]["weights"].numpy(), weights, atol=1e-12)
    np.testing.assert_allclose(lesson["all-rows"]["context"].numpy(), context, atol=1e-12)
    assert lesson.moments[0].kind == "one key"
    assert "b 0.330 0.670     /" in lesson.only(["all-rows"]).text()
    closed = own(**fields, mask=[[0, 1, 1], [1, 1, 1], [0, 1, 1]])["all-rows"]["weights"]
    assert closed[0].tolist() == [0, 0, 0]  # causal leaves only itself, the mask takes that away
    assert closed[2, 0] == 0


@pytest.mark.parametrize(
    ("scale", "divisor"),
    [
        ("none", 1),
        ("query_width", math.sqrt(3)),
        ("model_width", math.sqrt(2)),
        ("rows", 2),
        ("sqrt(7)", 7**0.5),
        (2.5, 2.5),
    ],
)
def test_each_scale_divides_by_what_it_says(own, scale, divisor):
    w = [[1, 2, 3], [0, 1, 1]]
    lesson = own(tokens=list("abcd"), input=[[1, 0], [0, 1], [1, 1], [2, 1]], w_query=w, w_key=w, scale=scale)
    stage = lesson["all-rows"]
    torch.testing.assert_close(stage["scaled"] * divisor, stage["scores"])
    _, weights = by_loops(lesson["input"]["x"], {"w_query": w, "w_key": w}, divisor)
    np.testing.assert_allclose(stage["weights"].numpy(), weights, atol=1e-12)
    assert lesson["all-rows"]["context"].shape == (4, 2)  # no w_value: v = x


def test_values_may_be_stated_as_lists_names_and_cells(own):
    fields = {"tokens": ["a", "b"], "input": [[1, 0], [0, 1]], "scale": "none"}
    w = math.e / (1 + math.e)  # 0.731
    lesson = own(
        **fields,
        expected={"weights": {"b": {"a": 0.269}, 0: {"b": 0.269}}, "context": [[0.731, None]]},
        printed={"scores": [[1.01, 0], [0, 1]]},
        tolerance=0.02,
    )
    assert {c.name: c.printed for c in lesson.checks} == {
        "expected weights[b][a]": 0.269,
        "expected weights[a][b]": 0.269,
        "expected context[a][0]": 0.731,
        **{f"printed scores[{i}][{j}]": [[1.01, 0], [0, 1]]["ab".index(i)]["ab".index(j)] for i in "ab" for j in "ab"},
    }
    assert [(c.name, c.tolerated) for c in lesson.mismatches] == [("printed scores[a][a]", True)]
    assert float(lesson["all-rows"]["weights"][0, 0]) == pytest.approx(w)


def test_embeddings_leave_out_tokens_without_one_and_serve_repeated_ones(own):
    lesson = own(tokens=["a", "b", "a", "c"], embeddings={"c": [1, 2], "a": [3, 4]})
    assert lesson.tokens == ("a", "a", "c")
    assert lesson["input"]["x"].tolist() == [[3, 4], [3, 4], [1, 2]]


GOOD = {"tokens": ["a", "b"], "input": [[1, 0], [0, 1]]}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"input": [[1, 0], [0]]}, "input row 1 (b) has 1 number, expected 2, as many as row 0"),
        ({"input": [[1, 0]]}, "input has 1 row, expected 2, one per token"),
        ({"w_qurey": [[1]]}, "unknown field 'w_qurey' for LessonFile; did you mean 'w_query'?"),
        ({"w_query": [[1]]}, "w_query has 1 row, expected 2: input is 2 x 2"),
        ({"w_query": [[1], [2]]}, "queries are 1 wide and keys 2"),
        ({"tokens": ["a", True]}, "tokens 1 is True, not text; YAML does not read bare numbers, yes, no, on and off"),
        ({"input": [[1, math.nan], [0, 1]]}, "input.0.1 is nan, but must be a finite number"),
        ({"input": None}, "give either 'input' (a row per token) or 'embeddings'"),
        ({"input": None, "embeddings": {"A": [1]}}, "embeddings: no token 'A'"),
        ({"input": [[], []]}, "input.0 is [], but must have at least 1 item"),
        ({"scale": "sqr(3)"}, "scale is 'sqr(3)': expected query_width, model_width, rows, none, sqrt(N) or a number"),
        ({"mask": [[1], [1, 1]]}, "mask row 0 (a) has 1 number, expected 2, one per token"),
        ({"expected": {"wieghts": [[1]]}}, "unknown field 'expected.wieghts'; did you mean 'weights'?"),
        ({"expected": {"weights": [[1]]}}, "expected.weights row 0 has 1 number, expected 2"),
        ({"expected": {"weights": {"c": [1, 2]}}}, "expected.weights: no token 'c'; valid: a, b"),
        ({"other_scales": {"sqrt3": {"a": {"b": 0.3}}}}, "expected query_width"),
        ({"other_scales": {"rows": {"a": {"c": 0.3}}}}, "other_scales.rows.weights row a: no token 'c'"),
        ({"input": [[1e300, 0], [0, 1e300]]}, "a score or context overflows; make the input or the weights smaller"),
        ({"steps": [{"rows": ["q"]}]}, "steps 0.rows: no token 'q'"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(own, fields, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as raised:
        own(**{k: v for k, v in {**GOOD, **fields}.items() if v is not None})
    assert "my.yaml: " in str(raised.value)


# Drawing


@pytest.mark.parametrize("name", ["lion", "animal"])
def test_the_page_is_whole_and_holds_every_number(name):
    lesson = run_lesson(name)
    page = Page(lesson.html())
    assert [attrs["id"] for tag, attrs in page.elements if tag == "section"] == [stage.name for stage in lesson.stages]
    cells = {text for tag, text in page.text if tag == "td"}
    for stage in lesson.stages:
        for table in stage.tables:
            assert {f"{round(v, 3) + 0.0:.3f}" for v in table.values.flatten().tolist()} <= cells
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in page.elements}  # nothing to fetch or to run
    for check in lesson.mismatches:
        assert check.name in lesson.html()
    assert lesson.html() == run_lesson(name).html()


def test_labels_are_escaped_and_nothing_is_injected(own):
    lesson = own(title="<script>x</script>", tokens=["<i>", "\x1b[31m"], input=[[1, 0], [0, 1]])
    assert "<script>" not in lesson.html()
    assert ("i", {}) not in Page(lesson.html()).elements
    assert "<bdi>&lt;i&gt;</bdi>" in lesson.html()
    assert "\x1b" not in lesson.text()


def test_tokens_that_have_no_fixed_width_are_numbered(own):
    text = own(tokens=["שלום", "世界"], input=[[1, 0], [0, 1]]).only(["input"]).text()
    assert "rows are numbered:" in text
    assert "1 = 世界" in text


def test_colour_only_where_it_is_asked_for(lion):
    assert "\x1b" not in lion.text()
    coloured = lion.text(color=True)
    assert "\x1b[48;2;" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == lion.text()


def test_json_holds_every_stage_and_check(animal):
    content = json.loads(animal.json())
    assert content["format"] == "heed-lesson-1"
    stages = {stage["name"]: stage for stage in content["stages"]}
    np.testing.assert_allclose(
        stages["all-rows"]["numbers"]["weights"], animal["all-rows"]["weights"].numpy(), atol=1e-6
    )
    score = next(c for c in stages["checks"]["checks"] if c["name"] == "printed scores[The][The]")
    assert (score["printed"], score["tolerated"], score["equal"]) == (16.676, True, False)


# The command


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """Run a command in an empty folder; gives its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return partial(commands.call, capsys)


def test_the_command_lists_works_out_and_writes(call, tmp_path, lion):
    code, out, _ = call("lesson")
    assert code == 0
    assert {"animal", "lion", *TRAINED} <= {line.split("  ")[0].strip() for line in out.splitlines()}
    assert call("lesson", "lion")[:2] == (0, lion.text() + "\n")
    code, out, _ = call("lesson", "lion", "--row", "zebra", "--stage", "one-row")
    assert (code, out.count("-- ")) == (0, 1)
    assert "weight  0.000  0.000  0.000  0.500" in out
    assert call("lesson", "lion", "--out", "page.html") == (0, "", "wrote page.html\n")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == lion.html()
    assert call("lesson", "lion", "--as", "json")[1] == lion.json()
    words = ["lesson", "lion", "--stage", "scales", "--stage", "all-rows", "--slides", "--out", "b.svg"]
    assert call(*words)[0] == 0
    assert sorted(file.name for file in tmp_path.glob("b*")) == ["b-1-scales.svg", "b-2-all-rows.svg"]


@pytest.fixture
def answers(monkeypatch):
    """A person at a terminal who gives these answers; gives the prompts."""
    monkeypatch.setattr("heed.cli.show.interactive", lambda: True)
    prompts = []

    def sit_down(*said):
        given = iter(said)

        def answer(prompt):
            prompts.append(prompt)
            try:
                return next(given)
            except StopIteration:
                raise EOFError from None

        monkeypatch.setattr("builtins.input", answer)
        return prompts

    return sit_down


def test_a_person_gets_one_stage_at_a_time(call, answers, lion):
    names = [stage.name for stage in lion.stages]
    prompts = answers("", "", "q")
    code, out, _ = call("lesson", "lion")
    assert code == 0 and f"stages: {', '.join(names[:3])}" in out
    assert re.findall(r"^-- (\d+)/9 .*\[([a-z-]+)\]", out, flags=re.MULTILINE) == [
        (str(i + 1), names[i]) for i in range(3)
    ]
    assert [f"[Enter: {name};" in prompt for name, prompt in zip(names[1:4], prompts, strict=True)] == [True] * 3


def test_a_pipe_a_file_and_one_stage_are_not_paged(call, answers, lion):
    prompts = answers()
    assert call("lesson", "lion", "--stage", "checks")[1].count("-- ") == 1
    assert call("lesson", "lion", "--as", "json")[1] == lion.json()
    call("lesson", "lion", "--out", "lion.txt")
    assert not prompts


def test_the_command_refuses_in_one_line(call):
    assert call("lesson", "loin")[0::2] == (
        2,
        "heed: unknown lesson 'loin'; did you mean 'lion'? (for a lesson on your own matrices, give a .yaml file)\n",
    )
    assert "cannot tell the format of 'lion.odt'" in call("lesson", "lion", "--out", "lion.odt")[2]
    names = "animal, lion, cat, hindi, it, logan, mess, order, pizza, teddy"
    which = f"heed: name a lesson: {names}, or a .yaml file\n"
    assert call("lesson", "--row", "2")[2] == which
    assert "cannot write 'no/where.html'" in call("lesson", "lion", "--out", "no/where.html")[2]
    assert "no file 'nowhere.yaml'" in call("lesson", "nowhere.yaml")[2]
    for out in ([], ["--out", "a.json"]):
        code, _, err = call("lesson", "lion", "--slides", *out)
        assert code == 2 and "--slides writes files; end --out in .html, .svg, .png or .pdf" in err


# The documentation


def test_the_files_in_the_documentation_run_and_state_true_values(tmp_path):
    files = blocks(DOCS, "yaml")
    assert len(files) == 2
    for block in files:
        path = tmp_path / "docs.yaml"
        path.write_text(block, encoding="utf-8")
        lesson = run_lesson(path)
        assert lesson.mismatches == ()
    assert len(lesson.checks) == 5


def test_the_documentation_names_every_field_and_stage(lion, animal):
    fields = {name for kind in (LessonFile, Values, Step) for name in kind.model_fields}
    named = set(re.findall(r"[a-z_]+", DOCS))
    assert fields <= named, fields - named
    stages = {re.sub(r"width-\d", "width-2", stage.name) for stage in (*lion.stages, *animal.stages)}
    assert stages <= set(re.findall(r"`([a-z0-9-]+)`", DOCS))


# pictures and slides


def test_a_picture_has_every_number_of_the_tables_in_its_cell(lion):
    """A table's numbers, read back from where they are drawn: by rows from above, and in a row from left."""
    for stage in lion.stages:
        for table in stage.tables:
            labels = [one for one in table_scene(table).items if isinstance(one, Label)]
            rows = {}
            for one in labels:
                rows.setdefault(one.y, []).append(one)
            lines = [sorted(row, key=lambda one: one.x) for y, row in sorted(rows.items()) if y > 40]
            numbers = [[float(one.text) for one in row[1 : 1 + len(table.columns)]] for row in lines]
            np.testing.assert_allclose(numbers, table.values.numpy(), atol=0.0005 + 1e-9)
            assert [row[0].text for row in lines] == list(table.rows)


def test_a_lesson_is_one_picture_or_a_picture_for_each_stage(lion, tmp_path):
    lion.save(tmp_path / "lion.svg", theme="dark", width="170mm")
    whole = (tmp_path / "lion.svg").read_text()
    assert (
        'class="figure dark"' in whole and 'width="170mm"' in whole and whole == lion.svg(theme="dark", width="170mm")
    )
    at = [whole.index(f"{i}/9  {stage.title}") for i, stage in enumerate(lion.stages, start=1)]
    assert at == sorted(at) and "K'" not in whole and "sqrt(" not in whole and "softmax_" not in whole
    files = lion.save_slides(tmp_path / "part.png", scale=1)
    assert [file.name for file in files][4] == "part-5-all-rows.png" and len(files) == len(lion.stages)
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)
    assert lion.svg(4) in [file.read_text() for file in lion.save_slides(tmp_path / "part.svg")]
    (page,) = lion.save_slides(tmp_path / "slides.html")
    assert page.read_text() == lion.html(slides=True) != lion.html()
    Page(page.read_text())
    with pytest.raises(ConfigError, match=r"slides are \.html, \.svg, \.png or \.pdf, not"):
        lion.save_slides(tmp_path / "slides.json")


def test_slides_are_pages_of_pdf(lion, tmp_path, cairo):
    pages = lion.save_slides(tmp_path / "part.pdf")
    assert len(pages) == len(lion.stages) and pages[4].read_bytes() == lion.pdf(4)


@pytest.mark.parametrize("name", ["lion", "animal", "logan"])
def test_a_slide_is_16_by_9_and_holds_its_stage(name):
    """The letters of a stage with little to show are larger; nothing is below or beside the page."""
    lesson, widths = run_lesson(name), []
    for i in range(len(lesson.stages)):
        slide = lesson.scene(i)
        assert slide.width * 9 == pytest.approx(slide.height * 16)
        assert all(0 <= item.y <= slide.height and 0 <= item.x <= slide.width for item in slide.items
                   if isinstance(item, Label))  # fmt: skip
        widths.append(slide.width)
    assert min(widths) == 700 and max(widths) > 1000
    assert 'class="figure follows"' in lesson.html(slides=True) and 'class="figure"' in lesson.svg(0)


def test_remarks_and_notes_on_the_source_can_be_left_out(call, animal):
    code, out, _ = call("lesson", "animal", "--no-remarks")
    assert code == 0 and "The notes" not in out and "-- 10/10 Stated values" in out
    left = run_lesson("animal", remarks=False)
    assert out == left.text() + "\n"
    assert [stage.name for stage in left.stages] == [stage.name for stage in animal.stages[:-1]]
    assert left["scales"].lines == animal["scales"].lines != ()  # heed's own
    assert left.checks == animal.checks


def test_a_lesson_prints_and_displays_itself(lion):
    assert str(lion) == lion.text() and "&lt;title&gt;" in lion._repr_html_() and repr(lion).startswith("Lesson(")


def test_masked_cells_are_hatched_in_a_picture(own):
    drawn = own(tokens=["a", "b"], input=[[1, 0], [0, 1]], causal=True).only(["all-rows"]).svg()
    assert drawn.count('fill="url(#masked)"') == 3 and 'id="masked"' in drawn  # in scores, scaled scores and weights

"""What the pages say is what the code does."""

import importlib
import importlib.util
import re
import shlex
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from typer.main import get_command

from heed.cli.app import app
from heed.config import short_config_text
from heed.errors import ConfigError
from heed.tasks import capability_table, check_config, missing, options_of, task_names
from heed.tasks.run import Run
from pages import ROOT, blocks, page, prose
from test_imports import LAYERS

COMMANDS = get_command(app).commands


def test_the_configuration_page_lists_every_field_as_it_is():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert page("docs/configuration.md") == generate.page(), "run: .venv/bin/python docs/generate.py"
    assert generate.TABLES.read_text(encoding="utf-8") == generate.tables(), "run: .venv/bin/python docs/generate.py"


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_a_recipe_is_a_valid_configuration_and_opens_with_its_command(path):
    text = path.read_text(encoding="utf-8")
    config = check_config(yaml.safe_load(text), path.name)
    assert check_config(yaml.safe_load(short_config_text(config)), "printed short") == config
    head = [line for line in text.splitlines() if line.startswith("#")]
    assert any(f"heed train examples/{path.name}" in line for line in head)
    assert any("minute" in line.lower() for line in head), "a recipe says what it took and what it reached"


def test_the_readme_is_short():
    assert len(page("README.md").split()) <= 900, "move what a newcomer does not need to the page where it belongs"


@pytest.mark.parametrize("name", ["docs/first-steps.md", "docs/data.md", "docs/low-resource.md"])
def test_the_configuration_on_a_page_is_valid(name):
    (block,) = blocks(page(name), "yaml")
    check_config(yaml.safe_load(block), name)


@pytest.mark.parametrize("name", ["README", *(f"docs/{path.stem}" for path in sorted((ROOT / "docs").glob("*.md")))])
def test_the_commands_on_a_page_can_be_given(name):
    text = page(f"{name}.md").replace("\\\n", "")
    blocks = "".join(re.findall(r"^ *```.*?^ *```", text, flags=re.MULTILINE | re.DOTALL))
    blocks = blocks.replace(" && heed ", "\nheed ")
    given = re.findall(r"^ *(?:\$ |\.venv/bin/)?heed (\w+)(.*)$", blocks, flags=re.MULTILINE)
    given += re.findall(r"`heed (\w+)([^`]*)`", text)
    wanted = {
        "install": {"demo"},
        "first-steps": {"demo", "check", "train", "evaluate", "predict", "look"},
        "looking": {"look"},
        "compare": {"compare"},
        "README": {"check", "train", "evaluate", "predict", "look", "pack", "compare"},
    }
    assert wanted.get(Path(name).stem, set()) <= {command for command, _ in given}
    for command, words in given:
        words = shlex.split(re.split(r" [>|] ", words)[0], comments=True)
        parser = COMMANDS[command]
        if words and words[0].startswith("--"):  # text that names an option
            assert words[0] == "--help" or any(words[0] in one.opts for one in parser.params), words
            continue
        parser.make_context(command, words, resilient_parsing=not words)


def test_the_page_on_installing_has_every_extra():
    extras = tomllib.loads(page("pyproject.toml"))["project"]["optional-dependencies"]
    (table,) = re.findall(r"^\| extra \|.*?\n\n", page("docs/install.md"), flags=re.MULTILINE | re.DOTALL)
    rows = "".join(line.split("|")[1] for line in table.splitlines()[2:] if line)
    assert set(re.findall(r"`(\w+)`", rows)) == set(extras)


def test_the_table_of_capabilities_is_that_of_the_code():
    written = (
        page("docs/tasks.md").split("<!-- capabilities")[1].split("-->", 1)[1].split("<!-- end of capabilities -->")[0]
    )
    assert written.strip() == capability_table()


def test_the_refusals_on_the_page_of_tasks_are_the_real_ones():
    series = SimpleNamespace(members=(None,), config=SimpleNamespace(task="series"))
    with pytest.raises(ConfigError) as refused:
        options_of("table", "predict", {"align": True})
    for message in (str(refused.value), missing(series, "examiner")):
        assert f"heed: {message}" in page("docs/tasks.md").splitlines()


def test_every_task_has_a_section_with_its_command():
    sections = dict(re.findall(r"^## ([\w ]+)\n(.*?)(?=^## )", page("docs/tasks.md"), flags=re.MULTILINE | re.DOTALL))
    for name in task_names():
        assert f"heed train {name} " in sections[name.capitalize().replace("_", " ")]


def test_the_layers_of_the_architecture_page_are_those_of_the_imports():
    written = {}
    for number, parts in re.findall(r"^\| (\d+) \| (.*?) \|", page("docs/architecture.md"), flags=re.MULTILINE):
        written.setdefault(int(number), set()).update(re.findall(r"`([\w.]+)`", parts))
    assert written == dict(enumerate(LAYERS, start=1))


PAGES = [
    *("README.md", "CONTRIBUTING.md", "benchmarks/NOTES.md", "benchmarks/README.md", "tests/attacks.md"),
    *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))),
]


def anchors(name):
    """The anchors of a page's headings, as GitHub and the site make them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", prose(page(name)), flags=re.MULTILINE):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        found.add(re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-"))
    return found


@pytest.mark.parametrize("name", PAGES)
def test_links_of_a_page_lead_to_files_and_headings_that_exist(name):
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page(name))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = ((ROOT / name).parent / path).resolve() if path else ROOT / name
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.relative_to(ROOT).as_posix()), link


def test_promises_of_reliability_and_attacks_name_tests_that_exist():
    text, attacks = page("docs/reliability.md"), page("tests/attacks.md")
    promises = re.findall(r"^- \*\*.*?(?=^- |^## )", text.partition("## Not promised")[0] + "## ", flags=re.M | re.S)
    rows = re.findall(r"^\|.*\|$", attacks, flags=re.MULTILINE)[2:]
    assert len(promises) > 9 and len(rows) > 30
    for statement in (*promises, *rows):
        assert re.search(r"`test_\w+\.py", statement), statement
    for file, _, name in (one.partition("::") for one in re.findall(r"`(test_\w+\.py(?:::\w+)?)`", text + attacks)):
        assert f"def {name or 'test_'}" in page(f"tests/{file}")


def test_every_page_is_in_the_navigation_of_the_site_once():
    """`make docs` needs packages that tests do not; this much holds without them."""
    nav = page("mkdocs.yml").split("\nnav:\n")[1].split("\n\n")[0]
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "tools" / "docs_site.py")
    site = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(site)
    docs = ROOT / "docs"
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")} | {*site.OUTSIDE.values()}
    assert sorted(re.findall(r": ([\w/-]+\.md)$", nav, flags=re.MULTILINE)) == sorted(pages)
    parts = ["Tutorials", "How-to", "Reference", "Explanation", "Gallery"]
    assert re.findall(r"^  - (\S+):$", nav, flags=re.MULTILINE) == parts
    moved = site.linked("[a](docs/data.md#x) [b](benchmarks/NOTES.md) [c](#d) [e](examples/f.yaml)", "")
    assert moved == "[a](data.md#x) b [c](#d) e"
    deeper = site.linked("[a](../data.md#x) [b](alignment.md) [c](../../CONTRIBUTING.md)", "docs/tutorials")
    assert deeper == "[a](../data.md#x) [b](alignment.md) [c](../contributing.md)"


def test_the_pictures_of_looking_are_shown_small_and_made_by_their_script():
    made = re.findall(r'^        "(\w+)": ', page("docs/looking.py"), flags=re.MULTILINE)
    files = {path.name: path.stat().st_size for path in (ROOT / "docs" / "looking").iterdir()}
    assert {*re.findall(r"\]\(looking/([\w.]+)\)", page("docs/looking.md"))} == {*files}
    assert sorted(f"{name}.svg" for name in made) == sorted(files) and max(files.values()) <= 60_000


def test_the_site_loads_nothing_from_other_sites():
    """Pages with mermaid diagrams, fonts and the plugin `offline` would load files of other sites if left alone."""
    config = page("mkdocs.yml")
    assert "//" not in config and "font: false" in config
    own = re.findall(r"\bsite/[\w.-]+", config)
    assert any("iframe-worker" in path for path in own) and all((ROOT / "docs" / path).exists() for path in own)
    for name in PAGES:
        text = page(name)
        assert "```mermaid" not in text and not re.search(
            r"!\[[^]]*\]\(\w+:|<(?:script|link|img|iframe)\b", prose(page(name))
        ), name


def test_the_page_of_the_python_interface_names_what_exists():
    """mkdocstrings fills it in from the docstrings; `::: heed` stands for all of `heed.__all__`."""
    written = re.findall(r"^::: ([\w.]+)\n((?:    .*\n)*)", page("docs/api.md"), flags=re.MULTILINE)
    runs = {"heed.tasks.run.Run": Run}
    assert {path for path, _ in written if path.endswith(".Run")} == {*runs}
    methods = set()
    for path, options in written:
        module, _, name = path.rpartition(".")
        kind = getattr(importlib.import_module(module), name) if name[0].isupper() else importlib.import_module(path)
        assert kind.__doc__, path
        members = [*re.findall(r"\w+", "".join(re.findall(r"members: \[(.*)\]", options)))]
        if path in runs:  # each task's run has some of the same methods
            methods |= {*members} - {*dir(kind)}
        else:
            assert not {*members} - {*dir(kind)}, path
    assert all(any(hasattr(kind, method) for kind in runs.values()) for method in methods)


def test_pages_that_code_and_recipes_name_exist():
    for folder in ("src", "benchmarks", "examples", "tools", "tests"):
        for path in (ROOT / folder).rglob("*.*"):
            if path.suffix in (".py", ".yaml"):
                for named in re.findall(r"\b(?:docs|benchmarks)/[\w-]+\.md", path.read_text(encoding="utf-8")):
                    assert (ROOT / named).exists(), f"{path.relative_to(ROOT)}: {named}"


def test_files_that_pages_name_exist():
    for name in PAGES:
        for path in re.findall(r"`((?:[\w-]+/)+[\w.-]+\.(?:py|md|toml))`", page(name)):
            assert any((base / path).exists() for base in (ROOT, ROOT / "src", ROOT / "src" / "heed")), (
                f"{name}: {path}"
            )


SYSTEMS = dict(
    re.findall(r"^### ([A-C]\d) [^\n]*\n(.*?)(?=^##)", page("docs/systems.md"), flags=re.MULTILINE | re.DOTALL)
)


def test_every_model_is_the_code_of_a_system():
    named = set(re.findall(r"models/(\w+)\.py", "".join(SYSTEMS.values())))
    models = {path.stem for path in (ROOT / "src" / "heed" / "models").glob("*.py")} - {"__init__", "base"}
    assert models - named == {"bag"}  # ours: the control for every model that claims to use the order of words


def test_tests_that_the_page_of_systems_names_exist():
    named = re.findall(r"`(tests/\w+\.py)(?:::(\w+))?`", page("docs/systems.md"))
    assert len(named) >= 40
    for path, function in named:
        assert f"def {function}" in page(path), (path, function)


def test_the_reading_path_has_the_lines_that_it_says():
    rows = re.findall(r"^\| `(\w[\w/]+\.py)` \| (\d+) \|", page("CONTRIBUTING.md"), flags=re.MULTILINE)
    assert len(rows) == 8
    for path, stated in rows:
        count = len((ROOT / "src" / "heed" / path).read_text(encoding="utf-8").splitlines())
        assert abs(count - int(stated)) <= 0.1 * count, (path, count)
    assert sum(int(stated) for _, stated in rows) <= 3_000

"""What the pages say is what the code does."""

import importlib.util
import re
from pathlib import Path

import pytest
import yaml

from heed.tasks import check_config

ROOT = Path(__file__).parent.parent


def test_the_configuration_page_lists_every_field_as_it_is():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    written = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert written == generate.page(), "run: .venv/bin/python docs/generate.py"


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_a_recipe_is_a_valid_configuration_and_opens_with_its_command(path):
    text = path.read_text(encoding="utf-8")
    check_config(yaml.safe_load(text), path.name)
    head = [line for line in text.splitlines() if line.startswith("#")]
    assert any(f"heed train examples/{path.name}" in line for line in head)
    assert any("minute" in line.lower() for line in head), "a recipe says what it took and what it reached"


def test_the_configuration_in_the_readme_is_valid():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", readme, flags=re.DOTALL)
    assert blocks
    for block in blocks:
        check_config(yaml.safe_load(block), "README.md")


def test_the_commands_in_the_readme_exist():
    from typer.main import get_command

    from heed.cli.app import app

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    used = set(re.findall(r"^(?:\$ |\.venv/bin/)?heed (\w+)", readme, flags=re.MULTILINE))
    assert used <= set(get_command(app).commands)
    assert {"predict", "look", "evaluate", "train"} <= used

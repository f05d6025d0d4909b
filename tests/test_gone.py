"""What was taken out of heed is in no help, page or Python name any more; CHANGELOG.md says what to do instead."""

import importlib
import re
from pathlib import Path

import pytest

import commands
import heed
from heed.config import RunConfig
from heed.errors import ConfigError
from heed.lessons import list_lessons
from heed.tasks import check_config, task_names

ROOT = Path(__file__).parent.parent
COMMANDS = (
    """check compare demo evaluate export heads align import lesson look models pack predict serve train""".split()
)
WORDS = """heed.claim heed.load_look load_look run.verdicts --verdict --prune --symmetrize --gold --gold-base
--alignment-base --batch-ms --devices training.sharding data.stream shuffle_source shuffle_seed same_words kept_heads
alignment.base randaugment cutmix mixup augment.erase data.hold_out hold_out /undo /reset data.name=stories
data.name=bookings data.name=notes data.name=shapes verdict.md word-order.md mutants.py small_data wrong_edits
walk.py MathML""".split()
FIELDS = """training.sharding=full training.alignment.base=1 data.stream=true data.window=10 data.shuffle_source=words
data.shuffle_seed=1 generation.same_words=true data.hold_out=hash augment.randaugment=2 augment.magnitude=9
augment.erase=0.1 augment.mixup=0.2 augment.cutmix=0.2""".split()
MODULES = """claims observe.verdict observe.look_files tasks.base.verdicts tasks.translation.word_order lessons.verdict
training.sharding training.footprint exchange.huggingface.resnet data.embedded.recall data.embedded.grammar""".split()


@pytest.fixture(scope="module")
def pages():
    folders = (path for folder in ("docs", "examples") for path in (ROOT / folder).rglob("*"))
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(p for p in folders if p.suffix in (".md", ".yaml", ".py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files}


@pytest.mark.parametrize("word", WORDS)
def test_no_page_names_what_is_gone(pages, word):
    pattern = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])")
    assert [name for name, text in pages.items() if pattern.search(text)] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_no_help_names_what_is_gone(capsys, command):
    code, out, _ = commands.call(capsys, command, "-h")
    assert code == 0
    assert [word for word in WORDS if re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", out)] == []


@pytest.mark.parametrize("field", FIELDS)
def test_no_task_has_a_field_that_is_gone(field):
    name, _, value = field.partition("=")
    for task in task_names():
        values: dict = {"task": task, "data": {"train": ["train.tsv"]}}
        section = values
        for part in name.split(".")[:-1]:
            section = section.setdefault(part, {})
        section[name.split(".")[-1]] = value
        if (task, name) == ("series", "data.window"):
            assert isinstance(check_config(values, "the test"), RunConfig)
            continue
        unknown = "|".join(re.escape(name.rsplit(".", n)[0]) for n in range(name.count(".") + 1))
        with pytest.raises(ConfigError, match=f"unknown field '({unknown})'"):  # or its section, which the task lacks
            check_config(values, "the test")


@pytest.mark.parametrize("module", MODULES)
def test_modules_that_are_gone_cannot_be_imported(module):
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f"heed.{module}")


def test_public_names_commands_and_lessons_that_are_gone(capsys):
    assert not {"claim", "load_look"} & {*heed.__all__}
    assert "verdict" not in list_lessons()
    code, _, err = commands.call(capsys, "claim")
    assert code == 2 and "claim" in err

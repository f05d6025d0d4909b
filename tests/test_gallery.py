"""docs/gallery/: a page and a picture for each family of models, as docs/gallery.py writes them."""

import importlib.util
import json
import shlex
import sys
from xml.etree import ElementTree

import pytest

from heed.registry import list_models
from pages import ROOT, lines_of, printed

GALLERY = ROOT / "docs" / "gallery"


def script():
    spec = importlib.util.spec_from_file_location("gallery", ROOT / "docs" / "gallery.py")
    module = sys.modules["gallery"] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


SCRIPT = script()
FAMILIES = {family.name: family for family in SCRIPT.FAMILIES}
MEASURED = json.loads((GALLERY / "measured.json").read_text(encoding="utf-8"))


def test_every_model_is_in_a_family_or_has_nothing_to_look_at():
    shown = {model for family in FAMILIES.values() for model in family.models}
    assert shown.isdisjoint(SCRIPT.WITHOUT)
    assert shown | {*SCRIPT.WITHOUT} == {name for name, _ in list_models()}


def test_there_is_a_page_and_a_picture_for_each_family_and_nothing_else():
    heads = {f"{name}-heads" for name, family in FAMILIES.items() if family.heads}
    assert {path.stem for path in GALLERY.glob("*.svg")} == {*FAMILIES, *heads}
    assert {*FAMILIES} == {*MEASURED} and len(heads) == 3
    assert {path.stem for path in GALLERY.glob("*.md")} == {*FAMILIES, "index"}
    assert sum(path.stat().st_size for path in GALLERY.iterdir()) < 1_000_000


def test_the_list_of_families_is_as_the_script_writes_it():
    assert (GALLERY / "index.md").read_text(encoding="utf-8") == SCRIPT.index(), "run: python docs/gallery.py --pages"


@pytest.mark.parametrize("name", FAMILIES)
def test_a_page_is_as_the_script_writes_it(name):
    written = (GALLERY / f"{name}.md").read_text(encoding="utf-8")
    assert written == SCRIPT.page(FAMILIES[name], MEASURED[name]), "run: python docs/gallery.py --pages"
    assert all(ElementTree.parse(path).getroot().tag.endswith("svg") for path in GALLERY.glob(f"{name}*.svg"))


def test_a_family_is_made_as_its_page_says(tmp_path, monkeypatch):
    family = FAMILIES["bidirectional"]
    few = {"data.train": 60, "data.valid": 12, "data.test": 12}
    measured = SCRIPT.make(family, tmp_path, 1, **few)
    assert measured.keys() == MEASURED["bidirectional"].keys() and measured["steps"] == 1
    drawn = (tmp_path / "bidirectional.svg").read_text(encoding="utf-8")
    assert all(word in drawn for word in family.given[0].split())
    monkeypatch.chdir(tmp_path)
    for line in lines_of(SCRIPT.page(family, measured)):
        words = shlex.split(line)[1:]
        printed([*words, *(f"{name}={value}" for name, value in few.items() if words[0] == "train")])
    assert (tmp_path / "look.svg").read_text(encoding="utf-8") == drawn


def test_a_family_that_there_is_not_is_refused():
    with pytest.raises(SystemExit, match="no family 'gtp'; valid: recurrent, bidirectional"):
        SCRIPT.main(["gtp"])

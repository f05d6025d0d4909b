"""Configuration: every mistake is named with field and value, nothing is silently ignored, everything is documented."""

import pickle
import re
import sys
from typing import get_args

import pytest
import yaml
from pydantic import BaseModel

from heed import config as configuration
from heed.config import (
    Section,
    Source,
    Sources,
    TokenizerConfig,
    TrainingConfig,
    apply_overrides,
    config_text,
    read_config,
    short_config_text,
    write_config,
)
from heed.errors import ConfigError
from heed.registry import list_models
from heed.tasks import check_config, config_class, task_class, task_names
from heed.tasks.contracts import NoOptions
from heed.tasks.translation import TranslationConfig


def check(values):
    return check_config({"data": {"name": "copy"}, **values}, "my.yaml")


# --- unknown fields


@pytest.mark.parametrize(
    ("values", "field", "nearest"),
    [
        ({"trainng": {}}, "trainng", "training"),
        ({"training": {"learning_rat": 0.1}}, "training.learning_rat", "learning_rate"),
        ({"data": {"name": "dates", "langages": ["de"]}}, "data.langages", "languages"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_unknown_field_is_named_with_the_nearest_valid_one(values, field, nearest):
    with pytest.raises(ConfigError) as error:
        check(values)
    message = str(error.value)
    assert message.startswith("my.yaml: unknown field ")
    assert f"'{field}'" in message and f"did you mean '{nearest}'?" in message


def test_a_field_with_no_near_name_lists_the_valid_ones():
    with pytest.raises(
        ConfigError, match=r"unknown field 'tokenizer.xyzzy'; valid: chinese_characters, clean_text, from"
    ):
        check({"tokenizer": {"xyzzy": 1}})


def test_every_mistake_is_reported_at_once():
    with pytest.raises(ConfigError) as error:
        check({"training": {"steps": -1, "learning_rat": 1}, "tokenizer": {"kind": "words"}})
    for part in ("training.steps is -1", "'training.learning_rat'", "tokenizer.kind is 'words'"):
        assert part in str(error.value)


# --- wrong values


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"training": {"steps": 0}}, "training.steps is 0, .*greater than 0"),
        ({"data": {"name": "dates", "train": 0}}, "data.train is 0, .*greater than 0"),
        ({"training": {"steps": "many"}}, "training.steps is 'many', .*whole number"),
        ({"data": {"name": "dates", "test": "many"}}, "data.test is 'many', but must be a whole number"),
        ({"task": "classification", "data": {"name": None, "train": ["a"]}}, "unknown field 'data.name'; valid"),
        ({"training": {"optimizer": "adamm"}}, "training.optimizer is 'adamm', .*'adamw', 'adam' or 'sgd'"),
        ({"training": {"betas": [0.9]}}, r"training.betas.1' is missing"),
        ({"tokenizer": {"shared": True, "lowercase": "source"}}, "tokenizer.lowercase is 'source', but tokenizer"),
        ({"model": "gpt"}, "model is 'gpt', but must be a section of fields, such as model: {name: gpt}"),
        ({"tokenizer": "bpe"}, "tokenizer is 'bpe', but must be a section of fields, such as tokenizer: {kind: bpe}"),
        (
            {"task": "table", "data": {"train": "x.csv", "columns": {"features": "sold"}}},
            r"data.columns.features is 'sold', but must be a list, such as \[sold\]$",
        ),
        (
            {"task": "images", "data": {"train": "x", "class_weights": 5}},
            "data.class_weights is 5, but must be 'none' or 'balanced' or a mapping, such as {name: value}$",
        ),
        (
            {"task": "language_modelling", "data": {"train": "x", "columns": {"text": [0, 1]}}},
            r"data.columns.text is \[0, 1\], but must be a whole number or text$",
        ),
        ({"training": {"batch_tokens": None}}, "training.batch_tokens is null, but must be a whole number"),
        ({"training": {"freeze": 3}}, "training.freeze is 3, but must be a list"),
        ({"model": {"size": "huge"}}, "model.size is 'huge', .*'auto', 'scarce', 'tiny', 'small', 'medium', 'base'"),
        ({"data": {"name": "copy", "length": "long"}}, "data.length is 'long'"),
        ({"data": {"name": "dates", "styles": ["short"]}}, r"data.styles.0 is 'short', .*'medium', 'long' or 'full'"),
        ({"data": {"name": "date"}}, "data.name is 'date'; did you mean 'dates'"),
        ({"data": {}}, r"data\.(name|train)'? is"),
        ({"data": "dates"}, "data is 'dates'"),
        (
            {"task": "rhyming"},
            "unknown task 'rhyming'; valid: classification, dialogue, images, language_modelling, pretraining, series, "
            "summarisation, table, tagging, translation",
        ),
        (
            {"task": "images", "data": {"train": "photos", "size": "abc"}},
            r"data.size is 'abc', expected pixels of each side such as 64, \[height, width\] such as \[48, 64\], .* or",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_value_is_named_with_its_field_and_what_would_be_right(values, message):
    with pytest.raises(ConfigError, match="^my.yaml: .*" + message):
        check(values)


def test_a_missing_section_is_named():
    with pytest.raises(ConfigError, match="field 'data' is missing"):
        check_config({}, "my.yaml")


# --- files


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"no file '.*nowhere\.yaml'"):
        read_config(tmp_path / "nowhere.yaml")
    with pytest.raises(ConfigError, match="cannot read"):
        read_config(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task: translation\ndata: ]\nmodel: {}\n", "line 2 is not YAML"),
        ("task: translation\n\tdata: 3\n", "line 2 is not YAML"),
        ("- a\n- b\n", "contains a list, expected fields"),
        ("", "contains nothing, expected fields"),
        ("a: !!python/object/apply:os.getcwd []\n", "line 1 is not YAML"),
    ],
)
def test_a_file_that_holds_no_fields_says_where(tmp_path, text, message):
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(str(path)) + ".*" + message):
        read_config(path)


def test_a_file_that_is_not_text_is_named(tmp_path):
    (tmp_path / "c.yaml").write_bytes(b"task: \xff\xfe")
    with pytest.raises(ConfigError, match=r"cannot read '.*c\.yaml'"):
        read_config(tmp_path / "c.yaml")


# --- overrides


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("training.steps=7", 7),
        ("training.clip=null", None),
        ("training.betas=[0.5, 0.6]", [0.5, 0.6]),
        ("training.name=a=b", "a=b"),
        ("task=translation", "translation"),
        ("data.a.b=1", 1),
    ],
)
def test_an_override_sets_a_field(word, value):
    values = {"training": {"steps": 1, "seed": 3}}
    result = apply_overrides(values, [word])
    place = result
    *sections, key = word.partition("=")[0].split(".")
    for section in sections:
        place = place[section]
    assert place[key] == value
    assert result["training"]["seed"] == 3
    assert values == {"training": {"steps": 1, "seed": 3}}  # the file's own values stay


def test_the_last_override_wins_and_an_empty_section_can_be_filled():
    assert apply_overrides({"training": None}, ["training.steps=1", "training.steps=2"]) == {"training": {"steps": 2}}
    began = {"training": {"epochs": 25, "seed": 1}}
    assert apply_overrides(began, ["training.steps=3"]) == {"training": {"seed": 1, "steps": 3}}
    assert apply_overrides(began, ["training.minutes=null"]) == {"training": {"epochs": 25, "seed": 1, "minutes": None}}


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("steps", "'steps' is neither a file nor section.key=value"),
        ("=3", "'=3' is neither"),
        ("task.name=3", "'task.name=3': 'task' is not a section"),
        ("training.betas=[1", r"'training.betas=\[1'.*is not YAML"),
    ],
)
def test_an_override_that_cannot_be_is_quoted(word, message):
    with pytest.raises(ConfigError, match=message):
        apply_overrides({"task": "translation"}, [word])


# --- effective configuration


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"data": {"name": "dates", "languages": ["de", "fr"], "joined": [1, 3], "unseen": []}},
        {"data": {"name": "dates", "languages": ["es"]}, "training": {"steps": 5, "minutes": 2, "clip": None}},
        {"model": {"name": "bahdanau", "d_hidden": 7, "cell": "lstm"}, "generation": {"beam_size": 4}},
        {"training": {"minutes": 0.5, "betas": [0.8, 0.9], "patience": 3}},
    ],
)
def test_a_written_configuration_read_again_is_equal(tmp_path, values):
    config = check(values)
    write_config(config, tmp_path / "config.yaml")
    again = check_config(read_config(tmp_path / "config.yaml"), "again")
    assert again == config == pickle.loads(pickle.dumps(config))
    assert config_text(again) == config_text(config)
    assert check_config(yaml.safe_load(short_config_text(config)), "again") == config


def test_every_default_is_written(tmp_path):
    config = check({})
    write_config(config, tmp_path / "config.yaml")
    written = read_config(tmp_path / "config.yaml")
    assert written.keys() == TranslationConfig.model_fields.keys()
    for name, section in config:
        if isinstance(section, BaseModel):
            assert {field.alias or key for key, field in type(section).model_fields.items()} <= written[name].keys()


def test_a_run_without_a_budget_gets_one():
    assert check({}).training.minutes == 2.0
    assert TrainingConfig(seed=3).minutes == 2.0
    assert check({"training": {"seed": 3}}).training.minutes == 2.0
    assert check({"training": {"steps": 5}}).training.minutes is None
    assert check({"training": {"minutes": 5}}).training.minutes == 5.0


def test_a_configuration_cannot_be_changed_afterwards():
    with pytest.raises(ValueError, match="frozen"):
        check({}).training.steps = 3


# --- documentation


def data_sections(config, field="data"):
    """The classes that a field accepts, and those of the sections in them."""
    info = config.model_fields[field]
    sources = [kind for mark in info.metadata if isinstance(mark, Sources) for kind in mark.classes.values()]
    nested = [one for one in (info.annotation, *get_args(info.annotation)) if isinstance(one, type)]
    for kind in sources or [one for one in nested if issubclass(one, BaseModel)]:
        yield kind
        for name in kind.model_fields:
            yield from data_sections(kind, name)


def test_data_is_configured_by_at_most_ten_classes():
    every = {base for task in task_names() for kind in data_sections(config_class(task)) for base in kind.__mro__}
    written = {one for one in every if issubclass(one, Section) and one is not Section}
    written = {one for one in written if vars(sys.modules[one.__module__]).get(one.__name__) is one}
    assert {"Source", "Pairs", "Texts"} <= {one.__name__ for one in written} and len(written) <= 11  # texts of any task


def sections():
    tasks = [vars(sys.modules[config_class(task).__module__]).values() for task in task_names()]
    values = [*vars(configuration).values(), *(value for one in tasks for value in one)]
    own = [v for v in values if isinstance(v, type) and issubclass(v, BaseModel) and not issubclass(v, Source)]
    own += [task_class(task).head_class for task in task_names()]
    own += [kind for task in task_names() for kind in data_sections(config_class(task))]
    models = [body.config_class for _, body in list_models()]
    return [kind for kind in dict.fromkeys([*own, *models]) if kind not in (BaseModel, Section, NoOptions)]


@pytest.mark.parametrize("kind", sections(), ids=lambda kind: kind.__name__)
def test_every_field_of_every_section_is_described(kind):
    assert kind.__doc__
    assert kind.model_fields
    for name, field in kind.model_fields.items():
        assert field.description and field.description.strip().endswith("."), f"{kind.__name__}.{name}"


def test_embedded_data_and_own_files_at_once_are_refused():
    message = r"data.name is 'dates' \(embedded data\), but data.train names your own files \(\['a', 'b'\]\)"
    with pytest.raises(ConfigError, match=message):
        check_config({"data": {"name": "dates", "train": ["a", "b"]}}, "my.yaml")


@pytest.mark.parametrize("sign", ["|", ">", "|-"])
def test_a_sign_that_begins_a_block_of_yaml_is_that_sign(sign):
    word = f"data.label_separator={sign}"
    assert apply_overrides({}, [word]) == {"data": {"label_separator": sign}}
    assert apply_overrides({}, ["data.x=|\n  a"]) == {"data": {"x": "a"}}


def test_fields_that_went_do_not_hinder_runs_in_which_they_had_no_effect():
    fields = {"kind": "bpe", "sampling": 0.0, "new_merges": 0}
    assert TokenizerConfig.model_validate(fields) == TokenizerConfig(kind="bpe")
    with pytest.raises(ConfigError, match=r"unknown field 'tokenizer.sampling'"):
        check_config({"task": "translation", "data": {"name": "copy"}, "tokenizer": {"sampling": 0.1}}, "x")

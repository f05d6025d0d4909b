"""Writes docs/configuration.md from the classes of heed.config and heed.models: `python docs/generate.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from heed import config, config_tasks
from heed.registry import list_models

SECTIONS: list[tuple[str, type[BaseModel]]] = [
    ("top level", config.RunConfig),
    ("translation: data, your own files", config.FilesData),
    ("translation: data, of the Hugging Face Hub", config.HubData),
    ("translation: data.columns", config.Columns),
    ("translation: data.extra, each", config.ExtraData),
    ("translation: data, dates", config.DatesData),
    ("translation: data, copy and reverse", config.DigitsData),
    ("translation: data, grammar", config.GrammarData),
    ("classification: data", config_tasks.TextsData),
    ("classification: data, planted", config_tasks.PlantedData),
    ("classification: data.columns", config_tasks.TextColumns),
    ("tagging: data", config_tasks.ColumnsData),
    ("tagging: data, teddy", config_tasks.TeddyData),
    ("tagging: data.columns", config_tasks.TagColumns),
    ("table: data", config_tasks.TableData),
    ("table: data.columns", config_tasks.TableColumns),
    ("series: data", config_tasks.SeriesData),
    ("tokenizer", config.TokenizerConfig),
    ("model", config.ModelSection),
    ("classification, tagging: model, beside the fields above", config_tasks.TextModelSection),
    ("classification: model, beside the fields of the model named", config_tasks.ClassificationHead),
    ("tagging: model, beside the fields of the model named", config_tasks.TaggingHead),
    ("series: model, beside the fields of the model named", config_tasks.SeriesHead),
    ("training", config.TrainingConfig),
    ("translation: training, beside the fields above", config.TranslationTraining),
    ("translation: generation", config.GenerationConfig),
    ("translation: evaluation", config.TranslationEvaluation),
    ("classification: evaluation", config_tasks.ClassificationEvaluation),
    ("tagging: evaluation", config_tasks.TaggingEvaluation),
    ("table: evaluation", config_tasks.TableEvaluation),
    ("series: evaluation", config_tasks.SeriesEvaluation),
]


def page() -> str:
    """The whole page."""
    parts = [
        "# Configuration",
        "",
        "Written by `docs/generate.py` from the code: every field with its meaning and default. Any field can be set",
        "in a YAML file or on the command line as `section.key=value`. A field that is not listed is refused.",
    ]
    for name, section in SECTIONS:
        parts += ["", f"## {name}", "", *table(section)]
    for name, body in list_models():
        kind = body.interface.replace("_", " ")
        parts += ["", f"## model: {name} ({kind})", "", *table(body.config_class), ""]
        for size, fields in body.config_class.sizes.items():
            changes = ", ".join(f"{key} {value}" for key, value in fields.items()) or "the defaults above"
            parts.append(f"- size `{size}`: {changes}")
    return "\n".join(parts) + "\n"


def table(section: type[BaseModel]) -> list[str]:
    """One row a field."""
    rows = ["| field | default | meaning |", "|---|---|---|"]
    inherited = {config.TranslationTraining: config.TrainingConfig, config_tasks.TextModelSection: config.ModelSection}
    above = inherited[section].model_fields if section in inherited else {}
    for name, field in section.model_fields.items():
        if name in above and field.default == above[name].default:
            continue
        meaning = " ".join((field.description or "").split()).replace("|", "\\|")
        rows.append(f"| `{field.alias or name}` | {default(field)} | {meaning} |")
    return rows


def default(field: Any) -> str:
    """How a default is written in YAML."""
    if field.is_required():
        return "required" if not (field.description or "").endswith("set from the data.") else "from the data"
    value = field.default
    if isinstance(value, BaseModel):
        return "the section's own"
    return f"`{'null' if value is None else str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    (Path(__file__).parent / "configuration.md").write_text(page(), encoding="utf-8")

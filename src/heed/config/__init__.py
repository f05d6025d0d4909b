"""The configuration of a run: typed sections, error messages, YAML."""

from heed.config.data import (
    Columns,
    DatesData,
    DigitsData,
    EmbeddedLabels,
    ExtraData,
    FilesData,
    GrammarData,
    HubData,
    LabelledData,
    OwnData,
    TagColumns,
    TagOptions,
    by_name,
)
from heed.config.explain import check_section
from heed.config.reading import apply_overrides, config_text, read_config, with_paths_from, write_config
from heed.config.sections import (
    EvaluationConfig,
    GenerationConfig,
    ModelSection,
    RunConfig,
    Section,
    TokenizerConfig,
    TrainingConfig,
)

__all__ = [
    "Columns",
    "DatesData",
    "DigitsData",
    "EmbeddedLabels",
    "EvaluationConfig",
    "ExtraData",
    "FilesData",
    "GenerationConfig",
    "GrammarData",
    "HubData",
    "LabelledData",
    "ModelSection",
    "OwnData",
    "RunConfig",
    "Section",
    "TagColumns",
    "TagOptions",
    "TokenizerConfig",
    "TrainingConfig",
    "apply_overrides",
    "by_name",
    "check_section",
    "config_text",
    "read_config",
    "with_paths_from",
    "write_config",
]

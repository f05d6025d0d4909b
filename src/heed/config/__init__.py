"""The configuration of a run: typed sections, error messages, YAML."""

from heed.config.data import (
    Columns,
    DatesData,
    DigitsData,
    ExtraData,
    FilesData,
    GrammarData,
    HubData,
    HubSection,
    OwnData,
    TagOptions,
)
from heed.config.reading import (
    apply_overrides,
    config_text,
    data_files,
    read_config,
    set_field,
    short_config_text,
    with_paths_from,
    write_config,
)
from heed.config.sections import (
    ModelSection,
    RunConfig,
    Section,
    TokenizerConfig,
    TrainingConfig,
    check_section,
)

__all__ = [
    "Columns", "DatesData", "DigitsData", "ExtraData", "FilesData", "GrammarData", "HubData",
    "HubSection", "ModelSection", "OwnData", "RunConfig", "Section", "TagOptions", "TokenizerConfig",
    "TrainingConfig", "apply_overrides", "check_section", "config_text", "data_files", "read_config", "set_field",
    "short_config_text", "with_paths_from", "write_config",
]  # fmt: skip

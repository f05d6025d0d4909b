"""The configuration of a run: typed sections, error messages, YAML."""

from heed.config.data import Columns, Extra, Only, Source, Sources
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
    "Columns", "Extra", "ModelSection", "Only", "RunConfig", "Section", "Source", "Sources", "TokenizerConfig",
    "TrainingConfig", "apply_overrides", "check_section", "config_text", "data_files", "read_config", "set_field",
    "short_config_text", "with_paths_from", "write_config",
]  # fmt: skip

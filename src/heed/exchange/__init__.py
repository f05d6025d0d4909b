"""Trained models in other programs: export, comparison with the run, and prediction with the exported model."""

from heed.exchange.ctranslate2 import ENGINES, Exported, export_translation, has_export, open_engine, open_present

__all__ = ["ENGINES", "Exported", "export_translation", "has_export", "open_engine", "open_present"]

"""Other programs that run a trained model: it is written for them, compared with the run, and asked of them."""

from heed.exchange.export import ENGINES, Exported, export_translation, open_engine

__all__ = ["ENGINES", "Exported", "export_translation", "open_engine"]

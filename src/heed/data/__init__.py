"""Data: readers, generators, tokenizers, batches. Never sees a model."""

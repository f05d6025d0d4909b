"""Batches: which examples go together, and examples as padded tensors."""

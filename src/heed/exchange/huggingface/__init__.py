"""Checkpoints of Hugging Face: read into run folders, and written from them."""

"""heed under python -m."""

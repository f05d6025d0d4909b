"""The loop, optimisers and schedules, checkpoints, progress."""

"""Tasks: the one place where data, model, loss and metric meet."""

"""Looking inside models: traces, maps, gates, edits, drawing."""

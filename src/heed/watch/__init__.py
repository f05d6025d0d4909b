"""Looking inside models: traces, records, edits, attributions, maps and looks as data."""

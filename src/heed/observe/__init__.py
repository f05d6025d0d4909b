"""Looking inside: traces, maps, gates, edits, drawing. Imported by nothing above it."""

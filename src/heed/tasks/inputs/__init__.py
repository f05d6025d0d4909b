"""The inputs of tasks: texts, words, rows of numbers, pictures, pairs, streams, turns; one file each."""

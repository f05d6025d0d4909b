"""What models read: texts, words, rows of numbers. One file for each, with all that a model reads when it is asked."""

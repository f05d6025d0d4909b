"""Documents of blocks, each drawn once as text, as HTML and as a figure."""

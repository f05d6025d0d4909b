"""Pictures: bytes to pixels, and where the pixels of an example are."""

"""Files written durably: atomic writes, checksums, a cache by content."""

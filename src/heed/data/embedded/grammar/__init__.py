"""A small grammar of English, Spanish, German and romanised Hindi."""

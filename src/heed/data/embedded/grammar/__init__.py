"""A small grammar: English sentences and their translation into Spanish, German or romanised Hindi, either way.

`scenes` draws what is said (`meaning`), one file per language says it, `source` pairs two languages and links their
words. The words are in `lexicon.yaml`.
"""

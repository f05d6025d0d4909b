# Every target sets up what it needs; only Python 3.11+ must be there.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: demo test slow check fix bench

demo: $(VENV)/.heed
	$(BIN)/heed demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto -rs -m "not slow and not gpu and not network"

slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fix: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[bench]"
	$(BIN)/python benchmarks/attention.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/decoding.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.heed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.heed
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@

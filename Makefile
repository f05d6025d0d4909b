# Every target sets up what it needs; only Python 3.11+ must be there.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: demo test slow fuzz mutants check fix docs bench

demo: $(VENV)/.heed
	$(BIN)/heed demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto -rs -m "not slow and not gpu and not network"

slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow

fuzz: $(VENV)/.dev  # 10 tasks
	HEED_FUZZ=500 $(BIN)/python -m pytest -n auto tests/test_fuzz_runs.py

mutants: $(VENV)/.dev
	$(BIN)/python tools/mutants.py

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fix: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.heed  # build/site/index.html
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/.dev
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[bench]"
	$(BIN)/pip install --quiet --no-deps eole==0.6.4 pyonmttok==1.38.1  # all that its recurrent models need
	$(BIN)/python benchmarks/attention.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/recurrent.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/lstmn.py
	$(BIN)/python benchmarks/classifiers.py
	$(BIN)/python benchmarks/text.py
	$(BIN)/python benchmarks/decoding.py
	$(BIN)/python benchmarks/language_models.py
	$(BIN)/python benchmarks/prediction.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.heed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.heed
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@

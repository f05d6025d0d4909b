# Every target sets up what it needs; only Python 3.11+ must be there.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: demo test gpu gpu-stand-in slow fuzz mutants check fix docs bench

demo: $(VENV)/.heed
	$(BIN)/heed demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --dist worksteal -rs -m "not slow and not gpu and not network"

gpu: $(VENV)/.dev  # on a machine with a GPU
	$(BIN)/python -m pytest -n 0 -rs tests/gpu

gpu-stand-in: $(VENV)/.dev  # torch's device "cuda" in memory of the CPU (tests/gpu/stand_in.py), built by g++
	PYTHONPATH=tests/gpu $(BIN)/python -m pytest -n auto --dist worksteal -rs -p stand_in tests/gpu

slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow

SEED = 1
fuzz: $(VENV)/.dev  # 10 tasks, 7 checkpoints, 20,000 calls from eight threads, 10,000 requests; make fuzz SEED=7
	HF_HUB_OFFLINE=1 HEED_FUZZ=500 HEED_FUZZ_SEED=$(SEED) $(BIN)/python -m pytest -n auto tests/test_fuzz.py tests/test_serve.py

MUTANTS = heed.attention.* heed.evaluation.* heed.training.plan.*
mutants: $(VENV)/.dev  # make mutants MUTANTS=heed.attention.attend.*; which files and tests: pyproject.toml
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[mutants]"
	OMP_NUM_THREADS=1 $(BIN)/mutmut run $(MUTANTS)
	$(BIN)/mutmut results

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

# The programs one after the other; `make bench BENCH="training decoding"` runs those two.
BENCH = training recurrent decoding language_models pretraining memory prediction
LEFT_OUT = echo "some of the programs to compare with could not be installed: they are left out"
bench: $(VENV)/.dev
	@$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[bench]" || $(LEFT_OUT)
	@# of Eole all that its recurrent models need
	@$(BIN)/pip install --quiet --no-deps eole==0.6.4 pyonmttok==1.38.1 || $(LEFT_OUT)
	@failed=; for name in $(BENCH); do \
	  echo; echo "benchmarks/$$name.py"; $(BIN)/python benchmarks/$$name.py || failed="$$failed $$name"; \
	done; test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.heed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.heed
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@

# Every task makes its own environment: `make test` works in a fresh checkout.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
WORKERS ?= 2
SECONDS ?= 60
TARGETS ?=
BENCH  ?=

# One process per core, so one thread per process: more only wait for each other.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1
PYTEST := $(ONE_THREAD) MPLBACKEND=Agg $(BIN)/python -m pytest -n $(WORKERS)

.DEFAULT_GOAL := help
.PHONY: help fuzz demo test test-slow lint format types imports coverage bench docs house wheel clean

help:  ## list the tasks
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.demo  ## stream a sparse regression through three algorithms and the theory
	$(BIN)/python -m miniamp demo

test: $(VENV)/.dev  ## the fast tests and the examples in the docstrings
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/.dev  ## the statistical tests
	$(PYTEST) -m slow

coverage: $(VENV)/.dev  ## all tests, and the lines of the package that none of them runs
	$(PYTEST) --cov=miniamp --cov-report=xml --cov-report=term:skip-covered

lint: $(VENV)/.dev  ## style, types, the direction of imports, the limits of the source
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.house --check

format: $(VENV)/.dev  ## put the code in shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench  ## ratios against peers and against the machine's limit
	$(BIN)/python -m benchmarks$(if $(BENCH),.$(BENCH))

house: $(VENV)/.dev  ## the size of the source, its cycles, its walks: before and now
	$(BIN)/python -m tools.house

fuzz: $(VENV)/.fuzz  ## bytes at random into every file format and checkpoint, SECONDS each
	$(ONE_THREAD) $(BIN)/python -m fuzz $(SECONDS) $(TARGETS)

docs: $(VENV)/.docs  ## the manual, as HTML
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

# The wheel is installed into an environment of its own, where the README's example must run.
wheel: $(VENV)/.dev  ## build the wheel, check it, and try it in an empty environment
	rm -rf dist build/wheel
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m venv build/wheel
	build/wheel/bin/python -m pip install --quiet --disable-pip-version-check "$$(ls dist/*.whl)[all]"
	build/wheel/bin/miniamp --version
	build/wheel/bin/python tools/readme.py

clean:  ## remove everything that the tasks made
	rm -rf $(VENV) build dist docs/_build .mypy_cache .pytest_cache .ruff_cache .hypothesis demo.png demo.csv coverage.xml .coverage
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp per set of extras, renewed when pyproject.toml changes.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: EXTRAS := cli,report
$(VENV)/.dev:  EXTRAS := dev
$(VENV)/.docs: EXTRAS := docs,all
$(VENV)/.bench: EXTRAS := dev,peers
$(VENV)/.fuzz: EXTRAS := fuzz
$(VENV)/.demo $(VENV)/.dev $(VENV)/.docs $(VENV)/.bench $(VENV)/.fuzz: pyproject.toml | $(BIN)/python
	$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11) and "miniamp needs Python 3.11 or later; make PYTHON=python3.11")'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$(EXTRAS)]"
	@touch $@

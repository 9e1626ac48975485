# `make demo` and `make test` need only Python 3.11 to 3.13, make and pip: they set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 2

.PHONY: install demo test test-all lint types unit slow format docs smoke reproduce bench notebooks clean

install: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
		|| { echo "dvisr needs Python 3.11, 3.12 or 3.13: set PYTHON=python3.12, say"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(BIN)/python -m dvisr.fitting.compiling  # once: kept for every process after this one
	touch $(STAMP)

demo: install
	$(BIN)/dvisr demo

test: lint types unit

# What is slow and seldom breaks too: before a release, and before something large is called done.
test-all: lint types unit slow

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy src tests benchmarks tools

unit: install
	$(BIN)/pytest -rs -n $(JOBS) --dist worksteal -m "not slow"

slow: install
	XLA_FLAGS=--xla_cpu_use_fusion_emitters=false $(BIN)/pytest -n $(JOBS) --dist worksteal -m slow

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The documentation, into site/: open site/index.html, or .venv/bin/mkdocs serve to search in it too.
# Every warning is an error; nothing is fetched.
docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo site/index.html

# Wheel and sdist, each installed into a fresh environment: some minutes, most of them pip's.
smoke: install
	$(BIN)/python -m tools.smoke

# Every table and figure of the paper, about ten minutes on two cores; run again, it goes on.
reproduce: install
	$(BIN)/dvisr reproduce all --out reproduction

bench: install
	$(BIN)/python benchmarks/bench_exact.py
	$(BIN)/python benchmarks/bench_training.py
	$(BIN)/python -m benchmarks.fits kernel --results /dev/null

# Runs docs/notebooks and stores what they show.
notebooks: install
	$(BIN)/python docs/notebooks/execute.py

clean:
	rm -rf $(VENV) dvisr-demo build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis

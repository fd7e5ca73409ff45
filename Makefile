# Every target sets up what it needs; a second run costs nothing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo docs test test-slow test-lowest test-newest check format bench bench-ledger bench-scale bench-utility bench-utility-tables bench-losses bench-tables-speed bench-utility-codes bench-rivals clean

help:  ## list the targets
	@grep -E '^[a-z -]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 26

setup: $(STAMP)  ## create .venv with the tested versions

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e . --group dev
	touch $(STAMP)

demo: $(STAMP)  ## plan, train, release, sample, evaluate, audit and report on data inside scikit-learn
	OMP_NUM_THREADS=1 $(BIN)/understudy demo --out demo

docs: $(STAMP)  ## build the documentation as a site into site/; without network once its tools are there
	$(BIN)/python -c "import material, mkdocstrings" 2> /dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

test: $(STAMP)  ## run the tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n 2

test-slow: $(STAMP)  ## run the tests that take minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow -n 2

# An environment of its own for each end of the allowed versions and each Python (PYTHON=python3.13); TORCH names another
# build, such as TORCH=torch==2.4.0.
TORCH ?= $(shell grep '^torch==' constraints.txt)
COMMANDS := tests/cli tests/release tests/ledger/test_ledger.py tests/test_codec.py tests/test_files.py
OWN = .venv-$*-$(notdir $(PYTHON))

test-lowest test-newest: test-%:  ## the commands with the lowest (newest) versions that pyproject allows
	test -x $(OWN)/bin/python || $(PYTHON) -m venv $(OWN)
	$(PYTHON) .ci/versions.py $* > $(OWN)/requirements.txt
	$(OWN)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade-strategy eager --upgrade \
		"$(TORCH)" -r $(OWN)/requirements.txt pytest pytest-timeout hypothesis
	$(OWN)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	OMP_NUM_THREADS=1 $(OWN)/bin/python -m pytest -o filterwarnings=default -m "not slow" $(COMMANDS)

check: $(STAMP)  ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMP)  ## format and repair what can be repaired
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)  ## engine benchmarks: ratios measured side by side
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.engine $(ARGS)

bench-ledger: $(STAMP)  ## what it costs to put every step on record
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.ledger $(ARGS)

bench-scale: $(STAMP)  ## memory and time over the number of rows, and two processes beside one
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.scale $(ARGS)

bench-utility: $(STAMP)  ## usefulness of synthetic images for every recipe; hours, resumable
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.utility $(ARGS)

bench-utility-tables: $(STAMP)  ## usefulness of synthetic tables beside a paper's recipe; minutes, resumable
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.utility_tables $(ARGS)

bench-losses: $(STAMP)  ## what synthetic tables lose: made-up ones with piles, grids, chains and rules; minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.losses $(ARGS)

bench-tables-speed: $(STAMP)  ## CPU seconds of a fit of Adult, and of sampling a million rows; 900 columns
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.tables_speed $(ARGS)

bench-utility-codes: $(STAMP)  ## faithfulness of synthetic code vectors beside a paper's recipe; minutes, resumable
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.utility_codes $(ARGS)

bench-rivals: $(STAMP)  ## our tables beside those of dpmm (MST, AIM), which gets an environment of its own; hours, resumable
	test -x .venv-rivals/bin/python || $(PYTHON) -m venv .venv-rivals
	.venv-rivals/bin/python -m pip install --quiet --disable-pip-version-check dpmm==0.1.9
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.utility_tables --rivals .venv-rivals/bin/python $(ARGS)

clean:  ## remove what the targets made
	rm -rf $(VENV) .venv-rivals .venv-lowest-* .venv-newest-* demo build dist

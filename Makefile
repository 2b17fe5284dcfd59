# make audit, make test: each sets itself up in .venv, which needs Python 3.11+, make and a C compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: audit test docs clean

audit: $(STAMP)                 ## one whole audit: the published experiment
	$(BIN)/audit

test: $(STAMP)                  ## every test, and the house's rules
	$(BIN)/ruff check src tests benchmarks docs examples
	$(BIN)/ruff format --check src tests benchmarks docs examples
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/pytest -n 2

docs: $(STAMP)                  ## the documentation, into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

clean:                          ## the environment and what tools leave behind; mlruns/ stays
	rm -rf $(VENV) dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis

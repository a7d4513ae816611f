# On a fresh clone, with only Python >= 3.11: `make compare` or `make test`. Both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS := constraints.txt
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --editable

.PHONY: compare bench test lint clean

compare: $(VENV)/experiments.stamp  ## every balancer on real lengths; ARGS="--ranks 512" passes options on
	$(BIN)/evenstep compare $(ARGS)

bench: $(VENV)/experiments.stamp  ## time and growth of packers and balancers
	$(BIN)/evenstep bench $(ARGS)

test: $(VENV)/dev.stamp  ## all tests; EVENSTEP_DATA=FOLDER adds those on real data files
	$(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV)

$(VENV)/experiments.stamp: pyproject.toml $(CONSTRAINTS) | $(VENV)
	@echo "setting up $(VENV) (once)"
	@$(INSTALL) ".[experiments]"
	@touch $@

$(VENV)/dev.stamp: pyproject.toml $(CONSTRAINTS) | $(VENV)
	@echo "setting up $(VENV) with everything, torch included (once)"
	@$(INSTALL) ".[dev]"
	@touch $@ $(VENV)/experiments.stamp

$(VENV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "evenstep needs Python >= 3.11: make PYTHON=python3.12")'
	@$(PYTHON) -m venv $(VENV)

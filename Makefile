# Every target does its own set-up in .venv; nothing else is needed than Python 3.11+, make and a package registry.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test quick lint format bench docs stress clean

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, but $(PYTHON) is %d.%d. Try: make PYTHON=python3.12 ..." % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) (once; a few minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $(READY)

demo: $(READY)
	@$(BIN)/neuro-divergent demo

# One thread per worker: two workers that each ask for both cores only wait for each other.
# ARGS go to pytest: make test ARGS="tests/unit/cli -k hints".
test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not stress" --dist loadfile $(ARGS)

# What a change breaks most often, in less than a minute.
quick: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile tests/golden tests/unit/core tests/unit/metrics \
		tests/unit/training/loop tests/unit/training/test_training_run.py tests/unit/training/test_trainer.py \
		tests/house/test_layout.py tests/house/test_public.py tests/house/test_kinds.py $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python -m benchmarks

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

stress: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python tests/faults/stress_table.py

clean:
	rm -rf $(VENV) site demo-output build dist .pytest_cache .mypy_cache .ruff_cache

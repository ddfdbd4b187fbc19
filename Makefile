# Everything runs from a fresh clone: each target first brings up its own environment in .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test check lint fast soak bench lock clean

setup: .venv/ready

.venv/ready: locks/tools.txt locks/all.txt pyproject.toml scripts/setup.sh
	PYTHON=$(PYTHON) bash scripts/setup.sh

demo: setup
	$(BIN)/tidegate demo

test: setup
	$(BIN)/python -m pytest

check: setup
	$(MAKE) -j2 --output-sync lint fast

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright

fast:
	$(BIN)/python -m pytest -q -m "not slow" tests

soak: setup
	TIDEGATE_SOAK=1 $(BIN)/python -m pytest -m slow tests

bench: setup
	$(BIN)/python -m benchmarks.log

lock:
	bash scripts/lock.sh

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .tidegate

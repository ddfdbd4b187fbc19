# Everything runs from a fresh clone: each target first brings up its own environment in .venv.
PYTHON ?= python3
BIN := .venv/bin

# Else each process that a test starts compiles all of tidegate again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup setup-tests demo test check lint fast wheel client dashboard soak bench lock clean

setup: .venv/ready

.venv/ready: locks/tools.txt locks/all.txt pyproject.toml scripts/setup.sh
	@PYTHON=$(PYTHON) bash scripts/setup.sh

# Beside the environment: Maven, Java's compiler, and what is fetched with them.
setup-tests: .venv/ready-for-tests

.venv/ready-for-tests: .venv/ready scripts/setup_tests.sh src/tidegate/testing/broker/pom.xml clients/typescript/package-lock.json dashboard/package-lock.json tests/fetch.py tests/class_archives.py $(wildcard native/*.c native/*.h native/*.py native/*.toml)
	@bash scripts/setup_tests.sh

demo: setup
	$(BIN)/tidegate demo

# Three processes for two cores, and fewer where memory is short; another number: make test WORKERS=8
WORKERS ?= auto

test: setup-tests
	$(BIN)/python -m pytest -n $(WORKERS) --durations=60 --durations-min=4

check: setup
	$(MAKE) -j2 --output-sync lint fast

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright

fast:
	$(BIN)/python -m pytest -q -n $(WORKERS) -m "not slow" tests

# The built wheel in empty environments: without extras, then with each of them alone.
wheel: setup
	$(BIN)/python scripts/check_wheel.py

# The client in TypeScript, into the one file that the server serves. npm fetches what the lock file names.
client: setup
	$(BIN)/python -m scripts.build_client

# The dashboard, into the files that the server serves. npm fetches what the lock file names.
dashboard: setup
	$(BIN)/python -m scripts.build_dashboard

soak: setup-tests
	TIDEGATE_SOAK=1 $(BIN)/python -m pytest -n $(WORKERS) -m soak

bench: setup
	$(BIN)/python -m benchmarks.log

lock:
	bash scripts/lock.sh

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .tidegate

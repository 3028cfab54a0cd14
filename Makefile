# Two commands are enough to start: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PEERS  := .venv-peers
ROWS   := .venv-rows
DOCS   := $(VENV)/.docs-ready
SITE   ?= build/site

# Tests start about a hundred processes, each of which would compile all modules again without compiled files.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo up test test-slow coverage soak rehearse lint client bench bench-cluster bench-quality bench-peers bench-tables bench-rows gallery docs clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed (PYTHON=… make setup)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[service,local,dev]'
	@echo "compiling kernels, once…"; $(BIN)/python -m maabo_dist.warm
	@touch $@

demo: $(READY)
	$(BIN)/python -m deploy.local demo

up: $(READY)
	$(BIN)/python -m deploy.local up

# Three processes for two cores: a third of the time the tests wait for the processes that they start.
test: $(READY)
	$(BIN)/python -m pytest -n 3 --dist loadgroup

# CI runs these too. One of them builds the documentation site.
test-slow: $(READY) $(DOCS)
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m slow

# A table of the code that the tests run in their own processes. Nothing is enforced.
coverage: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadgroup --cov --cov-report=term

soak: $(READY)
	$(BIN)/python -m pytest -m soak --durations=25

# Runs the image and the compose file in namespaces, without a container engine. Needs root; about five minutes.
rehearse: $(READY)
	$(BIN)/python -m tests.rehearsal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Generate the blocking client from the asynchronous one.
client: $(READY)
	$(BIN)/python -m tools.generate_client

bench: $(READY)
	$(BIN)/python -m bench

bench-cluster: $(READY)
	$(BIN)/python -m bench.cluster

# The other miners have their own environment. QUALITY='planted --seeds 3' selects what to run.
bench-quality: $(READY) $(PEERS)/.ready
	$(BIN)/python -m bench.quality $(QUALITY)

# Mines the paper's tables with ours and other miners, for docs/results.md. QUALITY='--titanic FILE --boston FILE' names the
# tables that scikit-learn does not include.
bench-peers: $(READY) $(PEERS)/.ready
	$(BIN)/python -m bench.quality tables $(QUALITY)

# Mines real tables that come inside packages, with ours and other miners. TABLES='--only ours --tables development' selects.
bench-tables: $(READY) $(PEERS)/.ready
	$(BIN)/python -m bench.real_tables $(TABLES)

# Mines generated tables of up to ten million rows, and counts rules beside DuckDB. ROWS_OPTIONS='--rows 1e6' selects.
bench-rows: $(READY) $(ROWS)/.ready
	$(BIN)/python -m bench.rows $(ROWS_OPTIONS)

$(ROWS)/.ready: bench/rows/peers.txt
	$(PYTHON) -m venv $(ROWS)
	$(ROWS)/bin/python -m pip install --quiet --disable-pip-version-check -r bench/rows/peers.txt
	@touch $@

$(PEERS)/.ready: bench/quality/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r bench/quality/peers.txt
	@touch $@

# Builds the documentation site, which loads nothing from elsewhere and can be opened from disk: build/site/index.html. Its
# notebook is run for it.
docs: $(READY) $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --clean --site-dir $(abspath $(SITE))

$(DOCS): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

# Takes the screenshots in docs/images with Chromium, from a temporary cluster.
gallery: $(READY)
	$(BIN)/python -m docs.gallery

clean:
	rm -rf $(VENV) $(PEERS) $(ROWS) dist build

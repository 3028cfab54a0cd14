# Two commands are enough: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PEERS  := .venv-peers

# Tests start a hundred processes: each would compile all modules anew where nothing that was compiled is kept.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo up test test-slow soak rehearse lint client bench bench-cluster bench-quality bench-peers gallery clean

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

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadgroup

# What CI runs besides.
test-slow: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m slow

soak: $(READY)
	$(BIN)/python -m pytest -m soak

# The image and the compose file without a container engine, in namespaces: needs root. Some five minutes.
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

# The miners that ours are measured beside have an environment of their own. QUALITY='planted --seeds 3' says what to run.
bench-quality: $(READY) $(PEERS)/.ready
	$(BIN)/python -m bench.quality $(QUALITY)

# The paper's tables through ours and the others, into docs/results.md. QUALITY='--titanic FILE --boston FILE' names those
# that do not come with scikit-learn.
bench-peers: $(READY) $(PEERS)/.ready
	$(BIN)/python -m bench.quality tables $(QUALITY)

$(PEERS)/.ready: bench/quality/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r bench/quality/peers.txt
	@touch $@

# The screenshots in docs/images, taken in Chromium from a cluster of its own.
gallery: $(READY)
	$(BIN)/python -m docs.gallery

clean:
	rm -rf $(VENV) $(PEERS) dist build

# Everything a contributor runs, here and in CI. `make` alone lists the targets.

VENV ?= .venv
OUT ?= goalmeter-demo
ARGS ?=
MINUTES ?= 30

CANDIDATES := python3.11 python3.12 python3.13 python3
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
# Recursive on purpose: the search runs only when the environment has to be made.
PYTHON ?= $(shell for p in $(CANDIDATES); do \
	$$p -c '$(NEW_ENOUGH)' >/dev/null 2>&1 && { echo $$p; break; }; done)

BIN := $(VENV)/bin
# Newer than both files it depends on: nothing to install.
STAMP := $(VENV)/.goalmeter-installed

# One worker a core, at most 8. nproc obeys OMP_NUM_THREADS, so that is taken away from it.
WORKERS ?= $(shell n=$$(env -u OMP_NUM_THREADS nproc 2>/dev/null || getconf _NPROCESSORS_ONLN \
	2>/dev/null || echo 1); [ "$$n" -gt 8 ] && n=8; echo $$n)

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check docs dist bench soak clean

help: ## list the targets
	@echo "goalmeter: make TARGET"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo "PYTHON=... names the interpreter (3.11 or newer), VENV=... the environment (now $(VENV))."

demo: $(STAMP) ## cards of four small language models, and their comparison (OUT=folder)
	@$(BIN)/goalmeter demo --out "$(OUT)"

# The workers share the cores, so the numerical libraries get one thread each.
test test-all: export OMP_NUM_THREADS = 1
test test-all: export OPENBLAS_NUM_THREADS = 1
test test-all: export MKL_NUM_THREADS = 1
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

test: $(STAMP) ## run the tests (ARGS="-k words"; browser tests are skipped without Chromium)
	@$(PYTEST) -m "not slow" $(ARGS)

test-all: $(STAMP) ## run the slow tests as well: clusters, faults, fuzzing, training, all documents
	@$(PYTEST) $(ARGS)

check: $(STAMP) ## formatting, lint, types
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m mypy

# Without a network. What is generated in docs/ is ignored by git.
docs: export OMP_NUM_THREADS = 1
docs: $(STAMP) ## build the site into build/docs; warnings are errors (LINKS=1 checks external links)
	@$(SPHINX) -b html docs build/docs
	@$(if $(LINKS),$(SPHINX) -D plot_gallery=0 -b linkcheck docs build/links)
	@echo "build/docs/index.html"
SPHINX = WORKERS=$(WORKERS) $(BIN)/python -m sphinx -q -W --keep-going -j $(WORKERS)

dist: $(STAMP) ## build the wheel and the source distribution into dist
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation

bench: $(STAMP) ## run the benchmarks (ARGS=...)
	@$(BIN)/python benchmarks/run_all.py $(ARGS)

# One thread each, as for the tests; and no threads at all in the process that forks.
soak: export OMP_NUM_THREADS = 1
soak: export OPENBLAS_NUM_THREADS = 1
soak: export MKL_NUM_THREADS = 1
soak: $(STAMP) ## kill, fill and jolt every kind of run for half an hour (MINUTES=30, ARGS="--seed 7")
	@PYTHONPATH=tests $(BIN)/python -m faults --minutes $(MINUTES) $(ARGS)

clean: ## remove caches, builds and the demo's output; the environment stays
	@rm -rf docs/auto_gallery docs/reference docs/environments/reflection docs/environments/*.rst
	@rm -rf build dist goalmeter-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find src replications tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# --clear only on what is an environment already, and a broken one: VENV may name any folder.
$(STAMP): pyproject.toml constraints.txt
	@if ! { $(BIN)/python -c '$(NEW_ENOUGH)' && $(BIN)/python -m pip --version; } >/dev/null 2>&1; then \
	    python="$(PYTHON)"; \
	    if ! "$$python" -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then \
	        echo "goalmeter needs Python 3.11 or newer: tried $${python:-$(CANDIDATES)}." \
	             "Install one, or name it: make PYTHON=..." >&2; \
	        exit 1; \
	    fi; \
	    clear=; if [ -f $(VENV)/pyvenv.cfg ]; then clear=--clear; fi; \
	    "$$python" -m venv $$clear $(VENV); \
	fi
	@echo "Installing goalmeter and its pinned dependencies into $(VENV) (a few minutes, once) ..."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	@touch $@

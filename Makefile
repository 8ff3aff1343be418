# Everything here sets itself up in .venv: `make demo` on a fresh clone is all that is needed.
#
#   PYTHON=...      the Python to create .venv with, 3.11 or newer
#   PIP_FLAGS=...   passed to pip: another index, a CPU-only build of torch, --no-index, ...
#   ARGS=...        passed to pytest or to the demo
#   JOBS=...        tests run in so many processes (default: one per core, four at most)

SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
PIP_FLAGS ?=
ARGS ?=
JOBS ?= auto
# By file, so that recordings that the tests of a file share are made once.
SPREAD := -n $(JOBS) --maxprocesses 4 --dist loadfile
PY := .venv/bin/python
READY := .venv/installed-by-make

.DEFAULT_GOAL := help
.PHONY: help demo test quick slow check bench clean

help:  ## List these targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r target text; do \
	  printf '%-14s%s\n' "$$target" "$$text"; done

demo: $(READY)  ## Record four pairs of runs, of which three differ in one thing; show where they part, and why
	@$(PY) scripts/demo.py $(ARGS)

test: $(READY)  ## Run all tests (some minutes)
	@$(PY) -m pytest $(SPREAD) $(ARGS)

quick: $(READY)  ## Run the tests that take a few seconds at most each
	@$(PY) -m pytest $(SPREAD) -m "not slow and not matrix" $(ARGS)

slow: $(READY)  ## Run the long series that `make test` leaves out: causes that real knobs are, kills at 100 moments
	@$(PY) -m pytest -m matrix $(ARGS)

check: $(READY)  ## Lint, check the format, the types and the directions of imports
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@.venv/bin/lint-imports

bench: $(READY)  ## Measure what recording and comparing cost on this machine
	@for file in $$(grep -l __main__ benchmarks/*.py | grep -v _demo.py); do \
	  echo "== $$file"; $(PY) "$$file" || exit; done

clean:  ## Remove demo runs, caches and build products (not .venv, not your runs)
	rm -rf demo-runs build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@PYTHON="$(PYTHON)" scripts/make_venv.sh
	@echo "Installing into .venv (the first time this downloads torch and takes a few minutes) ..."
	@$(PY) -m pip install --disable-pip-version-check $(PIP_FLAGS) -c constraints.txt -e '.[bisect,samples,dev]'
	@touch $@

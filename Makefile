# Each target makes its own environment in .venv, installs what it needs once, and
# starts at once from then on. PYTHON=python3.12 chooses the interpreter.

PYTHON ?= python3
BIN := .venv/bin
SPEC := pyproject.toml .ci/constraints.txt Makefile
PIP := $(BIN)/python -m pip install --disable-pip-version-check -c .ci/constraints.txt

.PHONY: help test demo bench doc clean

help:
	@echo "make test                    lint, types and the whole test suite"
	@echo "make demo [METHOD=] [FULL=1] watch the methods work, pictures in demo_output/"
	@echo "make bench                   a quick look at speed and quality"
	@echo "make doc                     the documentation, in doc/_build/html"
	@echo "make clean                   remove what these made, except .venv"

test: .venv/.test
	.ci/test

demo: .venv/.demo
	$(BIN)/skicml demo --output demo_output $(METHOD) $(if $(FULL),--full)

bench: .venv/.bench
	cd asv_bench && ../$(BIN)/asv machine --yes && ../$(BIN)/asv run --python=same --quick

doc: .venv/.doc
	$(BIN)/sphinx-build -W --keep-going -b html doc doc/_build/html

clean:
	rm -rf build dist demo_output doc/_build doc/auto_examples doc/api/generated
	rm -rf asv_bench/env asv_bench/html asv_bench/results
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name .venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp per set of extras: sets add up in one environment, so that switching between
# targets installs nothing.
.venv/.test: EXTRAS := test
.venv/.demo: EXTRAS := numba,plot
.venv/.bench: EXTRAS := bench
.venv/.doc: EXTRAS := doc
.venv/.test .venv/.demo .venv/.bench .venv/.doc: .venv/.torch
	$(PIP) -e ".[$(EXTRAS)]"
	@touch $@

# torch first, by itself: its version is pinned, and nothing else may choose it
.venv/.torch: $(SPEC) | $(BIN)/python
	$(PIP) torch==2.13.0
	@touch $@

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || \
	    { echo "$(PYTHON) was not found. Name one with: make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "skicml needs Python 3.11 or newer, but $(PYTHON) is" \
	      "$$($(PYTHON) -V 2>&1). Name a newer one with: make PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv .venv

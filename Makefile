# Needs Python >= 3.11, git and make; everything else goes into .venv. `make help` lists the targets.
# Recipes are silent and what they say goes to stderr: stdout belongs to the command that a target runs.

PYTHON ?= $(shell unset PYTHONHOME; for p in python3 python3.13 python3.12 python3.11 python; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
NEEDS_PYTHON = $(if $(PYTHON),,$(error Albireo needs Python 3.11 or newer and found none. \
  Install one, or name it: make PYTHON=/path/to/python3.11))
INSTALL = $(NEEDS_PYTHON)$(PYTHON) constraints/install.py
BIN := .venv/bin
ARGS ?=
ROUNDS ?= 10
# One more than the cores of a small machine: the tests of one of them, at first the drills, mostly wait.
WORKERS ?= 3

# What is measured and tested starts as it does for its users: with compiled modules, and the library of its Python.
unexport PYTHONDONTWRITEBYTECODE PYTHONHOME

.PHONY: help install spark demo test lint page bench peers drill simulate lock clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^## //p' Makefile

## make demo      two simulated tunnels, a tree of nodes on them, the report at the end; ARGS="--for 30 --json" for a short one
demo:
	@$(INSTALL) node --beside spark -- $(BIN)/albireo demo $(ARGS)

## make install   only what a node needs; activate it with: source .venv/bin/activate
install:
	@$(INSTALL) node

## make spark     what `albireo pipeline run` needs besides (900 MB); `make demo` and `make test` bring it too
spark:
	@$(INSTALL) spark

## make test      every test; ARGS="-k log" for some, WORKERS=0 in one process
test:
	@$(INSTALL) dev
	@$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

## make lint      ruff, mypy (strict), codespell
lint:
	@$(INSTALL) dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/codespell $$(git ls-files)

## make page      the page in the browser: types, check, tests, bundle; ARGS=--compare: the bundle is the one that is checked in
page:
	@$(INSTALL) node
	@$(BIN)/python page/make.py $(ARGS)

## make bench     every benchmark; rewrites bench/RESULTS.md
bench:
	@$(INSTALL) dev
	@$(BIN)/python -m bench --all $(ARGS)

## make drill     every test in its long form (hours), then every fault of the pair; ROUNDS=3 for fewer
drill:
	@$(INSTALL) dev
	@ALBIREO_LONG_TESTS=1 $(BIN)/python -m pytest -n $(WORKERS) $(ARGS)
	@failed=0; for fault in $$($(BIN)/albireo drill --list | cut -f1); do \
	  $(BIN)/albireo drill $$fault --rounds $(ROUNDS) --json || failed=1; done; exit $$failed

## make simulate  the pair in seeded worlds full of faults; ARGS="--seeds 20000 --json" for a long run
simulate:
	@$(INSTALL) node
	@$(BIN)/albireo simulate $(ARGS)

## make peers     foreign programs for the interop tests (Debian, as root, best effort)
peers:
	@.ci/peers

## make lock      write constraints/*.txt anew from pyproject.toml
lock:
	@$(INSTALL) node
	@.ci/lock $(BIN)

## make clean     remove .venv and var
clean:
	@rm -rf .venv var

# Two commands to remember: `make demo` and `make test`. Everything else is here for contributors.
# Needs only make, git and Python 3.11 or newer; `make PYTHON=python3.12 setup` chooses another Python.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# Extra words for the commands, as in `make test PYTEST_FLAGS="-x -k lease"`.
PYTEST_FLAGS ?=
DEMO_FLAGS   ?=
BENCH_FLAGS  ?=
PROVE_FLAGS  ?=
SPEC_FLAGS   ?=
MUTANT_FLAGS ?=

.PHONY: setup demo test lint types check prove spec mutants mutants-full bench clean

setup: $(STAMP)

# The stamp makes the installation happen again only after pyproject.toml has changed.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "pinfold needs Python 3.11 or newer and '$(PYTHON)' is not one: name one with 'make PYTHON=python3.12 setup'." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments: install its venv module (on Debian: apt install python3-venv)." >&2; exit 1; }
	@test -L pinfold/core || { \
	  echo "pinfold/core is not a symbolic link: clone again with 'git -c core.symlinks=true clone'." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]'
	@touch $@

demo: $(STAMP)
	$(BIN)/pinfold demo $(DEMO_FLAGS)

test: $(STAMP)
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

lint: $(STAMP)
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy
	$(BIN)/pyright

# All of what CI does, in its order.
check:
	bash .ci/run

# Every row of the table against every record-level invariant, for all sizes (specs/results.md).
prove: $(STAMP)
	$(BIN)/python -m proofs.run $(PROVE_FLAGS)

# The TLA+ model, checked by TLC and bound to the machines (specs/tla.md). Needs Java; TLC comes out of a pinned wheel.
spec: $(STAMP)
	$(BIN)/python specs/bind $(SPEC_FLAGS)

# Seeded faults (specs/mutants.md): each under its two quickest known killers, or every one under every check.
mutants: $(STAMP)
	$(BIN)/python -m tests.mutants $(MUTANT_FLAGS)

mutants-full: $(STAMP)
	$(BIN)/python -m tests.mutants --deep --write $(MUTANT_FLAGS)

bench: $(STAMP)
	$(BIN)/python benchmarks/step_rate.py $(BENCH_FLAGS)

clean:
	rm -rf $(VENV) build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

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
CHECK_FLAGS  ?=
MUTANT_FLAGS ?=
MUTATION_FLAGS ?=
FIND_FLAGS ?=

.PHONY: setup demo test lint types explore check check-full prove spec mutants mutants-full mutation find bench clean

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

# The explorer's fast worlds, complete for their budgets; then each of them with each seeded fault that it names.
explore: $(STAMP)
	$(BIN)/pinfold check --all --jobs 2 $(CHECK_FLAGS)
	$(BIN)/pinfold check --all --mutants --jobs 2 $(CHECK_FLAGS)

# All of what CI does, in its order.
check:
	bash .ci/run

# All worlds of the explorer, the deep ones too; goes on where it was stopped, and writes its section of specs/results.md.
check-full: $(STAMP)
	$(BIN)/pinfold check --all --deep --jobs 2 --write-results specs/results.md $(CHECK_FLAGS)

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

# Every small change of the core that the tests should notice, one at a time (specs/mutation.md); goes on where it stopped.
mutation: $(STAMP)
	@$(BIN)/python -m tests.mutation $(MUTATION_FLAGS)

# A bug finder beside the tests: properties of pure functions on symbolic numbers (tests/test_symbolic.py).
find: $(STAMP)
	$(BIN)/python -m pytest -m nightly tests/test_symbolic.py $(FIND_FLAGS)

bench: $(STAMP)
	$(BIN)/python benchmarks/step_rate.py $(BENCH_FLAGS)

clean:
	rm -rf $(VENV) build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

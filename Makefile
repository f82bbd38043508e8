# make demo: set up, run the in-context experiment, write and name the report.
# make test: set up, run the checks and the quick tests, in five minutes.
# make test-all: these and the slow ones, which `make test-rest` runs alone.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.PHONY: demo test test-rest test-all lint setup docs docs-site pictures answers notebooks clean

demo: $(READY)
	$(BIN)/headway run icl-heads --seeds 3

# A thread to a worker, and a worker more than cores: many tests wait for processes that they have killed.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist worksteal

test: $(READY)
	$(PYTEST) -m "not slow"

test-rest: $(READY)
	$(PYTEST) -m slow

test-all: $(READY)
	$(PYTEST)

lint: $(READY)
	$(BIN)/python -m pytest -q tests/laws/test_lint.py

setup: $(READY)

# What is generated in docs: every experiment key, the schemas of experiments and results, the floors of the house, the
# architectures that are traced.
docs: $(READY)
	$(BIN)/python docs/experiment_keys.py docs
	$(BIN)/python docs/results_schema.py docs
	$(BIN)/python docs/house.py
	$(BIN)/python docs/architectures.py

# The documentation site, built without a network; a link that leads nowhere is an error.
docs-site: $(READY)
	$(BIN)/python docs/site.py build/site

# The pictures of pages in docs, from stored inputs; it takes a browser and about a minute.
pictures: $(READY)
	$(BIN)/python docs/pictures.py

# The answers of shipped experiments that are due, run below build/answers one after the other; it may take hours.
answers: $(READY)
	$(BIN)/python docs/answers.py build/answers

# The notebooks, executed again; they take a minute or two each.
notebooks: $(READY)
	$(BIN)/python docs/notebook.py

$(READY): pyproject.toml setup.py constraints.txt $(wildcard src/headway/*/*.[ch]pp)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Headway needs Python 3.11 or later; try: make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) build results src/*.egg-info src/headway/*.so

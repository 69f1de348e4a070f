# Each target does its own set-up in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: run lab-mid lab-full test test-slow lint bench clean

run: $(STAMP)  ## embedded defaults: generate, attack, calibrate, detect; ends in a report
	$(BIN)/wmbench run --scheme denmark

lab-mid lab-full: $(STAMP)  ## all schemes in the lab, at two sizes; says how long, and resumes
	OMP_NUM_THREADS=1 $(BIN)/wmbench run --preset $@ --workers $$(nproc) --batch-size 16

test: $(STAMP) lint  ## linters, then the whole test suite
	$(BIN)/pytest -n 2 -m "not slow"

test-slow: $(STAMP)  ## statistical and crash tests that take minutes
	$(BIN)/pytest -m slow

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)  ## timings as ratios measured in one run
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,report]"
	touch $(STAMP)

# All targets use .venv, which is created on first use with the interpreter in PYTHON.
# MDVPF_DATA is the folder of the real data. MDVPF_DEBUG=1 builds the core with all checks.

PYTHON ?= python3
MDVPF_TORTURE ?= full

VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
CORE := $(shell find mdvpf -name '*.pyx' -o -name '*.pxd')

INSTALLED := $(VENV)/.installed
BUILT := $(VENV)/.built$(if $(filter-out 0,$(MDVPF_DEBUG)),-debug)
BENCHED := $(VENV)/.benched
DOCUMENTED := $(VENV)/.documented
SANITIZED := build/sanitize
SANITIZE_TESTS ?= tests/kernel tests/unit/test_checkpoint_baselines.py tests/unit/test_open_trees.py tests/unit/test_soft_hmm.py
COVERED := build/coverage
COVERAGE_TESTS ?= tests/kernel tests/unit/test_api.py tests/unit/test_checkpoint.py

# Copy the package to $(1) and build the core there with the variables $(2).
define build-copy
@rm -rf $(1) && mkdir -p $(1)
@tar -cf - --exclude='*.so' --exclude=__pycache__ mdvpf setup.py pyproject.toml README.md LICENSE | tar -xf - -C $(1)
@cd $(1) && $(2) $(BIN)/python setup.py -q build_ext --inplace
@touch $(1)/.built
endef

# Replace the Python files and the tests of that copy by the current ones.
define refresh-copy
@rm -rf $(1)/tests && find $(1)/mdvpf -name '*.py' -delete
@tar -cf - --exclude='*.so' --exclude=__pycache__ mdvpf tests | tar -xf - -C $(1)
endef

.DELETE_ON_ERROR:
.PHONY: help demo test coverage coverage-core docs bench bench-full bench-gate bench-predict lint sanitize torture clean

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile | expand -t 15

demo: $(BUILT) ## the switching HMM of the paper, 20 streams; writes results/artificial and demo.png
	@$(BIN)/mdvpf reproduce artificial --seeds 20 --jobs 2 --out results
	@cp results/artificial/artificial.png demo.png && echo "picture: demo.png"

test: $(BUILT) ## tests and doctests, without the torture tests
	@$(BIN)/python -m pytest -q -n 2 --benchmark-disable

docs: $(DOCUMENTED) $(BUILT) ## the documentation, in build/docs; a warning is an error
	@rm -rf docs/api
	@$(BIN)/python -m sphinx -q -W --keep-going -E -b html docs build/docs && echo "documentation: build/docs/index.html"

bench: $(BENCHED) $(BUILT) ## ratios to the floor and to peers against their targets (needs MDVPF_DATA; minutes)
	@$(BIN)/python -m pytest -q -p no:xdist --benchmark-only --benchmark-disable-gc \
		--benchmark-columns=min,median,rounds benchmarks/test_kernels.py
	@$(BIN)/python -m benchmarks.full --short

bench-full: $(BENCHED) $(BUILT) ## every measurement except the largest run, with plots (needs MDVPF_DATA; 10 to 20 minutes)
	@$(BIN)/python -m benchmarks.full
	@$(BIN)/python -m benchmarks.plots

bench-gate: $(BUILT) ## instructions of a step against benchmarks/gate.json; UPDATE=1 writes new figures
	@$(BIN)/python -m benchmarks.gate $(if $(filter-out 0,$(UPDATE)),--update)

bench-predict: $(BENCHED) $(BUILT) ## auto and its peers: nats, time, memory (needs MDVPF_DATA; hours; finished runs are reused)
	@$(BIN)/python -m benchmarks.predict

lint: $(BUILT) ## ruff, cython-lint, mypy, import-linter and codespell
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@PATH="$(BIN):$$PATH" cython-lint $(CORE)  # finds pycodestyle on the path
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo >$(VENV)/imports.log || { cat $(VENV)/imports.log; false; }
	@$(BIN)/codespell

coverage: $(BUILT) ## coverage of the Python code by tests/unit and tests/experiments, with a lower limit
	@$(BIN)/python -m pytest -q -p no:xdist --benchmark-disable --cov --cov-report=term:skip-covered \
		tests/unit tests/experiments

coverage-core: $(COVERED)/.built ## coverage of the core by the tests of the kernel, with gcov
	$(call refresh-copy,$(COVERED))
	@$(BIN)/python .ci/core_coverage.py $(COVERED) $(COVERAGE_TESTS)

torture: $(BUILT) ## long randomised tests; MDVPF_TORTURE=sample for a short run
	@MDVPF_TORTURE=$(MDVPF_TORTURE) $(BIN)/python -m pytest -q -n 2 --benchmark-disable -m torture tests
ifeq ($(MDVPF_TORTURE),full)
	@MDVPF_TORTURE=full $(MAKE) --no-print-directory sanitize SANITIZE_TESTS=tests/kernel/test_snapshot_fuzz.py
endif

# The sanitizers must be loaded before Python. libstdc++ is loaded, too: otherwise they miss the
# exceptions of other extensions. Leak detection is off because CPython leaks at exit by design.
# Python's allocator stays on: the core uses malloc only, and without Python's allocator the tests
# take several times as long. pytest captures sys.stderr only, so that it does not swallow reports,
# which go to the descriptor of stderr.
sanitize: $(SANITIZED)/.built ## tests of the kernel under address and undefined-behaviour sanitizers
	$(call refresh-copy,$(SANITIZED))
	@cd $(SANITIZED) && \
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so.6)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	$(BIN)/python -m pytest -q -n 2 --benchmark-disable --capture=sys $(SANITIZE_TESTS)

$(SANITIZED)/.built: $(CORE) setup.py pyproject.toml | $(BUILT)
	$(call build-copy,$(SANITIZED),MDVPF_SANITIZE=1)

$(COVERED)/.built: $(CORE) setup.py pyproject.toml | $(BUILT)
	$(call build-copy,$(COVERED),MDVPF_COVERAGE=1)

# pip hides compiler warnings. The editable install therefore compiles nothing (MDVPF_PURE), and
# this rule compiles the core visibly. It runs again when a source of the core changes.
$(BUILT): $(INSTALLED) $(CORE)
	@rm -f $(VENV)/.built*
	@$(BIN)/python setup.py -q build_ext --inplace
	@touch $@

$(INSTALLED): pyproject.toml setup.py
	@echo "setting up .venv"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install 'setuptools>=77' 'Cython>=3.1'
	@MDVPF_PURE=1 $(PIP) install --no-build-isolation --editable '.[dev]'
	@touch $@

# Numba and memray do not exist for every platform; benchmarks that need them are then skipped.
$(BENCHED): $(INSTALLED)
	@MDVPF_PURE=1 $(PIP) install --no-build-isolation --editable '.[dev,bench]' || echo "benchmarks: some peers are missing"
	@touch $@

$(DOCUMENTED): $(INSTALLED)
	@$(PIP) install --no-build-isolation --editable '.[dev,docs]'
	@touch $@

clean: ## remove everything that was built, except .venv
	@rm -rf build dist *.egg-info .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@rm -rf results benchmarks/results
	@rm -rf docs/api docs/gallery/figures .coverage
	@find mdvpf -name '*.so' -delete
	@rm -f demo.png $(VENV)/.built* $(BENCHED) $(DOCUMENTED) $(INSTALLED)
	@find mdvpf tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

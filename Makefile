# `make help` lists the targets.

PYTHON ?= python3
VENV ?= .venv
EXTRAS := airflow,curves,examples,plots,stack
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
UV_LINKS := $(if $(PIP_FIND_LINKS),--find-links "$(PIP_FIND_LINKS)")
WORKERS ?= auto
# Tests against a real stack wait as much as they work: three stacks keep two cores busy.
STACKS ?= 3
# Inputs of `make fuzz`, over all targets; without a SEED it chooses one and prints it.
INPUTS ?= 100000
SEED ?=
# Where tests start real services: whole stacks, Kubernetes, a Docker Engine.
REAL := tests/checkpoints tests/stack tests/e2e tests/runners/docker tests/k8s
PYTEST := $(BIN)/python -m pytest
# Without byte code, importing Airflow takes each process 14 s of CPU instead of 4.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo up down status test test-fast test-real test-tools test-e2e test-k8s fuzz chaos cluster-up cluster-down check audit format bench packages constraints clean

help: ## Lists these targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## Makes the virtual environment (again when a dependency has changed)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' 2>/dev/null || { \
		echo "$(PYTHON) is `$(PYTHON) --version 2>&1`, but Python 3.11 or 3.12 is needed:" \
			"make PYTHON=/path/to/python3.11 …" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --constraint constraints.txt uv
	$(BIN)/uv pip install --quiet --system-certs --python $(BIN)/python $(UV_LINKS) \
		--constraint constraints.txt --editable '.[$(EXTRAS)]' --group dev
	@touch $@

demo: install ## Runs an example study from start to end on this machine
	$(BIN)/hpo demo

up: install ## Starts PostgreSQL, S3 and Airflow, and leaves them running
	$(BIN)/python -m hpo_ops.stack up

down: install ## Stops what `make up` or `make demo` has started
	$(BIN)/python -m hpo_ops.stack down

status: install ## Says how each part of the stack is doing
	$(BIN)/python -m hpo_ops.stack status

# The one-time build of Kubernetes and the quick tests keep two cores busier than one after the other.
test: install ## Runs all tests, quick ones first
	@$(MAKE) --no-print-directory --jobs 2 test-fast test-tools
	@$(MAKE) --no-print-directory test-real

test-fast: install ## Runs the tests that start neither Airflow nor Kubernetes
	$(PYTEST) -m "not e2e and not k8s" --numprocesses $(WORKERS)

test-real: install test-tools ## Runs test-e2e and test-k8s side by side
	$(PYTEST) --durations=15 -m "e2e or k8s" --numprocesses $(STACKS) --dist loadfile $(REAL)

test-e2e: install packages ## Runs the tests against a real stack
	$(PYTEST) --durations=15 -m "e2e and not k8s" --numprocesses $(STACKS) --dist loadfile $(REAL)

test-k8s: install test-tools ## Runs the tests on Kubernetes: our own, or that of KUBECONFIG
	$(PYTEST) --durations=15 -m k8s tests/k8s

test-tools: install packages # What the tests against real things are run on
	@$(BIN)/python -m tests.cluster build --if-possible

fuzz: install ## Fuzzes the gateway, study files, archives and the protocol: INPUTS=100000 SEED=…
	HPO_FUZZ_INPUTS=$(INPUTS) HPO_FUZZ_SEED=$(SEED) $(PYTEST) --timeout=0 --numprocesses $(WORKERS) tests/fuzz

cluster-up: install ## Starts a Kubernetes of four nodes (root on Debian), and leaves it running
	@$(BIN)/python -m tests.cluster up

cluster-down: install ## Stops that Kubernetes and leaves no trace of it
	@$(BIN)/python -m tests.cluster down

# make chaos FAULTS=300, or SECONDS=600; SEED=14 repeats a choice of faults.
chaos: install ## Kills and stops processes of a stack at random while studies run
	$(BIN)/python -m tests.e2e.chaos $(if $(FAULTS),--faults $(FAULTS)) \
		$(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

check: install ## Checks style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

audit: install ## Checks pins, licences, silenced security rules and known vulnerabilities (ADVISORIES=all.zip)
	$(BIN)/python -m tests.audit $(if $(ADVISORIES),--advisories "$(ADVISORIES)")

format: install ## Formats the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install ## Runs the benchmarks
	$(BIN)/python -m benchmarks

# Tests of the UI need a browser, that of `hpo build` buildah, those of containers an engine.
packages: # Installs what tests need, which are skipped otherwise
	@$(call debian,chromium,chromium chromium-browser google-chrome)
	@$(call debian,buildah,buildah)
	@$(call debian,docker.io,dockerd)

# $(call debian,PACKAGE,COMMANDS): installs a package, unless there is one of these commands.
debian = $(foreach name,$(2),command -v $(name) >/dev/null ||) \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing $(1) for the tests"; \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
			apt-get install -y -qq --no-install-recommends $(1); } >/dev/null 2>&1 || \
			echo "$(1) could not be installed by apt-get: its tests are skipped"; \
	else \
		echo "no $(1), and not root on Debian to install it: its tests are skipped"; \
	fi

constraints: install ## Pins the newest versions of all dependencies in constraints.txt
	echo uv | $(BIN)/uv pip compile --quiet --system-certs --upgrade --no-header --no-annotate --no-emit-index-url \
		--no-emit-find-links --python $(BIN)/python $(UV_LINKS) --all-extras --group dev \
		pyproject.toml - --output-file constraints.new
	sed -E 's/\+[a-z0-9.]+$$//' constraints.new > constraints.txt && rm constraints.new

clean: down ## Stops the stack, then removes its state and all caches
	rm -rf .hpo .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

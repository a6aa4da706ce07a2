# One command for each thing a user or a contributor does; CI runs `make test`, then `make test-more`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
KERNELS := $(wildcard src/understudy/*/_kernels*.py src/understudy/*/_kernels*.pxd)

.PHONY: demo test test-more test-long test-wheel test-spark system-spark lint unit docs system dist fresh bench study fuzz faults clean help gateway-demo test-gateway soak fresh-image test-browser

DATA ?= ../shared/data

help:
	@echo "make demo        set up, disguise a stream, and recompute the paper's results (about two minutes the first time)"
	@echo "make test        set up everything; lint, types, layers, documentation, and the tests with their twins"
	@echo "make test-more   the longer suites: test-long (tests that take seconds each), test-browser and test-wheel (what is shipped)"
	@echo "make test-browser the studio in a real browser (about five minutes); DATA=folder adds a walk through a real recording"
	@echo "make test-spark  the tests of understudy.spark on a local Spark, which needs Java 17 (six minutes; part of test-more)"
	@echo "make lint        format, lint, types, layers and the counts of tools/house.py alone"
	@echo "make docs        build the documentation into docs/_build/html"
	@echo "make system      the Debian packages that the tests need: installed where that is allowed, otherwise named"
	@echo "make dist        sdist, pure wheel and compiled wheel in dist/"
	@echo "make fresh       the README's commands in a Debian tree with only python3, python3-venv and make (root; SUITES=...)"
	@echo "make bench       measure against named peers and write docs/benchmarks.md (about 20 minutes)"
	@echo "make study       the study on real data, judged again and written to docs/real-data.md (about an hour); DATA=folder says where they are"
	@echo "make fuzz        the long fuzz of the randomizer's solvers, 20,000 problems of each sort (about 20 minutes)"
	@echo "make gateway-demo  two brokers, simulated rooms, a gateway, and an adversary beside the truth (a minute)"
	@echo "make test-gateway  the gateway with real brokers, killed and stopped (about 6 minutes)"
	@echo "make soak        the same kills, ten times as many, in 20,000 readings (about 20 minutes)"
	@echo "make fresh-image the RUN lines of packaging/Dockerfile in a bare Debian tree (root)"
	@echo "make faults      the ledger under every fault at every write (about 4 minutes)"
	@echo "make clean       remove what the others made"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "understudy needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "no venv module: on Debian, apt-get install python3-venv" >&2; exit 1; }
	@$(PIP) install --upgrade "pip>=25.1" "setuptools>=77" "Cython>=3.1"

# An editable install would silently run a stale extension: it is rebuilt when its source is newer.
$(VENV)/.kernels: $(BIN)/python pyproject.toml setup.py $(KERNELS)
	@command -v cc >/dev/null || command -v gcc >/dev/null || \
	  echo "no C compiler: the plain kernels will run, about 80 times slower on whole records (on Debian, apt-get install gcc python3-dev)"
	@echo "installing understudy into $(VENV) (about a minute)"
	@rm -rf build; find src -name '_kernels*.so' -delete
	@$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

# What it needs: the package itself is there already, and is not built again.
$(VENV)/.installed: $(VENV)/.kernels
	@$(PIP) install "understudy[all]"
	@$(BIN)/understudy info | grep kernels
	@touch $@

# A compiler and the headers of Python: the tests hold the compiled kernels to the plain ones. What was installed without
# a compiler is built again. Chromium: the studio is tested in a real browser.
system:
	@missing=""; \
	command -v cc >/dev/null || command -v gcc >/dev/null || missing="$$missing gcc libc6-dev"; \
	$(PYTHON) -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))' \
	  || missing="$$missing python3-dev"; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || missing="$$missing python3-venv"; \
	PATH="$$PATH:/usr/sbin" command -v mosquitto >/dev/null || missing="$$missing mosquitto"; \
	command -v influxd >/dev/null || missing="$$missing influxdb"; \
	command -v openssl >/dev/null || missing="$$missing openssl"; \
	command -v systemd-analyze >/dev/null || missing="$$missing systemd"; \
	command -v chromium >/dev/null || command -v chromium-browser >/dev/null || missing="$$missing chromium"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing$$missing"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends $$missing >/dev/null && rm -f $(VENV)/.kernels; \
	else \
	  echo "the tests need packages of the system; on Debian: sudo apt-get install$$missing" >&2; exit 1; \
	fi

$(VENV)/.groups: $(BIN)/python pyproject.toml
	@echo "installing what the tests need (about a minute)"
	@$(PIP) install --no-warn-conflicts --group test --group lint --group docs
	@touch $@

$(VENV)/.developer: $(VENV)/.installed
	@$(MAKE) --no-print-directory $(VENV)/.groups
	@touch $@

demo: $(VENV)/.installed
	@$(BIN)/understudy demo
	@echo
	@echo "the paper's results, recomputed (half a minute)"
	@$(BIN)/understudy paper --quick --out build/paper

gateway-demo: $(VENV)/.installed
	@PATH="$$PATH:/usr/sbin" command -v mosquitto >/dev/null || $(MAKE) --no-print-directory system
	@$(BIN)/python examples/gateway_demo.py

# From nothing, packages are fetched while the kernels compile. Lint and docs run beside the tests: each keeps one core
# busy at most.
test: system
	@$(MAKE) --no-print-directory $(BIN)/python
	@$(MAKE) --no-print-directory --jobs=2 $(VENV)/.kernels $(VENV)/.groups
	@$(MAKE) --no-print-directory $(VENV)/.developer
	@$(MAKE) --no-print-directory --jobs=2 unit lint docs

test-more: test-long test-gateway test-browser test-wheel test-spark

lint: $(VENV)/.developer
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/house.py

# Two workers whose matrix products each take all cores wait for one another. A file stays with one worker, which makes
# its designs and fits once; the many processes of the tests find the package compiled to bytecode; and assertions are
# not rewritten, which takes as long as collecting the tests: `.venv/bin/pytest` on one test shows the values of a failure.
ONCE := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=
unit: $(VENV)/.developer
	$(ONCE) $(BIN)/pytest -n auto --dist loadfile --assert=plain

# The gateway with real brokers: each test starts its own, on the loopback.
test-gateway: system
	@$(MAKE) --no-print-directory $(VENV)/.developer
	$(ONCE) $(BIN)/pytest --assert=plain -m gateway tests

soak: system
	@$(MAKE) --no-print-directory $(VENV)/.developer
	$(ONCE) UNDERSTUDY_SOAK=1 $(BIN)/pytest -s --assert=plain -m gateway tests/gateway/test_kills.py tests/gateway/test_pipe_kills.py

# Tests that are too slow for every change; each says its seconds and its reason where it is marked.
test-long: system
	@$(MAKE) --no-print-directory $(VENV)/.developer
	$(ONCE) $(BIN)/pytest -n auto --assert=plain -m long tests

# The studio as a process of its own and in a real browser, one test after the other.
test-browser: system
	@$(MAKE) --no-print-directory $(VENV)/.developer
	UNDERSTUDY_DATA=$(DATA) $(ONCE) $(BIN)/pytest -q --assert=plain -m browser tests/studio

docs: $(VENV)/.developer
	$(BIN)/sphinx-build -W -q -b html docs docs/_build/html
	@echo "documentation in docs/_build/html/index.html"

# The compiled wheel takes the tag of the oldest Linux that it runs on, which auditwheel finds.
dist: $(VENV)/.developer
	@$(PIP) install --group dist
	@rm -rf dist build/wheels build/lib* build/bdist* && mkdir -p dist build/wheels
	UNDERSTUDY_PURE=1 $(BIN)/python -m build --sdist --wheel --outdir dist .
	$(BIN)/python -m build --wheel --outdir build/wheels .
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist build/wheels/*.whl
	@ls dist

# Each of the three is installed into an environment of its own, which then runs the README.
test-wheel: system
	@$(MAKE) --no-print-directory dist
	$(BIN)/python tools/wheels.py dist

# Spark has an environment of its own: it is large, and does not support what others need (pandas 3). The compiled kernels
# are those of $(VENV), so both must have one Python.
system-spark: system
	@if command -v java >/dev/null; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing openjdk-17-jre-headless"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends openjdk-17-jre-headless >/dev/null; \
	else \
	  echo "Spark needs Java 17; on Debian: sudo apt-get install openjdk-17-jre-headless" >&2; exit 1; \
	fi

.venv-spark/.installed: $(VENV)/.kernels
	@test -x .venv-spark/bin/python || $(PYTHON) -m venv .venv-spark
	@echo "installing Spark into .venv-spark (about two minutes)"
	@.venv-spark/bin/python -m pip --disable-pip-version-check --quiet install --upgrade "pip>=25.1" "setuptools>=77"
	@UNDERSTUDY_PURE=1 .venv-spark/bin/python -m pip --disable-pip-version-check --quiet install --no-build-isolation --editable ".[spark]" --group spark
	@touch $@

test-spark: system-spark
	@$(MAKE) --no-print-directory .venv-spark/.installed
	OPENBLAS_NUM_THREADS=1 .venv-spark/bin/python -m pytest -q tests/spark

# A tree with nothing but what the README asks for. Debian's older suite has Python 3.11, the newer one 3.13.
SUITES ?= bookworm trixie
fresh:
	@for suite in $(SUITES); do bash tools/fresh.sh $$suite || exit 1; done

fresh-image:
	bash tools/fresh.sh trixie bash tools/image.sh

# Peers live in an environment of their own, so that they never decide what the package runs with.
.venv-bench/.installed: benchmarks/requirements.txt pyproject.toml setup.py $(KERNELS)
	@test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/python -m pip --disable-pip-version-check --quiet install --upgrade pip -r benchmarks/requirements.txt
	@.venv-bench/bin/python -m pip --disable-pip-version-check --quiet install --force-reinstall --no-deps .
	@.venv-bench/bin/python -m pip --disable-pip-version-check --quiet install .
	@touch $@

bench: .venv-bench/.installed
	.venv-bench/bin/python benchmarks/run.py

# Real data are not part of the project: DATA is the folder that holds them, docs/real-data.md says where they come from.
study: $(VENV)/.developer
	$(BIN)/python -m studies.real_data --data $(DATA)

fuzz: $(VENV)/.developer
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python benchmarks/fuzz.py

faults: $(VENV)/.developer
	UNDERSTUDY_FAULTS=all OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -q -s tests/stream/test_fault_injection.py tests/stream/test_group_faults.py

clean:
	rm -rf $(VENV) .venv-bench .venv-spark build dist paper-results docs/_build src/understudy.egg-info .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src -name '*.so' -delete
	find src tests benchmarks docs studies -name __pycache__ -prune -exec rm -rf {} +

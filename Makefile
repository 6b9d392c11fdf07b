# What people do with this repository. `make` alone lists it.

GO       ?= go
LINT     := $(GO) tool -modfile=$(CURDIR)/tools/go.mod golangci-lint
MODULES  := . bench
FUZZTIME ?= 10s
BENCH    ?= .
COUNT    ?= $(if $(BASE),10,1)
PACKAGES ?= ./...
OUT      ?= $(if $(QUICK),var,docs)

.DEFAULT_GOAL := help
.PHONY: help up build test test-direct test-no-links test-serve check bench bench-go bench-overload bench-balance soak fuzz sdk clean

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: ## build and start a whole fleet on this machine; ENGINE_URL=http://localhost:11434 puts a real engine behind it
	@echo "building the fleet (the first time takes a few minutes) ..."
	@$(GO) build -trimpath -o bin/colonnade ./cmd/colonnade
	@exec bin/colonnade up $(if $(ENGINE_URL),-engine-url "$(ENGINE_URL)") $(UP_FLAGS)

# Some C compilers bind all functions of a library as a program starts; colonnade-gpus must start without the library of the GPUs' driver.
# Without a C compiler it is built all the same, and says that it cannot read GPUs.
build: ## build bin/entry, bin/colo, bin/colonnade, bin/colonnade-gpus and bin/colonnade-bench
	$(GO) build -trimpath -o bin/ ./cmd/...
	@$(GO) build -trimpath -ldflags='-extldflags=-Wl,-z,lazy' -o bin/ ./cmd/colonnade-gpus
	$(GO) -C bench build -trimpath -o ../bin/ ./cmd/...

# Tests that need Linux say so and are skipped elsewhere. getconf, unlike nproc, is also part of macOS.
#
# The race detector needs cgo, and cgo a C compiler. The tests in test take the longest, so they start first. Tests wait more
# than they work, so more packages, and more parallel tests of each, run at once than there are processors. Those of several hops go by
# which server answers in time, so they have the machine for themselves.
test: ## run the tests, with the race detector where a C compiler is found
	@race=-race; \
	if ! command -v "$$($(GO) env CC | cut -d' ' -f1)" >/dev/null; then \
		race=; echo "no C compiler: testing WITHOUT the race detector"; \
	fi; \
	if [ "$$(uname)" != Linux ]; then \
		echo "not Linux: tests that need network namespaces, several addresses of loopback, /proc, /dev/full, Linux's terminals, mounts and"; \
		echo "socket states, or systemd are left out; TEST_FLAGS=-v shows each with its reason (SKIP)"; \
	fi; \
	cores=$$(getconf _NPROCESSORS_ONLN); \
	export CGO_ENABLED=$${race:+1}; set -x; \
	$(GO) -C bench test $$race -timeout 20m $(TEST_FLAGS) ./... & bench=$$!; \
	$(GO) test $$race -p $$((cores + 1)) -parallel $$((cores + 2)) -timeout 20m $(TEST_FLAGS) \
		$$($(GO) list ./test/... ./... | grep -v /promises/hops$$); status=$$?; \
	wait $$bench || status=1; \
	$(GO) test $$race -timeout 20m $(TEST_FLAGS) ./test/promises/hops || status=1; \
	exit $$status

# Those with several colos; make test-serve runs the others this way, in one process.
test-direct: ## run the end-to-end tests with the entry calling the colos as functions, without HTTP in between
	COLONNADE_DIRECT=1 $(GO) test -timeout 20m $(TEST_FLAGS) $(addprefix ./test/promises/,refusals streams translation)

test-no-links: ## run the end-to-end tests with a connection for each running request between nodes, as with -multiplex=false
	COLONNADE_NO_LINKS=1 $(GO) test -timeout 20m $(TEST_FLAGS) $(addprefix ./test/promises/,refusals release streams)

# Those that need several nodes, an etcd or a second colo are skipped; test/promises/serve always runs such processes.
test-serve: ## run the end-to-end tests with each fleet being one process, as colonnade serve runs it
	COLONNADE_SERVE=1 $(GO) test -timeout 20m $(TEST_FLAGS) $(addprefix ./test/promises/,capacity durability paths refusals release streams translation)

check: ## formatting, go vet and the linters
	@unformatted=$$(find . -name '*.go' -not -path '*/node_modules/*' -not -path '*/.venv/*' -print0 | xargs -0 gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	@for module in $(MODULES); do ( set -ex; cd $$module; $(GO) vet ./...; $(LINT) run ./... ) || exit 1; done

# The programs are built as a release has them.
bench: ## measure what requests cost beside other proxies, and write docs/performance.md; QUICK=1 is rough, and writes to var; OUT=directory
	@$(GO) build -trimpath -ldflags='-s -w' -o var/bench/ ./cmd/...
	@$(GO) -C bench build -trimpath -buildvcs=auto -o ../bin/ ./cmd/colonnade-bench
	bin/colonnade-bench cost $(if $(QUICK),-quick) -programs var/bench -source . -out "$(OUT)" $(BENCH_FLAGS)

bench-go: ## run the Go benchmarks; BENCH=regexp and PACKAGES=./permits select; BASE=commit compares with it by benchstat, in COUNT=10 rounds
	@BENCH='$(BENCH)' COUNT='$(COUNT)' PACKAGES='$(PACKAGES)' GO='$(GO)' tools/bench-go $(BASE)

bench-overload: ## measure gateways under overload, and write docs/overload.md; QUICK=1 is rough, and writes to var; OUT=directory
	@$(GO) -C bench build -trimpath -buildvcs=auto -o ../bin/ ./cmd/colonnade-bench
	bin/colonnade-bench $(if $(QUICK),-quick) -out "$(OUT)" $(BENCH_FLAGS)

bench-balance: ## compare the policies that choose endpoints, in virtual time, and write the figures of docs/balancing.md
	@$(GO) -C bench/llmd build -trimpath -o ../../bin/colonnade-bench-llmd . || \
		{ rm -f bin/colonnade-bench-llmd; echo "bench/llmd does not build: the figures are without llm-d" >&2; }
	$(GO) -C bench test ./balance -count=1 -v -timeout 30m -run '^TestBalancingPage$$' -update

soak: ## run the tests with exact marks and in full length
	@for module in $(MODULES); do \
		( set -ex; cd $$module; COLONNADE_SOAK=1 $(GO) test -count=1 -timeout 60m $(TEST_FLAGS) ./... ) || exit 1; \
	done

fuzz: ## run each fuzz target for FUZZTIME (10s)
	@for module in $(MODULES); do ( cd $$module; \
		for package in $$($(GO) list ./...); do \
			for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz'); do \
				echo "$$package $$target"; \
				$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package || exit 1; \
			done; \
		done \
	) || exit 1; done

sdk: ## install the official SDKs and run their tests against a fleet, and against one process
	test/sdk/install.sh
	test/sdk/run.sh

clean: ## remove what was built
	rm -rf bin

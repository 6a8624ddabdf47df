# croft: one static program. `make help` lists the targets.

GO      ?= go
BIN     := bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# A cgo build would break what acts as another user: system calls on all threads are
# refused there. It would also need a C library at run time.
export CGO_ENABLED := 0

GOLANGCI_VERSION    := v2.15.0
GOVULNCHECK_VERSION := v1.9.0
TOOLS_VERSION       := v0.52.0

.PHONY: all
all: $(BIN)/croft ## build bin/croft, static

# Go knows what has changed better than make does, so the rule always runs.
.PHONY: $(BIN)/croft
$(BIN)/croft:
	$(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $@ ./cmd/croft

.PHONY: test
test: ## run all tests, as root or as any user
	$(GO) test $(TESTFLAGS) ./...

.PHONY: cases
cases: ## run the shared conformance cases and print the counts of each area
	$(GO) test -count=1 -v -run 'TestCases|TestMutants' ./conformance/ | grep -E '^ *--- FAIL|^[a-z_]+ +[0-9]+ passed|^(ok|FAIL)'

.PHONY: race
race: ## run the tests with the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race $(TESTFLAGS) $(RACEFLAGS) $(RACE_PACKAGES)

# Left out: the command line, whose scripts start a croft for each line, and the cases,
# which add no concurrency to what the packages' own tests do. The crash tests start a
# program per fault, which takes minutes with the detector and tells it nothing.
RACE_PACKAGES ?= . ./event/... ./manifest/... ./policy/... ./snapshot/... ./internal/...
RACEFLAGS     := -short -skip '^(TestFaultAtEveryCall|TestKilledAtEveryStep)$$'

.PHONY: lint
lint: $(BIN)/golangci-lint $(BIN)/deadcode ## go vet (Linux and macOS), golangci-lint, dead code, texts
	$(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	$(BIN)/golangci-lint run
	.ci/deadcode $(BIN)/deadcode
	.ci/texts

.PHONY: vuln
vuln: $(BIN)/govulncheck ## known vulnerabilities in what croft calls (asks the Go vulnerability database)
	$(BIN)/govulncheck ./...

.PHONY: fuzz
fuzz: ## fuzz every target for FUZZTIME (5s)
	.ci/fuzz $(or $(FUZZTIME),5s)

.PHONY: bench
bench: $(BIN)/croft ## measure against peers; rows go to bench/results.json and bench/RESULTS.md
	$(GO) run ./bench

.PHONY: bench-check
bench-check: ## fail on a row of bench/results.json that is unmet or missing
	$(GO) run ./bench -check

# The full form of the tests that hammer, inject faults and kill: minutes, not seconds.
# They are those that read PROVE; as root and as an ordinary user both are worth a run.
.PHONY: prove
prove: ## the long form of the proving tests, with their numbers printed
	PROVE=long $(GO) test -count=1 -v -timeout 120m \
		$$(git grep -l 'Getenv("PROVE")' -- '*_test.go' | xargs -n 1 dirname | sort -u | sed 's|^|./|')

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN) dist

.PHONY: help
help: ## this list
	@grep -hE '^[a-z$$()/A-Z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

# Tools are built from the module proxy into bin/ at the versions above; they are no
# dependencies of croft, so go.mod does not list them.
$(BIN)/golangci-lint:
	GOBIN=$(CURDIR)/$(BIN) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

$(BIN)/govulncheck:
	GOBIN=$(CURDIR)/$(BIN) $(GO) install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)

$(BIN)/deadcode:
	GOBIN=$(CURDIR)/$(BIN) $(GO) install golang.org/x/tools/cmd/deadcode@$(TOOLS_VERSION)

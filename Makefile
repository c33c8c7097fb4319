# specrun: build, try, test. `make demo` and `make test` are the two commands a
# newcomer needs; both work on a fresh machine with Go and Python 3.

GO      ?= go
DIST    := dist
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -s -w -X main.version=$(VERSION)
PACKAGES := ./...
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME ?= 10s

# One build of everything serves the program, its tests, vet and staticcheck: as
# users have it, without cgo. Only the race detector wants cgo.
export CGO_ENABLED := 0

.PHONY: demo build quick test test-launchers test-engines unit integration fuzz soak bench lint prereqs clean

## demo: the whole job on the built-in practice host, in about a minute
demo: $(DIST)/specrun
	$(DIST)/specrun demo

# The one binary for this machine; a linux one also serves as the benchmark
# client that is pushed to hosts of the same architecture.
$(DIST)/specrun: quick

quick:
	@mkdir -p $(DIST)
	$(GO) build -ldflags '$(LDFLAGS)' -o $(DIST)/specrun ./cmd/specrun

## build: specrun for linux and darwin, amd64 and arm64, into dist/
build: quick
	@for os in linux darwin; do for arch in amd64 arm64; do \
	  echo "build $(DIST)/specrun-$$os-$$arch"; \
	  GOOS=$$os GOARCH=$$arch $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(DIST)/specrun-$$os-$$arch ./cmd/specrun || exit 1; \
	done; done

## test: every tier, each printing its time; installs what it needs
test: prereqs
	@.ci/tier unit        $(MAKE) --no-print-directory unit
	@.ci/tier integration $(MAKE) --no-print-directory integration
	@.ci/tier fuzz        $(MAKE) --no-print-directory fuzz

# A program built with -race sleeps a second when it ends, a test binary too. The
# detector looks at our code: SQLite is translated C, and a regexp is a matcher
# in a tight loop; watching inside of both takes a third of all the time. Vet is
# lint's. Four packages at a time, because most wait for processes; less collecting of
# garbage, because each lives for seconds.
unit:
	CGO_ENABLED=1 GOGC=400 GORACE=atexit_sleep_ms=10 $(GO) test -race -shuffle=on -p 4 -vet=off -ldflags='-s -w' \
	  -gcflags=modernc.org/...=-race=false -gcflags=regexp/...=-race=false $(PACKAGES)

# The longest packages first, so that none of them is left over at the end. More
# tests at once than there are cores: they wait for servers.
integration: quick
	$(GO) test -tags integration -count=1 -p 2 -parallel 4 -vet=off -ldflags='-s -w' -timeout 20m ./experiments ./cmd/specrun ./deploy $(PACKAGES)

fuzz:
	@.ci/fuzz $(FUZZTIME)

## soak: all releases, random kills, long properties; prints what docs/ quotes
soak: prereqs quick
	$(GO) test -tags 'integration soak' -count=1 -p 2 -v -timeout 90m -run 'Soak|Kill|KILL' $(PACKAGES)

## test-engines: a real vLLM on this CPU (6 GB into .cache/), minutes for each of
## its starts; docs/engines.md has what it printed. Not a part of test
test-engines: quick
	@vllm=$$(.ci/vllm .cache/engines) && set -- $$vllm && \
	  SPECRUN_VLLM_PYTHON=$$1 SPECRUN_VLLM_MODEL=$$2 \
	  $(GO) test -tags 'integration engines' -count=1 -v -timeout 90m -run '^TestVLLM$$' ./cmd/specrun

## test-launchers: a real systemd in a container; fetches it once into .cache
test-launchers: prereqs
	$(GO) test -tags systemd -count=1 -v -run TestSystemd ./deploy/server

## bench: the ratios against the peers, each from one run; client.py, which needs a
## vLLM, is run by test-engines
bench: prereqs build
	@for s in $(filter-out docs/bench/client.py,$(wildcard docs/bench/*.py)); do echo "== $$s"; python3 $$s || exit 1; done

## lint: gofmt, go vet, staticcheck
lint:
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt would change:"; echo "$$out"; exit 1; }
	$(GO) vet -tags integration $(PACKAGES)
	$(GO) vet -tags 'integration soak engines systemd' $(PACKAGES)
	$(GO) run $(STATICCHECK) -tags 'integration soak engines' $(PACKAGES)

prereqs:
	@.ci/prereqs

clean:
	rm -rf $(DIST) .cache

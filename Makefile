# The commands of a working day. `make` alone lists them; CONTRIBUTING.md says when to use which.
#
# Nothing here needs root. What a target has to install (PostgreSQL with pgvector, schemathesis) it
# puts below .cache of this checkout and says so; `make clean` removes it again.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

CARGO ?= cargo
# Where cargo builds: a shared target directory may be configured.
TARGET := $(or $(CARGO_TARGET_DIR),target)

# cargo-nextest runs the tests of all crates side by side; without it they run crate by crate.
ifneq ($(shell command -v cargo-nextest),)
TESTS := $(CARGO) nextest run --workspace --locked $(if $(CI),--profile ci)
ATTACKS := $(CARGO) nextest run -p emergent --locked -E 'binary(attack)'
else
TESTS := $(CARGO) test --workspace --locked --lib --bins --tests
ATTACKS := $(CARGO) test --locked -p emergent --test attack -- --test-threads=1
endif

# The crates that may have examples in their docs. For all others, rustdoc would read the whole crate for nothing.
DOC_EXAMPLES := $(shell awk 'FNR == 1 { fences = 0 } /^ *\/\/[\/!] ```/ && ++fences % 2 && /```(rust.*|no_run|should_panic|compile_fail)?$$/ { print FILENAME }' \
  $$(find crates/*/src -name '*.rs') | cut -d/ -f2 | sort -u)

# The tests in a browser that continuous integration makes time for: every route, people at work, and restarts.
# Without CI in the environment, `make test` runs all of them.
WEB_TESTS := $(if $(CI),$(patsubst %,tests/%.test.ts,session overview screens accessibility live people inbox chat first-visit))

# The web UI is built with Node when a file of web/ changed. Without Node the program is built without the UI, and says so.
# git also lists files that were deleted and not staged yet, which make could not build: `wildcard` leaves them out.
WEB_SOURCES := $(wildcard $(shell git ls-files -co --exclude-standard web 2>/dev/null || find web -path web/node_modules -prune -o -path web/dist -prune -o -type f -print))
.PHONY: web
web: web/.build-stamp

web/node_modules/.package-lock.json: web/package.json web/package-lock.json web/.npmrc
	cd web && npm ci --no-audit --no-fund
	touch $@

web/.build-stamp: $(filter-out web/tests/% web/%.md web/dist/%,$(WEB_SOURCES))
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory web/node_modules/.package-lock.json && cd web && npm run build && touch .build-stamp; \
	else echo "make: there is no npm, so the program is built without the web UI. Install Node 20.19 or newer to have it." >&2; fi

## run      build, and start the server with a small sample graph in ./data
.PHONY: run
run: web
	$(CARGO) build --locked -p emergent
	$(CARGO) run --quiet --locked -p emergent -- serve --sample --data-dir ./data

## build    build everything
.PHONY: build
build: web
	$(CARGO) build --workspace --locked

# The tests build the program that the scripts after them use. `cargo build -p emergent` would build most of it again,
# because it chooses the features of fewer crates.
## test     every test on both databases, the API against its description, generated clients, and the web UI in a browser
.PHONY: test
test: web
	scripts/postgres run $(TESTS) $(ARGS)
	$(CARGO) test --doc --locked $(addprefix -p emergent-,$(DOC_EXAMPLES))
	EMERGENT_BIN="$(TARGET)/debug/emergent" scripts/api-fuzz
	scripts/api-clients
	EMERGENT_BIN="$(abspath $(TARGET)/debug/emergent)" scripts/web-tests --project screens $(WEB_TESTS)

## web-tests  as `test` does for the web UI, and then its budgets of speed; it takes minutes
.PHONY: web-tests
web-tests: web
	$(CARGO) build --locked -p emergent
	EMERGENT_BIN="$(abspath $(TARGET)/debug/emergent)" scripts/web-tests $(ARGS)

## a2a-cli  the program of the A2A project for the command line against an agent; it is built from source first
.PHONY: a2a-cli
a2a-cli:
	scripts/surface-clients a2a-cli
	$(CARGO) test --locked -p emergent --test surfaces a2acli -- --ignored

# Most attacks measure how long others wait: beside another one, the figure would not be the server's. With
# cargo-nextest, .config/nextest.toml says which run alone.
## attack   attacks on the built binary: programs, connections, tokens, names (docs/security.md)
.PHONY: attack
attack:
	scripts/postgres run $(ATTACKS) $(ARGS)

## pooler   two servers behind PgBouncer in transaction mode (docs/scale.md)
.PHONY: pooler
pooler:
	$(CARGO) build --locked -p emergent
	scripts/postgres run scripts/pgbouncer test --binary "$(TARGET)/debug/emergent" $(ARGS)

## fuzz-api  the API against its description with several seeds (CASES=100000 SEEDS="1 2 3")
.PHONY: fuzz-api
fuzz-api:
	$(CARGO) build --locked -p emergent $(if $(PROFILE),--profile $(PROFILE))
	EMERGENT_BIN="$(TARGET)/$(if $(filter-out dev,$(PROFILE)),$(PROFILE),debug)/emergent" \
	  CASES="$(or $(CASES),20000)" SEEDS="$(or $(SEEDS),20260131)" scripts/api-fuzz $(ARGS)

## fuzz-parsers  arbitrary input for every parser of foreign bytes (SECONDS=3600 for each of them)
.PHONY: fuzz-parsers
fuzz-parsers:
	scripts/parser-fuzz $(or $(SECONDS),60) $(ARGS)

## fuzz-coverage  the same parsers, with inputs that reach new code (SECONDS=3600 for each of them)
.PHONY: fuzz-coverage
fuzz-coverage:
	scripts/coverage-fuzz $(or $(SECONDS),60) $(ARGS)

## doc      the documentation of the crates, without warnings
.PHONY: doc
doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --workspace --locked

## check    formatting, clippy, crates and pages in step, dependencies, types and size of the web UI
.PHONY: check
check: web
	$(CARGO) fmt --all --check
	scripts/unused-deps
	scripts/deny
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) test --quiet --locked --workspace --test architecture --test drift --test vocabulary --test modules
	cd web && npm run check

## release  the release binary in target/dist; its line numbers are in emergent.debug beside it
.PHONY: release
release: web
	$(CARGO) build --release --locked -p emergent
	mkdir -p "$(TARGET)/dist"
	objcopy --only-keep-debug "$(TARGET)/release/emergent" "$(TARGET)/dist/emergent.debug"
	cd "$(TARGET)/dist" && objcopy --strip-debug --add-gnu-debuglink=emergent.debug \
	  "$$(realpath ../release/emergent)" emergent

# Where `install` puts the program; DESTDIR goes before every path, for packages.
PREFIX ?= /usr/local
# The program that `install` copies. It is built first if it is not there.
BIN ?= $(TARGET)/release/emergent
SHARE := $(DESTDIR)$(PREFIX)/share
UNITS := $(DESTDIR)$(PREFIX)/lib/systemd/system

## install  the program, its completions and a systemd unit below PREFIX (/usr/local)
.PHONY: install
install:
	[ -x "$(BIN)" ] || $(CARGO) build --release --locked -p emergent
	install -D -m 755 "$(BIN)" "$(DESTDIR)$(PREFIX)/bin/emergent"
	install -d "$(SHARE)/bash-completion/completions" "$(SHARE)/zsh/site-functions" \
	  "$(SHARE)/fish/vendor_completions.d" "$(UNITS)"
	"$(BIN)" completions bash > "$(SHARE)/bash-completion/completions/emergent"
	"$(BIN)" completions zsh > "$(SHARE)/zsh/site-functions/_emergent"
	"$(BIN)" completions fish > "$(SHARE)/fish/vendor_completions.d/emergent.fish"
	sed 's|@PREFIX@|$(PREFIX)|g' packaging/emergent.service > "$(UNITS)/emergent.service"
	chmod 644 "$(UNITS)/emergent.service"
	install -D -m 644 -t "$(SHARE)/doc/emergent" packaging/environment packaging/tls.conf

## uninstall  what `install` put below PREFIX; settings and data stay
.PHONY: uninstall
uninstall:
	rm -f "$(DESTDIR)$(PREFIX)/bin/emergent" "$(UNITS)/emergent.service" \
	  "$(SHARE)/bash-completion/completions/emergent" "$(SHARE)/zsh/site-functions/_emergent" \
	  "$(SHARE)/fish/vendor_completions.d/emergent.fish" "$(SHARE)/doc/emergent/environment" \
	  "$(SHARE)/doc/emergent/tls.conf"

## bench    measure on Debian's packages: JSON lines on stdout, a table on stderr (ARGS="--only text")
.PHONY: bench
bench:
	$(CARGO) build --release --locked -p emergent -p emergent-bench
	dataset="$$(scripts/debian-graph --path)" && \
	scripts/postgres --durable run "$(TARGET)/release/emergent-bench" \
	  --dataset "$$dataset" --binary "$(TARGET)/release/emergent" $(ARGS)

## soak     the tests with far more cases, for a night rather than a minute
.PHONY: soak
soak:
	PROPTEST_CASES=$${PROPTEST_CASES:-50000} EMERGENT_SOAK_KILLS=$${EMERGENT_SOAK_KILLS:-500} \
	scripts/postgres run $(TESTS) $(ARGS)
	$(CARGO) build --locked -p emergent
	scripts/parser-fuzz $${FUZZ_SECONDS:-3600}
	EMERGENT_BIN="$(TARGET)/debug/emergent" CASES=$${CASES:-100000} SEEDS="$${SEEDS:-1 2 3}" scripts/api-fuzz

## clean    remove what was built or installed here (not ./data)
.PHONY: clean
clean:
	scripts/postgres stop
	$(CARGO) clean
	rm -rf .cache web/node_modules web/.build-stamp web/tests/screenshots
	find web/dist -mindepth 1 ! -name .gitignore -delete

.PHONY: help
help:
	@echo "make <target>:"
	@sed -n 's/^## /  /p' Makefile

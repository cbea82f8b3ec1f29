# Two commands from a fresh machine to a result: `make test` and `make demo`.
# Needed: Python 3.11 or later with venv, a POSIX shell; for the tests on real brokers Java 17 and Maven.
PYTHON ?= python3
VENV ?= .venv
GO ?= $(or $(shell command -v go),$(wildcard /usr/local/go/bin/go))

.PHONY: help test demo demo-all check broker wrapped mutants extras fuzz lock bench jars franz-go grpc-go pulsar-go docs clean

help:
	@echo "make test    lint, types, all tests; those on real brokers too where Java and Maven are there"
	@echo "make demo    see how one command ends what a noisy producer does to its neighbour (a minute after set-up)"
	@echo "make demo-all  each policy at work on real client traffic, then a report that compares the systems"
	@echo "               (a few minutes)"
	@echo "make broker  only the tests on real brokers     make check  lint and types alone"
	@echo "make wrapped  the tests on a real Kafka with clients that apply policies in place of stock ones"
	@echo "make extras  install each extra alone and use it"
	@echo "make mutants OF=NAME  change the code in small ways and list the changes that no test notices"
	@echo "make fuzz FRAMES=5000000  play damaged sessions of each protocol, an hour for some four million frames"
	@echo "make bench   compare with other proxies         make docs   check documents"
	@echo "make lock    write requirements/ anew            make clean   remove what these commands made"

test: $(VENV)/bin/tox jars franz-go grpc-go pulsar-go
	$(VENV)/bin/tox run -e lint,all

check: $(VENV)/bin/tox
	$(VENV)/bin/tox run -e lint,types

# For example SLUICEGATE_KAFKA_VERSION=3.9.1 OF=tests/kafka/real, for other versions than the poms in deploy name.
broker: $(VENV)/bin/tox jars franz-go pulsar-go
	$(VENV)/bin/tox run -e broker -- $(OF)

# The tests on a real Kafka with the wrappers in place of aiokafka's and confluent-kafka's own classes.
wrapped: $(VENV)/bin/tox jars franz-go
	$(VENV)/bin/tox run -e wrapped -- $(OF)

# For example OF="flow kafka-repeated", or OF="engine --file bucket.py"; without it all, which takes hours.
mutants: $(VENV)/bin/tox
	$(VENV)/bin/tox run -e mutants -- $(OF)

extras: $(VENV)/bin/tox
	$(VENV)/bin/tox run -e extras

# For example UPGRADE=--upgrade, for the newest versions; without it what is locked stays.
lock: $(VENV)/bin/tox
	$(VENV)/bin/tox run -e lock -- $(UPGRADE)

# FUZZ="kafka" takes one protocol of the three.
FRAMES ?= 1000000
FUZZ ?= kafka pulsar danube
fuzz: $(VENV)/bin/tox
	$(VENV)/bin/tox run -e fuzz -- $(FUZZ) --frames $(FRAMES)

docs: $(VENV)/bin/tox
	$(VENV)/bin/tox run -e docs

bench: $(VENV)/bin/tox jars grpc-go
	$(VENV)/bin/tox run -e bench

demo: $(VENV)/bin/sluicegate
	$(VENV)/bin/sluicegate demo

demo-all: $(VENV)/bin/sluicegate
	$(VENV)/bin/sluicegate demo --all

# Fetches what is not there or not complete. A missing tool is said here and makes the tests on real brokers skip
# with this reason, unless SLUICEGATE_REQUIRE_BROKER=1 asks for them (as CI does): then it ends the run.
jars: | $(VENV)/made
	@PYTHONPATH=reports $(VENV)/bin/python -m sluicegate_reports.runner.brokers.fetching || { \
	  echo "the tests on a real Kafka and a real Pulsar cannot run"; \
	  [ "$${SLUICEGATE_REQUIRE_BROKER:-0}" != 1 ]; \
	}

# $(call go_build,FOLDER,PACKAGES,WHAT): built from source with Go 1.19 or later; without it what needs them says so.
define go_build
@if [ -z "$(GO)" ]; then \
  echo "missing: go (1.19 or later); the tests with $(3) cannot run"; \
  [ "$${SLUICEGATE_REQUIRE_BROKER:-0}" != 1 ]; exit; \
fi; \
cd $(1) && $(GO) build -buildvcs=false -trimpath -o target/ $(2)
endef

# A client and a server in grpc-go, and the tests of conformance with HTTP/2.
grpc-go:
	$(call go_build,deploy/grpc,github.com/summerwind/h2spec/cmd/h2spec ./peer,a grpc-go client)

# Programs with Go clients of Kafka and Pulsar; without cgo, as they need no C library and build faster.
franz-go pulsar-go: export CGO_ENABLED = 0
franz-go:
	$(call go_build,deploy/franz-go,.,franz-go)

pulsar-go:
	$(call go_build,deploy/pulsar-go,.,Pulsar's Go client)

# The file says that the environment is whole: one whose making was interrupted is made anew.
$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than 3.11: set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' || { echo "$(PYTHON) has no venv: install python3-venv"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/bin/tox: | $(VENV)/made
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check 'tox>=4.22,<5'

# pip builds the wheel and installs it with the clients that the demo uses, and with what its report needs.
$(VENV)/bin/sluicegate: pyproject.toml $(shell find core interceptors plugins reports -name '*.py' -o -name '*.yaml') \
  | $(VENV)/made
	@echo "installing the clients of the three systems and Spark (450 MB, once)"
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade '.[danube,kafka,pulsar,reports]'
	@touch $@

clean:
	rm -rf $(VENV) .tox build dist deploy/*/target deploy/peers/*/target

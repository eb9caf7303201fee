# Commands for a person; what they need is set up by tools/setup.sh. `make` alone lists them.
ROOT := $(shell cd "$$(dirname "$(strip $(MAKEFILE_LIST))")" && pwd)
PORT ?= 3000
PYTEST_ARGS ?=
WORKERS ?= 3
RACES ?= 4000
HOW ?= once
PART ?= 1/1
WITH ?=
SIZE ?= small
BENCH_ARGS ?=

# In the project's folder, with the Java that set-up chose.
RUN = @cd "$(ROOT)" && . ./.venv/setup.env &&

# Without waiting for the disk where that is possible: tests kill processes, not machines. What Python compiles is kept,
# because tests start hundreds of processes that would each compile again what they import.
TRIED = env -u PYTHONDONTWRITEBYTECODE $$(command -v eatmydata) .venv/bin/python -m

# Each of three workers has a Spark of its own, which takes 4 GB: they wait so much for it and for other programs that
# two leave two cores idle for a third of the time. Modules are not divided, because their tests share fixtures. They
# are begun in the order of their folders, so that short ones are left for the end.
PYTEST = $(TRIED) pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=10 $(PYTEST_ARGS)

# Tests that are about more data, orders and surroundings at length.
LONGER = $(addprefix backfill_assets_tests/acceptance/test_, traffic_fines.py traffic_fines_extract.py traffic_fines_state.py) \
	$(addprefix backfill_assets_tests/integration/, \
	requests/test_follow_replay.py landing/test_restated_by_an_extract.py \
	requests/test_shadow_of_deadlines.py examples/test_determinism.py examples/test_sla_by_the_rules.py \
	examples/test_sla_traffic_fines.py landing/test_changes.py landing/test_many_changes.py \
	landing/test_property.py landing/test_statements.py requests/test_every_mode_by_model.py \
	requests/test_versioned_model.py)

# Tests that also run with the lake of every home in an object store.
ON_A_STORE = $(addprefix backfill_assets_tests/integration/, \
	core/test_leases.py requests/test_reference_semantics.py \
	requests/test_references_on_a_store.py candidates/test_resume.py files/test_store_away.py \
	files/test_files.py lake/test_lake_on_a_store.py lake/test_swap.py landing/test_changes.py landing/test_dialects.py \
	landing/test_compacted.py landing/test_formats.py landing/test_land.py landing/test_split.py \
	landing/test_statements.py landing/test_together.py requests/test_early_cutoff.py \
	requests/test_publication.py requests/test_rollback_of_sets.py \
	requests/test_rollback_with_dependents.py requests/test_same_command_again.py \
	requests/test_sets.py requests/test_sets_half_way.py \
	requests/test_sets_publish_what_they_read.py requests/test_sets_with_gaps.py upkeep/test_doctor.py \
	upkeep/test_reproduce.py upkeep/test_tampering.py upkeep/test_vacuum.py)

# Tests of captures and replays, each family with its real server.
CAPTURES = $(addprefix backfill_assets_tests/integration/,capture deliver landing/test_debezium.py)

# With the lowest versions that pyproject.toml allows, what newer ones of others warn of is no failure. Texts are recorded
# with the locked ones.
LOWEST_TESTS = -m pytest --numprocesses $(WORKERS) --dist loadfile --override-ini filterwarnings=default \
	-m "not long" --ignore-glob '*/test_recorded_*.py' $(PYTEST_ARGS) $(END_TO_END) backfill_assets_tests/unit

# The way of a run by the commands that a person types: landed, planned, approved, staged, gated, published, undone.
END_TO_END = backfill_assets_tests/acceptance/test_cli.py::test_a_restatement_from_plan_to_rollback

# The last lines of a set-up that was asked for by itself.
define SET_UP
@echo "next: make demo    watch a wrong history being replaced; then README.md, Your first restatement"
@echo "next: .venv/bin/backfill init my_shop    a project of your own, which runs at once"
endef

.PHONY: help setup demo check test lint types tests test-long test-sources test-ui test-postgres test-s3 test-s3-faults test-lowest test-cluster test-faults dev release lock upgrade clean docs docs-site news bench
.DEFAULT_GOAL := help

help:
	@echo "make demo     set up everything, then watch a wrong history being replaced (.venv/bin/backfill demo)"
	@echo "make check    set up everything, then lint, types, the unit tests and one run from its files to its rollback: what to"
	@echo "              run after every change, in less than two minutes"
	@echo "make test     set up everything, then lint, types and tests (PYTEST_ARGS=... for pytest)"
	@echo "              WORKERS=... for other than three processes, here and in the others"
	@echo "make test-long  the tests that 'make test' leaves out because they take longer (backfill_assets_tests/support/long_tests.py;"
	@echo "              PART=1/61 for the first of 61 parts; WITH=backfill_assets_tests/browser for those of pages as well)"
	@echo "make test-sources  capture from, and replay to, real servers on loopback: killed, expired, fenced, and a log"
	@echo "              (SIZE=full for the whole log of 561,470 events)"
	@echo "make test-ui  drive Dagster and the desk in Chromium (PYTEST_ARGS=--write-images writes docs/images anew)"
	@echo "make test-postgres  the integration tests with the ledger of every home, and Dagster, in PostgreSQL"
	@echo "make test-s3  the tests of landing, publication, sets, resume, leases, recovery, vacuum, audit and reproduction with"
	@echo "              every lake and its landed files in an object store, which also fails on purpose"
	@echo "make test-s3-faults  kill every operation at each of its places, and play 2,000 interleavings, with every lake in an"
	@echo "              object store (PART=1/3 for the first of three sittings; HOW=twice kills again, and the recovery too)"
	@echo "make test-cluster  one restatement of a quarter in a folder and, with the lake in an object store, on this machine, a"
	@echo "              standalone cluster and Spark Connect: equal rows and verdicts"
	@echo "make test-lowest  the unit tests and a restatement by the commands, with the lowest versions that pyproject.toml allows"
	@echo "make test-faults  kill, race and confuse everything, at length; prints what was tried and what was found (RACES=...)"
	@echo "make bench    what governing costs, as ratios measured in turns (SIZE=small, medium or full; BENCH_ARGS=... for"
	@echo "              benchmarks/bench.py, such as --results benchmarks, which writes RESULTS.md)"
	@echo "make dev      the Dagster UI on http://127.0.0.1:$(PORT) (PORT=... for another port), and a Spark server that stays"
	@echo "              until 'backfill down'"
	@echo "make setup    only the set-up: .venv from the locks, Java (PYTHON=... for another interpreter)"
	@echo "make lint     ruff format --check and ruff check"
	@echo "make types    mypy --strict"
	@echo "make docs     write docs/reference/, and the tables of docs/cli.md and docs/glossary.md, from the code"
	@echo "make docs-site  build the documentation site in build/site; a link that leads nowhere is an error"
	@echo "make news     move what news/ says of the next release into CHANGELOG.md"
	@echo "make release  build sdist, wheel and checksums of the tagged commit in dist/"
	@echo "make lock     write the locks from pyproject.toml; make upgrade: with the newest versions"
	@echo "make clean    remove .venv, caches and everything generated below data/"

setup:
	@cd "$(ROOT)" && tools/setup.sh java python
	$(if $(filter setup,$(MAKECMDGOALS)),$(SET_UP))

demo: setup
	$(RUN) .venv/bin/backfill demo

check: lint types
	@cd "$(ROOT)" && tools/setup.sh eatmydata
	$(RUN) $(PYTEST) -m "not long" $(END_TO_END) backfill_assets_tests/unit

test: lint types tests

lint: setup
	$(RUN) .venv/bin/ruff format --check . && .venv/bin/ruff check .

types: setup
	$(RUN) .venv/bin/mypy

tests: setup
	@cd "$(ROOT)" && tools/setup.sh postgresql eatmydata s3 kafka prometheus sftp
	$(RUN) $(PYTEST) -m "not long"

test-long: setup
	@cd "$(ROOT)" && tools/setup.sh postgresql eatmydata s3 kafka registry kinesis prometheus sftp readers
	$(RUN) $(PYTEST) -m long --part $(PART) $(WITH) $(addprefix backfill_assets_tests/,unit integration faults acceptance)

test-sources: setup
	@cd "$(ROOT)" && tools/setup.sh postgresql eatmydata kafka registry debezium kinesis
	$(RUN) $(PYTEST) $(if $(filter full,$(SIZE)),--hypothesis-profile=thorough --timeout 7200) $(CAPTURES)

test-ui: setup
	@cd "$(ROOT)" && tools/setup.sh eatmydata chromium
	$(RUN) $(PYTEST) backfill_assets_tests/browser

test-postgres: setup
	@cd "$(ROOT)" && tools/setup.sh postgresql eatmydata
	$(RUN) BACKFILL_TEST_LEDGER=postgresql $(PYTEST) backfill_assets_tests/integration

test-s3: setup
	@cd "$(ROOT)" && tools/setup.sh eatmydata s3
	$(RUN) BACKFILL_TEST_LAKE=s3 $(PYTEST) $(ON_A_STORE)

test-s3-faults: setup
	@cd "$(ROOT)" && tools/setup.sh eatmydata s3 kafka kinesis
	$(RUN) BACKFILL_TEST_LAKE=s3 $(TRIED) backfill_assets_tests.faults.crashes --workers $(WORKERS) \
		--how "$(HOW)" --part $(PART)
	$(RUN) BACKFILL_TEST_LAKE=s3 $(TRIED) backfill_assets_tests.faults.interleavings --count 2000 --workers $(WORKERS)

test-lowest: setup
	@cd "$(ROOT)" && tools/setup.sh eatmydata lowest
	$(RUN) $$(command -v eatmydata) .venv-lowest/bin/python $(LOWEST_TESTS)

test-cluster: setup
	@cd "$(ROOT)" && tools/setup.sh eatmydata s3
	$(RUN) $(TRIED) pytest --hypothesis-profile=thorough --timeout 7200 $(PYTEST_ARGS) \
		backfill_assets_tests/integration/test_clusters.py

test-faults: setup
	@cd "$(ROOT)" && tools/setup.sh eatmydata kafka kinesis
	$(RUN) $(PYTEST) --hypothesis-profile=thorough --timeout 3600 backfill_assets_tests/unit $(LONGER)
	$(RUN) $(TRIED) backfill_assets_tests.faults.crashes --workers $(WORKERS)
	$(RUN) $(TRIED) backfill_assets_tests.faults.interleavings --count $(RACES) --workers $(WORKERS)
	$(RUN) $(TRIED) backfill_assets_tests.faults.interleavings --count 1000 --workers $(WORKERS) --sweep
	$(RUN) $(TRIED) backfill_assets_tests.faults.stories --count 60 --workers $(WORKERS)
	$(RUN) $(TRIED) backfill_assets_tests.faults.single_actor_attack --count 100
	$(RUN) $(TRIED) backfill_assets_tests.faults.next_steps --count 60
	$(RUN) $(TRIED) backfill_assets_tests.faults.fuzz --records 100000
	$(RUN) $(TRIED) backfill_assets_tests.faults.fuzz_values --records 100000
	$(RUN) $(TRIED) backfill_assets_tests.faults.fuzz_times --records 100000
	$(RUN) $(TRIED) backfill_assets_tests.faults.fuzz_written --records 100000
	$(RUN) $(TRIED) backfill_assets_tests.faults.heavy

bench: setup
	$(RUN) .venv/bin/python benchmarks/bench.py --size $(SIZE) $(BENCH_ARGS)

docs: setup
	$(RUN) .venv/bin/python -m backfill_assets_tests.support.cli_page
	$(RUN) .venv/bin/python -m backfill_assets_tests.support.glossary_page
	$(RUN) .venv/bin/python -m backfill_assets_tests.support.declarations_page
	$(RUN) .venv/bin/python -m backfill_assets_tests.support.messages_page
	$(RUN) .venv/bin/python -m backfill_assets_tests.support.public_files.page

docs-site: setup
	@cd "$(ROOT)" && tools/setup.sh site
	$(RUN) NO_MKDOCS_2_WARNING=true .venv-docs/bin/mkdocs build --strict
	@echo "the site is build/site/index.html"

news: setup
	@cd "$(ROOT)" && tools/setup.sh site
	$(RUN) .venv-docs/bin/towncrier build --yes

dev: setup
	@echo "Dagster on http://127.0.0.1:$(PORT); Ctrl-C ends it."
	$(RUN) .venv/bin/backfill up || echo "Runs start Spark by themselves."
	$(RUN) exec env DAGSTER_HOME="$(ROOT)" .venv/bin/dagster dev -w workspace.yaml --host 127.0.0.1 --port $(PORT)

release: setup
	@cd "$(ROOT)" && tools/release.sh

lock:
	@cd "$(ROOT)" && tools/lock.sh

upgrade:
	@cd "$(ROOT)" && tools/lock.sh --upgrade

clean:
	@cd "$(ROOT)" && tools/clean.sh

.NOTPARALLEL:

#!/usr/bin/env bash
# What has been generated in this folder? Removes it and says what it removed.
#
# Everything outside this folder stays (BACKFILL_HOME, a PostgreSQL ledger).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

removed=
remove() {
    local path
    for path in "$@"; do
        [ -e "$path" ] || continue
        echo "removing $path"
        rm -rf -- "$path"
        removed=yes
    done
}

if [ -e data/ledger.db ] && [ ! -e data/DEMO ] && [ "${CLEAN_DATA:-}" != yes ]; then
    echo "data/ holds work that no demo made; to remove it as well: CLEAN_DATA=yes make clean" >&2
    exit 1
fi
for path in data/* data/.[!.]*; do
    [ "$path" = data/README.md ] || remove "$path"
done
remove .venv .venv.turn .venv-docs .venv-lowest build dist artifacts spark-warehouse metastore_db derby.log
remove .pytest_cache .mypy_cache .ruff_cache .hypothesis
remove .telemetry .logs_queue .nux history schedules storage logs
find . -name __pycache__ -type d -prune -exec rm -rf {} +
[ -n "$removed" ] || echo "nothing to remove"

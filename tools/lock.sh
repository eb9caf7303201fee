#!/usr/bin/env bash
# Which versions, and which files by hash, does a set-up install? Writes the locks from pyproject.toml: what installs and
# builds, the project, and its documentation site; and those of the readers that are only tested.
#
#   tools/lock.sh [--upgrade]      (versions already locked stay unless they no longer fit, or --upgrade is given)
#
# One resolution for Python 3.11 and newer on Linux and macOS. The build lock holds what installs and builds; it comes
# first, and the other one agrees with it. Neither may name an index: the one of the machine is used.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

uv=.venv/bin/uv
[ -x "$uv" ] || uv=$(command -v uv) || {
    echo "uv was not found; run 'make setup' first." >&2
    exit 1
}

compile() {
    local output=$1
    shift
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command "make lock" \
        "$@" --output-file "$output" >/dev/null
}

compile requirements-build.lock --group pyproject.toml:build "$@"
compile requirements.lock --all-extras --constraints requirements-build.lock "$@" pyproject.toml
compile requirements-docs.lock --group pyproject.toml:docs "$@"
compile deploy/readers/requirements.lock "$@" deploy/readers/requirements.in
compile deploy/readers/requirements-spark.lock "$@" deploy/readers/requirements-spark.in

locks=(requirements-build.lock requirements.lock requirements-docs.lock deploy/readers/requirements{,-spark}.lock)
if grep -nE '://|--(extra-)?index-url|--find-links|file:|@ |(^|[^a-z])/[a-z]' "${locks[@]}"; then
    echo "The lines above name a place on the network or on this machine; a lock must not." >&2
    exit 1
fi
for lock in "${locks[@]}"; do
    echo "$lock: $(grep -cE '^[a-zA-Z0-9._-]+==' "$lock") packages"
done

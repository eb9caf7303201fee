#!/usr/bin/env bash
# What does a release consist of? Builds the sdist, the wheel and their checksums in dist/. It uploads nothing.
#
#   tools/release.sh      (in a clean checkout whose commit has the tag vVERSION)
#
# The same commit gives the same bytes: the archives have the time of the commit. The wheel is built from the sdist, so
# that the sdist is complete.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

refuse() {
    printf 'refused: %s\nnext: %s\n' "$1" "$2" >&2
    exit 1
}

python=${PYTHON:-.venv/bin/python}
[ -x "$python" ] || refuse "there is no $python." "make setup"
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' backfill_assets/__init__.py)
[ -z "$(git status --porcelain)" ] || refuse "the checkout has changes that are not committed." "git status shows them"
git tag --points-at HEAD | grep -Fxq "v$version" ||
    refuse "the commit has no tag v$version, which is the version of the package." "git tag v$version"
grep -Eq "^## $version( |\$)" CHANGELOG.md || refuse "CHANGELOG.md has no section $version." "write it"

news=$(find . -path './news/*.md' ! -name README.md | sort | tr '\n' ' ')
[ -z "$news" ] || refuse "CHANGELOG.md lacks $news" "make news, and commit"

command -v sha256sum >/dev/null || sha256sum() { shasum -a 256 "$@"; }
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
rm -rf dist
"$python" -m uv build --quiet --no-build-isolation --python "$python" --out-dir dist
rm -f dist/.gitignore
(cd dist && sha256sum -- *.tar.gz *.whl >SHA256SUMS && cat SHA256SUMS)

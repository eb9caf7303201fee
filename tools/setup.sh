#!/usr/bin/env bash
# What does this machine need before a command of the Makefile can run, and is it there?
#
#   tools/setup.sh [java] [python] [postgresql] [eatmydata] [s3] [kafka] [registry] [debezium] [kinesis] [prometheus] [sftp] [readers] [chromium] [site] [lowest]
#
#   (java and python when nothing is named)
#
# java        Java 17 or newer: JAVA_HOME, the java on the PATH, the usual folders, else Debian's package.
#             With both, Spark's classes are loaded once and kept in .venv, so that Spark starts in about half the time.
# python      .venv with exactly what the locks name, every file checked against its hash, and this project (editable).
#             Done again only when a lock, pyproject.toml or this file has changed. PYTHON=... chooses the interpreter.
# postgresql  a server's programs for the tests; without them those tests are skipped.
# s3          for the tests with an object store: versitygw, built by Go, and Spark's jars for S3 (deploy/s3/pom.xml), by
#             Maven. Both are kept in ~/.cache/backfill_assets; without them those tests are skipped.
# kafka       the Kafka broker of the demo from a topic and of tests (backfill_assets/examples/kafka_broker.pom.xml), by
#             Maven, kept in the same cache; without it those tests are skipped.
# registry    Apicurio, a schema registry for the same tests, by Maven, kept in the same cache; without it those tests are
#             skipped.
# debezium    Debezium's embedded engine (deploy/debezium/pom.xml), by Maven, kept in the same cache; without it its recordings
#             alone are tested.
# kinesis     kinesalite, a server of Kinesis for the same tests, by npm, kept in the same cache; without it those tests are
#             skipped.
# eatmydata   lets tests write without waiting for the disk, which only a loss of power would show; slower without it.
# prometheus  Debian's Prometheus and promtool for the tests of metrics and alerts, unpacked into the same cache and not
#             installed, because the package starts a server; without them those tests are skipped.
# sftp        OpenSSH's server for the tests of drop folders, unpacked into the same cache and not installed, as above; without
#             it they are run with a server in Python alone.
# readers     what reads published tables in a test, in the same cache: DuckDB, Polars and a deltalake of their own
#             (deploy/readers/requirements.lock), and a Spark with Delta's connector (requirements-spark.lock and pom.xml, by
#             Maven); without them those tests are skipped.
# chromium    a browser for the tests of pages, which fail without it, and axe-core, which tells whether a page can be read, by
#             npm into the same cache.
# site        what builds the documentation site (requirements-docs.lock), in .venv-docs.
# lowest      this project with the lowest versions that pyproject.toml allows, in .venv-lowest.
#
# Debian packages are installed only as root or where sudo asks for no password. Nothing is read from standard input.
#
# shellcheck disable=SC2015 # in "a && b || stop", stop is meant for a failure of either
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly MINIMUM_JAVA=17
readonly LOCKS=(requirements-build.lock requirements.lock)
readonly VENV=.venv
readonly SITE=.venv-docs
readonly LOWEST=.venv-lowest
readonly STAMP=$VENV/setup.stamp
readonly ENVIRONMENT=$VENV/setup.env # what the Makefile reads before it starts a program
readonly CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/backfill_assets
readonly VERSITYGW=v1.8.0
readonly AXE=4.14.1
readonly APICURIO=2.6.13.Final
readonly KINESALITE=3.3.3
readonly TURN=.venv.turn             # the folder that exists while somebody is setting up

log=$(mktemp)
turn_taken=
finish() {
    rm -f "$log"
    if [ -n "$turn_taken" ]; then rm -rf "$TURN"; fi
}
trap finish EXIT
trap 'exit 130' INT TERM

say() { printf '%s\n' "$*"; }

stop() {
    printf 'Set-up stopped: %s\n' "$*" >&2
    exit 1
}

# Runs a command in silence; what it printed appears only when it fails.
quietly() {
    "$@" >"$log" 2>&1 </dev/null && return 0
    tail -n 40 "$log" >&2
    return 1
}

# --- Debian packages -------------------------------------------------------------------------------------------------

apt_updated=

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_apt() {
    command -v apt-get >/dev/null || return 1
    [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}

apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@"
}

apt_update() {
    [ -z "$apt_updated" ] || return 0
    say "Reading Debian's package lists."
    quietly apt_get update || say "  apt-get update failed; going on with the lists that are there." >&2
    apt_updated=yes
}

# The first of the named packages that Debian offers here.
apt_offered() {
    local package policy
    for package in "$@"; do
        policy=$(LC_ALL=C apt-cache policy "$package" 2>/dev/null) || continue
        case $policy in
        *'Candidate: (none)'*) ;;
        *'Candidate: '*)
            printf '%s' "$package"
            return 0
            ;;
        esac
    done
    return 1
}

# Installs the first of the named packages that Debian offers.
apt_install() {
    local package
    can_apt || return 1
    if ! package=$(apt_offered "$@"); then
        apt_update
        package=$(apt_offered "$@") || return 1
    fi
    say "Installing Debian's $package."
    if apt_get install -y --no-install-recommends "$package" >"$log" 2>&1 </dev/null; then return 0; fi
    apt_update # lists that are out of date name files that are gone
    quietly apt_get install -y --no-install-recommends "$package"
}

# --- Python ----------------------------------------------------------------------------------------------------------

is_suitable() { [ "$("$1" -c 'import sys; print(sys.version_info >= (3, 11))' 2>/dev/null)" = True ]; }
can_make_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }
minor_version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }

# A suitable interpreter, one that can make virtual environments before one that cannot.
find_python() {
    local name found fallback=
    if [ -n "${PYTHON:-}" ]; then
        found=$(command -v "$PYTHON") || stop "PYTHON names $PYTHON, which is not there; give the path of Python 3.11+."
        is_suitable "$found" || stop "PYTHON names $PYTHON, which is not Python 3.11 or newer; give the path of one."
        printf '%s' "$found"
        return 0
    fi
    for name in python3.13 python3.12 python3.11 python3; do
        found=$(command -v "$name") && is_suitable "$found" || continue
        if can_make_venv "$found"; then
            printf '%s' "$found"
            return 0
        fi
        fallback=${fallback:-$found}
    done
    [ -n "$fallback" ] && printf '%s' "$fallback"
}

fingerprint() {
    printf '%s\n' "$PWD"
    cat "${LOCKS[@]}" pyproject.toml tools/setup.sh | cksum
}

# Whether .venv works, and has the version that PYTHON asks for.
venv_is_usable() {
    [ -x "$VENV/bin/pip" ] && is_suitable "$VENV/bin/python" &&
        { [ -z "${PYTHON:-}" ] || [ "$(minor_version "$PYTHON")" = "$(minor_version "$VENV/bin/python")" ]; }
}

python_is_ready() { [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$(fingerprint)" ] && venv_is_usable; }

# One set-up at a time; a turn whose process is gone is taken over.
take_turn() {
    local owner announced=
    until mkdir "$TURN" 2>/dev/null; do
        owner=$(cat "$TURN/pid" 2>/dev/null || true)
        if [ -z "$owner" ]; then
            sleep 1 # between another's mkdir and its pid
            owner=$(cat "$TURN/pid" 2>/dev/null || true)
        fi
        if [ -z "$owner" ] || ! kill -0 "$owner" 2>/dev/null; then
            rm -rf "$TURN"
            continue
        fi
        [ -n "$announced" ] || say "Another set-up of this folder is running (process $owner); waiting for it."
        announced=yes
        sleep 1
    done
    turn_taken=yes
    printf '%s' "$$" >"$TURN/pid"
}

make_venv() {
    local python version
    python=$(find_python) || { apt_install python3 && python=$(find_python); } ||
        stop "Python 3.11 or newer was not found; install it, or name it with PYTHON=/path/to/python3."
    version=$(minor_version "$python")
    if ! can_make_venv "$python"; then
        apt_install "python$version-venv" && can_make_venv "$python" ||
            stop "$python cannot make virtual environments; install its venv module" \
                "(Debian, Ubuntu: apt-get install python$version-venv) and run this again."
    fi
    say "Making $VENV with Python $version ($python)."
    rm -rf "$VENV"
    quietly "$python" -m venv "$VENV" || stop "$python could not make $VENV; the lines above say why."
}

# uv asks the index, and trusts the certificates, that pip is configured for.
follow_pip() {
    local value
    value=$("$VENV/bin/python" -m pip config get global.index-url 2>/dev/null) || value=
    value=${PIP_INDEX_URL:-$value}
    if [ -n "$value" ] && [ -z "${UV_DEFAULT_INDEX:-}${UV_INDEX_URL:-}" ]; then export UV_DEFAULT_INDEX=$value; fi
    value=$("$VENV/bin/python" -m pip config get global.cert 2>/dev/null) || value=
    value=${PIP_CERT:-$value}
    if [ -n "$value" ] && [ -z "${SSL_CERT_FILE:-}" ]; then export SSL_CERT_FILE=$value; fi
}

install_locked() {
    local uv=$VENV/bin/uv
    # Once a wheel is built here from pyspark's source; what builds it is locked too, hence no build isolation.
    PIP_USER=0 quietly "$VENV/bin/python" -m pip install --require-hashes --no-deps -r "${LOCKS[0]}" &&
        follow_pip &&
        # Compiled now, as pip does, and not by every command where Python may not write what it has compiled.
        quietly "$uv" pip sync -p "$VENV/bin/python" --compile-bytecode --require-hashes --no-build-isolation "${LOCKS[@]}" &&
        quietly "$uv" pip install -p "$VENV/bin/python" --no-deps --no-build-isolation --offline -e . ||
        stop "the Python packages could not be installed; the lines above say why."
    quietly "$VENV/bin/python" -m compileall -q backfill_assets || stop "backfill_assets could not be compiled."
    quietly "$uv" pip check -p "$VENV/bin/python" ||
        stop "requirements.lock does not hold what pyproject.toml asks for; run 'make lock', then this again."
}

ensure_python() {
    if [ -n "${PYTHON:-}" ]; then find_python >/dev/null || exit 1; fi
    python_is_ready && return 0
    take_turn
    python_is_ready && return 0
    local started=$SECONDS
    # Its programs name the folder they were installed in, so one that was moved is made again.
    if ! venv_is_usable || { [ -f "$STAMP" ] && [ "$(head -n 1 "$STAMP")" != "$PWD" ]; }; then
        make_venv
        say "Installing the locked Python packages (with nothing cached this fetches 500 MB and takes a minute or two)."
    else
        say "Bringing the Python packages up to date with the locks."
    fi
    rm -f "$STAMP"
    install_locked
    fingerprint >"$STAMP.new"
    mv "$STAMP.new" "$STAMP"
    say "Python packages are in place after $((SECONDS - started)) s."
}

# --- Java ------------------------------------------------------------------------------------------------------------

# The major version of a java program; 0 when it is none (macOS has a stub that only says where to get one).
java_version() {
    local version
    version=$("$1" -version 2>&1 | sed -n 's/.*version "\([0-9][0-9]*\).*/\1/p' | head -n 1) || true
    printf '%s' "${version:-0}"
}

is_java() { [ -n "$1" ] && [ -x "$1" ] && [ "$(java_version "$1")" -ge "$MINIMUM_JAVA" ]; }

# Where a Java lives that neither JAVA_HOME nor the PATH leads to.
find_java_home() {
    local java version
    if [ -x /usr/libexec/java_home ]; then
        for version in 17 21 "$MINIMUM_JAVA+"; do
            java=$(/usr/libexec/java_home -v "$version" 2>/dev/null)/bin/java
            if is_java "$java"; then
                printf '%s' "${java%/bin/java}"
                return 0
            fi
        done
    fi
    for java in "$(command -v java || true)" {/opt/homebrew,/usr/local}/opt/openjdk{@17,@21,}/bin/java /usr/lib/jvm/*/bin/java; do
        if is_java "$java"; then
            "$java" -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java\.home = //p'
            return 0
        fi
    done
    return 1
}

ensure_java() {
    local home
    if [ -n "${JAVA_HOME:-}" ]; then
        if is_java "$JAVA_HOME/bin/java"; then return 0; fi
    elif is_java "$(command -v java || true)"; then
        return 0
    fi
    if ! home=$(find_java_home); then
        apt_install openjdk-17-jre-headless openjdk-21-jre-headless openjdk-25-jre-headless && home=$(find_java_home) ||
            stop "Java $MINIMUM_JAVA or newer was not found; install it" \
                "(Debian: apt-get install default-jre-headless; macOS: brew install openjdk@17) and run this again."
        if [ -z "${JAVA_HOME:-}" ] && is_java "$(command -v java || true)"; then return 0; fi
    fi
    say "Using Java in $home (JAVA_HOME and the PATH lead to none of $MINIMUM_JAVA or newer)."
    java_home=$home
}

# What Java needs most of its start for; done again for another Java or other packages. Nothing depends on it but time.
ensure_classes() {
    local home=${java_home:-${JAVA_HOME:-}} java stamp
    java=$([ -n "$home" ] && printf '%s' "$home/bin/java" || command -v java || true)
    stamp="$(readlink -f "$java" || printf '%s' "$java") $(cksum <requirements.lock)"
    if [ "$(cat "$VENV/classes.stamp" 2>/dev/null)" = "$stamp" ]; then return 0; fi
    say "Loading Spark's classes, so that it starts in half the time (half a minute, once)."
    if JAVA_HOME=$home quietly "$VENV/bin/python" -m backfill_assets.core.java_classes; then
        printf '%s' "$stamp" >"$VENV/classes.stamp"
    else
        say "They could not be kept, as the line above says; Spark starts as ever, and the next set-up tries again." >&2
    fi
}

# --- what only tests need --------------------------------------------------------------------------------------------

has_postgresql() {
    local program
    for program in "$(command -v initdb || true)" /usr/lib/postgresql/*/bin/initdb \
        {/opt/homebrew,/usr/local}/opt/postgresql*/bin/initdb; do
        if [ -n "$program" ] && [ -x "$program" ]; then return 0; fi
    done
    return 1
}

ensure_postgresql() {
    has_postgresql || { apt_install postgresql && has_postgresql; } ||
        say "No PostgreSQL server was found (macOS: brew install postgresql@17); the tests that need one are skipped."
}

ensure_eatmydata() {
    command -v eatmydata >/dev/null || apt_install eatmydata ||
        say "eatmydata was not found (macOS: brew install libeatmydata); the tests wait for the disk at every write."
}

# An object store whose objects are plain files; building it takes some minutes.
build_versitygw() {
    command -v go >/dev/null || return 1
    say "Building versitygw $VERSITYGW with Go (some minutes, once)."
    mkdir -p "$CACHE/versitygw"
    GOBIN=$CACHE/versitygw quietly go install "github.com/versity/versitygw/cmd/versitygw@$VERSITYGW"
}

fetch_spark_s3() {
    command -v mvn >/dev/null || return 1
    say "Fetching Spark's jars for S3 (13 MB, once)."
    rm -rf "$CACHE/spark-s3.new"
    quietly mvn -q -B -f deploy/s3/pom.xml dependency:copy-dependencies -DoutputDirectory="$CACHE/spark-s3.new" || return 1
    rm -rf "$CACHE/spark-s3"
    mv "$CACHE/spark-s3.new" "$CACHE/spark-s3"
    cksum <deploy/s3/pom.xml >"$CACHE/spark-s3/pom.cksum"
}

has_spark_s3() { [ "$(cat "$CACHE/spark-s3/pom.cksum" 2>/dev/null)" = "$(cksum <deploy/s3/pom.xml)" ]; }

ensure_s3() {
    [ -x "$CACHE/versitygw/versitygw" ] || build_versitygw ||
        say "OBJECT STORES ARE NOT TESTED: versitygw could not be built; install Go (https://go.dev/dl) and run this again."
    has_spark_s3 || fetch_spark_s3 ||
        say "SPARK WITH AN OBJECT STORE IS NOT TESTED: its jars could not be fetched; install Maven and run this again."
}

ensure_kafka() {
    .venv/bin/python -m backfill_assets.examples.kafka_broker ||
        say "CAPTURES FROM KAFKA ARE NOT TESTED: see above, and run this again."
}

has_registry() { [ -e "$CACHE/registry/apicurio-registry-app-$APICURIO-runner.jar" ]; }

fetch_registry() {
    command -v mvn >/dev/null || return 1
    say "Fetching a schema registry for the tests of captures (142 MB, once)."
    rm -rf "$CACHE/registry.new"
    mkdir -p "$CACHE/registry.new"
    # There, because Maven leaves a folder with its marks where it is started without a project.
    (cd "$CACHE/registry.new" && quietly mvn -q -B dependency:unpack -DoutputDirectory="$CACHE/registry.new" \
        -Dartifact="io.apicurio:apicurio-registry-app:$APICURIO:tar.gz:all") || return 1
    rm -rf "$CACHE/registry"
    mv "$CACHE/registry.new" "$CACHE/registry"
}

ensure_registry() {
    has_registry || fetch_registry ||
        say "CAPTURES BY A SCHEMA REGISTRY ARE NOT TESTED: it could not be fetched; install Maven and run this again."
}

has_debezium() { [ "$(cat "$CACHE/debezium/pom.cksum" 2>/dev/null)" = "$(cksum <deploy/debezium/pom.xml)" ]; }

fetch_debezium() {
    command -v mvn >/dev/null || return 1
    say "Fetching Debezium's embedded engine for the tests of captures (once)."
    rm -rf "$CACHE/debezium.new"
    quietly mvn -q -B -f deploy/debezium/pom.xml dependency:copy-dependencies -DincludeScope=runtime \
        -DoutputDirectory="$CACHE/debezium.new" || return 1
    rm -rf "$CACHE/debezium"
    mv "$CACHE/debezium.new" "$CACHE/debezium"
    cksum <deploy/debezium/pom.xml >"$CACHE/debezium/pom.cksum"
}

ensure_debezium() {
    has_debezium || fetch_debezium ||
        say "A LIVE RUN OF DEBEZIUM IS NOT TESTED: it could not be fetched; install Maven and run this again."
}

has_kinesis() { [ -e "$CACHE/kinesalite-$KINESALITE/node_modules/kinesalite/cli.js" ]; }

fetch_kinesis() {
    local folder
    command -v npm >/dev/null || apt_install npm || return 1
    say "Fetching kinesalite $KINESALITE for the tests of captures (15 MB, once)."
    mkdir -p "$CACHE"
    folder=$(mktemp -d "$CACHE/kinesalite.XXXXXX")
    quietly npm install --silent --no-audit --no-fund --omit=optional --prefix "$folder" "kinesalite@$KINESALITE" &&
        mv "$folder" "$CACHE/kinesalite-$KINESALITE" && return 0
    rm -rf "$folder"
    return 1
}

ensure_kinesis() {
    has_kinesis || fetch_kinesis ||
        say "CAPTURES FROM KINESIS ARE NOT TESTED: kinesalite could not be fetched; install npm and run this again."
}

has_prometheus() {
    command -v promtool >/dev/null && command -v prometheus >/dev/null || [ -x "$CACHE/prometheus/usr/bin/promtool" ]
}

# Debian's packages unpacked in a folder of the cache, and not installed.
unpack_debian() {
    local name=$1 folder
    shift
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || return 1
    if [ -z "$(apt_offered "$1")" ] && can_apt; then apt_update; fi
    say "Fetching Debian's $*."
    mkdir -p "$CACHE"
    folder=$(mktemp -d "$CACHE/$name.XXXXXX")
    # The sandbox of apt may not write into this folder; as its own user it may.
    (cd "$folder" && quietly apt-get -o APT::Sandbox::User=root download "$@" &&
        for each in *.deb; do dpkg -x "$each" "$folder/unpacked"; done) && rm -rf "$CACHE/$name" &&
        mv "$folder/unpacked" "$CACHE/$name" && rm -rf "$folder" && return 0
    rm -rf "$folder"
    return 1
}

ensure_prometheus() {
    has_prometheus || unpack_debian prometheus prometheus ||
        say "PROMETHEUS IS NOT TESTED: Debian's package could not be fetched; install prometheus and run this again."
}

ensure_sftp() {
    [ -x "$CACHE/sshd/usr/sbin/sshd" ] || unpack_debian sshd openssh-server openssh-sftp-server libwrap0 libnss-wrapper ||
        say "OPENSSH'S SFTP IS NOT TESTED: Debian's packages could not be fetched; run this again where they can."
}

has_readers() { [ "$(cat "$CACHE/readers/lock.cksum" 2>/dev/null)" = "$(cksum <deploy/readers/requirements.lock)" ]; }

fetch_readers() {
    local uv=$VENV/bin/uv
    [ -x "$uv" ] || return 1
    say "Fetching DuckDB, Polars and deltalake for the test of other readers."
    mkdir -p "$CACHE"
    rm -rf "$CACHE/readers"
    quietly "$VENV/bin/python" -m venv --without-pip "$CACHE/readers" && follow_pip &&
        quietly "$uv" pip sync -p "$CACHE/readers/bin/python" --require-hashes deploy/readers/requirements.lock &&
        cksum <deploy/readers/requirements.lock >"$CACHE/readers/lock.cksum"
}

has_site() { [ "$(cat "$SITE/lock.cksum" 2>/dev/null)" = "$(cksum <requirements-docs.lock)" ]; }

fetch_site() {
    say "Fetching what builds the documentation site."
    rm -rf "$SITE"
    quietly "$VENV/bin/python" -m venv --without-pip "$SITE" && follow_pip &&
        quietly "$VENV/bin/uv" pip sync -p "$SITE/bin/python" --require-hashes requirements-docs.lock &&
        cksum <requirements-docs.lock >"$SITE/lock.cksum"
}

ensure_site() {
    has_site || fetch_site || stop "what builds the site could not be fetched; the lines above say why."
}

has_lowest() { [ "$(cat "$LOWEST/project.cksum" 2>/dev/null)" = "$(cksum <pyproject.toml)" ]; }

fetch_lowest() {
    local uv=$VENV/bin/uv versions
    versions=$(mktemp)
    say "Installing the lowest versions that pyproject.toml allows (a minute, once)."
    rm -rf "$LOWEST"
    quietly "$VENV/bin/python" -m venv --without-pip "$LOWEST" && follow_pip &&
        quietly "$uv" pip compile --quiet --python "$VENV/bin/python" --resolution lowest-direct --all-extras \
            --no-header --no-annotate --output-file "$versions" pyproject.toml &&
        quietly "$uv" pip sync -p "$LOWEST/bin/python" "$versions" &&
        quietly "$uv" pip install -p "$LOWEST/bin/python" --no-deps --editable . &&
        cksum <pyproject.toml >"$LOWEST/project.cksum"
}

ensure_lowest() {
    has_lowest || fetch_lowest || stop "the lowest versions could not be installed; the lines above say why."
}

spark_reader_sums() { cat deploy/readers/requirements-spark.lock deploy/readers/pom.xml | cksum; }

has_spark_reader() { [ "$(cat "$CACHE/spark-reader/cksum" 2>/dev/null)" = "$(spark_reader_sums)" ]; }

# A Spark of another version than ours, for which Delta's connector is built.
fetch_spark_reader() {
    local uv=$VENV/bin/uv folder=$CACHE/spark-reader
    command -v mvn >/dev/null && [ -x "$uv" ] || return 1
    say "Fetching Spark 4.1 with Delta's connector for the test of other readers (460 MB, once)."
    mkdir -p "$CACHE"
    rm -rf "$folder"
    quietly "$VENV/bin/python" -m venv --without-pip "$folder" && follow_pip &&
        quietly "$uv" pip sync -p "$folder/bin/python" --require-hashes deploy/readers/requirements-spark.lock &&
        quietly mvn -q -B -f deploy/readers/pom.xml dependency:copy-dependencies -DoutputDirectory="$folder/jars" &&
        spark_reader_sums >"$folder/cksum"
}

ensure_readers() {
    has_readers || fetch_readers ||
        say "OTHER READERS ARE NOT TESTED: DuckDB and Polars could not be fetched; run this again with a package index."
    has_spark_reader || fetch_spark_reader ||
        say "SPARK WITH DELTA'S CONNECTOR IS NOT TESTED: it could not be fetched; install Maven and run this again."
}

has_chromium() {
    local program
    for program in chromium chromium-browser google-chrome /Applications/Chromium.app/Contents/MacOS/Chromium; do
        if command -v "$program" >/dev/null; then return 0; fi
    done
    return 1
}

fetch_axe() {
    local folder
    command -v npm >/dev/null || apt_install npm || return 1
    say "Fetching axe-core $AXE for the tests of pages."
    mkdir -p "$CACHE"
    folder=$(mktemp -d "$CACHE/axe.XXXXXX")
    (cd "$folder" && quietly npm pack --silent "axe-core@$AXE" && tar -xzf "axe-core-$AXE.tgz") &&
        mv -f "$folder/package/axe.min.js" "$CACHE/axe-$AXE.min.js" && rm -rf "$folder" && return 0
    rm -rf "$folder"
    return 1
}

ensure_chromium() {
    [ -s "$CACHE/axe-$AXE.min.js" ] || fetch_axe ||
        stop "axe-core could not be fetched, and the tests of pages need it; install npm and run this again."
    has_chromium || { apt_install chromium && has_chromium; } ||
        stop "Chromium was not found, and the tests of pages need it; install it" \
            "(Debian: apt-get install chromium; macOS: brew install --cask chromium) and run this again."
}

# ---------------------------------------------------------------------------------------------------------------------

[ "$#" -gt 0 ] || set -- java python
java_asked=
java_home=
for need in "$@"; do
    case $need in
    python) ensure_python ;;
    java)
        ensure_java
        java_asked=yes
        ;;
    postgresql) ensure_postgresql ;;
    eatmydata) ensure_eatmydata ;;
    s3) ensure_s3 ;;
    kafka) ensure_kafka ;;
    registry) ensure_registry ;;
    debezium) ensure_debezium ;;
    kinesis) ensure_kinesis ;;
    prometheus) ensure_prometheus ;;
    sftp) ensure_sftp ;;
    readers) ensure_readers ;;
    lowest) ensure_lowest ;;
    site) ensure_site ;;
    chromium) ensure_chromium ;;
    *) stop "there is no '$need'; known are java, python, postgresql, eatmydata, s3, kafka, registry, debezium, kinesis, prometheus, sftp, readers, chromium and site." ;;
    esac
done
if [ -n "$java_asked" ] && [ -d "$VENV" ]; then
    { [ -z "$java_home" ] || printf 'export JAVA_HOME=%q\n' "$java_home"; } >"$ENVIRONMENT.$$"
    mv "$ENVIRONMENT.$$" "$ENVIRONMENT"
    ensure_classes
fi

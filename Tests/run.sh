#!/bin/sh
# Builds everything and runs every check, on a fresh Debian 12 or Ubuntu 24.04 with Swift 6.2 or later.
#
#   Tests/run.sh              install what is missing, build, lint, check, test
#   Tests/run.sh --no-install leave the system alone
#
# Exit status: 0 when everything passed. What is not installed and not needed for the build is skipped with a
# line that begins with SKIPPED; nothing is skipped in silence.
set -u

cd "$(dirname "$0")/.." || exit 1
PATH="$PATH:/usr/sbin:/sbin"
mkdir -p .build
# The names of what failed, one a line; a file, because parts run beside each other.
failures=.build/failures.log
: > "$failures"

start=$(date +%s)
# With minutes and seconds since the start.
title() {
    seconds=$(($(date +%s) - start))
    printf '\n== %d:%02d %s\n' $((seconds / 60)) $((seconds % 60)) "$1"
}
skipped() { printf 'SKIPPED: %s\n' "$1"; }
# Runs a script of which 77 says that it cannot be run here; the script has said why.
where_possible() { "$@" || [ $? -eq 77 ]; }
failed() { echo "$1" >> "$failures"; printf 'FAILED: %s\n' "$1"; }

# A build needs these; without one of them there is no point in going on.
build_packages="git libcurl4-openssl-dev libssl-dev libzstd-dev libsqlite3-dev libmicrohttpd-dev pkg-config"
# Tests use these where they find them.
test_packages="nginx python3 python3-venv python3-jsonschema python3-yaml tinyproxy squid strace rsync curl jq zstd systemd cron iproute2"
# Readers of the manual page and of the completions.
test_packages="$test_packages man-db groff-base mandoc zsh fish"
# A bus of their own, with services that are made up.
# What a transport plugin of Examples speaks to.
test_packages="$test_packages rclone"
test_packages="$test_packages dbus python3-dbus python3-gi python3-fusepy"
# Who else knows what a signature is, and other times of day.
test_packages="$test_packages openssh-client faketime"

install_packages() {
    missing=""
    for package in $build_packages $test_packages; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    if [ -z "$missing" ]; then
        echo "Every package is there."
        return
    fi
    root=""
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            skipped "installing$missing: neither root nor sudo"
            return
        fi
        root="sudo"
    fi
    echo "Installing:$missing"
    $root apt-get update -qq || echo "apt-get update failed; going on with the lists that are there."
    # RUNLEVEL=1: packages that bring a service do not start it.
    # shellcheck disable=SC2086 # a list of words
    if ! $root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get install -y -qq --no-install-recommends $missing >/dev/null; then
        # One unknown name must not keep the others away.
        for package in $missing; do
            $root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
                apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1 ||
                skipped "package $package: apt-get could not install it"
        done
    fi
}

# An S3 server for the tests of signed requests, in an environment of its own.
install_moto() {
    venv=".build/test-venv"
    if [ ! -x "$venv/bin/moto_server" ]; then
        if ! python3 -m venv "$venv" 2>/dev/null; then
            skipped "moto: python3 -m venv does not work here"
            return
        fi
        if ! "$venv/bin/pip" install --quiet --disable-pip-version-check 'moto[s3,server]' >/dev/null 2>&1; then
            rm -rf "$venv"
            skipped "moto: pip could not install it"
            return
        fi
    fi
    PATH="$PWD/$venv/bin:$PATH"
    export PATH
    echo "moto is in $venv."
}

if [ "${1:-}" = "--no-install" ]; then
    title "Packages"
    skipped "installing packages: --no-install"
else
    title "Packages"
    install_packages
    install_moto
fi

if ! command -v swift >/dev/null; then
    echo "There is no swift in PATH. https://www.swift.org/install/linux/ says how to install it." >&2
    exit 1
fi

title "Build ($(swift --version 2>/dev/null | head -n 1))"
swift build --build-tests || exit 1

title "Format (swift format lint --strict)"
swift format lint --strict --parallel --recursive Sources Tests || failed "format"

title "Example programs"
swift build --package-path Examples/watch-session --scratch-path .build/watch-session || failed "examples"

title "Manifest schema (Tests/schema/check.py)"
if python3 -c 'import jsonschema' 2>/dev/null; then
    python3 Tests/schema/check.py || failed "schema"
elif [ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import jsonschema' 2>/dev/null; then
    /usr/bin/python3 Tests/schema/check.py || failed "schema"
else
    skipped "manifest schema: no Python module jsonschema"
fi

title "Documentation: house, places, rules, events, links"
if command -v python3 >/dev/null; then
    for check in house places rules events links; do python3 "Tests/$check.py" || failed "$check"; done
else
    skipped "documentation: no python3"
fi

title "Manual page and completions (Tests/packaging.sh)"
if command -v python3 >/dev/null; then
    Tests/packaging.sh .build/debug/syncagent || failed "packaging"
else
    skipped "manual page and completions: no python3"
fi

title "Numbered rules and their tests (Tests/coverage.sh prints the table)"
if command -v python3 >/dev/null; then
    table=$(Tests/coverage.sh) || failed "coverage"
    printf '%s\n' "$table" | grep '^## '
else
    skipped "coverage: no python3"
fi

SYNCAGENT="$PWD/.build/debug/syncagent"
export SYNCAGENT

# A real cron and a real systemd, each in namespaces of its own; one to three minutes.
schedules() {
    title "Schedules by cron, systemd and the agent"
    where_possible Tests/schedules.sh || failed "schedules"
}

# Mostly waits for the clock, beside the tests that follow.
schedules > .build/waiting.log 2>&1 &
waiting=$!

# One target after another, and two tests at a time for each core: tests that wait for servers and processes must not
# starve each other. All that ends in a failure is said again at the end.
SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=$(($(getconf _NPROCESSORS_ONLN) * 2))
export SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH
: > .build/failed-tests.log
for target in Tests/*Tests; do
    name=$(basename "$target")
    title "Tests: $name"
    {
        swift test --skip-build --disable-xctest --filter "^$name\\."
        echo $? > .build/tests.status
    } 2>&1 | tee .build/tests.log
    if [ "$(cat .build/tests.status)" != 0 ]; then
        failed "$name"
        grep -E '✘|Fatal error' .build/tests.log | grep -v 'Suite ' | cut -c 1-400 | head -n 40 >> .build/failed-tests.log
    fi
done

signed_releases() {
    title "Signed releases as Documentation/Signing.md has them (Tests/signing.sh, Tests/signing-kill.sh)"
    [ -x /usr/bin/ssh-keygen ] || skipped "signatures against ssh-keygen: it is not here"
    Tests/signing.sh || failed "signing"
    where_possible Tests/signing-kill.sh 2 || failed "signing-kill"

    # Two hundred here; thousands by hand: Tests/tuf.sh 5000.
    title "Repositories that python-tuf makes and judges (Tests/tuf.sh)"
    where_possible Tests/tuf.sh 200 || failed "tuf"
}

walks() {
    title "What a newcomer would type (Tests/walks)"
    for walk in Tests/walks/*.sh; do "$walk" || failed "$(basename "$walk")"; done
}

rebinding() {
    title "A public name for a private address (Tests/rebinding.sh)"
    where_possible Tests/rebinding.sh || failed "rebinding"
}

# A few hundred here, with the debug build; tens of thousands by hand, with the release build: Tests/fuzz.sh 20000.
mutations() {
    title "Mutations of what the program reads (Tests/fuzz.sh)"
    if command -v python3 >/dev/null; then
        where_possible Tests/fuzz.sh "${FUZZ:-400}" 1 || failed "fuzz"
    else
        skipped "mutations: no python3"
    fi
}

# The agent as a process among others. Here a few dozen trials of each, with the debug build; hundreds and thousands by
# hand: Tests/crash.sh 2000, Tests/status-kills.sh 200, Tests/evidence/syscall-kills.sh.
kills() {
    title "Kills, races, restarts"
    if command -v nginx >/dev/null && command -v python3 >/dev/null; then
        Tests/crash.sh "${CRASHES:-25}" || failed "crash"
        Tests/status-kills.sh "${STATUS_KILLS:-10}" || failed "status-kills"
        Tests/agents.sh || failed "agents"
        if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
            Tests/evidence/syscall-kills.sh --sample "${SYSCALLS:-30}" || failed "syscall-kills"
        else
            skipped "kills at system calls: strace is missing or may not trace here"
        fi
    else
        skipped "kills, races, restarts: no nginx or no python3"
    fi
}

tasks() {
    title "What can happen to a task, by real pulls (Tests/evidence/tasks.py)"
    if command -v python3 >/dev/null; then
        python3 -B Tests/evidence/tasks.py "$PWD/.build/debug/syncagent" || failed "tasks"
    else
        skipped "what can happen to a task: no python3"
    fi
}

wait "$waiting"
cat .build/waiting.log

# Two lanes beside each other. Nothing in them depends on how fast it goes.
(mutations; kills) > .build/lane.log 2>&1 &
lane=$!
walks
signed_releases
rebinding
tasks
wait "$lane"
cat .build/lane.log

# Counts of the inner pieces against their limits; without times, which depend on the machine.
title "Allocations and system calls (syncagent-benchmarks --counts)"
command -v strace >/dev/null || skipped "counts of system calls: no strace"
.build/debug/syncagent-benchmarks --counts || failed "benchmark-counts"

# Some two minutes; the whole day by hand: Tests/evidence/live.py PROGRAM. It measures how soon things are said, so it runs alone.
title "What a pull says while it happens (Tests/evidence/live.py --short)"
if command -v python3 >/dev/null; then
    python3 -B Tests/evidence/live.py "$PWD/.build/debug/syncagent" --short || failed "live"
else
    skipped "what a pull says while it happens: no python3"
fi

if [ -s "$failures" ]; then
    cat .build/failed-tests.log >&2
    printf '\nFAILED: %s\n' "$(tr '\n' ' ' < "$failures")" >&2
    exit 1
fi

#!/bin/sh
# Builds everything and runs every check, on a fresh Debian 12 or Ubuntu 24.04 with Swift 6.2 or later.
#
#   Tests/run.sh              install what is missing, build, lint, check, test
#   Tests/run.sh --no-install leave the system alone
#
# Environment: JOBS, how many jobs run beside each other (default: one more than there are cores).
# Exit status: 0 when everything passed. What is not installed and not needed for the build is skipped with a
# line that begins with SKIPPED; nothing is skipped in silence.
set -u

cd "$(dirname "$0")/.." || exit 1
PATH="$PATH:/usr/sbin:/sbin"
rm -rf .build/jobs
mkdir -p .build/jobs
# The names of what failed, one a line; a file, because jobs run beside each other.
failures=.build/jobs/failed
: > "$failures"

start=$(date +%s)
# With minutes and seconds since the start.
title() {
    seconds=$(($(date +%s) - start))
    printf '\n== %d:%02d %s\n' $((seconds / 60)) $((seconds % 60)) "$1"
}
skipped() { printf 'SKIPPED: %s\n' "$1"; }

# A build needs these; without one of them there is no point in going on.
build_packages="git libcurl4-openssl-dev libssl-dev libzstd-dev libsqlite3-dev libmicrohttpd-dev pkg-config"
# Tests use these where they find them.
test_packages="nginx python3 python3-venv python3-jsonschema python3-yaml tinyproxy squid strace rsync curl jq zstd systemd cron iproute2"
# Readers of the manual page and of the completions.
test_packages="$test_packages man-db groff-base mandoc zsh fish"
# What a transport plugin of Examples speaks to.
test_packages="$test_packages rclone"
# Who reads large files of git repositories, to compare with; and how much memory something takes.
test_packages="$test_packages git-lfs time"
# A bus of their own, with services that are made up, and file systems of their own.
test_packages="$test_packages dbus python3-dbus python3-gi python3-fusepy"
# A registry of artifacts, and who else knows them, and lists.
test_packages="$test_packages docker-registry skopeo aria2"
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

# An S3 server for the tests of signed requests, and the schemas of Kubernetes, in an environment of their own.
install_modules() {
    venv=".build/test-venv"
    if [ ! -x "$venv/bin/moto_server" ] || [ ! -x "$venv/bin/kubernetes-validate" ]; then
        if ! python3 -m venv "$venv" 2>/dev/null; then
            skipped "moto: python3 -m venv does not work here"
            return
        fi
        if ! "$venv/bin/pip" install --quiet --disable-pip-version-check 'moto[s3,server]' kubernetes-validate >/dev/null 2>&1; then
            rm -rf "$venv"
            skipped "moto and kubernetes-validate: pip could not install them"
            return
        fi
    fi
    PATH="$PWD/$venv/bin:$PATH"
    export PATH
    echo "moto and kubernetes-validate are in $venv."
}

if [ "${1:-}" = "--no-install" ]; then
    title "Packages"
    skipped "installing packages: --no-install"
else
    title "Packages"
    install_packages
    install_modules
fi

if ! command -v swift >/dev/null; then
    echo "There is no swift in PATH. https://www.swift.org/install/linux/ says how to install it." >&2
    exit 1
fi

title "Build ($(swift --version 2>/dev/null | head -n 1))"
swift build --build-tests || exit 1

# Jobs beside each other, since most of them wait half of the time for servers, clocks and other processes; the longest
# first, so that none is left over at the end.
jobs=${JOBS:-$(($(getconf _NPROCESSORS_ONLN) + 1))}
title "Checks, tests and trials, $jobs at a time (Tests/job.sh)"
{
    printf '%s\n' agents CommandTests schedules faults tasks syscall-kills release-kills FaultMatrixTests walks crash mutations tuf \
        registry elsewhere s3 status-kills SyncPublisherTests SyncDaemonTests SessionCommandTests signing signing-kill holes \
        rebinding switches badline
    for target in Tests/*Tests; do basename "$target"; done
    printf '%s\n' format examples schema documentation packaging coverage
} | awk '!seen[$0]++' | BUILT=1 START="$start" FAILURES="$failures" xargs -n 1 -P "$jobs" Tests/job.sh
ended=$?
# 123: some have failed, and each has left its name. Anything else is one that ended without a word, and others did not begin.
lost=""
case $ended in
0) ;;
123) [ -s "$failures" ] || lost=yes ;;
*) lost=yes ;;
esac

# They count, and measure how soon things are said: by themselves.
for job in counts live; do
    BUILT=1 START="$start" FAILURES="$failures" Tests/job.sh "$job" || grep -qx "$job" "$failures" || lost=yes
done

# What a log of a job says of a failure: whoever reads the output reads its end.
reasons() {
    printf '\n== What failed in %s\n' "$1"
    {
        grep -E '✘|Fatal error|BROKEN|broken:|OPEN|VIOLATION|FAILED|error:|Traceback' "$2" | grep -v 'Suite ' | head -n 30
        echo "… and its last lines:"
        tail -n 5 "$2"
    } | cut -c 1-400
}

# A few of them may have failed because others ran beside them, which no bound allows for on every machine: they run again by
# themselves, and what they said at first is printed all the same. More than three are no accident.
if [ -s "$failures" ] && [ "$(wc -l < "$failures")" -le 3 ]; then
    title "Once more, alone: $(tr '\n' ' ' < "$failures")"
    mv "$failures" "$failures.first"
    : > "$failures"
    while read -r job; do
        cp ".build/jobs/$job.log" ".build/jobs/$job.first"
        BUILT=1 START="$start" FAILURES="$failures" Tests/job.sh "$job" < /dev/null
    done < "$failures.first"
    while read -r job; do
        reasons "$job, beside others" ".build/jobs/$job.first"
        grep -qx "$job" "$failures" || printf 'UNSTABLE: %s failed beside others and passed alone.\n' "$job"
    done < "$failures.first" >&2
fi
if [ -n "$lost" ]; then
    printf '\nFAILED: a job ended without a word (xargs: %s), so that not all of them have run\n' "$ended" >&2
    exit 1
fi
if [ -s "$failures" ]; then
    while read -r job; do reasons "$job" ".build/jobs/$job.log"; done < "$failures" >&2
    printf '\nFAILED: %s\n' "$(tr '\n' ' ' < "$failures")" >&2
    exit 1
fi

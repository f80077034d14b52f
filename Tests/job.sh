#!/bin/sh
# Builds, does one job of run.sh, and prints what it said when it has ended.
#
#   Tests/job.sh SyncModelTests            the tests of a target
#   Tests/job.sh SyncEngineTests HookTests those whose suite or function matches the regular expression
#   Tests/job.sh walks                     a script, or what else the list below names
#
# Environment: BUILT=1 to build nothing, because everything is built. START, when everything began, in seconds since 1970;
# FAILURES, a file that gets the names of jobs that failed. Exit status: 0 it passed, or cannot be tried here, which is said
# in a line that begins with SKIPPED; 1 not.
set -u

cd "$(dirname "$0")/.." || exit 1
PATH="$PATH:/usr/sbin:/sbin"
SYNCAGENT="$PWD/.build/debug/syncagent"
export SYNCAGENT
# Two tests at a time for each core: tests that wait for servers and processes must not starve each other.
SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=$(($(getconf _NPROCESSORS_ONLN) * 2))
export SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH

# What the tests make is in memory where 4 GiB are free there: on a disk those that make thousands of files wait for it most
# of the time, above all where as many have just been removed. The trials of kills stay on the disk, see evidence/common.sh.
if [ -z "${TMPDIR:-}" ] && [ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ] &&
    [ "$(df -k --output=avail /dev/shm | tail -n 1)" -gt 4194304 ]; then
    TMPDIR=$(mktemp -d /dev/shm/sa.XXXXXX) || exit 1  # Short: agents have sockets in it.
    export TMPDIR
    # Other users look into it, too.
    chmod 755 "$TMPDIR"
    trap 'rm -rf "$TMPDIR"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
fi

skipped() { printf 'SKIPPED: %s\n' "$1"; }
# Runs a script of which 77 says that it cannot be run here; the script has said why.
where_possible() { "$@" || [ $? -eq 77 ]; }
# Whether all these commands are there; says which is not.
have() {
    for command; do
        command -v "$command" >/dev/null || { skipped "$job: there is no $command"; return 1; }
    done
}
# Runs every one of these programs; fails when one of them does.
each() {
    failed=0
    for program; do "$program" || { failed=1; printf 'FAILED: %s\n' "$program"; }; done
    return "$failed"
}

# What a job is, and how it is done.
run() {
    case $job in
    *Tests)
        # As 'swift test --skip-build --filter' does, but without its lock: targets run beside each other. Started in the
        # background of a shell, it would ignore SIGINT, and so would every program that the tests start.
        env --default-signal=INT .build/debug/syncagentPackageTests.xctest --testing-library swift-testing --filter "^$job\\..*($filter)"
        ;;

    format) swift format lint --strict --parallel --recursive Sources Tests ;;
    examples) swift build --package-path Examples/watch-session --scratch-path .build/watch-session ;;
    # The system's Python, where another one comes first and has no jsonschema.
    schema)
        for python in python3 /usr/bin/python3; do
            if "$python" -c 'import jsonschema' 2>/dev/null; then
                "$python" Tests/schema/check.py && where_possible python3 -B Tests/schema/kubernetes.py
                return
            fi
        done
        skipped "schemas: no Python module jsonschema"
        ;;
    documentation)
        have python3 || return 0
        each Tests/house.py Tests/places.py Tests/rules.py Tests/events.py Tests/links.py
        ;;
    # Manual page and completions.
    packaging) ! have python3 || Tests/packaging.sh "$SYNCAGENT" ;;
    # Numbered rules and their tests; Tests/coverage.sh prints the whole table.
    coverage)
        have python3 || return 0
        table=$(Tests/coverage.sh) || { printf '%s\n' "$table"; return 1; }
        printf '%s\n' "$table" | grep '^## '
        ;;

    # A real cron and a real systemd, each in namespaces of its own; one to three minutes, since minutes are what cron counts in.
    schedules) where_possible Tests/schedules.sh ;;
    # Signed releases as Documentation/guide/Signing.md has them.
    signing)
        [ -x /usr/bin/ssh-keygen ] || skipped "signatures against ssh-keygen: it is not here"
        Tests/signing.sh
        ;;
    signing-kill) where_possible Tests/signing-kill.sh 2 ;;
    # Repositories that python-tuf makes and judges; thousands by hand: Tests/tuf.sh 5000.
    tuf) where_possible Tests/tuf.sh 200 ;;
    # Artifacts that the client oras pushes to a registry, and pulls, too.
    registry) ! have python3 || where_possible Tests/registry.sh ;;
    # Sets that others publish, beside the programs that they are made for; a small part of it, by hand all: Tests/evidence/elsewhere.sh.
    elsewhere)
        ! have python3 nginx curl /usr/bin/time ||
            SYNCAGENT=$SYNCAGENT SYNCAGENT_CACHE_DIR=$PWD/.build/elsewhere where_possible Tests/evidence/elsewhere.sh --short --seed 1
        ;;
    # Sets in the bucket of moto, seen by boto3 and rclone; hundreds of kills and races by hand: Tests/s3.sh 200 100.
    s3) ! have python3 || where_possible Tests/s3.sh ;;
    # What a newcomer would type.
    walks) each Tests/walks/*.sh ;;
    # Attacks on a publisher, its keys, what a process inherits, has on record and says, and on what serves; all of them by hand,
    # with the release build.
    holes)
        ! have python3 || where_possible Tests/evidence/holes.sh "$SYNCAGENT" publish keys inherited record plan requests said places small
        ;;
    # A public name for a private address.
    rebinding) where_possible Tests/rebinding.sh ;;
    # Of what the program reads; tens of thousands by hand, with the release build: Tests/fuzz.sh 20000.
    mutations) ! have python3 || where_possible Tests/fuzz.sh "${FUZZ:-400}" 1 ;;
    # What can happen to a task, by real pulls.
    tasks) ! have python3 || python3 -B Tests/evidence/tasks.py "$SYNCAGENT" ;;

    # The agent as a process among others. Here a few dozen trials of each, with the debug build; hundreds and thousands
    # by hand: Tests/crash.sh 2000, Tests/status-kills.sh 200, Tests/evidence/syscall-kills.sh,
    # Tests/evidence/release-kills.sh.
    crash) ! have nginx python3 || { Tests/crash.sh "${CRASHES:-25}" && Tests/crash.sh "${CRASHES:-10}" --atomic; } ;;
    # Readers of a destination that changes as a whole; a thousand switches on file systems of every kind by hand:
    # Tests/evidence/switches.sh.
    switches) ! have python3 || where_possible Tests/evidence/switches.sh --seconds "${SWITCHES:-15}" here ;;
    # A line that is far and loses packets: half a minute of waiting.
    badline) ! have python3 cc || where_possible Tests/evidence/badline.sh ;;
    status-kills) ! have nginx python3 || Tests/status-kills.sh "${STATUS_KILLS:-10}" ;;
    agents) ! have nginx python3 || Tests/agents.sh ;;
    # Calls that fail, power cuts, limits: some of each, the same each time, so that what breaks is what was changed. Others
    # and all of them by hand: Tests/faults.sh, Tests/faults.sh --whole.
    faults) ! have python3 cc || where_possible Tests/faults.sh --seed "${SEED:-1}" --seconds "${FAULTS:-18}" ;;
    syscall-kills)
        have nginx python3 strace || return 0
        strace -o /dev/null true 2>/dev/null || { skipped "kills at system calls: strace may not trace here"; return 0; }
        Tests/evidence/syscall-kills.sh --sample "${SYSCALLS:-30}" &&
            Tests/evidence/syscall-kills.sh --atomic --sample "${SYSCALLS:-10}" &&
            Tests/evidence/syscall-kills.sh --atomic --layout links --sample "${SYSCALLS:-5}" &&
            Tests/evidence/syscall-kills.sh --rollback --sample "${SYSCALLS:-10}" &&
            Tests/evidence/syscall-kills.sh --rollback --layout links --sample "${SYSCALLS:-5}"
        ;;
    release-kills)
        have python3 strace zstd || return 0
        strace -o /dev/null true 2>/dev/null || { skipped "kills of a prune: strace may not trace here"; return 0; }
        Tests/evidence/release-kills.sh --sample "${SYSCALLS:-10}" --races 10 &&
        Tests/evidence/release-kills.sh --sample "${SYSCALLS:-10}" --races 10 --signed
        ;;

    # Counts of the inner pieces against their limits; without times, which depend on the machine.
    counts)
        command -v strace >/dev/null || skipped "counts of system calls: no strace"
        .build/debug/syncagent-benchmarks --counts
        ;;
    # What a pull says while it happens; some two minutes here, the whole day by hand: Tests/evidence/live.py PROGRAM.
    live) ! have python3 || python3 -B Tests/evidence/live.py "$SYNCAGENT" --short ;;

    *)
        echo "job.sh: there is no job $job" >&2
        return 64
        ;;
    esac
}

job=${1:?"usage: Tests/job.sh JOB [FILTER]"}
filter=${2:-}
case $job in
# These look at files alone, or build what they need themselves.
format|documentation|schema|coverage|examples) ;;
*) [ -n "${BUILT:-}" ] || swift build --build-tests || exit 1 ;;
esac
mkdir -p .build/jobs
log=.build/jobs/$job.log
began=$(date +%s)
status=0
run > "$log" 2>&1 || status=$?
now=$(date +%s)
times > "$log.times"  # Of this shell, and of what it has waited for.
processor=$(awk 'NR == 2 { gsub("s", ""); for (n = 1; n <= 2; n++) { split($n, t, "m"); sum += t[1] * 60 + t[2] }; printf "%d", sum }' "$log.times")
rm "$log.times"
{
    flock 9
    seconds=$((now - ${START:-$began}))
    printf '\n== %d:%02d %s, after %d s, %d s of processor time\n' \
        $((seconds / 60)) $((seconds % 60)) "$job" $((now - began)) "$processor"
    cat "$log"
    [ "$status" -eq 0 ] || printf 'FAILED: %s\n' "$job"
} 9> .build/jobs/lock
[ "$status" -ne 0 ] || exit 0
[ -z "${FAILURES:-}" ] || echo "$job" >> "$FAILURES"
exit 1

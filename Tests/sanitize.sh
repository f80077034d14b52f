#!/bin/sh
# Runs the tests of the transfer under a sanitizer.
#
#   Tests/sanitize.sh thread     data races (default)
#   Tests/sanitize.sh address    memory errors and leaks
#
# Builds everything anew in .build/sanitize-KIND and takes some minutes; so it is not part of run.sh. The whole of
# SyncTransferTests, SyncUnpackTests and FaultMatrixTests runs, the matrix with two of its six points of resuming: with
# all of them it would take most of an hour and run the same code. The tests that start the built program kill it, so
# they are left out. Exit status: 0 when every test passed and no report came.
set -u

cd "$(dirname "$0")/.." || exit 1
kind="${1:-thread}"
case "$kind" in
thread | address) ;;
*)
    echo "usage: Tests/sanitize.sh [thread|address]" >&2
    exit 64
    ;;
esac
scratch=".build/sanitize-$kind"
# A report must not end in a backtrace of minutes, and must not pass unseen.
export SWIFT_BACKTRACE=enable=no
export TSAN_OPTIONS="suppressions=$PWD/Tests/sanitize/thread.supp:halt_on_error=0:exitcode=66"
export ASAN_OPTIONS="detect_leaks=1:halt_on_error=1:detect_stack_use_after_return=1"
export LSAN_OPTIONS="suppressions=$PWD/Tests/sanitize/leak.supp:print_suppressions=0"
# Two points of resuming in place of six; see Tests/FaultMatrixTests/Situation.swift.
export SYNCAGENT_TEST_SITUATIONS=few

swift build --build-tests --sanitize "$kind" --scratch-path "$scratch" || exit 1
failures=""
for target in SyncUnpackTests SyncTransferTests FaultMatrixTests; do
    printf '\n== %s under the %s sanitizer\n' "$target" "$kind"
    log="$scratch/$target.log"
    swift test --skip-build --disable-xctest --sanitize "$kind" --scratch-path "$scratch" \
        --filter "^$target\\." --skip 'ChainKillTests|CanaryTests' >"$log" 2>&1 || failures="$failures $target"
    reports=$(grep -c -E 'WARNING: ThreadSanitizer|ERROR: (Address|Leak)Sanitizer' "$log")
    grep -E '^(✘|.*Test run with)' "$log"
    echo "$reports reports; all of it is in $log"
    [ "$reports" -eq 0 ] || failures="$failures $target:$reports-reports"
done
if [ -n "$failures" ]; then
    printf '\nFAILED:%s\n' "$failures" >&2
    exit 1
fi

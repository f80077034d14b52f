#!/bin/sh
# Has python-tuf make repositories of The Update Framework, right ones and wrong ones, and its own client judge them; then the
# machine that judges signed releases has to come to the same.
#
#   Tests/tuf.sh [COUNT [SEED]]      (default 500, and a new seed, which is printed)
#
# Environment: PYTHON, one that has `tuf` and `cryptography`; otherwise both come from PyPI, once, into .build/tuf-venv.
# Exit status: 0 the same every time, 1 once not, 77 python-tuf cannot be had here.
set -eu

cd "$(dirname "$0")/.."
count=${1:-500}
seed=${2:-$(date +%s)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "${PYTHON:-}" ]; then
    PYTHON=$PWD/.build/tuf-venv/bin/python
    if ! "$PYTHON" -c 'import tuf, cryptography' 2>/dev/null; then
        rm -rf .build/tuf-venv
        python3 -m venv .build/tuf-venv >"$work/said" 2>&1 &&
            "$PYTHON" -m pip -q --retries 1 --timeout 10 install tuf==7.0.1 cryptography >"$work/said" 2>&1 || {
            tail -n 1 "$work/said"
            echo "SKIPPED: repositories of The Update Framework: python-tuf cannot be installed here"
            exit 77
        }
    fi
fi
"$PYTHON" -B Tests/tuf/cases.py "$count" "$seed" >"$work/cases.json"
echo "$count repositories, seed $seed"
SYNCAGENT_TUF_CASES="$work/cases.json" .build/debug/syncagentPackageTests.xctest --testing-library swift-testing \
    --filter '^SyncTrustTests\.TUFTests' >"$work/tests" 2>&1 || { cat "$work/tests"; exit 1; }
echo "The machine believes what python-tuf believes, and nothing else."

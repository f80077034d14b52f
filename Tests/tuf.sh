#!/bin/sh
# Has python-tuf make repositories of The Update Framework, right ones and wrong ones, and its own client judge them; then the
# machine that judges signed releases has to come to the same.
#
#   Tests/tuf.sh [COUNT [SEED]]      (default 500, and a new seed, which is printed)
#
# Environment: PYTHON, one that has `tuf` and `cryptography`; otherwise both come from PyPI into a directory of their own.
# Exit status: 0 the same every time, 1 once not, 77 python-tuf cannot be had here.
set -eu

cd "$(dirname "$0")/.."
count=${1:-500}
seed=${2:-$(date +%s)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "${PYTHON:-}" ]; then
    PYTHON=$work/venv/bin/python
    python3 -m venv "$work/venv" && "$work/venv/bin/pip" -q install tuf==7.0.1 cryptography \
        || { echo "SKIPPED: repositories of TUF: python-tuf cannot be installed here"; exit 77; }
fi
"$PYTHON" -B Tests/tuf/cases.py "$count" "$seed" >"$work/cases.json"
echo "$count repositories, seed $seed"
SYNCAGENT_TUF_CASES="$work/cases.json" swift test --skip-build --disable-xctest --filter 'SyncTrustTests\.TUFTests'

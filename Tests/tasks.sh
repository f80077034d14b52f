#!/bin/bash
# What can happen to a task (S98 to S110), by pulls of the real program, see evidence/tasks.py. No step of any run may be one
# that the table refuses.
#
# usage: tasks.sh [RULE...]
#
#   RULE  only rules with this in their names
#
# Exit status: 0 all held, 1 something did not. Environment: see evidence/common.sh.
. "$(dirname "$0")/evidence/common.sh"

case ${1-} in
-h|--help) usage ;;
esac
need python3=python3
find_binary
python3 -B "$EVIDENCE/tasks.py" "$SYNCAGENT" "$@"

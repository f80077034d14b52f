#!/bin/sh
# Prints a Markdown table of the numbered faults, behaviours, attacks and goals: which tests carry the id, or why
# none does. Exit status 1 when an id has neither a test nor a reason. The list is coverage/rows.tsv.
exec python3 "$(dirname "$0")/coverage/coverage.py" "$@"

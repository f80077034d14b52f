#!/bin/sh
# A hook for syncagent: writes what a pull did, one paragraph a run, to a file beside the destination.
#
#   syncagent pull https://cdn.example.com/tower/manifest.json --into /srv/tower --hook ./report-hook.sh
#
# A hook runs after the last file of its group is verified and in place, also when nothing changed. It is started
# at least once for each run: after a crash it may be started again with the same SYNCAGENT_RUN_ID, so whatever it
# does has to bear being done twice. Its working directory is the destination.
#
# Exit status: 0 done; 75 try again (up to three attempts in all); anything else makes the pull exit with 5.
set -eu

# What every hook gets; Documentation/guide/Hooks.md has the rest of its environment.
session=$SYNCAGENT_SESSION          # which project into which destination
run=$SYNCAGENT_RUN_ID               # which execution
group=$SYNCAGENT_GROUP              # which subset; "all" for every file
result=$SYNCAGENT_RESULT            # ok, partial or failed
changed=$SYNCAGENT_CHANGED          # how many files changed
destination=$SYNCAGENT_DESTINATION  # where the files are
attempt=$SYNCAGENT_ATTEMPT          # 1, unless this hook asked to be started again

log=$destination.log

# The JSON report comes on standard input and can be large: it is read to its end in any case.
if command -v python3 >/dev/null 2>&1; then
    details=$(python3 -c '
import collections, json, sys

report = json.load(sys.stdin)
# A report that is sent after a crash or a stop, or in a replay, has no entries.
entries = report.get("entries", [])
states = collections.Counter(entry["state"] for entry in entries)
print("  revision %s, manifest %s" % (report.get("revision", "none"), report["manifest_sha256"][:12]))
if states:
    print("  " + ", ".join("%d %s" % (count, state) for state, count in sorted(states.items())))
print("  received %d bytes in %d requests" % (report["bytes"]["received"], report["requests"]))
changed = [entry for entry in entries if entry["state"] in ("installed", "reused", "failed")]
for entry in changed[:10]:
    # Names come from outside: ascii() leaves nothing in them that could steer a terminal.
    print("  %s %s %s" % (entry["state"], ascii(entry["path"]), entry.get("reason", "")))
if len(changed) > 10:
    print("  and %d more" % (len(changed) - 10))
')
else
    # Without python3: the size of the report, which still has to be read.
    details="  report of $(wc -c) bytes (install python3 to see what is in it)"
fi

{
    printf '%s: %s, group %s, run %s (attempt %s): %s files changed in %s\n' \
        "$session" "$result" "$group" "$run" "$attempt" "$changed" "$destination"
    printf '%s\n' "$details"
} >>"$log"

# Real work goes here, for instance: nothing to do when nothing changed, and not on half a set.
if [ "$result" != ok ] || [ "$changed" -eq 0 ]; then
    exit 0
fi
# exec ./reindex "$destination"

#!/bin/sh
# The rules that Documentation/guide/Schedules.md shows, on the real program with the agent's own clock: every 6 hours, every
# Sunday, by cron's fields; pause and resume; a file of schedules, applied twice; a run that starts by itself.
#
#   Tests/walks/schedules.sh [--no-wait]
#
# --no-wait leaves out the run that starts by itself, for which the next full minute has to come.
# Environment: see common.
# Exit status: 0 when everything did what the page says, 1 at the first that did not.
set -eu

. "$(dirname "$0")/common"

says() { ends 0 "$@"; }

mkdir set
echo one >set/a.txt
syncagent publish set --to site --project walk.schedules --quiet
url=$work/site/manifest.json
add() { syncagent schedule add "$url" --into "$work/tower" --backend agent --interactive "$@"; }

step "every 6 hours, every Sunday, by cron's fields"
says 'tower: every 6 h, by the agent' add --every 6h
says 'tower: replaced; every sun 03:00, by the agent' add --weekly sun 03:00
says 'tower: replaced; every mon,thu 22:30-02:30' add --weekly 'mon,thu 22:30' --window 4h
says "tower: replaced; every mon-fri 03:00" add --cron '0 3 * * 1-5' --catch-up no
says 'every mon-fri 03:00' syncagent schedule list
says '"catch_up":false' syncagent schedule list --json

step "what no timer can say is refused, with what would do"
ends 64 '288m or 6h' add --every 5h
ends 64 '5-59/15' add --cron '5/15 * * * *'
ends 64 'are mutually exclusive' add --every 6h --nightly 02:00
ends 64 'When should it run?' add
ends 64 '--window needs a schedule with one time a day' add --every 6h --window 1h
ends 64 'would never run' add --cron '0 0 30 2 *'

step "what systemd and cron would get"
if command -v crontab >/dev/null; then
    says '0,15,30,45 * * * * ' add --every 15m --backend cron --dry-run
fi

step "pause and resume"
says 'tower: paused.' syncagent schedule pause tower
says 'paused' syncagent schedule list
says 'it is already paused' syncagent schedule pause tower
says 'paused.' syncagent schedule run tower
says 'every mon-fri 03:00' syncagent schedule resume tower

step "a file of schedules, applied twice"
cat >fleet.json <<FILE
{
  "format": "syncagent-schedules/1",
  "schedules": [
    { "name": "tower", "manifest": "$url", "into": "$work/tower", "backend": "agent", "interactive": true,
      "nightly": "02:00", "window": "5h", "jitter": "30m", "limit_rate": "20M" },
    { "name": "maps", "manifest": "$url", "into": "$work/maps", "backend": "agent", "interactive": true,
      "cron": "0 3 * * 1-5", "catch_up": false, "session": "maps", "paused": true },
  ],
}
FILE
says 'maps: would be added' syncagent schedule apply fleet.json --dry-run
[ ! -e config/syncagent/schedules/maps.json ] || fail "--dry-run has written a schedule"
says 'maps: added' syncagent schedule apply fleet.json
grep -qx 'tower: changed' output || fail "tower was not changed"
stamps() { find config state -path '*schedules*' -type f -exec stat -c '%n %Y %Z %i %.9Y' {} + | sort; }
stamps >before
syncagent schedule apply fleet.json >again
printf 'tower: unchanged\nmaps: unchanged\n' | cmp - again || fail "applied again, it is not the same"
stamps | cmp before - || fail "applied again, a file was written"
sed -i '/"maps"/,/paused/d' fleet.json
says 'maps: would be removed' syncagent schedule apply fleet.json --prune --dry-run
says 'maps: removed' syncagent schedule apply fleet.json --prune
grep -qx 'tower: unchanged' output || fail "tower was touched"

step "a file that is wrong changes nothing, and the line is named"
sed 's/"02:00"/"25:00"/' fleet.json >wrong.json
ends 65 'wrong.json:4: tower' syncagent schedule apply wrong.json
sed 's/"limit_rate"/"limit_rat"/' fleet.json >wrong.json
ends 65 'wrong.json:4: tower: limit_rat: no such key; did you mean “limit_rate”?' syncagent schedule apply wrong.json
sed 's/"nightly"/"nightli"/' fleet.json >wrong.json
ends 65 'tower: nightli: no such key; did you mean “nightly”?' syncagent schedule apply wrong.json
ends 66 'there is no such file' syncagent schedule apply nowhere.json
says 'tower: unchanged' syncagent schedule apply fleet.json
# As the command line spells it, too.
sed 's/"limit_rate"/"limit-rate"/' fleet.json >hyphen.json
says 'tower: unchanged' syncagent schedule apply hyphen.json

step "what Examples/ansible copies is as it should be"
says 'archive: would be added' syncagent schedule apply "$root/Examples/ansible/schedules.json" --dry-run
if python3 -c 'import yaml' 2>/dev/null; then
    python3 -c 'import sys, yaml; yaml.safe_load(open(sys.argv[1]))' "$root/Examples/ansible/schedules.yml" ||
        fail "the playbook is no YAML"
else
    echo "SKIPPED: reading the playbook: no Python module yaml"
fi

if [ "${1:-}" != --no-wait ]; then
    step "a run that starts by itself, at the next full minute"
    says 'every minute' add --name minute --session minute --every 1m
    waited=0
    until [ -e tower/a.txt ]; do
        waited=$((waited + 1))
        [ "$waited" -le 800 ] || fail "nothing came within 80 seconds"
        sleep 0.1
    done
    cmp set/a.txt tower/a.txt
    says 'minute: removed' syncagent schedule remove minute
fi
says 'tower: removed' syncagent schedule remove tower
echo "Schedules do what their page says."

#!/bin/bash
# Lets a real cron and a real systemd start schedules, end to end: published, served, scheduled for the next minute,
# pulled, the hook called; then the schedule is removed and nothing of it is left.
#
# usage: schedules.sh [PART…]
#
#   cron      Debian's cron, by a crontab that holds other lines, too
#   systemd   a user's systemd: a timer that fires; a window of one minute that is too short, which is no failure
#   agent     the agent's own clock, where neither runs
#
# Each runs in a mount and process namespace of its own, so that the machine's cron and systemd see nothing of it; that
# needs root. Exit status: 0 every bound held, 1 one did not, 77 nothing could be tried. Environment: see
# evidence/common.sh. Takes two to three minutes, since minutes are what cron counts in.
. "$(dirname "$0")/evidence/common.sh"

parts=()
for part; do
  case $part in
  -h|--help) usage ;;
  cron|systemd|agent) parts+=("$part") ;;
  inside-*) inside=${part#inside-} ;;
  *) usage 64 >&2 ;;
  esac
done
[ ${#parts[@]} != 0 ] || parts=(cron systemd agent)

skipped() { say "SKIPPED: $*"; }

# await SECONDS WHAT COMMAND…: until the command succeeds.
await() {
  local seconds=$1 what=$2 i
  shift 2
  for ((i = 0; i < seconds * 5; i++)); do
    if "$@" >/dev/null 2>&1; then say "ok: $what"; return 0; fi
    sleep 0.2
  done
  broken "$what: not within $seconds s"
  return 1
}
expect() {
  local what=$1
  shift
  if "$@" >/dev/null 2>&1; then say "ok: $what"; else broken "$what"; fi
}

# soon: a minute that is 5 to 65 seconds away, so that there is time to schedule it.
soon() { date -d "@$(( ($(date +%s) + 64) / 60 * 60 ))" +%H:%M; }
leave_minute() { [ "$(date +%-S)" -lt 50 ] || sleep $((61 - $(date +%-S))); }

whole() { diff -r "$WORK/set" "$1" --exclude=.syncagent --exclude=calls; }

inside_cron() {
  # Nothing of the machine's own tables is started, and nothing is written into them.
  mount -t tmpfs tmpfs /var/spool/cron && mount -t tmpfs tmpfs /run
  mkdir "$WORK/empty"
  mount --bind "$WORK/empty" /etc/cron.d
  mount --bind /dev/null /etc/crontab
  mkdir -m 1730 /var/spool/cron/crontabs
  chgrp crontab /var/spool/cron/crontabs
  printf 'MAILTO=""\n\n# 100%% mine\n0 5 * * 1 /bin/true %% input\\r x\n' >"$WORK/theirs"
  printf '0 5 * * 1 /bin/true\r\n' >"$WORK/returns"
  crontab "$WORK/returns"
  expect "a crontab that cannot be kept as it is is left alone" \
    sh -c '! "$SYNCAGENT" schedule add "$URL" --into "$WORK/no" --interactive --nightly 02:00 --backend cron'
  expect "and nothing is left of the try" test -z "$(ls "$XDG_CONFIG_HOME/syncagent/schedules")"
  crontab "$WORK/theirs"
  cron -f & daemon=$!
  # cron tells changed tables by the second: one that changes in the second it was read is not read again.
  sleep 2
  leave_minute
  "$SYNCAGENT" schedule add "$URL" --into "$WORK/by cron 100%" --interactive --name "tower.night" --nightly "$(soon)" --window 1h \
    --hook "$WORK/hook" --backend auto
  expect "cron was chosen" grep -q '"backend" : "cron"' "$XDG_CONFIG_HOME/syncagent/schedules/tower.night.json"
  crontab -l | grep -A1 'syncagent schedule' >&2
  await 130 "cron has started the schedule" test -s "$WORK/by cron 100%/calls"
  expect "every file is in place" whole "$WORK/by cron 100%"
  await 20 "its end is known" sh -c '"$SYNCAGENT" schedule list | grep "ok, "'
  "$SYNCAGENT" schedule list >&2
  "$SYNCAGENT" schedule remove tower.night
  crontab -l >"$WORK/left"
  expect "other lines of the crontab are as they were" cmp "$WORK/theirs" "$WORK/left"
  expect "no file of it is left" test -z "$(find "$XDG_CONFIG_HOME" "$XDG_STATE_HOME" -name 'tower.night*')"
  # cron gives it no runtime directory: it is found all the same.
  expect "its agent is found" sh -c '"$SYNCAGENT" agent stop 2>&1 | grep stopped'
  end "$daemon"
}

inside_systemd() {
  local status=0
  if [ "$(id -u)" = 0 ]; then
    # A user's manager of its own, in a control group of its own.
    mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system /run/user
    umount -R /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup || { skipped "systemd: no control groups"; exit 77; }
    # Control groups have no namespace of their own: it goes again below.
    local group=/sys/fs/cgroup/syncagent-$(basename "$WORK")
    mkdir "$group" && chown 65534:65534 "$group" "$group"/cgroup.*
    echo $$ >"$group/cgroup.procs"
    mkdir -m 700 /run/user/65534 && chown 65534:65534 /run/user/65534
    chown -R 65534:65534 "$WORK/home"
    HOME=$WORK/home XDG_RUNTIME_DIR=/run/user/65534 setpriv --reuid=65534 --regid=65534 --clear-groups \
      "$0" inside-systemd || status=$?
    echo $$ >/sys/fs/cgroup/cgroup.procs
    find "$group" -depth -type d -exec rmdir {} + || say "note: $group is still in use"
    exit "$status"
  fi
  unset XDG_CONFIG_HOME XDG_STATE_HOME
  local timer=syncagent-schedule-tower.timer service=syncagent-schedule-slow.service
  /lib/systemd/systemd --user --log-target=console >"$WORK/home/log" 2>&1 & manager=$!
  await 10 "systemd runs" systemctl --user show-environment || { tail -5 "$WORK/home/log" >&2; skipped "systemd does not start"; exit 77; }
  leave_minute
  "$SYNCAGENT" schedule add "$URL" --into "$HOME/by systemd" --interactive --name tower --nightly "$(soon)" --window 1h --hook "$WORK/hook"
  "$SYNCAGENT" schedule add "$URL" --into "$HOME/slow" --interactive --name slow --session slow --nightly "$(soon)" --window 1m --limit-rate 20K
  systemctl --user list-timers --no-pager >&2
  expect "the timer is enabled" systemctl --user is-enabled "$timer"
  await 80 "systemd has started the schedule" test -s "$HOME/by systemd/calls"
  expect "every file is in place" whole "$HOME/by systemd"
  await 80 "the window of one minute ends" sh -c "systemctl --user show -p ExecMainStatus $service | grep -x ExecMainStatus=75"
  expect "which is no failure" sh -c "systemctl --user show -p Result $service | grep -x Result=success"
  await 20 "the run waits for the next night" sh -c '"$SYNCAGENT" status | grep -E "^slow +waiting .*window"'
  "$SYNCAGENT" status >&2
  "$SYNCAGENT" schedule list >&2
  "$SYNCAGENT" schedule remove tower
  "$SYNCAGENT" schedule remove slow
  expect "systemd knows it no more" sh -c "! systemctl --user cat $timer"
  expect "no file of it is left" test -z "$(find "$HOME/.config" "$HOME/.local" -name '*schedule-*')"
  expect "the agent is stopped, or has gone" "$SYNCAGENT" agent stop
  systemctl --user exit
  wait "$manager"
}

inside_agent() {
  mount -t tmpfs tmpfs /run
  leave_minute
  "$SYNCAGENT" schedule add "$URL" --into "$WORK/by agent" --interactive --nightly "$(soon)" --window 1h --hook "$WORK/hook"
  "$SYNCAGENT" schedule list >&2
  await 130 "the agent has started the schedule" test -s "$WORK/by agent/calls"
  expect "every file is in place" whole "$WORK/by agent"
  await 20 "its end is known" sh -c '"$SYNCAGENT" schedule list | grep "ok, "'
  expect "the agent stays for the next night" "$SYNCAGENT" agent status
  grep 'schedule ' "$XDG_STATE_HOME/syncagent/agent.log" >&2
  "$SYNCAGENT" schedule remove "by-agent"
  expect "the agent is stopped, or has gone" "$SYNCAGENT" agent stop
}

if [ -n "${inside:-}" ]; then
  trap - EXIT
  "inside_$inside"
  verdict
  exit
fi

[ "$(id -u)" = 0 ] || { skipped "schedules by cron and systemd: namespaces need root"; exit 77; }
unshare --mount --pid --fork true 2>/dev/null || { skipped "schedules by cron and systemd: unshare(1) may not here"; exit 77; }
need cron=cron unshare=util-linux python3=python3 /lib/systemd/systemd=systemd
find_binary
make_work

# Readable for the user of the systemd part.
mkdir "$WORK/bin" "$WORK/home"
cp "$SYNCAGENT" "$WORK/bin/syncagent"
export SYNCAGENT=$WORK/bin/syncagent WORK URL
python3 "$EVIDENCE/make-set.py" "$WORK/set" small --files 50 --mib 4
"$SYNCAGENT" publish "$WORK/set" --to "$WORK/site" --project schedule.trial --quiet
"$SYNCAGENT" serve "$WORK/site" --port 0 >"$WORK/url" & server=$!
on_exit end "$server"
await 10 "the set is served" grep -q http "$WORK/url"
URL=$(grep -m1 -o 'http://[^ ]*' "$WORK/url")
# shellcheck disable=SC2016 # the hook's own variables
printf '#!/bin/sh\necho "$SYNCAGENT_RESULT" >>calls\n' >"$WORK/hook"
chmod 755 "$WORK/hook"

tried=0
declare -A trials
for part in "${parts[@]}"; do
  mkdir -p "$WORK/$part"
  XDG_STATE_HOME=$WORK/$part/state XDG_CONFIG_HOME=$WORK/$part/config XDG_RUNTIME_DIR=$WORK/$part \
    unshare --mount --pid --fork --kill-child --mount-proc --cgroup "$0" "inside-$part" \
    >"$WORK/$part/out" 2>&1 </dev/null &
  trials[$part]=$!
done
for part in "${parts[@]}"; do
  status=0
  wait "${trials[$part]}" || status=$?
  say "== $part"
  cat "$WORK/$part/out" >&2
  case $status in
  0) tried=1 ;;
  77) ;;
  *) broken "$part: exit $status"; tried=1 ;;
  esac
done
[ "$tried" = 1 ] || exit 77
verdict

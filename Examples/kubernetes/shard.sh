#!/bin/sh
# The entry point of the containers in publish.yaml and pull.yaml. It needs a shell, date(1) and sleep(1) in the image.
#
#   shard.sh publish|pull          the shard that Kubernetes has given this pod: JOB_COMPLETION_INDEX of SHARDS
#   shard.sh join publish|pull     what completes them; tries again while it ends with 75, for JOIN_WAIT seconds at most
#
# publish needs DIR, OUT and PROJECT; pull needs SOURCE and INTO, and HOOK if the join is to call a program.
set -eu
: "${SHARDS:?how many shards there are}"

usage() {
  echo "usage: shard.sh [join] publish|pull" >&2
  exit 64
}

join=
if [ "${1:-}" = join ]; then
  join=yes
  shift
fi
case ${1:-} in
publish) set -- publish "${DIR:?}" --to "${OUT:?}" --project "${PROJECT:?}" ;;
pull) set -- pull "${SOURCE:?}" --into "${INTO:?}" ${join:+${HOOK:+--hook "$HOOK"}} ;;
*) usage ;;
esac

# The process of the container, so that it gets the SIGTERM of a pod that is deleted: it keeps what it has.
[ -n "$join" ] || exec syncagent "$@" --shard "${JOB_COMPLETION_INDEX:?from an Indexed Job}/$SHARDS"

end=$(($(date +%s) + ${JOIN_WAIT:-3600}))
while :; do
  status=0
  syncagent "$@" --join "$SHARDS" || status=$?
  [ "$status" = 75 ] && [ "$(date +%s)" -lt "$end" ] || exit "$status"
  sleep "${JOIN_PAUSE:-15}"
done

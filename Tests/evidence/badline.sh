#!/bin/bash
# Pulls over a line that is far away, slow and loses packets: real TCP between two network namespaces. A thousand small files are a
# few transfers there, too; nothing is taken for a standstill, and no byte comes twice. [F051 S86 S123 S139 G10]
#
# usage: badline.sh
#
# The lines are at the end: round trip in ms, rate in Mbit/s, loss in percent each way.
# Exit status: 0 every bound holds, 1 one does not, 77 nothing could be tried. Environment: see common.sh.
. "$(dirname "$0")/common.sh"
. "$EVIDENCE/link.sh"

[ $# = 0 ] || usage 64 >&2
find_binary
make_work
link_possible || exit 77

mkdir -p "$WORK/set"
python3 - "$WORK/set" <<'PY'
import pathlib, random, sys
noise = random.Random(51)
for number in range(1000):
    folder = pathlib.Path(sys.argv[1], str(number % 10))
    folder.mkdir(exist_ok=True)
    (folder / f"{number}.bin").write_bytes(noise.randbytes(2_000))
PY
export HOME=$WORK/home
mkdir -p "$HOME"
"$SYNCAGENT" publish "$WORK/set" --to "$WORK/site" --project org.example.line --quiet

try() {
  local rtt=$1 rate=$2 loss=$3 server received requests
  say "== $rtt ms, $rate Mbit/s, $loss % lost"
  link_up "$rtt" "$rate" "$loss"
  ip netns exec "$SERVER_NS" "$SYNCAGENT" serve "$WORK/site" --bind "$SERVER_ADDRESS" --port 8080 >"$WORK/serve.log" 2>&1 &
  server=$!
  on_exit end "$server"
  until ip netns exec "$SERVER_NS" grep -q ":1F90 .* 0A " /proc/net/tcp; do
    kill -0 "$server" 2>/dev/null || { cat "$WORK/serve.log" >&2; die "the server has ended"; }
    sleep 0.05
  done
  rm -rf "$WORK/dest" "$HOME"
  mkdir -p "$HOME"
  if ! ip netns exec "$CLIENT_NS" timeout 240 "$SYNCAGENT" pull "http://$SERVER_ADDRESS:8080/manifest.json" --into "$WORK/dest" \
    --json >"$WORK/events" 2>"$WORK/said"; then
    cat "$WORK/said" >&2
    broken "the pull ended with another status than 0"
  fi
  read -r received requests <<<"$(python3 -c '
import json, sys
end = next(json.loads(line) for line in sys.stdin if "\"run.summary\"" in line)
print(sum(origin["bytes"] for origin in end["origins"]), end["requests"])' <"$WORK/events")"
  say "$received bytes in $requests requests; $(grep -c '"event":"transfer.retrying' "$WORK/events" || true) tries again"
  hold "requests" "$requests" "<=" 64
  hold "bytes, beside those of the set" "$received" "<=" "1.05 * $(du -sb "$WORK/site" | cut -f1)"
  diff -r --exclude .syncagent "$WORK/set" "$WORK/dest" || broken "the trees differ"
  if grep -E '"event":"(transfer.retrying|task.failed|source.set_back)"' "$WORK/events" >&2; then broken "something was taken for a standstill"; fi
  end "$server"
  link_down
}

try 500 20 1
try 60 20 10
verdict

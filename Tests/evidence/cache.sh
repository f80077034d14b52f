#!/bin/bash
# One copy a site: machines behind one cache, far from the origin, beside a pull alone and nginx's own cache.
#
#   cache.sh [CLIENTS [MIB [RTT_MS [RATE_MBIT]]]]        default 20 100 40 500; needs root for the link
#
# Origin: nginx in a network namespace of its own, behind a link. Cache and machines share the other namespace, as on a LAN that is
# faster than the line. Each round is cold: an empty store. What the origin has sent is what its access log says.
#
#   alone      one machine pulls from the origin
#   cold       all machines pull through `serve --cache` at once
#   warm       the same again
#   nginx      all machines pull through nginx with proxy_cache and slice 1m, cold
#
# Bounds: the origin sends at most 1.05 copies, and the slowest machine takes at most 1.3 times as long as one alone. The second
# needs processors for all machines: with fewer than a core for each four the figure is told and not held.
. "$(dirname "$0")/common.sh"
. "$EVIDENCE/serve-nginx.sh"
. "$EVIDENCE/link.sh"
case ${1:-} in -h | --help) usage ;; esac
clients=${1:-20} mib=${2:-100} rtt=${3:-40} rate=${4:-500}

link_possible || exit 0
find_binary
make_work
need nginx=nginx-light curl=curl

say "a set of $mib MiB"
python3 - "$WORK/assets" "$mib" <<'PY'
import os, random, sys
root, left, number = sys.argv[1], int(sys.argv[2]) << 20, 0
draw = random.Random(7)
while left > 0:
    size = min(left, int(draw.lognormvariate(10.5, 1.6)) + 1)
    path = f"{root}/{number % 50}/{number}.bin"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file: file.write(draw.randbytes(size))
    left, number = left - size, number + 1
print(number, "files", file=sys.stderr)
PY
"$SYNCAGENT" publish "$WORK/assets" --to "$WORK/site" --project com.example.site --quiet
copy=$(du -sb "$WORK/site/packs" | cut -f1)

link_up "$rtt" "$rate"
nginx_start origin "$WORK/site" "$SERVER_NS" "$SERVER_ADDRESS"
origin=$URL
at() { ip netns exec "$CLIENT_NS" "$@"; }

# pulls NAME URL COUNT: so many machines at once; sets SLOWEST and BYTES (what the origin has sent).
pulls() {
  local name=$1 url=$2 count=$3 i from pids=() requests pack_bytes manifest_bytes other_bytes
  fresh_place "into-$name" $(((mib * count) / 700 + 2))
  from=$(mark)
  for ((i = 0; i < count; i++)); do
    # A machine of its own: state, sessions, and what it has learnt of servers.
    (
      export XDG_STATE_HOME=$WORK/machines/$name/$i XDG_RUNTIME_DIR=$WORK/machines/$name/$i.run
      mkdir -p -m 700 "$XDG_STATE_HOME" "$XDG_RUNTIME_DIR"
      start=$EPOCHREALTIME
      at "$SYNCAGENT" pull "$url/manifest.json" --into "$WORK/into-$name/$i" --quiet >"$WORK/$name.$i.out" 2>&1 || exit 1
      awk "BEGIN{printf \"%.3f\n\", $EPOCHREALTIME - $start}" >"$WORK/$name.$i.time"
    ) &
    pids+=($!)
  done
  for i in "${pids[@]}"; do wait "$i" || broken "$name: a pull failed: $(tail -1 "$WORK/$name".*.out | head -c 400)"; done
  SLOWEST=$(sort -n "$WORK/$name".*.time | tail -1)
  MEDIAN=$(median $(cat "$WORK/$name".*.time))
  eval "$(since "$from")"
  BYTES=$((pack_bytes + manifest_bytes + other_bytes))
  REQUESTS=$requests
  diff -r -x .syncagent "$WORK/assets" "$WORK/into-$name/0" >/dev/null || broken "$name: the files differ"
  for ((i = 0; i < count; i++)); do rm -rf "$WORK/into-$name/$i"; done
}

# told NAME: a row of the table.
told() {
  printf '| %s | %s s | %s s | %s | %s |\n' "$1" "$MEDIAN" "$SLOWEST" \
    "$(awk "BEGIN{printf \"%.3f\", $BYTES / $copy}")" "$REQUESTS" | tee -a "$WORK/table" >&2
}

pulls alone "$origin" 1
told "one machine alone"
alone=$SLOWEST

port=$(free_port)
ip netns exec "$CLIENT_NS" "$SYNCAGENT" serve --cache "$origin/" --store "$WORK/store" --port "$port" >"$WORK/cache.out" 2>"$WORK/cache.err" &
cache=$!
on_exit end "$cache"
for _ in {1..100}; do [ -s "$WORK/cache.out" ] && break; sleep 0.05; done
pulls cold "http://127.0.0.1:$port" "$clients"
told "$clients machines, \`serve --cache\`, cold"
hold "copies sent by the origin" "$(awk "BEGIN{print $BYTES / $copy}")" "<=" 1.05
slow=$(awk "BEGIN{print $SLOWEST / $alone}")
if [ "$(nproc)" -ge $((clients / 4)) ]; then hold "the slowest against one alone" "$slow" "<=" 1.3; else
  say "note: the slowest takes $slow times as long as one alone; $(nproc) processors do the work of $clients machines"
fi
say "the cache: $(ps -o rss= -p "$cache" | awk '{printf "%.0f", $1 / 1024}') MiB of memory, $(ps -o time= -p "$cache") of processor time"
pulls warm "http://127.0.0.1:$port" "$clients"
told "the same again"
at curl -s "http://127.0.0.1:$port/metrics" | grep -v '^#' >&2
end "$cache"

d=$WORK/nginx-cache nport=$(free_port)
mkdir -p "$d/store"
cat >"$d/nginx.conf" <<CONF
daemon off;
$([ "$(id -u)" != 0 ] || echo "user root root;")
worker_processes 2;
pid $d/nginx.pid;
error_log $d/error.log warn;
events { worker_connections 4096; }
http {
  access_log off;
  sendfile on; tcp_nopush on; tcp_nodelay on; keepalive_requests 100000;
  client_body_temp_path $d/t1; proxy_temp_path $d/t2; fastcgi_temp_path $d/t3; uwsgi_temp_path $d/t4; scgi_temp_path $d/t5;
  proxy_cache_path $d/store keys_zone=set:16m max_size=10g inactive=1h use_temp_path=off;
  upstream origin { server ${origin#http://}; keepalive 16; }
  server {
    listen 127.0.0.1:$nport;
    location / {
      slice 1m;
      proxy_cache set; proxy_cache_key \$uri\$slice_range; proxy_cache_lock on; proxy_cache_lock_timeout 60s;
      proxy_set_header Range \$slice_range; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_cache_valid 200 206 1h; proxy_pass http://origin;
    }
    location ~ \.(json|zst)$ { proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }
}
CONF
ip netns exec "$CLIENT_NS" nginx -p "$d" -c "$d/nginx.conf" -e "$d/error.log" 2>"$d/stderr" &
on_exit end $!
for _ in {1..100}; do at curl -s -o /dev/null "http://127.0.0.1:$nport/manifest.json" && break; sleep 0.05; done
pulls nginx "http://127.0.0.1:$nport" "$clients"
told "$clients machines, nginx \`proxy_cache\` with \`slice 1m\`, cold"

say ""
printf '| what | median | slowest | copies sent by the origin | requests to it |\n| --- | --- | --- | --- | --- |\n'
cat "$WORK/table"
verdict

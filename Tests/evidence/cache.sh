#!/bin/bash
# One copy a site: machines behind one cache, far from the origin, beside a pull alone, and caches that are made for anything: nginx,
# Varnish and squid.
#
#   cache.sh [CLIENTS [MIB [RTT_MS [RATE_MBIT]]]]        default 20 100 40 500; needs root for the link
#
# Origin: nginx in a network namespace of its own, behind a link. The cache is in the other one; each machine has a namespace of its own,
# joined to the cache's by a bridge and a port of LAN_MBIT. Each round is cold: an empty store. What the origin has sent is what its
# access log says.
#
#   alone      one machine pulls from the origin
#   cold       all machines pull through `serve --cache` at once
#   warm       the same again
#   nginx      all machines pull through nginx with proxy_cache and slice 1m, cold
#   varnish    the same through Varnish, which fetches whole packs
#   squid      the same through squid
#   small      a set of one file of 10 KB is pulled through the cache, 200 times one after another
#   1,000      machines, simulated with what the rounds before have cost (cache_model.py)
#
# Environment: see common.sh. FILE_MIB, so many MiB in each file of the set, as model weights have; otherwise files of all sizes, most
# of them small. LAN_MBIT, the rate of a machine's port, 100 unless it is given; 0 for no limit.
#
# Bounds: the origin sends at most 1.05 copies, and the slowest machine takes at most 1.3 times as long as one alone; 99 of 100 pulls
# of the small set take at most 100 ms. The second needs processors for all machines: where one alone is faster than the processors
# are with the work of all of them, the figure is told and not held.
. "$(dirname "$0")/common.sh"
. "$EVIDENCE/serve-nginx.sh"
. "$EVIDENCE/link.sh"
case ${1:-} in -h | --help) usage ;; esac
clients=${1:-20} mib=${2:-100} rtt=${3:-40} rate=${4:-500}

link_possible || exit 77
find_binary
make_work
need tc=iproute2 nginx=nginx-light curl=curl varnishd=varnish squid=squid /usr/bin/time=time

say "a set of $mib MiB"
python3 - "$WORK/assets" "$mib" "${FILE_MIB:-0}" <<'PY'
import os, random, sys
root, left, number, each = sys.argv[1], int(sys.argv[2]) << 20, 0, int(sys.argv[3]) << 20
draw = random.Random(7)
while left > 0:
    size = min(left, each or int(draw.lognormvariate(10.5, 1.6)) + 1)
    path = f"{root}/{number % 50}/{number}.bin"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file: file.write(draw.randbytes(size))
    left, number = left - size, number + 1
print(number, "files", file=sys.stderr)
PY
"$SYNCAGENT" publish "$WORK/assets" --to "$WORK/site" --project com.example.site --quiet
copy=$(du -sb "$WORK/site/packs" | cut -f1)

link_up "$rtt" "$rate"
# The site: a bridge with the cache's address, and a port for each machine.
lan=${LAN_MBIT:-100} SITE=198.18.1.1
ip -n "$CLIENT_NS" link add site0 type bridge
ip -n "$CLIENT_NS" addr add "$SITE/24" dev site0
ip -n "$CLIENT_NS" link set site0 up
ip netns exec "$CLIENT_NS" sysctl -qw net.ipv4.ip_forward=1
ip -n "$SERVER_NS" route add 198.18.1.0/24 via 198.18.0.1
MACHINE_NS=syncagent-machine-$$
for ((i = 0; i < clients; i++)); do
  ip netns add "$MACHINE_NS-$i"
  on_exit ip netns del "$MACHINE_NS-$i"
  ip -n "$CLIENT_NS" link add "port$i" type veth peer name lan0 netns "$MACHINE_NS-$i"
  ip -n "$CLIENT_NS" link set "port$i" master site0 up
  ip -n "$MACHINE_NS-$i" addr add "198.18.1.$((i + 10))/24" dev lan0
  ip -n "$MACHINE_NS-$i" link set lan0 up
  ip -n "$MACHINE_NS-$i" link set lo up
  ip -n "$MACHINE_NS-$i" route add default via "$SITE"
  if [ "$lan" != 0 ]; then
    tc -n "$CLIENT_NS" qdisc add dev "port$i" root tbf rate "${lan}mbit" burst 128k latency 50ms
    tc -n "$MACHINE_NS-$i" qdisc add dev lan0 root tbf rate "${lan}mbit" burst 128k latency 50ms
  fi
done
nginx_start origin "$WORK/site" "$SERVER_NS" "$SERVER_ADDRESS"
origin=$URL
at() { ip netns exec "$CLIENT_NS" "$@"; }

# busy PID…: processor seconds of processes and of their children.
busy() {
  python3 - "$@" <<'PY'
import glob, os, sys
stats = {}
for path in glob.glob("/proc/[0-9]*/stat"):
    try: text = open(path).read()
    except OSError: continue
    fields = text[text.rindex(")") + 2:].split()
    stats[int(path.split("/")[2])] = (int(fields[1]), sum(int(f) for f in fields[11:15]))
wanted = {int(p) for p in sys.argv[1:]}
while more := {p for p, (parent, _) in stats.items() if parent in wanted} - wanted: wanted |= more
print(f"{sum(stats[p][1] for p in wanted if p in stats) / os.sysconf('SC_CLK_TCK'):.2f}")
PY
}

# pulls NAME URL COUNT [PID]: so many machines at once; sets SLOWEST, BYTES (what the origin has sent), OWN and SERVER (processor seconds
# of a machine, and of the process that serves them).
pulls() {
  local name=$1 url=$2 count=$3 server=${4:-} i from pids=() requests pack_bytes manifest_bytes other_bytes before=0
  [ -z "$server" ] || before=$(busy "$server")
  fresh_place "into-$name" $(((mib * count) / 700 + 2))
  from=$(mark)
  for ((i = 0; i < count; i++)); do
    # A machine of its own: state, sessions, and what it has learnt of servers.
    (
      export XDG_STATE_HOME=$WORK/machines/$name/$i XDG_RUNTIME_DIR=$WORK/machines/$name/$i.run
      mkdir -p -m 700 "$XDG_STATE_HOME" "$XDG_RUNTIME_DIR"
      start=$EPOCHREALTIME
      ip netns exec "$MACHINE_NS-$i" /usr/bin/time -q -o "$WORK/$name.$i.cpu" -f '%U %S' "$SYNCAGENT" pull "$url/manifest.json" --into "$WORK/into-$name/$i" --quiet >"$WORK/$name.$i.out" 2>&1 || exit 1
      awk "BEGIN{printf \"%.3f\n\", $EPOCHREALTIME - $start}" >"$WORK/$name.$i.time"
    ) &
    pids+=($!)
  done
  for i in "${pids[@]}"; do wait "$i" || broken "$name: a pull failed: $(tail -1 "$WORK/$name".*.out | head -c 400)"; done
  SLOWEST=$(sort -n "$WORK/$name".*.time | tail -1)
  MEDIAN=$(median $(cat "$WORK/$name".*.time))
  OWN=$(cat "$WORK/$name".*.cpu | awk '{ all += $1 + $2 } END { printf "%.2f", all / NR }')
  SERVER=-
  [ -z "$server" ] || SERVER=$(awk "BEGIN{printf \"%.2f\", $(busy "$server") - $before}")
  eval "$(since "$from")"
  BYTES=$((pack_bytes + manifest_bytes + other_bytes))
  REQUESTS=$requests
  diff -r -x .syncagent "$WORK/assets" "$WORK/into-$name/0" >/dev/null || broken "$name: the files differ"
  for ((i = 0; i < count; i++)); do rm -rf "$WORK/into-$name/$i"; done
}

# told NAME: a row of the table.
told() {
  printf '| %s | %s s | %s s | %s | %s | %s s | %s s |\n' "$1" "$MEDIAN" "$SLOWEST" \
    "$(awk "BEGIN{printf \"%.3f\", $BYTES / $copy}")" "$REQUESTS" "$OWN" "$SERVER" | tee -a "$WORK/table" >&2
}

pulls alone "$origin" 1
told "one machine alone"
alone=$SLOWEST

port=$(free_port)
ip netns exec "$CLIENT_NS" "$SYNCAGENT" serve --cache "$origin/" --store "$WORK/store" --bind "$SITE" --port "$port" >"$WORK/cache.out" 2>"$WORK/cache.err" &
cache=$!
on_exit end "$cache"
for _ in {1..100}; do [ -s "$WORK/cache.out" ] && break; sleep 0.05; done
pulls cold "http://$SITE:$port" "$clients" "$cache"
told "$clients machines, \`serve --cache\`, cold"
hold "copies sent by the origin" "$(awk "BEGIN{print $BYTES / $copy}")" "<=" 1.05
slow=$(awk "BEGIN{print $SLOWEST / $alone}")
work=$(awk "BEGIN{printf \"%.2f\", ($OWN * $clients + $SERVER) / $(nproc)}")
if awk "BEGIN{exit !($work < $alone)}"; then hold "the slowest against one alone" "$slow" "<=" 1.3; else
  say "note: the slowest takes $slow times as long as one alone; $(nproc) processors need $work s for the work of $clients machines"
fi
say "the cache: $(ps -o rss= -p "$cache" | awk '{printf "%.0f", $1 / 1024}') MiB of memory, $(ps -o time= -p "$cache") of processor time"
pulls warm "http://$SITE:$port" "$clients" "$cache"
told "the same again"
warm=$SERVER
at curl -s "http://$SITE:$port/metrics" | grep -v '^#' >&2

# A set that is small, from nothing, as machines look for a release.
mkdir "$WORK/small"
head -c 10240 /dev/urandom >"$WORK/small/one.bin"
"$SYNCAGENT" publish "$WORK/small" --to "$WORK/site-small" --project com.example.small --quiet
nginx_start small "$WORK/site-small" "$SERVER_NS" "$SERVER_ADDRESS"
sport=$(free_port)
ip netns exec "$CLIENT_NS" "$SYNCAGENT" serve --cache "$URL/" --store "$WORK/store-small" --bind "$SITE" --port "$sport" >"$WORK/small.out" 2>"$WORK/small.err" &
small=$!
on_exit end "$small"
for _ in {1..100}; do [ -s "$WORK/small.out" ] && break; sleep 0.05; done
URL=$origin LOG=$WORK/nginx-origin/access.log
# In the machines' namespace already: entering it takes two milliseconds.
at bash -c '
  for i in {0..200}; do
    start=$EPOCHREALTIME
    "$1" pull "$2/manifest.json" --into "$3/small-$i" --session "small-$i" --quiet >/dev/null 2>&1 || exit 1
    # The first one has brought it.
    [ "$i" = 0 ] || awk "BEGIN{print ($EPOCHREALTIME - $start) * 1000}" >>"$3/small.times"
  done' small "$SYNCAGENT" "http://$SITE:$sport" "$WORK" || broken "a pull of the small set failed"
p99=$(sort -n "$WORK/small.times" | sed -n 198p)
say "a set of 10 KB: median $(median $(cat "$WORK/small.times")) ms"
hold "99 of 100 pulls of a set of 10 KB, in ms" "$p99" "<=" 100
end "$small"
end "$cache"
python3 "$EVIDENCE/cache_model.py" --copy-mib "$mib" --cache-seconds "$(awk "BEGIN{print $warm / $clients}")" --rate "$rate" --clients 1000 >&2

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
    listen $SITE:$nport;
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
peer=$!
on_exit end "$peer"
for _ in {1..100}; do at curl -s -o /dev/null "http://$SITE:$nport/manifest.json" && break; sleep 0.05; done
pulls nginx "http://$SITE:$nport" "$clients" "$peer"
told "$clients machines, nginx \`proxy_cache\` with \`slice 1m\`, cold"
end "$peer"

# answers URL: waits until somebody does.
answers() {
  for _ in {1..200}; do at curl -sf -o /dev/null "$1" && return; sleep 0.05; done
  die "nobody answers at $1"
}

d=$WORK/varnish vport=$(free_port)
mkdir -p "$d"
cat >"$d/set.vcl" <<CONF
vcl 4.1;
backend origin { .host = "$SERVER_ADDRESS"; .port = "${origin##*:}"; }
sub vcl_recv { if (req.url ~ "\.(json|zst)\$") { return (pass); } return (hash); }
sub vcl_backend_response { set beresp.ttl = 1h; set beresp.do_stream = true; }
CONF
ip netns exec "$CLIENT_NS" varnishd -F -j none -n "$d/work" -a "$SITE:$vport" -f "$d/set.vcl" -s malloc,2g >"$d/out" 2>&1 &
peer=$!
on_exit end "$peer"
answers "http://$SITE:$vport/manifest.json"
pulls varnish "http://$SITE:$vport" "$clients" "$peer"
told "$clients machines, Varnish, cold"
end "$peer"

d=$WORK/squid qport=$(free_port)
mkdir -p "$d"
chmod 777 "$d"
cat >"$d/squid.conf" <<CONF
http_port $SITE:$qport accel defaultsite=$SERVER_ADDRESS no-vhost
cache_peer $SERVER_ADDRESS parent ${origin##*:} 0 no-query originserver name=origin
cache_mem 1024 MB
maximum_object_size_in_memory 512 MB
maximum_object_size 512 MB
range_offset_limit none
quick_abort_min -1 KB
collapsed_forwarding on
refresh_pattern . 60 20% 4320
acl documents urlpath_regex \.(json|zst)\$
cache deny documents
http_access allow all
access_log none
cache_log $d/cache.log
pid_filename $d/squid.pid
coredump_dir $d
shutdown_lifetime 1 seconds
CONF
ip netns exec "$CLIENT_NS" squid -N -f "$d/squid.conf" >"$d/out" 2>&1 &
peer=$!
on_exit end "$peer"
answers "http://$SITE:$qport/manifest.json"
pulls squid "http://$SITE:$qport" "$clients" "$peer"
told "$clients machines, squid, cold"
end "$peer"

say ""
printf '| what | median | slowest | copies sent by the origin | requests to it | processor, a machine | processor, the cache |\n'
printf '| --- | --- | --- | --- | --- | --- | --- |\n'
cat "$WORK/table"
verdict

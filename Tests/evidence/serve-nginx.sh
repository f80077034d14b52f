#!/bin/bash
# Sourced: a real nginx for one directory, and what its own access log says.
#
#   nginx_start NAME DIRECTORY [NETNS ADDRESS]
#       HTTP/1.1 and, with a CA made here, TLS with HTTP/2; on free ports of 127.0.0.1, or of ADDRESS inside the
#       network namespace NETNS. Sets URL, TLS_URL, CA and LOG; whoever switches between servers sets
#       URL and LOG back to those of the one that is meant.
#       NGINX_SERVER, if set, has more directives for the server: limit_rate 2m;
#   nginx_idle              waits until no client is connected any more, so that the log is complete
#   mark                    prints where the log ends now
#   since MARK              prints, to be evaluated: requests=N pack_bytes=N manifest_bytes=N other_bytes=N …
#
# The log has one line for each request, unbuffered: epoch seconds, status, body bytes, method, protocol,
# connection number, range asked for, URI. It counts what really happened, whatever a client claims.

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

make_ca() {          # make_ca DIRECTORY ADDRESS: an authority and a server certificate of one day
  local d=$1 key=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
  openssl req -x509 "${key[@]}" -days 1 -subj /CN=syncagent-trial-ca -keyout "$d/ca.key" -out "$d/ca.pem" 2>/dev/null
  openssl req "${key[@]}" -subj /CN=localhost -keyout "$d/server.key" -out "$d/server.csr" 2>/dev/null
  openssl x509 -req -in "$d/server.csr" -CA "$d/ca.pem" -CAkey "$d/ca.key" -CAcreateserial -days 1 -out "$d/server.pem" \
    -extfile <(echo "subjectAltName=IP:127.0.0.1,IP:$2,DNS:localhost") 2>/dev/null
}

nginx_start() {
  local name=$1 root ns=() address=${4:-127.0.0.1} d=$WORK/nginx-$1 port tls_port pid
  root=$(realpath "$2")
  [ -z "${3:-}" ] || ns=(ip netns exec "$3")
  need nginx=nginx-light openssl=openssl
  mkdir -p "$d"
  make_ca "$d" "$address"
  port=$(free_port) tls_port=$(free_port)
  cat >"$d/nginx.conf" <<CONF
daemon off;
$([ "$(id -u)" != 0 ] || echo "user root root;")
worker_processes 2;
pid $d/nginx.pid;
error_log $d/error.log warn;
events { worker_connections 4096; }
http {
  log_format trial '\$msec \$status \$body_bytes_sent \$request_method \$server_protocol \$connection "\$http_range" \$request_uri';
  access_log $d/access.log trial;
  types { application/json json; }
  default_type application/octet-stream;
  sendfile on; tcp_nopush on; tcp_nodelay on;
  keepalive_timeout 60; keepalive_requests 100000;
  client_body_temp_path $d/t1; proxy_temp_path $d/t2; fastcgi_temp_path $d/t3; uwsgi_temp_path $d/t4; scgi_temp_path $d/t5;
  ssl_certificate $d/server.pem; ssl_certificate_key $d/server.key; ssl_protocols TLSv1.2 TLSv1.3;
  server {
    listen $address:$port; listen $address:$tls_port ssl http2;
    root $root; autoindex on; http2_max_concurrent_streams 256; ${NGINX_SERVER:-}
    location = /-/status { stub_status; access_log off; }
  }
}
CONF
  : >"$d/access.log"
  "${ns[@]}" nginx -p "$d" -c "$d/nginx.conf" -e "$d/error.log" 2>"$d/stderr" &
  pid=$!
  on_exit end "$pid"
  URL=http://$address:$port TLS_URL=https://$address:$tls_port CA=$d/ca.pem LOG=$d/access.log
  NGINX_NS=("${ns[@]}")
  for _ in {1..100}; do nginx_status >/dev/null 2>&1 && return; kill -0 "$pid" 2>/dev/null || break; sleep 0.05; done
  cat "$d/stderr" "$d/error.log" >&2
  die "nginx $name does not answer at $URL"
}

nginx_status() { "${NGINX_NS[@]}" curl -sS --noproxy '*' "$URL/-/status"; }
nginx_idle() {
  for _ in {1..1000}; do
    [ "$(nginx_status 2>/dev/null | awk '/^Active/{print $3}')" != 1 ] || return 0
    sleep 0.02
  done
  say "note: nginx still has connections open"
}
mark()  { stat -c %s "$LOG"; }
since() { nginx_idle; python3 "$EVIDENCE/checks.py" log "$LOG" "$1"; }

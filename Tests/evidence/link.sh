#!/bin/bash
# Sourced: two network namespaces joined by a slow link, for programs that should meet a real distance.
#
#   link_possible                                  whether this machine and user can do it; says why not
#   link_up [RTT_MS [RATE_MBIT [LOSS_PERCENT]]]    default 40 500 0; sets CLIENT_NS, SERVER_NS, SERVER_ADDRESS
#   link_down                                      also done when the script ends
#
# Run things with: ip netns exec "$CLIENT_NS" COMMAND… Addresses are of 198.18.0.0/15, which RFC 2544 sets aside for
# measurements. SYNCAGENT_LINKSIM names another simulator; it is called as
#   PROGRAM NAMESPACE_A NAMESPACE_B ONE_WAY_DELAY_MS RATE_MBIT LOSS_PERCENT
# and must make a device link0 in each namespace and run until it gets SIGTERM.

link_possible() {
  [ "$(id -u)" = 0 ] || { say "SKIPPED: the simulated link needs root"; return 1; }
  [ -c /dev/net/tun ] || { say "SKIPPED: the simulated link needs /dev/net/tun"; return 1; }
  need ip=iproute2 sysctl=procps
  ip netns add "syncagent-probe-$$" 2>/dev/null || { say "SKIPPED: the simulated link needs network namespaces"; return 1; }
  ip netns del "syncagent-probe-$$"
}

link_up() {
  local simulator=${SYNCAGENT_LINKSIM:-$WORK/linksim} i ns
  [ -n "${SYNCAGENT_LINKSIM:-}" ] || [ -x "$simulator" ] || {
    need cc=gcc /usr/include/stdio.h=libc6-dev
    cc -O2 -Wall -Wextra -o "$simulator" "$EVIDENCE/linksim.c"
  }
  CLIENT_NS=syncagent-client-$$ SERVER_NS=syncagent-server-$$ SERVER_ADDRESS=198.18.0.2
  on_exit link_down
  allow_cubic
  for ns in "$CLIENT_NS" "$SERVER_NS"; do
    ip netns add "$ns"
    ip -n "$ns" link set lo up
    # What one connection has learnt about the path must not help the next program.
    ip netns exec "$ns" sysctl -qw net.ipv4.tcp_no_metrics_save=1
    ip netns exec "$ns" sysctl -qw net.ipv4.tcp_congestion_control=cubic ||
      say "note: congestion control is $(ip netns exec "$ns" sysctl -n net.ipv4.tcp_congestion_control), not cubic"
  done
  "$simulator" "$CLIENT_NS" "$SERVER_NS" "$(awk "BEGIN{print ${1:-40} / 2}")" "${2:-500}" "${3:-0}" 2>"$WORK/link.log" &
  LINK_PID=$!
  i=1
  for ns in "$CLIENT_NS" "$SERVER_NS"; do
    until ip -n "$ns" link show link0 >/dev/null 2>&1; do
      kill -0 $LINK_PID 2>/dev/null || { cat "$WORK/link.log" >&2; die "the link simulator has ended"; }
      sleep 0.02
    done
    ip -n "$ns" addr add "198.18.0.$i/24" dev link0
    ip -n "$ns" link set link0 mtu 1500 txqueuelen 10000 up
    i=$((i + 1))
  done
}

# A namespace may only take what the whole machine allows everybody; where cubic is not among that, it is until the end.
allow_cubic() {
  local name=net.ipv4.tcp_allowed_congestion_control allowed
  allowed=$(sysctl -n $name)
  case " $allowed " in *' cubic '*) return ;; esac
  if sysctl -qw "$name=$allowed cubic"; then on_exit sysctl -qw "$name=$allowed"; fi
}

link_down() {
  [ -z "${LINK_PID:-}" ] || end "$LINK_PID"
  LINK_PID=
  ip netns del "$CLIENT_NS"
  ip netns del "$SERVER_NS"
}

#!/bin/sh
# Runs RebindingTests where they can: in network and mount namespaces of their own, in which 203.0.113.1, a public
# address (RFC 5737), is this machine, the name rebind.test is 127.0.0.1, both.test is either, and six.test is 127.0.0.1 or an
# IPv6 address behind which nothing answers. The machine itself is left alone.
#
# usage: rebinding.sh        after swift build --build-tests
#
# Exit status: 0 when they ran and passed, 1 when not; 77 when there can be no such namespaces here, which is said.
set -u

cd "$(dirname "$0")/.." || exit 1
PATH="$PATH:/usr/sbin:/sbin"

isolated() {         # isolated COMMAND…: in a network and a mount namespace, as their root
    if [ "$(id -u)" -eq 0 ]; then unshare --net --mount "$@"; else unshare --map-root-user --net --mount "$@"; fi
}

if ! isolated sh -c 'ip link set lo up && mount --bind /etc/hosts /etc/hosts' 2>/dev/null; then
    echo "SKIPPED: RebindingTests: no namespaces with mounts for this user here, or no ip(8)"
    exit 77
fi
hosts=$(mktemp)
trap 'rm -f "$hosts" "$hosts.out"' EXIT
{
    cat /etc/hosts
    echo 127.0.0.1 rebind.test
    echo 127.0.0.1 both.test
    echo 203.0.113.1 both.test
    echo 2001:db8::2 six.test
    echo 127.0.0.1 six.test
} >"$hosts"
# shellcheck disable=SC2016 # the inner shell's arguments
isolated sh -c 'mount --bind "$1" /etc/hosts && ip link set lo up && ip addr add 203.0.113.1/32 dev lo &&
    ip link add hole type veth peer name bottom && ip link set hole up && ip link set bottom up &&
    ip -6 addr add 2001:db8::1/64 dev hole nodad &&
    exec .build/debug/syncagentPackageTests.xctest --testing-library swift-testing \
        --filter "^SyncTransferTests\.RebindingTests"' sh "$hosts" 2>&1 |
    tee "$hosts.out"
grep -q 'Test run with [1-9].* passed' "$hosts.out" && ! grep -q skipped "$hosts.out"

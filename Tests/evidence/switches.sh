#!/bin/bash
# Readers look all the time while a destination changes as a whole, a thousand times: they see one revision or the other, never
# none, and never both. On file systems of every kind that this machine can make.
#
# usage: switches.sh [--layout exchange|links] [--switches N] [--seconds N] [ext4|xfs|btrfs|overlay|tmpfs|here]...
#
#   --switches N   how often each destination changes (default 1000)
#   --seconds N    … or for how long at most (default: no limit)
#   --layout L     exchange (default), or links, and then the destination is the mount point itself
#   here           a directory below SYNCAGENT_BENCH_DIR, on whatever file system that is; the only one that needs no root
#
# The others are images of a few hundred MiB, mounted in a mount namespace of this script's own; overlay has its upper layer on
# the tmpfs, and tmpfs is a mount. What cannot be mounted here is skipped with a line that says so. Without names: all of them.
#
# A set of 40 files is published in two revisions: 20 differ, 4 are in one of them only, and the rest is the same, so that trees
# share it. `pull --atomic --keep-for 5s` goes from one to the other and back. Meanwhile, each in a process of its own:
#
#   by path        files that both revisions have are opened by their paths and read: each is there, and is that of one
#                  revision from its first byte to its last
#   by listing     the destination is listed by path: the names are those of one revision
#   by descriptor  the destination, or what .syncagent/now in it leads to, is opened once, and all files are read below that
#                  descriptor: all are of one revision. A round that took longer than 4 s does not count, since a tree is only
#                  kept as it is for the 5 s that are asked for
#   by map         files are mapped, and read again a while later: nothing in them has changed
#
# Printed for each file system: how files are shared there, switches, rounds of each reader, what was missing (ENOENT), what was
# mixed, and how long the exchange took: median, 99 % and longest, in microseconds.
#
# Exit status: 0 nothing was missing or mixed, 1 something was, 77 nothing could be tried. Environment: see common.sh.
. "$(dirname "$0")/common.sh"

kinds=() options=()
while [ $# -gt 0 ]; do
  case $1 in
  -h|--help) usage ;;
  --switches|--seconds|--layout) options+=("$1" "${2:?$1 needs a value}"); shift ;;
  ext4|xfs|btrfs|overlay|tmpfs|here) kinds+=("$1") ;;
  *) usage 64 >&2 ;;
  esac
  shift
done
[ ${#kinds[@]} != 0 ] || kinds=(ext4 xfs btrfs overlay tmpfs)
# Mounts go with their namespace, however this ends.
if [ "${kinds[*]}" != here ] && [ -z "${SWITCHES_APART:-}" ]; then
  [ "$(id -u)" = 0 ] || { say "SKIPPED: only root may mount file systems"; exit 77; }
  trap - EXIT
  SWITCHES_APART=1 exec unshare -m --propagation private "$0" "${options[@]}" "${kinds[@]}"
fi
need python3=python3
find_binary
make_work

# mounted KIND: makes a file system and mounts it; its directory is in $place.
mounted() {
  place=$WORK/$1
  mkdir -p "$place"
  case $1 in
  here) return 0 ;;
  tmpfs) mount -t tmpfs -o size=512m tmpfs "$place" ;;
  overlay)
    mkdir -p "$WORK/layers"
    mount -t tmpfs -o size=512m tmpfs "$WORK/layers" && mkdir "$WORK"/layers/{lower,upper,work} &&
      mount -t overlay -o "lowerdir=$WORK/layers/lower,upperdir=$WORK/layers/upper,workdir=$WORK/layers/work" overlay "$place"
    ;;
  ext4) need mkfs.ext4=e2fsprogs && image 300M && mkfs.ext4 -q "$image" && mount -o loop "$image" "$place" ;;
  xfs) need mkfs.xfs=xfsprogs && image 400M && mkfs.xfs -q "$image" && mount -o loop "$image" "$place" ;;
  btrfs) need mkfs.btrfs=btrfs-progs && image 400M && mkfs.btrfs -q "$image" >/dev/null 2>&1 && mount -o loop "$image" "$place" ;;
  esac
}
image() { image=$WORK/$place_name.image; truncate -s "$1" "$image"; }

tried=0
for place_name in "${kinds[@]}"; do
  if ! mounted "$place_name" 2>"$WORK/said"; then
    say "SKIPPED: $place_name: $(tail -n 1 "$WORK/said")"
    continue
  fi
  tried=1
  [ "$place_name" = here ] || on_exit umount -q "$place"
  # In front of a reader that fails the others are told all the same.
  python3 -B "$EVIDENCE/switches.py" "$SYNCAGENT" "$place_name" "$place" "$WORK/home-$place_name" "${options[@]}" ||
    broken "$place_name"
  for at in "$place" "$WORK/layers"; do ! mountpoint -q "$at" || umount "$at"; done
done
[ "$tried" = 1 ] || exit 77
verdict

#!/bin/bash
# A new, empty ext4 on an image file, so that a run does not pay for what an earlier run deleted: for minutes
# after a mass delete ext4 steps over each recently deleted inode when it creates a file, 8 to 10 times slower.
#
# usage: fresh-disk.sh mount IMAGE DIRECTORY [GIB]     makes the image when it is missing, and formats it
#        fresh-disk.sh unmount DIRECTORY
#        fresh-disk.sh possible                        exit 0 when this machine and user can do it
set -eu
PATH=$PATH:/usr/sbin:/sbin
case "${1:-}" in
mount)
  image=$2 directory=$3
  mkdir -p "$directory"
  ! mountpoint -q "$directory" || umount "$directory"
  [ -e "$image" ] || fallocate -l "${4:-4}G" "$image"
  # No read-ahead of inode tables and no discard: nothing works in the background while a run is measured.
  mkfs.ext4 -q -F -i 8192 -E nodiscard,lazy_itable_init=1,lazy_journal_init=1 "$image"
  # What mkfs wrote is on the disk and nothing of it in the page cache before the loop device goes past that.
  sync "$image"
  dd if="$image" iflag=nocache count=0 status=none
  device=$(losetup --find --show --direct-io=on "$image" 2>/dev/null || losetup --find --show "$image")
  mount -o noinit_itable "$device" "$directory" || { losetup -d "$device"; exit 1; }
  losetup -d "$device"               # goes when the directory is unmounted
  rmdir "$directory/lost+found" ;;
unmount) ! mountpoint -q "$2" || umount "$2" ;;
possible)
  [ "$(id -u)" = 0 ] && command -v mkfs.ext4 >/dev/null && losetup --find >/dev/null 2>&1 ;;
*) sed -n '2,8{s/^# \{0,1\}//p}' "$0"; exit 64 ;;
esac

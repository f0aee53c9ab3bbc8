#!/bin/sh
# Full disks and folders that vanish, on each durable driver. 77: no root, no tmpfs.
#
#     folder.sh PROGRAM
set -eu
program=$1
work=$(mktemp -d)
mounted=
trap '[ -z "$mounted" ] || umount "$work/small"; rm -rf "$work"' EXIT
mkdir "$work/small"
for driver in shadow leveldb rocksdb; do
    "$program" vanish $driver "$work/$driver"
done
if ! mount -t tmpfs -o size=28m tmpfs "$work/small" 2> "$work/why"; then
    echo "no small tmpfs: $(cat "$work/why")"
    exit 77
fi
mounted=yes
for driver in shadow leveldb rocksdb; do
    "$program" fill $driver "$work/small/$driver" "$work/small/ballast"
    rm -rf "$work/small/$driver"
done

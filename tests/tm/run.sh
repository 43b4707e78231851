#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# run.sh PROGRAM ARGUMENT...: runs the program in an empty directory, in memory if there is a file system for that.
set -u
parent=${TMPDIR:-/tmp}
[ -d /dev/shm ] && [ -w /dev/shm ] && parent=/dev/shm
directory=$(mktemp -d "$parent/perdure-tm.XXXXXX") || exit 1
trap 'rm -rf "$directory"' EXIT
trap 'exit 1' INT TERM
cd "$directory" || exit 1
"$@"

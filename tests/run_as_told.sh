#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# run_as_told.sh SOURCE PROGRAM: runs PROGRAM in an empty directory as often as the head of SOURCE says "//   $ ./program",
# and compares each run's output with the "//   " lines that follow.
set -euo pipefail
source=$1
program=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/run"
sed -n 's|^//   ||p' "$source" >"$work/told"
while read -r line; do
  [[ $line == '$ '* ]] || continue
  echo "$line"
  (cd "$work/run" && "$program") || echo "exits with $?"
done <"$work/told" >"$work/seen"
grep -qc '^\$ ' "$work/told" || { echo "$source tells no runs" && exit 1; }
diff "$work/told" "$work/seen"

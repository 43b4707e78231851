#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_runtime.sh PROGRAM...: each program must have its transactions from this library alone: it defines the runtime's
# functions itself and does not name libitm, gcc's own runtime, which is not durable.
# check_runtime.sh --self-test PROGRAM: the check must refuse this program, which is linked against libitm.
set -u

refused() {
  if readelf -d "$1" | grep -q 'NEEDED.*libitm'; then
    echo "$1: linked against libitm; link the library first, and with -Wl,--as-needed"
    return 0
  fi
  if ! nm "$1" | grep -q ' T _ITM_beginTransaction$'; then
    echo "$1: does not define _ITM_beginTransaction; link perdure"
    return 0
  fi
  return 1
}

if [ "${1:-}" = --self-test ]; then
  why=$(refused "$2") || { echo "$2: should have been refused"; exit 1; }
  echo "refused, as it must be: $why"
  case $why in *"linked against libitm"*) exit 0 ;; esac
  exit 1
fi

[ $# -gt 0 ] || { echo "no programs to check"; exit 1; }
status=0
for program in "$@"; do
  if refused "$program"; then status=1; fi
done
echo "$# programs checked"
exit $status

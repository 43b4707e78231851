#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# run.sh CHECKER COMPILER: what the checker, sparse or clang, says about the `persistent` annotation. good.c, and the
# examples, must pass in silence, and good.c compile as C and as C++; in bad_*.c each line marked `// expect: KIND` must be
# reported as such, and no other.
#
# run.sh CHECKER --self-test: files that are judged wrongly must be found.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
include=-I$here/../..

# Both print FILE:LINE:COLUMN: SEVERITY: MESSAGE and lines of detail. -Wno-decl: a variable may be global without a header.
# -fno-builtin: clang lets the functions that it knows itself take pointers of any kind.
say_sparse() { sparse -std=gnu11 -Wno-decl "$include" "$1" 2>&1; }
say_clang() {
  clang-19 -std=gnu11 -Wall -Wextra -fno-builtin -DPERDURE_CHECK_POINTERS -fsyntax-only -fno-caret-diagnostics \
    "$include" "$1" 2>&1
}

# Their words for the kinds, as LINE KIND; what is not about address spaces stays as it is.
kinds_sparse() {
  sed -nE '/^[^:]+:[0-9]+:[0-9]+: +(expected|got) /d
    s/^[^:]+:([0-9]+):.* incorrect type in initializer \(different address spaces\)$/\1 initialize/;  t print
    s/^[^:]+:([0-9]+):.* incorrect type in assignment \(different address spaces\)$/\1 assign/;       t print
    s/^[^:]+:([0-9]+):.* incorrect type in argument [0-9]+ \(different address spaces\)$/\1 pass/;    t print
    s/^[^:]+:([0-9]+):.* incorrect type in return expression \(different address spaces\)$/\1 return/
    :print p'
}
kinds_clang() {
  sed -nE '/: note: |^[0-9]+ errors? generated\.$/d
    s/^[^:]+:([0-9]+):[0-9]+: error: (initializ|assign|pass|return)ing .* changes address space of pointer$/\1 \2/
    s/ initializ$/ initialize/; p'
}

# judge FILE: silent when the checker says what the file expects, no more and no less.
judge() {
  local expected said
  expected=$(awk '/\/\/ expect: [a-z]+$/ { print NR, $NF }' "$1")
  if [[ $1 == */bad_* && -z $expected ]]; then
    echo "expects nothing, though it is called bad"
    return
  fi
  said=$("say_$checker" "$1" | "kinds_$checker" || true)
  { diff <(sort <<<"$expected") <(sort -u <<<"$said") || true; } |
    sed -nE 's/^< (.+)/not reported: \1/p; s/^> (.+)/not expected: \1/p'
}

failures=0
report() { # report NAME COMPLAINTS
  [[ -n $2 ]] || { echo "ok   $1" && return; }
  echo "FAIL $1"
  sed 's/^/     /' <<<"$2"
  failures=$((failures + 1))
}

readonly usage="usage: run.sh sparse|clang COMPILER | --self-test"
checker=${1:?$usage}
if [[ ${2:?$usage} == --self-test ]]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cp "$here/good.c" "$work/bad_nothing_expected.c"
  sed 's|, &lists\[1\])|, \&fresh)|' "$here/good.c" >"$work/good_no_more.c"
  sed 's|  // expect: return$||' "$here/bad_into_volatile.c" >"$work/bad_more_than_expected.c"
  sed 's|^  local = &first;$|& // expect: assign|' "$here/bad_into_persistent.c" >"$work/bad_less_than_expected.c"
  sed 's|// expect: return$|// expect: pass|' "$here/bad_into_volatile.c" >"$work/bad_otherwise.c"
  for file in "$work"/*.c; do
    report "self-test: $(basename "$file")" "$([[ -n $(judge "$file") ]] || echo "is judged to be right")"
  done
else
  for file in "$here"/*.c "$here"/../../examples/mnemosyne/*.c; do
    report "$(basename "$file")" "$(judge "$file")"
  done
  strict=(-Wall -Wextra -Wpedantic -Werror -fgnu-tm -fsyntax-only "$include")
  for language in "c -std=c11" "c++ -std=c++17" "c++ -std=c++20"; do
    # shellcheck disable=SC2086 # two words
    report "good.c as $language" "$("$2" -x $language "${strict[@]}" "$here/good.c" 2>&1 || true)"
  done
fi
((failures == 0))

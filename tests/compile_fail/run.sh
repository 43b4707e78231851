#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# run.sh COMPILER: each .cc here must be refused by the compiler, with the text that its first line expects, in the first
# error if it is a text of ours ("perdure: ..."); good.cc must compile, with clang too. A type error nobody can read is as bad
# as none. "// Options: ..." in the second line: of the compiler, beside -std=c++20.
set -euo pipefail
compiler=${1:?usage: run.sh COMPILER}
here=$(cd "$(dirname "$0")" && pwd)
failures=0
# Reading the headers is most of the work, so it is done once. Where options make it useless, compilers read them again.
headers=$(mktemp -d)
trap 'rm -rf "$headers"' EXIT
printf '#include "perdure/%s"\n' perdure.h object.h >"$headers/all.h"
"$compiler" -std=c++20 -I"$here/../.." -x c++-header "$headers/all.h" -o "$headers/all.h.gch"
for file in "$here"/*.cc; do
  name=$(basename "$file")
  expected=$(sed -n '1s|^// Expect: ||p' "$file")
  read -ra options < <(sed -n '2s|^// Options: ||p' "$file") || true
  status=0
  output=$("$compiler" -std=c++20 "${options[@]}" -fsyntax-only -include "$headers/all.h" -I"$here/../.." "$file" 2>&1) || status=$?
  if [[ -z $expected ]]; then
    verdict="has no '// Expect:' line"
  elif [[ $expected == compiles ]]; then
    verdict=$([[ $status == 0 ]] || echo "does not compile")
  elif [[ $status == 0 ]]; then
    verdict="compiles, though it must not"
  else
    # Compilers break no lines inside of a message.
    judged=$output
    [[ $expected == "perdure: "* ]] && judged=$(grep -m1 error: <<<"$output")
    verdict=$(grep -qF -- "$expected" <<<"$judged" || echo "is refused, but not with: $expected")
  fi
  if [[ -z $verdict ]]; then
    echo "ok   $name"
  else
    echo "FAIL $name $verdict"
    sed 's/^/     /' <<<"$output" | head -20
    failures=$((failures + 1))
  fi
done
for file in good.cc using_namespace.cc; do
  command -v clang++-19 >/dev/null || break # of the laboratory's packages
  if ! clang++-19 -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I"$here/../.." "$here/$file"; then
    echo "FAIL $file does not compile with clang"
    failures=$((failures + 1))
  fi
done
((failures == 0))

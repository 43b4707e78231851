#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs a build tree into a fresh prefix, moves the prefix, and builds and runs programs against it in every way that a
# stranger may choose. Usage: run.sh BUILD_DIR [perdure] [perdure-lab]
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc=${CC:-gcc}
cxx=${CXX:-g++}

fail() {
  echo "FAIL $*"
  exit 1
}

# What is wrong with the binary, or nothing: transactions of another library than ours.
foreign_transactions() { # foreign_transactions BINARY
  readelf -W -d "$1" | grep -F libitm || true
  # A shared library has them from its program.
  [[ $1 == *.so ]] || readelf -W --dyn-syms "$1" | grep -E ' UND _ITM_' || true
}

# The program must print its first run's line in an empty directory, and then what both runs have left.
judge() { # judge BINARY
  local output
  output=$(foreign_transactions "$1")
  [[ -z $output ]] || fail "$1 has transactions from elsewhere: $output"
  rm -rf "$work/run" && mkdir "$work/run"
  output=$(cd "$work/run" && "$1" && "$1")
  [[ $output == $'1 1 \n2 2 1 1 ' ]] || fail "$1 printed: $output"
  echo "ok   $(basename "$1") keeps what it did"
}

# In a directory of its own, as the output of one way is no input for the next.
fresh() {
  rm -rf "$work/build" && mkdir "$work/build" && cd "$work/build"
}

cmake --install "$1" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix" # What was installed must not remember where.
for header in mnemosyne.h softwrap.h wraps.h address_space.h pool.h arena.h arena_c.h; do
  [[ -f $work/prefix/include/perdure/$header ]] || fail "perdure/$header is not installed"
done

# Only what a program can include: public headers stand at the top, and each one below is included by another.
stray=$(find "$work/prefix/include" -type f ! -path "$work/prefix/include/perdure/*")
[[ -z $stray ]] || fail "outside include/perdure: $stray"
while read -r header; do
  grep -rqF "#include \"$header\"" "$work/prefix/include" || fail "$header is installed, and no header includes it"
done < <(cd "$work/prefix/include" && find perdure/* -mindepth 1 -name '*.h' ! -path 'perdure/crash/*')
grep -rhoE '#include "[^"]+"' "$work/prefix/include" | sort -u | while read -r _ header; do
  [[ -f $work/prefix/include/${header//\"/} ]] || fail "$header is included, and not installed"
done
printf '#include "perdure/crash/suite.h"\n#include "perdure/crash/explorer.h"\n' >"$work/crash.cc"
"$cxx" -std=c++20 -fsyntax-only -I"$work/prefix/include" "$work/crash.cc" || fail "an explorer's program does not compile"

echo "-- CMake: find_package(perdure)"
fresh
cmake -S "$here" -B . -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build .
mkdir "$work/run"
(cd "$work/run" && "$work/build/consumer")
judge "$work/build/survivor"
judge "$work/build/survivor_of_parts"
[[ -z $(foreign_transactions libstack.so) ]] || fail "libstack.so brings libitm"

echo "-- CMake, by someone who has -fgnu-tm in CMAKE_C_FLAGS"
fresh
cmake -S "$here" -B . -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_{C,CXX}_FLAGS=-fgnu-tm >/dev/null
cmake --build . --target survivor
judge "$work/build/survivor"

echo "-- pkg-config: perdure"
fresh
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name perdure.pc)")
export PKG_CONFIG_PATH
read -ra flags < <(pkg-config --cflags --libs perdure)
"$cxx" -std=c++20 "$here/main.cc" "${flags[@]}" -o consumer
rm -rf "$work/run" && mkdir "$work/run"
(cd "$work/run" && "$work/build/consumer")
"$cc" "$here/runs.c" "${flags[@]}" -lstdc++ -o runs
rm -rf "$work/run" && mkdir "$work/run"
[[ $(cd "$work/run" && "$work/build/runs" && "$work/build/runs") == $'1\n2' ]] || fail "a C program's arena forgets"

echo "-- pkg-config: perdure-tm"
read -ra compile < <(pkg-config --cflags perdure-tm)
read -ra link < <(pkg-config --libs perdure-tm)
"$cc" -O2 "${compile[@]}" -c "$here/survivor.c"
"$cxx" -O2 "${compile[@]}" -c "$here/stack.cc"
"$cxx" survivor.o stack.o "${link[@]}" -o linked_last
judge "$work/build/linked_last"
"$cxx" "${link[@]}" survivor.o stack.o -o linked_first
judge "$work/build/linked_first"

echo "-- perdure-gcc and perdure-g++"
fresh
PERDURE_CC=$cc PERDURE_CXX=$cxx PATH=$work/prefix/bin:$PATH
export PERDURE_CC PERDURE_CXX PATH
perdure-g++ -O2 -x c++ "$here/stack.cc" -x c "$here/survivor.c" -o at_once
judge "$work/build/at_once"
perdure-gcc -O2 -c "$here/survivor.c"
perdure-g++ -O2 -S "$here/stack.cc"
perdure-gcc -c stack.s
perdure-gcc -E "$here/survivor.c" | grep -q 'section("persistent")' || fail "-E does not show the program"
perdure-gcc survivor.o stack.o -o no_position -no-pie
judge "$work/build/no_position"
perdure-gcc survivor.o stack.o -o position_independent
judge "$work/build/position_independent"
perdure-g++ -O2 -fPIC -shared "$here/stack.cc" -o libstack.so
[[ -z $(foreign_transactions libstack.so) ]] || fail "libstack.so brings libitm"
perdure-gcc survivor.o -L. -lstack -Wl,-rpath,"$PWD" -o from_shared_library
judge "$work/build/from_shared_library"
perdure-gcc "$here/plugged.c" -rdynamic -Wl,--whole-archive -lperdure -Wl,--no-whole-archive -Wl,-rpath,"$PWD" -o plugged
judge "$work/build/plugged"
PERDURE_CC="false" perdure-gcc survivor.o 2>/dev/null && fail "PERDURE_CC is not heard"
perdure-g++ --help | grep -q "^usage: perdure-g++" || fail "--help says nothing"
"$1/perdure-g++" -O2 "$here/stack.cc" -x c "$here/survivor.c" -o from_build_tree
judge "$work/build/from_build_tree"

echo "-- the check itself"
printf 'int main(void) { static int n; __transaction_atomic { ++n; } return n - 1; }\n' >foreign.c
"$cc" -fgnu-tm foreign.c -o foreign
[[ -n $(foreign_transactions foreign) ]] || fail "a program with libitm passes"
"$cc" -fgnu-tm -Wl,--unresolved-symbols=ignore-all -Wl,--as-needed foreign.c -o unresolved -nodefaultlibs -lc
[[ -n $(foreign_transactions unresolved) ]] || fail "a program that lacks its transactions passes"

if [[ " $* " == *" perdure "* ]]; then
  echo "-- the installed command"
  "$work/prefix/bin/perdure" --version
  "$work/prefix/bin/perdure" run --state "$work/state" -- sleep 0.01 || fail "no program is carried"
fi
if [[ " $* " == *" perdure-lab "* ]]; then
  echo "-- the installed laboratory"
  "$work/prefix/bin/perdure-lab" sim hash --operations 100 --systems dram,thynvm >/dev/null || fail "no guest is found"
  "$work/prefix/bin/perdure-lab" sim --systems thynvm -- ls --all / >/dev/null || fail "no program is emulated"
fi

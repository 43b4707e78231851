#!/usr/bin/env bash
# Installs a build tree into a fresh prefix, moves the prefix, and builds and runs the consumer against it: through
# the CMake package, and through pkg-config. Usage: run.sh BUILD_DIR
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$1" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix" # What was installed must not remember where.

echo "-- CMake: find_package(perdure)"
cmake -S "$here" -B "$work/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build"
mkdir "$work/run"
(cd "$work/run" && "$work/build/consumer")

echo "-- pkg-config: perdure"
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name perdure.pc)")
export PKG_CONFIG_PATH
read -ra flags < <(pkg-config --cflags --libs perdure)
"${CXX:-c++}" -std=c++20 "$here/main.cc" "${flags[@]}" -o "$work/consumer"
rm -rf "$work/run" && mkdir "$work/run"
(cd "$work/run" && "$work/consumer")

echo "-- the installed tool"
"$work/prefix/bin/perdure" --version

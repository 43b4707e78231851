#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#: ./do VERB: build, run and judge Perdure. Every verb first installs the Debian packages that it needs and that are missing
#: (lists in packages/), works from any directory, and does only what has changed since the last time.
#:
#:   run [ARGS]          the demonstration: a key-value store in ./data/words.pool
#:   test                builds and judges the library, the commands for users and every engine, in minutes
#:   prove [SECONDS]     everything long: the explorer whole, papers and peers, fuzzers, sanitizers, thousands of kills;
#:                       sanitizers that would begin later than SECONDS from now are left out, and the summary says so
#:
#:   check               the quick tests alone
#:   unit [ARGS]         all tests of the dev build; ARGS go to ctest (-R log, -L slow, ...)
#:   rest                what ./do test leaves out: slow tests, the laboratory's, carried programs, headers alone
#:   sanitize KIND       the tests without the slow ones under asan (with ubsan), ubsan or tsan
#:   fuzz [SECONDS]      every fuzz target for SECONDS each (default 20)
#:   explore [ARGS]      the crash explorer over every scenario
#:   bench [ARGS]        the benchmarks
#:   reproduce [ARGS]    a paper's evaluation, its values beside ours: ./do reproduce mnemosyne --html report.html
#:   sqlite-suite [ARGS] SQLite's own test scripts on the VFS perdure (--help says more); fetches SQLite's source
#:   tidy                clang-format and clang-tidy over our sources, changing nothing
#:   docs                lists the documentation and checks it
#:   clean               removes ./build (./data stays: pools are yours)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly jobs=2
readonly test_jobs=3  # many tests wait for the disk

die() {
  echo "do: $*" >&2
  exit 1
}

# Silent, and without the network, when nothing is missing.
install_missing_packages() { # install_missing_packages LIST...
  command -v dpkg-query >/dev/null || die "no dpkg on this system; packages/ says what to install by its own means"
  local wanted missing as_root=()
  mapfile -t wanted < <(cd packages && sed 's/#.*//; s/[[:space:]]//g; /^$/d' "${@/%/.txt}" | sort -u)
  mapfile -t missing < <(comm -23 <(printf '%s\n' "${wanted[@]}") <(
    dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null | sed -n 's/^installed //p' | sort -u
  ))
  ((${#missing[@]} > 0)) || return 0

  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "neither root nor sudo to install what is missing: ${missing[*]}"
    as_root=(sudo)
  fi
  echo "do: installing ${missing[*]}" >&2
  "${as_root[@]}" apt-get update -qq &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends --no-remove \
      -o DPkg::Lock::Timeout=300 "${missing[@]}" >/dev/null ||
    die "could not install: ${missing[*]} (what they conflict with is never removed; see above)"
}

build() { # build PRESET [OPTION=VALUE...] [-- TARGETS]
  local preset=$1 options=() targets=()
  shift
  while (($# > 0)) && [[ $1 != -- ]]; do options+=(-D "$1") && shift; done
  (($# == 0)) || targets=(--target "${@:2}")
  cmake --preset "$preset" "${options[@]}" --log-level=WARNING >/dev/null
  cmake --build --preset "$preset" --parallel "$jobs" "${targets[@]}"
}

run_tests() { # run_tests PRESET [CTEST ARGS]
  local preset=$1 launcher=()
  shift
  # The ThreadSanitizer of gcc 12 finds no place for its shadow where the kernel randomizes addresses widely.
  [[ $preset != tsan ]] || ! setarch -R true 2>/dev/null || launcher=(setarch -R)
  "${launcher[@]}" ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j"$test_jobs" "$@"
}

# Runs perdure-lab in place of this shell, with nothing but its output on stdout.
lab() { # lab PRESET ARGS...
  local preset=$1
  shift
  build "$preset" PERDURE_LAB=ON -- perdure_lab >&2
  exec "build/$preset/bin/perdure-lab" "$@"
}

sources() { # sources EXTENSIONS: our files with one of them, "h|cc"
  find perdure papers sim apps tools bench measure examples tests -regextype posix-extended -type f -regex ".*\.($1)" | sort
}

# Of the build that the tests are of, so that the library is compiled once.
verb_run() {
  mkdir -p data
  build dev PERDURE_TESTS=OFF PERDURE_LAB=OFF PERDURE_CHECK_HEADERS=OFF -- perdure_demo >&2
  exec build/dev/bin/perdure-demo kv demo ./data/words.pool "$@"
}

verb_explore() { lab dev explore --all "$@"; }

verb_bench() { lab release bench "$@"; }

verb_reproduce() { lab release reproduce "$@"; }

verb_check() { verb_unit -L quick; }

verb_unit() {
  build dev PERDURE_LAB=ON
  run_tests dev "$@"
}

verb_test() {
  build dev PERDURE_LAB=OFF PERDURE_CHECK_HEADERS=OFF
  run_tests dev -LE 'slow|prove|package'
}

# Every header alone, and what ./do test leaves to ./do prove.
verb_rest() {
  build dev PERDURE_LAB=ON PERDURE_CHECK_HEADERS=ON
  run_tests dev -L 'slow|prove|package'
}

verb_sanitize() {
  [[ ${1:-} == @(asan|ubsan|tsan) ]] || die "sanitize asan, ubsan or tsan"
  build "$1"
  run_tests "$1" -LE slow
}

fuzz_target() { # fuzz_target NAME SECONDS
  # New inputs gather in the first directory; the seeds of the source tree are only read.
  local corpora=("build/fuzz/corpus/$1")
  [[ ! -d tests/fuzz/corpus/$1 ]] || corpora+=("tests/fuzz/corpus/$1")
  mkdir -p "${corpora[0]}"
  "build/fuzz/targets/$1" -max_total_time="$2" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/findings/$1-" "${corpora[@]}" >"build/fuzz/$1.log" 2>&1
}

verb_fuzz() {
  local seconds=${1:-20} target name failed=()
  local -A running=()
  build fuzz -- fuzzers
  mkdir -p build/fuzz/findings
  for target in build/fuzz/targets/*_fuzz; do
    name=${target##*/}
    while (($(jobs -rp | wc -l) >= jobs)); do sleep 0.2; done
    fuzz_target "$name" "$seconds" &
    running[$name]=$!
  done
  for name in "${!running[@]}"; do
    echo "-- $name, $seconds s"
    if wait "${running[$name]}"; then
      grep '^stat::' "build/fuzz/$name.log"
    else
      failed+=("$name")
      tail -n 50 "build/fuzz/$name.log"
    fi
  done
  ((${#failed[@]} == 0)) || die "inputs in build/fuzz/findings break ${failed[*]}"
}

# What the output of a stage says of its failure. Printed last: the end of a long log is all that some look at.
tell_failure() { # tell_failure LOG
  { grep -E -A 12 ': Failure$|\*\*\*[A-Z]|error:|violation:' "$1" || true; } | tail -n 200
  tail -n 15 "$1"
}

# Each stage is a verb in a process of its own: one that fails stops neither the others nor the summary, and can be
# run again alone.
verb_prove() {
  local within=${1:-} stage start log verdict status=0 summary=() failed=()
  mkdir -p build/stages
  for stage in rest explore 'fuzz 10' 'sanitize asan' 'sanitize tsan'; do
    if [[ $stage == sanitize* && -n $within ]] && ((SECONDS > within)); then
      summary+=("LEFT OUT          ./do $stage (not begun within $within s)")
      continue
    fi
    printf '\n==== ./do %s\n' "$stage"
    start=$SECONDS log="build/stages/$stage.log" verdict=passed
    # shellcheck disable=SC2086  # a stage is a verb and its arguments
    ./do $stage 2>&1 | tee "$log" || { verdict=FAILED status=1 && failed+=("$stage"); }
    summary+=("$(printf '%-6s  %4d s  ./do %s' "$verdict" $((SECONDS - start)) "$stage")")
  done
  for stage in "${failed[@]}"; do
    printf '\n==== ./do %s failed:\n' "$stage"
    tell_failure "build/stages/$stage.log"
  done
  printf '\n====\n'
  printf '%s\n' "${summary[@]}"
  return "$status"
}

verb_sqlite-suite() { apps/sqlite/suite/run "$@"; }

verb_tidy() {
  local status=0
  sources 'h|cc' | xargs clang-format-19 --dry-run -Werror || status=1
  cmake --preset dev -B build/tidy -D CMAKE_UNITY_BUILD=OFF --log-level=WARNING >/dev/null
  sources cc | sed "s|.*|^$PWD/&\$|" | xargs run-clang-tidy-19 -quiet -p build/tidy -j "$jobs" || status=1
  return "$status"
}

verb_docs() {
  local page
  for page in *.md docs/*.md docs/*/*.md papers/*/README.md; do
    [[ ! -f $page ]] || printf '%-36s %s\n' "$page" "$(sed -n '/^# /{s///p;q}' "$page")"
  done
  [[ ! -f tests/check_docs.sh ]] || bash tests/check_docs.sh
}

verb_clean() { rm -rf build; }

case ${1:-help} in
  help | -h | --help) exec sed -n 's/^#: \{0,1\}//p' do ;;
esac
verb=verb_$1
declare -F "$verb" >/dev/null || die "no verb '$1'; ./do alone lists them"
shift
case $verb in
  verb_clean) ;;
  verb_run) install_missing_packages run ;;
  verb_test) install_missing_packages run test ;;
  *) install_missing_packages run test lab ;;
esac
"$verb" "$@"

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that every include goes down: the floors of docs/ARCHITECTURE.md, enforced.

A file of the library may include its own room and any room on a lower floor; never another room of its own floor, never
a higher one, and nothing outside perdure/. Containers see less than their floor would allow: only what stands on floor 1.
What people use, apps/ and the command perdure, includes nothing of the laboratory. Tests may include anything.

usage: check_floors.py [SOURCE_DIR]     exit 1 and one line `file:line: rule` per violation
       check_floors.py --self-test      proves that it finds what it must find
"""

import pathlib
import re
import sys
import tempfile

# The folders under perdure/ and the floor each stands on.
FLOORS = {
    "base": 1,
    "domain": 2,
    "region": 3,
    "log": 4,
    "heap": 4,
    "alias": 4,
    "engine": 5,
    "container": 5,
    "checkpoint": 5,
    "api": 6,
    "mnemosyne": 7,
    "object": 7,
}
# Files directly in perdure/ belong to one of two rooms: these doors, which everyone may see, or the faces.
DOORS = {"error", "tx", "pptr", "options", "persistable", "lost_pages"}
DOOR_ROOM, FACE_ROOM = "base", "api"
# Faces of rooms above that.
HIGHER_FACES = {"object": "object", "nvheaps": "object"}
# Above the library, free to include anything.
JUDGES = {"tools", "apps", "bench", "measure", "papers", "sim", "tests", "examples"}
# What measures and proves. Nothing that people use includes it.
LABORATORY = ("bench/", "measure/", "papers/", "sim/", "tools/lab/")
PRODUCT = ("perdure", "apps", "tools")
# Rooms that see less than everything below them.
SEES_ONLY = {"container": {"base"}}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def room_of(path):
    """The room of a path relative to the source tree; None for a judge, KeyError for a folder without a floor."""
    parts = path.parts
    if parts[0] in JUDGES or re.search(r"_test[a-z_]*$", path.stem):
        return None
    if len(parts) == 2:
        return DOOR_ROOM if path.stem in DOORS else HIGHER_FACES.get(path.stem, FACE_ROOM)
    FLOORS[parts[1]]
    return parts[1]


def broken_rule(source, target):
    """Why `source` may not include `target`, two paths relative to the source tree; None when it may."""
    if source.parts[0] != "perdure":
        if str(source).startswith(LABORATORY) or not str(target).startswith(LABORATORY) or "_test" in source.stem:
            return None
        return f"{source.parts[0]} includes {target}, which is the laboratory's"
    try:
        here, there = room_of(source), room_of(target)
    except KeyError as unknown:
        return f"perdure/{unknown.args[0]} has no floor; give it one in tests/check_floors.py"
    if here is None:
        return None
    if there is None:
        return f"the library includes {target}, which belongs to what judges or uses it"
    if here == there:
        return None
    if here in SEES_ONLY and there not in SEES_ONLY[here]:
        doors = ", ".join(f"perdure/{door}.h" for door in sorted(DOORS))
        return f"{here} includes {target}: {here} sees only perdure/base, {doors}"
    if FLOORS[there] > FLOORS[here]:
        return f"{here} (floor {FLOORS[here]}) includes {target} above it (floor {FLOORS[there]})"
    if FLOORS[there] == FLOORS[here]:
        return f"{here} includes {target}: rooms of one floor ({FLOORS[here]}) never see each other"
    return None


def violations(root):
    """Yields `file:line: rule` for every include under `root` that breaks a rule."""
    for file in sorted(file for room in PRODUCT for file in (root / room).rglob("*")):
        if file.suffix not in {".h", ".cc"}:
            continue
        source = file.relative_to(root)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            include = INCLUDE.match(line)
            if not include:
                continue
            bracket, name = include.groups()
            target = pathlib.Path(name)
            if bracket == '"' and source.parts[0] == "perdure" and target.parts[0] not in JUDGES | {"perdure"}:
                yield f'{source}:{number}: "{name}" is not spelt from the root of the source tree'
            elif target.parts[0] in JUDGES | {"perdure"}:
                rule = broken_rule(source, target)
                if rule:
                    yield f"{source}:{number}: {rule}"


# (file, what it includes, part of the complaint or None): each pair alone in a tree.
SELF_TEST = [
    ("perdure/base/words.h", '"perdure/error.h"', None),
    ("perdure/tx.h", '"perdure/base/words.h"', None),
    ("perdure/error.h", '"perdure/pool.h"', "above it (floor 6)"),
    ("perdure/base/words.h", '"perdure/domain/domain.h"', "above it (floor 2)"),
    ("perdure/domain/sync.cc", "<perdure/region/region.h>", "above it (floor 3)"),
    ("perdure/region/region.h", '"perdure/domain/domain.h"', None),
    ("perdure/region/region.h", '"perdure/region/layout.h"', None),
    ("perdure/log/ring.h", '"perdure/heap/heap.h"', "rooms of one floor (4)"),
    ("perdure/heap/heap.cc", '"perdure/log/ring.h"', "rooms of one floor (4)"),
    ("perdure/engine/redo.h", '"perdure/log/ring.h"', None),
    ("perdure/engine/redo.h", '"perdure/checkpoint/protocol.h"', "rooms of one floor (5)"),
    ("perdure/container/hash_map.h", '"perdure/tx.h"', None),
    ("perdure/container/hash_map.h", '"perdure/persistable.h"', None),
    ("perdure/container/hash_map.h", '"perdure/container/string.h"', None),
    ("perdure/container/hash_map.h", '"perdure/heap/heap.h"', "sees only"),
    ("perdure/container/hash_map.h", '"perdure/engine/engine.h"', "sees only"),
    ("perdure/container/hash_map.h", '"perdure/pool.h"', "sees only"),
    ("perdure/container/hash_map_test.cc", '"perdure/pool.h"', None),
    ("perdure/pool.h", '"perdure/api/pool_core.h"', None),
    ("perdure/api/pool.cc", '"perdure/engine/redo.h"', None),
    ("perdure/api/pool.cc", '"tools/report.h"', "what judges or uses it"),
    ("perdure/api/pool.cc", '"perdure/heap/heap_test_util.h"', "what judges or uses it"),
    ("perdure/heap/heap.cc", '"layout.h"', "not spelt from the root"),
    ("perdure/attic/old.h", '"perdure/error.h"', "has no floor"),
    ("perdure/heap/heap.cc", "<vector>", None),
    ("perdure/engine/redo.h", '"papers/blurred/blurred.h"', "what judges or uses it"),
    ("apps/kv/kv.cc", '"tools/command.h"', None),
    ("apps/kv/kv.cc", '"papers/pool.h"', "the laboratory's"),
    ("tools/command.h", '"papers/engine_kind.h"', "the laboratory's"),
    ("tools/perdure/check.cc", '"sim/crash/suite.h"', "the laboratory's"),
    ("tools/lab/explore.cc", '"sim/crash/suite.h"', None),
    ("apps/sqlite/torture_test.cc", '"papers/pool.h"', None),
]


def self_test():
    failures = 0
    for file, include, complaint in SELF_TEST:
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            (root / file).parent.mkdir(parents=True)
            (root / file).write_text(f"// {include}\n#include {include}\n", encoding="utf-8")
            found = list(violations(root))
        expected = found == [] if complaint is None else (
            len(found) == 1 and found[0].startswith(f"{file}:2: ") and complaint in found[0])
        if not expected:
            failures += 1
            print(f"{file} includes {include}: expected {complaint or 'no complaint'}, found {found}")
    print(f"{len(SELF_TEST) - failures} of {len(SELF_TEST)} cases as expected")
    return 1 if failures else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    root = pathlib.Path(arguments[0] if arguments else ".")
    if not (root / "perdure").is_dir():
        print(f"{root}: no folder perdure/ to check", file=sys.stderr)
        return 2
    found = list(violations(root))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

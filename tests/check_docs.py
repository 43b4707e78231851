#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that what the documents name exists: links, files, verbs of ./do, commands.

In every *.md of the source tree,
  - a relative link leads to a file or folder, and its #anchor to a heading there;
  - a path in `code` exists, spelt from the root of the source tree (`*` stands for any part of a name). A path is what
    begins with a folder of the tree or ends as a source file does;
  - `./do VERB` is a verb of ./do;
  - `perdure COMMAND` and `perdure-lab COMMAND` are commands, each of its own program;
  - a code block under `<!-- FILE -->` stands in FILE, word for word.
In every source, a document that is named exists.

usage: check_docs.py [SOURCE_DIR]     exit 1 and one line `file:line: what is wrong` per violation
       check_docs.py --self-test      proves that it finds what it must find
"""

import fnmatch
import os
import pathlib
import re
import sys
import tempfile

# What perdure-lab can; everything else is perdure's.
LAB_COMMANDS = {"bench", "reproduce", "sim", "explore", "torture", "mutants"} | {
    f"ldap {command}" for command in ("bench", "demo", "slapd")
}
# Folders that a build or a program makes.
NOT_OURS = {"build", "data", ".git"}
SOURCE_ENDINGS = {"h", "cc", "c", "py", "sh", "md", "cmake"}

LINK = re.compile(r"\]\(([^()\s]+)\)")
INLINE_CODE = re.compile(r"`([^`]+)`")
PATH = re.compile(r"(?:\./)?[\w.*+-]+(?:/[\w.*+-]+)*/?")
DO_VERB = re.compile(r"\./do ([a-z][\w-]*)")
COMMAND = re.compile(r"(?<![\w./-])(perdure(?:-lab)?) ((?:ldap )?[a-z][a-z-]*)(?![\w./=-])")
NAMED_DOCUMENT = re.compile(r"(?<![\w/])((?:docs|papers)/[\w/-]+\.md)")
QUOTED_FILE = re.compile(r"<!-- ([\w./-]+) -->\n```\w*\n(.*?)```", re.DOTALL)


class Tree:
    """The source tree below `root`."""

    def __init__(self, root):
        self.root = root
        self.files = []
        for folder, subfolders, names in os.walk(root):
            if folder == str(root):
                subfolders[:] = set(subfolders) - NOT_OURS
            subfolders.sort()
            self.files += [pathlib.Path(folder, name) for name in sorted(names)]
        self.folders = {file.relative_to(root).parts[0] for file in self.files if file.parent != root}
        self.names = {file.name for file in self.files}
        self.verbs = set()
        if (root / "do").exists():
            script = (root / "do").read_text(encoding="utf-8")
            self.verbs |= set(re.findall(r"^verb_([\w-]+)\(\)", script, re.MULTILINE))
        # A command's name is a literal in a source that adds commands.
        self.literals = set()
        for path in self.files:
            if path.suffix == ".cc":
                text = path.read_text(encoding="utf-8")
                if "add_subcommand" in text:
                    self.literals |= set(re.findall(r'"([a-z][a-z-]*)"', text))

    def has_name(self, name):
        return any(fnmatch.fnmatch(known, name) for known in self.names)

    def has(self, path):
        path = path.removeprefix("./").rstrip("/")
        return any(self.root.glob(path)) if "*" in path else (self.root / path).exists()


def anchor_of(heading):
    """The #anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def wrong_link(tree, page, target):
    path, _, anchor = target.partition("#")
    if re.match(r"[a-z]+:", target):
        return None
    led_to = (page.parent / path).resolve() if path else page
    if not led_to.exists():
        return f"the link {target} leads nowhere"
    if anchor and led_to.suffix == ".md":
        headings = re.findall(r"^#+ (.*)", led_to.read_text(encoding="utf-8"), re.MULTILINE)
        if anchor not in map(anchor_of, headings):
            return f"the link {target} leads to no heading"
    return None


def wrong_path(tree, word):
    """What is wrong with a word of `code`, if it is a path at all."""
    if not PATH.fullmatch(word):
        return None
    is_source = word.rpartition(".")[2] in SOURCE_ENDINGS and "." in word
    if "/" not in word.rstrip("/"):
        return f"no file is called {word}" if is_source and not tree.has_name(word) else None
    first = word.removeprefix("./").split("/")[0]
    if (first in tree.folders or is_source) and first not in NOT_OURS and not tree.has(word):
        return f"{word} does not exist (paths are spelt from the root)"
    return None


def wrong_commands(tree, text):
    for verb in DO_VERB.findall(text):
        if verb not in tree.verbs:
            yield f"./do has no verb {verb}"
    for program, command in COMMAND.findall(text):
        if command.split()[-1] not in tree.literals:
            yield f"{program} has no command {command}"
        elif (command in LAB_COMMANDS) != (program == "perdure-lab"):
            yield f"{command} is a command of {'perdure-lab' if command in LAB_COMMANDS else 'perdure'}"


def violations_of_page(tree, page):
    """Yields (offset, what is wrong) for everything that the document names in vain."""
    text = page.read_text(encoding="utf-8")
    for quoted in QUOTED_FILE.finditer(text):
        source = tree.root / quoted[1]
        if not source.exists():
            yield quoted.start(), f"{quoted[1]} does not exist"
        elif quoted[2] not in source.read_text(encoding="utf-8"):
            yield quoted.start(), f"this is not what {quoted[1]} says"
    # Blocks keep their length, so that offsets hold.
    blocks = list(re.finditer(r"^```.*?^```", text, re.DOTALL | re.MULTILINE))
    prose = text
    for block in blocks:
        prose = prose[: block.start()] + " " * len(block[0]) + prose[block.end() :]
        for wrong in wrong_commands(tree, block[0]):
            yield block.start(), wrong
    for link in LINK.finditer(prose):
        if wrong := wrong_link(tree, page, link[1]):
            yield link.start(), wrong
    for code in INLINE_CODE.finditer(prose):
        for wrong in wrong_commands(tree, code[1].replace("\n", " ")):
            yield code.start(), wrong
        words = code[1].split()
        for word in words:
            # In a command line a bare name is some file of the user's.
            if "/" not in word and len(words) > 1:
                continue
            if wrong := wrong_path(tree, word.strip("(),;:'\"")):
                yield code.start(), wrong


def violations(root):
    tree = Tree(root.resolve())
    for file in tree.files:
        name = file.relative_to(tree.root)
        if file.suffix == ".md":
            text = file.read_text(encoding="utf-8")
            for offset, wrong in violations_of_page(tree, file):
                yield f"{name}:{text.count(chr(10), 0, offset) + 1}: {wrong}"
        elif file.suffix in {".h", ".cc", ".c", ".cmake", ".in", ".txt", ""} or file.name == "do":
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            for number, line in enumerate(lines, start=1):
                for document in NAMED_DOCUMENT.findall(line):
                    if not tree.has(document):
                        yield f"{name}:{number}: {document} does not exist"


# (text of docs/PAGE.md, part of the complaint or None): each alone in the tree of self_test().
SELF_TEST = [
    ("[here](OTHER.md) and [there](../perdure/pool.h), [a part](OTHER.md#a-part-of-it)", None),
    ("[gone](GONE.md)", "leads nowhere"),
    ("[gone](OTHER.md#gone)", "leads to no heading"),
    ("[outside](https://example.org/x)", None),
    ("`perdure/pool.h`, `perdure/`, `perdure/*.h`, `pool.h`, `*ool.h`, `build/dev/x.h`, `shop.db`, `gcc x.c`", None),
    ("`perdure/gone.h`", "perdure/gone.h does not exist"),
    ("`perdure/gone/`", "perdure/gone/ does not exist"),
    ("`engine/pool.h`", "engine/pool.h does not exist"),
    ("`perdure/gone_*.h`", "does not exist"),
    ("`gone.h`", "no file is called gone.h"),
    ("`unix/wal/full`", None),
    ("`./do run` and\n```\n./do run   # it\n```", None),
    ("```\n./do gone\n```", "no verb gone"),
    ("`perdure check FILE`, `perdure-lab\nbench`, `perdure/pool.h`", None),
    ("`perdure bench`", "bench is a command of perdure-lab"),
    ("`perdure ldap bench`", "ldap bench is a command of perdure-lab"),
    ("`perdure ldap check`, `perdure-lab ldap bench`", None),
    ("`perdure-lab check`", "check is a command of perdure"),
    ("```\nperdure gone FILE\n```", "perdure has no command gone"),
    ("<!-- perdure/pool.h -->\n```cpp\nclass Pool;\n```", None),
    ("<!-- perdure/pool.h -->\n```cpp\nclass Lake;\n```", "not what perdure/pool.h says"),
]


def self_test():
    failures = 0
    for text, expected in SELF_TEST:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, content in {
                "do": "verb_run() {\n",
                "perdure/pool.h": "// docs/OTHER.md\nclass Pool;\n",
                "tools/main.cc": 'app.add_subcommand("check"); app.add_subcommand("bench");\n',
                "docs/OTHER.md": "# A part of it\n",
                "docs/PAGE.md": text + "\n",
            }.items():
                (root / name).parent.mkdir(exist_ok=True)
                (root / name).write_text(content, encoding="utf-8")
            found = list(violations(root))
        right = found == [] if expected is None else len(found) == 1 and expected in found[0]
        if not right:
            failures += 1
            print(f"self-test: {text!r}: expected {expected!r}, found {found}")
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "a.h").write_text("// see docs/GONE.md\n", encoding="utf-8")
        if list(violations(root)) != ["a.h:1: docs/GONE.md does not exist"]:
            failures += 1
            print("self-test: a source that names a document which is gone passed")
    return failures


def main(arguments):
    if arguments == ["--self-test"]:
        return 1 if self_test() else 0
    root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parent.parent
    found = list(violations(root))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
"""Prints which numbered rules and faults have a test, as a Markdown table.

Tests carry the ids in brackets at the end of their names: "A relative Location resolves … [S76 F021]". Scripts below Tests carry
those of what they show in comments, in the same way; they count only where a script that job.sh starts leads to them. rows.tsv has
every id with a title and, where no test carries it, the reason. Exit status 1: an id is neither covered nor
explained, explained although covered, a test carries an id that is not in the list, or a reason names a suite of tests, a
member of a type or a path that is not there. `--check` tries this last check with reasons that are wrong.
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ID = r"(?:F\d{3}|[SVRG]\d{1,3})"
TAGS = re.compile(r'"((?:[^"\\\n]|\\.)*?)\[(' + ID + r"(?:[ ,]+" + ID + r')*)\]"')
SCRIPT_TAGS = re.compile(r"\[(" + ID + r"(?:[ ,]+" + ID + r")*)\]")
# What a reason may name: a suite or a target of tests, a member of a type (not a file with an ending), and a path.
SUITE = re.compile(r"(?<![\w/.])([A-Z]\w*Tests)\b(?!/)")
MEMBER = re.compile(r"(?<![\w/.])([A-Z]\w*)\.(\w+)\b(?![/(]?\w)")
PATH = re.compile(r"(?<![\w/.])((?:Tests|Sources|Documentation|Examples|Package|Packaging)/[\w./-]*\w)")
KINDS = {
    "F": "Faults",
    "S": "Behaviour",
    "V": "Attacks",
    "R": "Resuming",
    "G": "Goals",
}


def tags(root):
    """Ids in the names of tests, with where they stand."""
    found = {}
    for path in sorted(root.glob("*/**/*.swift")):
        if path.parent.name == "SyncTestKitTests":
            continue
        for match in TAGS.finditer(path.read_text(encoding="utf-8")):
            for name in re.findall(ID, match.group(2)):
                found.setdefault(name, set()).add(path.parent.name)
    for path in scripts(root):
        for match in SCRIPT_TAGS.finditer(path.read_text(encoding="utf-8")):
            for name in re.findall(ID, match.group(1)):
                found.setdefault(name, set()).add(f"Tests/{path.relative_to(root)}")
    return found


def scripts(root):
    """The scripts that job.sh starts, and those that they name."""
    known = {path.name: path for folder in (".", "evidence", "faults") for path in (root / folder).glob("*.*")
             if path.suffix in (".sh", ".py") and path.name not in ("run.sh", "job.sh", "coverage.sh")}
    reached, pending = set(), [root / "job.sh"]
    while pending:
        text = pending.pop().read_text(encoding="utf-8")
        for name in re.findall(r"[\w-]+\.(?:sh|py)\b", text):
            if name in known and known[name] not in reached:
                reached.add(known[name])
                pending.append(known[name])
    return sorted(reached)


def rows():
    """Ids, titles and reasons, in the order of the list."""
    listed = {}
    for number, line in enumerate((HERE / "rows.tsv").read_text(encoding="utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        cells = line.split("\t")
        if len(cells) not in (2, 3) or not re.fullmatch(ID, cells[0]) or cells[0] in listed:
            sys.exit(f"rows.tsv:{number}: an id not listed before, a title and perhaps a reason are due")
        listed[cells[0]] = (cells[1], cells[2] if len(cells) == 3 else "")
    return listed


class Tree:
    """What there is to be named: types with what they declare, targets of tests, paths."""

    DECLARED = re.compile(r"\b(?:struct|class|enum|actor|protocol|extension|typealias)\s+((?:\w+\.)*\w+)")
    MEMBERS = re.compile(r"\b(?:func|var|let|case|typealias)\s+`?(\w+)")

    def __init__(self, root):
        self.root = root
        self.types, self.suites = {}, {path.name for path in (root / "Tests").iterdir() if path.is_dir()}
        for folder in ("Sources", "Tests"):
            for path in (root / folder).rglob("*.swift"):
                text = path.read_text(encoding="utf-8")
                names = {name.rsplit(".", 1)[-1] for name in self.DECLARED.findall(text)}
                if folder == "Tests":
                    self.suites |= names
                for name in names:
                    self.types.setdefault(name, set()).update(self.MEMBERS.findall(text), names)

    def missing(self, reason):
        """What a reason names and is not there."""
        for name in SUITE.findall(reason):
            if name not in self.suites:
                yield f"there is no suite {name}"
        for name, member in MEMBER.findall(reason):
            if member not in self.types.get(name, ()):
                yield f"there is no {name}.{member}"
        for path in PATH.findall(reason):
            if not (self.root / path).exists():
                yield f"there is no {path}"


def check(tree):
    """Whether each kind of name is missed where it is wrong, and none where it is right."""
    wrong = [
        ("looked up in the index: NobodysTests; no test carries it", "there is no suite NobodysTests"),
        ("looked at when it is made (Nobody.check)", "there is no Nobody.check"),
        ("looked at when it is made (Libcurl.nothing)", "there is no Libcurl.nothing"),
        ("Tests/evidence/nothing.sh does it", "there is no Tests/evidence/nothing.sh"),
        ("measured: Tests/nothing.", "there is no Tests/nothing"),
    ]
    right = [
        "agents.sh list: an agent has all; BanTests and SyncEngineTests look on (Libcurl.check)",
        "measured: Tests/evidence. Tests/sanitize.sh",
        "Sources/SyncEngine/Run/PullEngine.swift and its tests",
    ]
    for reason, problem in wrong:
        if list(tree.missing(reason)) != [problem]:
            yield f"coverage.py: of “{reason}” is said {list(tree.missing(reason))}, not “{problem}”"
    for reason in right:
        for problem in tree.missing(reason):
            yield f"coverage.py: of “{reason}” is said “{problem}”"


def main():
    tree = Tree(HERE.parent.parent)
    failed = list(check(tree))
    if failed or sys.argv[1:] == ["--check"]:
        print("\n".join(failed) or "names that are not there are found", file=sys.stderr)
        return 1 if failed else 0
    found, listed, problems = tags(HERE.parent), rows(), []
    problems += [f"{name}: a test has it, rows.tsv has not" for name in sorted(found.keys() - listed.keys())]
    for letter, kind in KINDS.items():
        names = [name for name in listed if name.startswith(letter)]
        covered = [name for name in names if name in found]
        print(f"\n## {kind}: {len(covered)} of {len(names)} have tests\n")
        print("| id | what | tests in, or why there are none |\n| --- | --- | --- |")
        for name in names:
            title, reason = listed[name]
            problems += [f"{name}: {what}, which rows.tsv names" for what in tree.missing(reason)]
            if name in found and reason:
                problems.append(f"{name}: has a test and a reason for none; take the reason out of rows.tsv")
            if name not in found and not reason:
                problems.append(f"{name} ({title}): has neither a test nor a reason in rows.tsv")
            shown = ", ".join(sorted(found[name])) if name in found else f"none: {reason or '?'}"
            print(f"| {name} | {title} | {shown} |")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

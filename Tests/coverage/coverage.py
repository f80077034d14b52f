#!/usr/bin/env python3
"""Prints which numbered rules and faults have a test, as a Markdown table.

Tests carry the ids in brackets at the end of their names: "A relative Location resolves … [S76 F021]". rows.tsv has
every id with a title and, where no test carries it, the reason. Exit status 1: an id is neither covered nor
explained, explained although covered, or a test carries an id that is not in the list.
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ID = r"(?:F\d{3}|[SVRG]\d{1,3})"
TAGS = re.compile(r'"((?:[^"\\\n]|\\.)*?)\[(' + ID + r"(?:[ ,]+" + ID + r')*)\]"')
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
        if path.parent.name in ("SyncTestKitTests", "SoundnessTests"):
            continue
        for match in TAGS.finditer(path.read_text(encoding="utf-8")):
            for name in re.findall(ID, match.group(2)):
                found.setdefault(name, set()).add(path.parent.name)
    return found


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


def main():
    found, listed, problems = tags(HERE.parent), rows(), []
    problems += [f"{name}: a test has it, rows.tsv has not" for name in sorted(found.keys() - listed.keys())]
    for letter, kind in KINDS.items():
        names = [name for name in listed if name.startswith(letter)]
        covered = [name for name in names if name in found]
        print(f"\n## {kind}: {len(covered)} of {len(names)} have tests\n")
        print("| id | what | tests in, or why there are none |\n| --- | --- | --- |")
        for name in names:
            title, reason = listed[name]
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

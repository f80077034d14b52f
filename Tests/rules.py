#!/usr/bin/env python3
"""Checks that every rule code used in the sources and tests is explained in Documentation/development/Rules.md.

A code is a letter and a number, such as S24, V29, F087, R5 or G3. Rules.md explains each on a table row of its own
that begins with the code. Exit status 1: a code has no row, or two.

usage: Tests/rules.py
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RULES = ROOT / "Documentation" / "development" / "Rules.md"
# F001 … F126 have three digits; so letters and digits in hexadecimal numbers are no codes.
CODE = re.compile(r"(?<![\w%])(?:F\d{3}|[SVRG][1-9]\d{0,2})(?!\w)")
ROW = re.compile(r"^\| (F\d{3}|[SVRG][1-9]\d{0,2}) \| *(.*?) *\|$")
# Pictures have path commands that look like codes.
SUFFIXES = {".swift", ".h", ".c", ".py", ".sh", ".md", ".tsv"}


def explained(problems):
    """The codes that Rules.md explains."""
    found = set()
    for number, line in enumerate(RULES.read_text(encoding="utf-8").splitlines(), 1):
        row = ROW.match(line)
        if not row:
            continue
        code, text = row.groups()
        if code in found:
            problems.append(f"Rules.md:{number}: {code} has a row already")
        if not text:
            problems.append(f"Rules.md:{number}: {code} is not explained")
        found.add(code)
    return found


def used():
    """Each code with the first place where it stands."""
    places = {}
    for top in ("Sources", "Tests"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix not in SUFFIXES or not path.is_file() or path == pathlib.Path(__file__).resolve():
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
            for number, line in enumerate(text.splitlines(), 1):
                for code in CODE.findall(line):
                    places.setdefault(code, f"{path.relative_to(ROOT)}:{number}")
    return places


def main():
    problems = []
    rules, places = explained(problems), used()
    problems += [
        f"{places[code]}: {code} has no row in Documentation/development/Rules.md" for code in sorted(places.keys() - rules)
    ]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    print(f"{len(rules)} codes, {len(places)} used, all resolved")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Checks that the sources emit each event of the one list, and name none as text.

Documentation/reference/Events.md is compared with that list by Tests/SyncModelTests/EventFieldsTests.swift. Exit status 1: an event is
emitted nowhere, or is no case of the list.

usage: Tests/events.py
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAME = r"([a-z][a-z_]*(?:\.[a-z_]+)?)"
# The one list of names, and how the sources say one: by its case.
LIST = ROOT / "Sources" / "SyncModel" / "EventName.swift"
LISTED = re.compile(rf'\bcase (\w+) = "{NAME}"')
# A name that the sources still write as text would be missing in the list.
WRITTEN = re.compile(rf'\b(?:SyncEvent\(|field\(\s*"event",)\s*"{NAME}"')
# Has made-up events, with which plugins are checked.
LEFT_OUT = ROOT / "Sources" / "SyncPluginHost" / "Points" / "Observer.swift"


def main():
    listed = dict(LISTED.findall(LIST.read_text(encoding="utf-8")))
    problems, said = [], set()
    for path in sorted((ROOT / "Sources").rglob("*.swift")):
        where = path.relative_to(ROOT)
        if path in (LIST, LEFT_OUT):
            continue
        # Comments show events, too.
        lines = path.read_text(encoding="utf-8").splitlines()
        text = "\n".join(line for line in lines if not line.lstrip().startswith("//"))
        problems += [f"{where}: {name} is written as text; it is a case of EventName" for name in WRITTEN.findall(text)]
        said.update(re.findall(r"\.(\w+)\b", text))
    problems += [f"{LIST.name}: {name} is said nowhere" for case, name in sorted(listed.items()) if case not in said]
    if not listed:
        problems.append(f"{LIST.name}: no event found")
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    print(f"{len(listed)} events, all emitted")
    return 0


if __name__ == "__main__":
    sys.exit(main())

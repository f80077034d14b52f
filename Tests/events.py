#!/usr/bin/env python3
"""Checks that Documentation/Events.md and the sources agree on which events there are.

Every name that the sources emit has a section in Events.md and the other way round; the example of each section is
JSON, is of that event, and has no field that the section does not explain. Exit status 1: they differ.

usage: Tests/events.py
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "Documentation" / "Events.md"
NAME = r"([a-z][a-z_]*(?:\.[a-z_]+)?)"
# The one list of names, and how the sources say one: by its case.
LIST = ROOT / "Sources" / "SyncModel" / "EventName.swift"
LISTED = re.compile(rf'\bcase (\w+) = "{NAME}"')
# A name that the sources still write as text would be missing in the list.
WRITTEN = re.compile(rf'\b(?:SyncEvent\(|field\(\s*"event",|ObservedEvent\(\s*name:)\s*"{NAME}"')
# Made-up events for plugins and tests.
LEFT_OUT = {"SyncTestKit", "SyncPluginChecks"}

SECTION = re.compile(r"^### `([a-z_.]+)`$")
FIELD = re.compile(r"^\| ((?:`[a-z0-9_]+`(?:, )?)+) \|")
# Fields that "In every event" explains.
COMMON = {"event", "time", "seq", "session", "run"}


def emitted(problems):
    """Each name that the sources say, with the file that does."""
    listed = dict(LISTED.findall(LIST.read_text(encoding="utf-8")))
    names = {}
    for path in sorted((ROOT / "Sources").rglob("*.swift")):
        where = path.relative_to(ROOT)
        if where.parts[1] in LEFT_OUT or path == LIST:
            continue
        # Comments show events, too.
        lines = path.read_text(encoding="utf-8").splitlines()
        text = "\n".join(line for line in lines if not line.lstrip().startswith("//"))
        problems += [f"{where}: {name} is written as text; it is a case of EventName" for name in WRITTEN.findall(text)]
        for case in re.findall(r"\.(\w+)\b", text):
            if case in listed:
                names.setdefault(listed[case], where)
    problems += [f"{LIST.name}: {name} is said nowhere" for name in sorted(set(listed.values()) - names.keys())]
    return names


def sections(problems):
    """The names that Events.md explains; their examples are checked on the way."""
    names, name, fields, is_example = {}, None, set(), False
    examples = []
    for number, line in enumerate(PAGE.read_text(encoding="utf-8").splitlines(), 1):
        heading = SECTION.match(line)
        if heading:
            name, fields = heading.group(1), set()
            if name in names:
                problems.append(f"Events.md:{number}: {name} has a section already")
            names[name] = fields
        elif line.startswith("```"):
            is_example = line == "```json"
        elif is_example and name:
            examples.append((number, name, line))
        elif name and FIELD.match(line):
            fields.update(re.findall(r"`([a-z0-9_]+)`", FIELD.match(line).group(1)))
    for number, name, line in examples:
        try:
            event = json.loads(line)
        except ValueError as error:
            problems.append(f"Events.md:{number}: no JSON: {error}")
            continue
        if event.get("event") != name:
            problems.append(f"Events.md:{number}: an example of {event.get('event')} in the section of {name}")
        for field in sorted(event.keys() - names[name] - COMMON):
            problems.append(f"Events.md:{number}: {name} has a field '{field}' that is not explained")
    for name in sorted(names.keys() - {name for _, name, _ in examples}):
        problems.append(f"Events.md: {name} has no example")
    return names


def main():
    problems = []
    explained, found = sections(problems), emitted(problems)
    problems += [f"{found[name]}: emits {name}, which Events.md has not" for name in sorted(found.keys() - explained)]
    problems += [f"Events.md: {name} is emitted nowhere" for name in sorted(explained.keys() - found.keys())]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    print(f"{len(found)} events, all explained")
    return 0


if __name__ == "__main__":
    sys.exit(main())

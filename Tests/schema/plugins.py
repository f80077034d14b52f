#!/usr/bin/env python3
"""Checks recorded conversations with plugins against Manifests/plugin-protocol.schema.json.

    plugins.py RECORD…        one JSON array a line: ["to" or "from", the message]

An answer's result is checked by the method of its request. Exit status: 0 all as it should be, 1 something is not,
2 the check cannot run. Needs python3-jsonschema.
"""

import json
import pathlib
import sys

try:
    import jsonschema
except ImportError:
    print("plugin schema check NOT RUN: python3 has no jsonschema; apt-get install python3-jsonschema", file=sys.stderr)
    sys.exit(2)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCHEMA = json.loads((ROOT / "Manifests/plugin-protocol.schema.json").read_text(encoding="utf-8"))


def validator(name):
    return jsonschema.Draft202012Validator({**SCHEMA, "oneOf": [{"$ref": f"#/$defs/{name}"}]})


def faults(record):
    """What is wrong with one conversation, and the methods in it."""
    methods, found = {}, []
    for number, line in enumerate(record.read_text(encoding="utf-8").splitlines(), 1):
        direction, message = json.loads(line)
        checks = [(f"{direction}Plugin", message)]
        if direction == "to" and "id" in message:
            methods[message["id"]] = message["method"]
        elif "result" in message:
            checks.append((f"result.{methods.get(message['id'], 'of no request')}", message["result"]))
        for name, value in checks:
            if name not in SCHEMA["$defs"]:
                found.append(f"{record.name}:{number}: no schema {name}")
            elif not validator(name).is_valid(value):
                found.append(f"{record.name}:{number}: not a {name}: {json.dumps(value)[:300]}")
    return found, set(methods.values())


def main():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    wrong, seen, count = [], set(), 0
    for name in sys.argv[1:]:
        found, methods = faults(pathlib.Path(name))
        wrong += found
        seen |= methods
        count += 1
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{count} conversations, methods: {' '.join(sorted(seen))}")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())

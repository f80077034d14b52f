#!/usr/bin/env python3
"""Checks Manifests/samples against Manifests/manifest.schema.json.

Every sample is valid. Of samples/invalid, the schema refuses each one that a schema can refuse: the others are
listed here, with what they are about, and a sample that is listed wrongly is an error too.

Exit status: 0 all as it should be, 1 something is not, 2 the check cannot run. Needs python3-jsonschema.
"""

import json
import pathlib
import sys

try:
    import jsonschema
except ImportError:
    print("schema check NOT RUN: python3 has no jsonschema; apt-get install python3-jsonschema", file=sys.stderr)
    sys.exit(2)

# What only a reader sees.
BEYOND_A_SCHEMA = {
    "duplicate-key": "json.load keeps the last of two keys",
    "duplicate-key-escaped": "json.load keeps the last of two keys",
    "deep": "depth of a value that is not read",
    "link-leaves-tree": "where a link leads",
    "link-through-link": "where a link leads",
    "path-twice": "two entries together",
    "path-twice-normalised": "two entries together",
    "path-is-directory": "two entries together",
    "path-through-link": "two entries together",
    "directory-is-file": "two entries together",
    "pack-twice": "two packs together",
    "blob-no-such-pack": "a blob and a pack together",
    "blob-outside-pack": "a blob and a pack together",
    "dictionary-missing": "a blob and another key together",
    "blob-overflow": "a sum",
    "blob-bomb": "a ratio",
    "blobs-of-other-size": "a sum",
    "part-no-such-pack": "a part and a pack together",
    "part-outside-pack": "a part and a pack together",
    "parts-too-many-entries": "a sum",
    "size-float": "to a schema, 1.0 is an integer",
}

# The same for samples/invalid-parts, texts of parts.
PARTS_BEYOND_A_SCHEMA = {
    "order": "two entries together",
    "twice": "two entries together",
    "directory": "two entries together",
    "too-many": "what the root says",
    "too-few": "what the root says",
    "pack-not-in-root": "what the root says",
    "pack-twice": "two digests of either case",
    "no-such-pack": "a blob and a pack together",
    "outside-pack": "a blob and a pack together",
}


def load(path):
    """The value of a JSON text, or None where it is no JSON; Python alone would take NaN."""

    def refuse(constant):
        raise ValueError(constant)

    try:
        return json.loads(path.read_bytes().decode("utf-8"), parse_constant=refuse)
    except ValueError:
        return None


def main():
    root = pathlib.Path(__file__).resolve().parent.parent.parent / "Manifests"
    schema = load(root / "manifest.schema.json")
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    wrong = []

    part_validator = jsonschema.Draft202012Validator({"$defs": schema["$defs"], "$ref": "#/$defs/partText"})
    good = sorted(root.glob("samples/*.json")) + sorted(root.glob("samples/*/manifest.json"))
    for path in good:
        value = load(path)
        if value is None:
            wrong.append(f"{path.relative_to(root)}: no JSON")
            continue
        for error in validator.iter_errors(value):
            wrong.append(f"{path.relative_to(root)}: {error.json_path}: {error.message[:200]}")

    bad = sorted(root.glob("samples/invalid/*.json"))
    for path in bad:
        value = load(path)
        refused = value is None or not validator.is_valid(value)
        if refused == (path.stem in BEYOND_A_SCHEMA):
            wrong.append(f"{path.relative_to(root)}: the schema {'refuses' if refused else 'accepts'} it")
    bad_parts = sorted(root.glob("samples/invalid-parts/*.json"))
    for path in bad_parts:
        value = load(path)
        refused = value is None or not part_validator.is_valid(value)
        if refused == (path.stem in PARTS_BEYOND_A_SCHEMA):
            wrong.append(f"{path.relative_to(root)}: the schema {'refuses' if refused else 'accepts'} it")
    for name in BEYOND_A_SCHEMA.keys() - {path.stem for path in bad}:
        wrong.append(f"samples/invalid/{name}.json: listed, but not there")

    for name in PARTS_BEYOND_A_SCHEMA.keys() - {path.stem for path in bad_parts}:
        wrong.append(f"samples/invalid-parts/{name}.json: listed, but not there")

    if len(good) < 5 or len(bad) < 20 or len(bad_parts) < 15:
        wrong.append(f"only {len(good)} samples and {len(bad)} invalid ones found")
    for line in wrong:
        print(line, file=sys.stderr)
    if not wrong:
        print(f"schema: {len(good)} samples valid; {len(bad)} invalid ones, {len(bad) - len(BEYOND_A_SCHEMA)} refused")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

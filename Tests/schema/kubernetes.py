#!/usr/bin/env python3
"""Checks the examples for Kubernetes against the schemas that it publishes, of every version that this knows, and strictly: a key
that no schema has is wrong. Then each of them is broken on purpose, and must be refused.

    Tests/schema/kubernetes.py        needs the Python module kubernetes_validate, which brings the schemas

Exit status: 0 all are right, 1 not, 77 the module is not here.
"""

import copy
import os
import sys

try:
    import kubernetes_validate
    import yaml
    from kubernetes_validate import utils
except ImportError:
    print("SKIPPED: examples for Kubernetes against its schemas: no Python module kubernetes_validate")
    sys.exit(77)

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "Examples", "kubernetes")


def documents():
    for name in sorted(os.listdir(EXAMPLES)):
        if name.endswith(".yaml"):
            with open(os.path.join(EXAMPLES, name)) as file:
                for document in yaml.safe_load_all(file):
                    yield name, document


def broken(document):
    """The same with one thing wrong: a key that there is not, a number for a word, what is required left out."""
    misspelled = copy.deepcopy(document)
    misspelled["spec"]["paralelism"] = 4
    yield "a misspelled key", misspelled
    kind = copy.deepcopy(document)
    kind["spec"] = 5
    yield "a number for an object", kind
    for rule in document["spec"].get("podFailurePolicy", {}).get("rules", []):
        if "onPodConditions" in rule:
            without = copy.deepcopy(document)
            for one in without["spec"]["podFailurePolicy"]["rules"]:
                for condition in one.get("onPodConditions", []):
                    del condition["status"]
            yield "a condition without its status", without


def main():
    failed, checked, refused = 0, 0, 0
    versions = list(dict.fromkeys(one for one in utils.all_versions() if tuple(map(int, one.split(".")[:2])) >= (1, 29)))
    if not versions:
        sys.exit("FAILED: kubernetes_validate knows no version of Kubernetes from 1.29 on")
    for version in versions:
        for name, document in documents():
            label = f"{name}, {document['kind']} {document['metadata']['name']}, Kubernetes {version}"
            try:
                kubernetes_validate.validate(document, version, strict=True)
                checked += 1
            except kubernetes_validate.ValidationError as error:
                print(f"FAILED: {label}: {'.'.join(map(str, error.path))}: {error.message}")
                failed += 1
    for name, document in documents():
        for what, wrong in broken(document):
            try:
                # The first of them: the last has made some of what was required optional.
                kubernetes_validate.validate(wrong, versions[0], strict=True)
                print(f"FAILED: {name}, {document['metadata']['name']}: {what} is not refused")
                failed += 1
            except kubernetes_validate.ValidationError:
                refused += 1
    print(f"{checked} documents hold in {len(versions)} versions of Kubernetes, {versions[0]} to {versions[-1]}; {refused} broken ones are refused")
    return 1 if failed or not checked or not refused else 0


if __name__ == "__main__":
    sys.exit(main())

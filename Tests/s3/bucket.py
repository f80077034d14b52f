"""What boto3 sees of a bucket: bucket.py make|check|count|objects|drop BUCKET [PREFIX].

Or, with "answer" and nothing else: of one line of standard input after another, and what is wrong, or "ok", is printed for each.
"""

import hashlib
import json
import os
import sys
import time

import boto3

s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])


def objects(bucket, prefix):
    found = {}
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for entry in page.get("Contents", []):
            found[entry["Key"][len(prefix):]] = entry["Size"]
    return found


def body(bucket, key):
    return s3.get_object(Bucket=bucket, Key=key)["Body"].read()


def check(bucket, prefix):
    """Every pack is what its name says, and everything that a manifest names is there."""
    for _ in range(10):
        try:
            return look(bucket, prefix)
        except s3.exceptions.NoSuchKey:
            # A prune that was killed had asked for more than was done when it ended: the bucket goes on with that for a moment.
            time.sleep(0.2)
    look(bucket, prefix)


def look(bucket, prefix):
    there = objects(bucket, prefix)
    for name in there:
        if name.startswith("packs/"):
            digest = hashlib.sha256(body(bucket, prefix + name)).hexdigest()
            if name != f"packs/{digest}.pack":
                sys.exit(f"{name} has the digest {digest}")
    if "manifest.json" not in there:
        return
    manifest = json.loads(body(bucket, prefix + "manifest.json"))
    missing = [pack["url"] for pack in manifest["packs"] if pack["url"] not in there]
    if missing:
        sys.exit(f"revision {manifest['revision']} names {missing}, which are not there")


def main(words):
    verb, bucket = words[:2]
    prefix = words[2] + "/" if len(words) > 2 else ""
    if verb == "make":
        s3.create_bucket(Bucket=bucket)
    elif verb == "check":
        check(bucket, prefix)
    elif verb == "count":
        print(len([name for name in objects(bucket, prefix) if name.startswith("packs/")]))
    elif verb == "objects":
        for name, size in sorted(objects(bucket, prefix).items()):
            print(size, name)
    elif verb == "drop":
        for name in objects(bucket, prefix):
            s3.delete_object(Bucket=bucket, Key=prefix + name)


def answer():
    for line in sys.stdin:
        try:
            main(line.split())
            print("ok", flush=True)
        except (Exception, SystemExit) as error:
            print(str(error).replace("\n", " ") or "nothing said", flush=True)


if sys.argv[1:] == ["answer"]:
    answer()
else:
    main(sys.argv[1:])

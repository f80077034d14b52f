"""Pushes and pulls artifacts with the client oras, from PyPI.

    oras-client.py push TARGET DIRECTORY      every file below it, by its path
    oras-client.py pack TARGET DIRECTORY      the directory, as one layer
    oras-client.py pull TARGET DIRECTORY
"""

import json
import os
import sys
import tempfile

import oras.client

verb, target, directory = sys.argv[1:]
client = oras.client.OrasClient(insecure=True)
if verb == "pull":
    client.pull(target=target, outdir=directory)
elif verb == "pack":
    os.chdir(os.path.dirname(directory))
    client.push(target=target, files=[os.path.basename(directory)], quiet=True)
else:
    os.chdir(directory)
    files = sorted(os.path.relpath(os.path.join(at, name)) for at, _, names in os.walk(".") for name in names)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as titles:
        # By itself it would only say the last component.
        json.dump({name: {"org.opencontainers.image.title": name} for name in files}, titles)
        titles.flush()
        client.push(target=target, files=files, annotation_file=titles.name, quiet=True)

#!/usr/bin/env python3
"""Builds a container image, as an OCI layout, from a built program: the program, the libraries that it is linked with, authorities
to trust, time zones, and nothing else.

usage: image.py PROGRAM OUT     writes the directory OUT; then for example
                                skopeo copy oci:OUT docker-daemon:syncagent:latest

The image runs `syncagent agent run` as user 65532. Volumes: /var/lib/syncagent has sessions and schedules, /srv is for what is
pulled. /etc/syncagent/config.json may be mounted. Other commands: `docker exec NAME syncagent status`, or
`docker run … pull https://… --into /srv/tower`.

The same program on the same system gives the same digests; SOURCE_DATE_EPOCH, or the time of the last commit, is the time of
everything in it. Needs strip and ldd. Sources: OCI Image Format 1.1, and Docker's Healthcheck, which OCI leaves out.

Exit status: 0 written, 1 it cannot be, 64 usage.
"""

import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tarfile
import tempfile

USER = 65532
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
AUTHORITIES = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
ZONES = pathlib.Path("/usr/share/zoneinfo")
FILES = {
    "etc/passwd": f"root:x:0:0:root:/:/usr/sbin/nologin\nsyncagent:x:{USER}:{USER}:syncagent:/var/lib/syncagent:/usr/sbin/nologin\n",
    "etc/group": f"root:x:0:\nsyncagent:x:{USER}:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
DIRECTORIES = {"etc/syncagent": (0o755, 0), "run": (0o755, 0), "run/syncagent": (0o700, USER), "srv": (0o755, USER),
               "tmp": (0o1777, 0), "proc": (0o555, 0), "sys": (0o555, 0), "dev": (0o755, 0), "var/lib/syncagent": (0o700, USER)}


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def moment():
    """**Seconds** since 1970."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    return int(run("git", "-C", str(pathlib.Path(__file__).parent), "log", "-1", "--format=%ct") or 0)


def libraries(program):
    """What the program is linked with, by the path that the loader looks at: a library's name, and the loader itself. ldd(1)"""
    found = {}
    for line in run("ldd", program).splitlines():
        place = re.search(r"(?:=> )?(/\S+) \(0x", line)
        if place:
            found[place.group(1)] = pathlib.Path(place.group(1)).resolve()
        elif "not found" in line:
            raise SystemExit(f"image.py: {line.strip()}")
    return found


class Layer:
    """A tar archive in which nothing depends on when it was made."""

    def __init__(self, time):
        self.entries, self.time = {}, time

    def add(self, name, data=None, mode=0o644, owner=0, link=None):
        entry = tarfile.TarInfo(name)
        entry.mode, entry.uid, entry.gid, entry.mtime = mode, owner, owner, self.time
        entry.type = tarfile.DIRTYPE if data is None and link is None else tarfile.REGTYPE
        if link is not None:
            entry.type, entry.linkname = tarfile.SYMTYPE, link
        entry.size = len(data or b"")
        self.entries[name] = (entry, data)
        parent = str(pathlib.PurePosixPath(name).parent)
        if parent != "." and parent not in self.entries:
            self.add(parent, mode=0o755)

    def bytes(self):
        text = io.BytesIO()
        with tarfile.open(fileobj=text, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name in sorted(self.entries):
                entry, data = self.entries[name]
                archive.addfile(entry, io.BytesIO(data) if data else None)
        return text.getvalue()


def layer(program, time):
    made = Layer(time)
    for name, (mode, owner) in sorted(DIRECTORIES.items()):
        made.add(name, mode=mode, owner=owner)
    with tempfile.TemporaryDirectory() as directory:
        stripped = f"{directory}/syncagent"
        run("strip", "-o", stripped, program)
        made.add("usr/bin/syncagent", pathlib.Path(stripped).read_bytes(), 0o755)
    for place, file in libraries(program).items():
        made.add(place.lstrip("/"), file.read_bytes(), 0o755)
    for name, text in FILES.items():
        made.add(name, text.encode())
    if not AUTHORITIES.is_file():
        raise SystemExit(f"image.py: there is no {AUTHORITIES}; apt-get install ca-certificates")
    made.add(str(AUTHORITIES).lstrip("/"), AUTHORITIES.read_bytes())
    for file in sorted(ZONES.rglob("*")):
        inner = file.relative_to(ZONES)
        if inner.parts[0] in ("posix", "right") or file.is_dir():
            continue
        name = f"usr/share/zoneinfo/{inner}"
        if file.is_symlink() and not os.readlink(file).startswith("/"):
            made.add(name, link=os.readlink(file))
        elif file.is_file():
            made.add(name, file.read_bytes())
    return made.bytes()


class Layout:
    """A directory of blobs by their digest, with an index. OCI Image Layout."""

    def __init__(self, place):
        self.place = place
        (place / "blobs/sha256").mkdir(parents=True, exist_ok=True)

    def add(self, data, kind):
        digest = hashlib.sha256(data).hexdigest()
        (self.place / "blobs/sha256" / digest).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    def document(self, value, kind):
        return self.add(json.dumps(value, sort_keys=True, separators=(",", ":")).encode(), kind)


def main(words):
    if len(words) != 2 or words[0] in ("-h", "--help"):
        print(__doc__.strip(), file=sys.stderr)
        return 64
    program, place, time = os.path.abspath(words[0]), pathlib.Path(words[1]), moment()
    version = run(program, "--version").strip()
    architecture = ARCHITECTURES.get(platform.machine(), platform.machine())
    text = layer(program, time)
    layout = Layout(place)
    packed = layout.add(gzip.compress(text, 9, mtime=0), "layer.v1.tar+gzip")
    created = run("date", "--utc", f"--date=@{time}", "+%Y-%m-%dT%H:%M:%SZ").strip()
    config = layout.document({
        "architecture": architecture, "os": "linux", "created": created,
        "config": {
            "User": f"{USER}:{USER}", "Entrypoint": ["/usr/bin/syncagent"], "Cmd": ["agent", "run"], "WorkingDir": "/srv",
            "Env": ["PATH=/usr/bin", "HOME=/var/lib/syncagent", "XDG_STATE_HOME=/var/lib", "XDG_RUNTIME_DIR=/run/syncagent"],
            "Volumes": {"/var/lib/syncagent": {}, "/srv": {}}, "StopSignal": "SIGTERM",
            "Labels": {"org.opencontainers.image.title": "syncagent", "org.opencontainers.image.version": version,
                       "org.opencontainers.image.licenses": "Apache-2.0"},
            "Healthcheck": {"Test": ["CMD", "/usr/bin/syncagent", "agent", "status"], "Interval": 60 * 10**9,
                            "Timeout": 10 * 10**9, "Retries": 3},
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(text).hexdigest()]},
        "history": [{"created": created, "created_by": "Packaging/image.py"}],
    }, "config.v1+json")
    manifest = layout.document({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                                "config": config, "layers": [packed]}, "manifest.v1+json")
    manifest["annotations"] = {"org.opencontainers.image.ref.name": version}
    (place / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    (place / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}, sort_keys=True))
    print(f"{manifest['digest']}  {place}  {packed['size'] / 1e6:.1f} MB, unpacked {len(text) / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

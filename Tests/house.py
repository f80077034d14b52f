#!/usr/bin/env python3
"""Checks the shape of the sources against Package.swift, and shows it.

    Tests/house.py            checks; exit status 1 with a line for each thing that is wrong
    Tests/house.py --table    also prints modules by floors, with their files, lines and what they import

What is checked comes from `swift package dump-package`, so that it cannot drift:

 1. a module imports what its target declares, and nothing that happens to be built as well;
 2. what a target declares is imported: an arrow that nobody walks goes;
 3. some arrows must never be drawn (FORBIDDEN), and Foundation and Dispatch stay where they are needed (SYSTEM);
 4. a folder has at most 25 files;
 5. what differs between systems is in few files (PLATFORM): nowhere else is asked which one this is;
 6. C's functions are called in SyncSystem, and in few other files (CALLERS): the rest has Swift's types for them.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_FILES = 25
# Parts of the language and of the system that every module may use.
EVERYWHERE = {"Swift", "Synchronization", "Glibc", "Musl", "Darwin"}
# Who may use what is neither the language nor in Package.swift, and for what.
SYSTEM = {
    "Foundation": {
        "SyncStore": "GRDB takes and gives bytes as Data",
        "SyncAgent": "JSON", "SyncSchedule": "time zones, JSON, the load",
        "SyncCommands": "JSON, dates for people", "SyncTestKit": "temporary files",
        "embedded-pull-example": "a program of its own", "embedded-server-example": "the same",
        "SyncControlFixture": "processes", "SyncAssembly": "JSON, the environment",
        "SyncKit": "JSON of events, the environment", "CommandTestSupport": "processes",
        "syncagent-benchmarks": "processes",
    },
    "Dispatch": {"SyncPluginHost": "calls at the same time"},
}
# From, to, why not.
FORBIDDEN = [
    ("SyncEngine", "SyncTransfer", "transports come as plugins, so the engine is tested without libcurl"),
    ("SyncEngine", "SyncPluginHost", "hooks and plugins come as what SyncPlugins says"),
    ("SyncAgent", "SyncEngine", "the client library knows the socket, nothing behind it"),
    ("SyncAgent", "SyncStore", "the same"),
    ("SyncKit", "SyncCommands", "a program that embeds a pull brings no command line along"),
    ("SyncKit", "SyncDaemon", "nor an agent"),
    ("SyncAssembly", "SyncDaemon", "the agent has its engines put together as everybody has"),
    ("SyncManifest", "SyncSystem", "the format is read from bytes, not from files"),
]
# Where is asked for which system this is built, and for what.
PLATFORM = {
    "Sources/CPosix/shim.h": "files, locks, sockets, threads' names",
    "Sources/CPosix/clone.h": "sharing blocks between files",
    "Sources/CPosix/memory.h": "the heap",
    "Sources/CPosix/process.h": "starting programs",
    "Sources/CMicroHTTPD/shim.h": "sockets of a server",
    "Sources/SyncManifest/Listings/Registry/RegistryAnswer.swift": "for which machine a manifest of an index is",
}
# Who calls the C library's functions itself, a file or a whole module, and for what.
CALLERS = {
    "Sources/SyncSystem": "makes Swift's types of them",
    "Sources/SyncServer/HTTP/ConnectionWatch.swift": "sockets of a server",
    "Sources/SyncServer/HTTP/ListeningSocket.swift": "sockets of a server",
    "Sources/SyncTransfer/Routing/PublicAddress.swift": "addresses of sockets",
    "Sources/SyncTransfer/Scheduling/NetworkChanges.swift": "rtnetlink(7)",
}
BRANCH = re.compile(
    r"^\s*#\s*(?:(?:if|elseif)\b.*\b(?:os|arch|canImport|targetEnvironment)\(|(?:if|ifdef|ifndef|elif)\b.*\b__(?:linux|APPLE|GLIBC)__)",
    re.MULTILINE,
)
IMPORT = re.compile(
    r"^\s*(?:@\w+(?:\([^)]*\))?\s+)*(?:(?:public|package|internal|fileprivate|private)\s+)?import\s+"
    r"(?:(?:struct|class|enum|protocol|func|var|let|typealias)\s+)?(\w+)",
    re.MULTILINE,
)
COMMENT = re.compile(r'"""(?s:.*?)"""|/\*(?s:.*?)\*/|//[^\n]*')


def package():
    """Targets by name, from Package.swift."""
    with tempfile.TemporaryDirectory() as scratch:
        # A scratch directory of its own: the other one is locked while something is built.
        dumped = subprocess.run(
            ["swift", "package", "--scratch-path", scratch, "dump-package"],
            cwd=ROOT, check=True, capture_output=True, text=True,
        )
    return {target["name"]: target for target in json.loads(dumped.stdout)["targets"]}


def names(target):
    """What a target declares that it imports."""
    found = set()
    for dependency in target["dependencies"]:
        (kind, values), = dependency.items()
        found.add(values[0] if kind in ("byName", "target", "product") else "")
    return found - {""}


def imports(text):
    return set(IMPORT.findall(COMMENT.sub("", text)))


class Module:
    def __init__(self, name, target):
        self.name = name
        self.declared = names(target)
        self.directory = ROOT / (target.get("path") or f"Sources/{name}")
        self.files = sorted(self.directory.rglob("*.swift"))
        self.texts = {path: path.read_text(encoding="utf-8") for path in self.files}
        self.lines = sum(text.count("\n") for text in self.texts.values())

    @property
    def imported(self):
        return set().union(*(imports(text) for text in self.texts.values())) if self.texts else set()

    def problems(self):
        for path, text in self.texts.items():
            for name in sorted(imports(text) - self.declared - EVERYWHERE):
                if self.name not in SYSTEM.get(name, {}):
                    yield f"{path.relative_to(ROOT)}: {self.name} does not declare {name}, and imports it"
        for name in sorted(self.declared - self.imported):
            yield f"Package.swift: {self.name} declares {name}, and no file of it imports that"
        for name in sorted(SYSTEM):
            if self.name in SYSTEM[name] and name not in self.imported:
                yield f"{self.name}: imports {name} no longer; SYSTEM in Tests/house.py need not name it"
        for source, to, why in FORBIDDEN:
            if source == self.name and to in self.declared | self.imported:
                yield f"Package.swift: {source} must not know {to}: {why}"
        folders = {}
        for path in self.files:
            folders[path.parent] = folders.get(path.parent, 0) + 1
        for folder, count in sorted(folders.items()):
            if count > MOST_FILES:
                yield f"{folder.relative_to(ROOT)}: {count} files, more than {MOST_FILES}"

    def largest_folder(self):
        counts = {}
        for path in self.files:
            counts[path.parent] = counts.get(path.parent, 0) + 1
        return max(counts.values(), default=0)


def branches(shipped):
    """Where systems are told apart, and should not be."""
    paths = {path for module in shipped for path in module.files} | set((ROOT / "Sources").rglob("*.h"))
    found = {
        str(path.relative_to(ROOT)) for path in paths if BRANCH.search(path.read_text(encoding="utf-8"))
    }
    for path in sorted(found - PLATFORM.keys()):
        yield f"{path}: asks which system this is; that is for the files of PLATFORM in Tests/house.py, as SyncSystem and CPosix"
    for path in sorted(PLATFORM.keys() - found):
        yield f"{path}: asks no longer which system this is; PLATFORM in Tests/house.py need not name it"


def callers(shipped):
    """Where the C library is imported, and should not be."""
    found = set()
    for module in shipped:
        for path, text in module.texts.items():
            name = str(path.relative_to(ROOT))
            if not name.startswith("Sources/") or not imports(text) & {"CPosix", "Glibc"}:
                continue
            known = [caller for caller in CALLERS if name == caller or name.startswith(caller + "/")]
            found.update(known)
            if not known:
                yield f"{name}: imports CPosix or Glibc; SyncSystem has what it needs, or CALLERS in Tests/house.py says why not"
    for name in sorted(CALLERS.keys() - found):
        yield f"{name}: imports neither CPosix nor Glibc; CALLERS in Tests/house.py need not name it"


def floor(name, modules, known):
    """How many stories are below a module."""
    if name not in known:
        below = [floor(other, modules, known) for other in modules[name].declared if other in modules]
        known[name] = 1 + max(below, default=-1)
    return known[name]


def table(modules):
    floors = {}
    for name in modules:
        floor(name, modules, floors)
    for level in sorted(set(floors.values()), reverse=True):
        print(f"floor {level}")
        for module in sorted((modules[name] for name in modules if floors[name] == level), key=lambda one: one.name):
            inner = sorted(module.declared & modules.keys())
            print(
                f"  {module.name:22} {module.lines:6} lines {len(module.files):3} files"
                f"  largest folder {module.largest_folder():2}  {' '.join(inner)}"
            )
    print(f"{sum(module.lines for module in modules.values())} lines in {len(modules)} modules")


def main():
    targets = package()
    shipped = {
        name: Module(name, target) for name, target in targets.items()
        if target["type"] in ("regular", "executable") and (ROOT / (target.get("path") or f"Sources/{name}")).is_dir()
        and any((ROOT / (target.get("path") or f"Sources/{name}")).rglob("*.swift"))
    }
    if len(shipped) < 20:
        sys.exit(f"{len(shipped)} modules: the sources are not where this looks for them")
    if "--table" in sys.argv[1:]:
        table({name: module for name, module in shipped.items() if "Tests" not in str(module.directory.relative_to(ROOT))})
    problems = [problem for module in shipped.values() for problem in module.problems()]
    problems += branches(shipped.values())
    problems += callers(shipped.values())
    for problem in problems:
        print(problem)
    if not problems:
        print(f"{len(shipped)} modules, every import declared, every arrow walked")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()

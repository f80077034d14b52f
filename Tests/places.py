#!/usr/bin/env python3
"""Shows what the sources weigh, and how many places have to be touched for one more thing of each kind, at any commit.

    Tests/places.py [COMMIT]     default: the files as they are

Of each kind there is an example that is there already. Every file of Sources that names it is counted from the text; then it is
told apart where it takes effect, where nothing new has to be added (with the reason), and the places that are left: declared and
carried. Exits with 1 when these are more than their kind may have, or when a file said here names the example no longer.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OLD_WORDS = "words of earlier versions, newer options are in the JSON behind them (Tests/SyncCommandsTests/RecipeTests.swift)"
# Kind, example, what names it, how many places it may have, where it takes effect, and where nothing new has to be added.
EXAMPLES = [
    (
        "option of a run",
        "--allow-older",
        r"\ballow_older\b|\ballows?Older\b",
        2,
        ["SyncEngine/Look/RevisionCheck", "SyncEngine/Run/PullEngine"],
        {
            OLD_WORDS: ["SyncStore/KeptRecipe"],
            "the Swift API names it, too": ["SyncKit/PullSetup", "SyncKit/Sync"],
        },
    ),
    (
        "setting with a key",
        "--speed-limit",
        r"\bspeedLimit\b|\bspeed_limit\b",
        2,
        [
            "SyncTransfer/Configuration/TransportConfiguration",
            "SyncTransfer/Worker/CurlWorker",
            "SyncTransfer/Worker/Settlement",
        ],
        {},
    ),
    (
        "option of a run, and its key",
        "--max-delete",
        r"\bmaxDelete\b|\bmax_delete\b",
        2,
        ["SyncDaemon/RunEntry", "SyncEngine/Place/Pruning"],
        {OLD_WORDS: ["SyncStore/KeptRecipe"]},
    ),
    (
        "schedule backend",
        "cron",
        r"\bCronBackend\b|\bcronSystem\b|\bcron-system\b|\"cron\.d\"",
        1,
        ["SyncSchedule/Backends/CronBackend"],
        {},
    ),
    (
        "event",
        "manifest.revision",
        r'"manifest\.revision"|\.manifestRevision\b|\bcase manifestRevision\b',
        1,
        ["SyncEngine/Tell/RunJournal"],
        {},
    ),
    ("variant of a codec", "zstd with a dictionary", r"\.zstdDictionary\b|\bcase zstdDictionary\b", 3, [], {}),
    (
        "codec of its own",
        "zstd",
        r"\.zstd\b|\bcase zstd\b|\bZstdDecompressor\b|\bZstdCompressor\b|\bdecodeZstd\b|\bFrameHeader\b",
        3,
        [],
        {
            "zstd itself": [f"SyncContent/Compression/Zstd{part}" for part in ("Compressor", "Decompressor", "Stream")] + ["SyncContent/Compression/WindowBudget"],
            "manifests and task files are always zstd": [
                "SyncAssembly/UserState",
                "SyncEngine/Find/ManifestParts",
                "SyncEngine/Find/ManifestSource",
                "SyncEngine/Trust/SignedFiles",
                "SyncPublisher/Former/BasePlace",
                "SyncPublisher/Manifest/PartMaker",
                "SyncPublisher/Pack/OutputDirectory",
            ],
            "deltas and dictionaries are always zstd": [
                "SyncManifest/Planning/Plan",
                "SyncPublisher/Encode/SetDictionary",
                "SyncPublisher/Former/DeltaEncoder",
            ],
            "manifests for tests": ["SyncTestKit/Fixtures/ManifestBuilder"],
        },
    ),
    ("column of runs", "first_paths", r"\bfirst_paths\b|\bvar firstPaths\b", 2, [], {}),
    ("column of runs", "waiting_since", r"\bwaiting_since\b|\bvar waitingSince\b", 2, [], {}),
]
# The shapes that what `pull --background` asks for goes through, before and after.
SHAPES = re.compile(
    r"\b(RunRecipe|EnqueueRequest|PullOptions|RunTerms|StoredOptions|KeptRecipe|RunStart|EngineNeeds|EngineTuning|LoadedSettings|"
    r"RunSettings|KeptSettings|BackgroundSettings|TransferSettings|TransportConfiguration|HookSpecification|PlannedHook|RunHook|"
    r"HookSetting)\b"
)
DECLARED = re.compile(r"^\s*(?:(?:package|public|private|fileprivate|final)\s+)*(?:struct|enum|class)\s+(\w+)", re.MULTILINE)
# What one entry of a manifest becomes on its way to a file.
ENTRY = re.compile(r"\b(FileTable|FileTraits|Blob|Delta|Inventory|Plan|Span|StagedName|IndexRecord)\b")


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def sources(commit):
    """Swift files of Sources with their text."""
    if commit is None:
        return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in (ROOT / "Sources").rglob("*.swift")}
    names = [name for name in git("ls-tree", "-r", "--name-only", commit, "Sources").split("\n") if name.endswith(".swift")]
    return {name: git("show", f"{commit}:{name}") for name in names}


def naming(texts, pattern):
    """The files that name an example, without `Sources/` and ending."""
    return {name[len("Sources/") : -len(".swift")] for name, text in texts.items() if re.search(pattern, text)}


def stale(texts):
    """What EXAMPLES says of files that do not name the example."""
    found = []
    for _, example, pattern, _, effect, others in EXAMPLES:
        for name in sorted(set(effect).union(*others.values()) - naming(texts, pattern)):
            found.append(f"{name} does not name {example}")
    return found


def short(name):
    return name.rsplit("/", 1)[1]


def count(places):
    return f"{len(places)} place{'' if len(places) == 1 else 's'}"


def main():
    texts = sources(sys.argv[1] if len(sys.argv) > 1 else None)
    modules, folders = {}, {}
    for name, text in texts.items():
        module = name.split("/")[1]
        lines, files = modules.get(module, (0, 0))
        modules[module] = (lines + text.count("\n"), files + 1)
        folder = name.rsplit("/", 1)[0]
        folders[folder] = folders.get(folder, 0) + 1
    for module, (lines, files) in sorted(modules.items()):
        print(f"{module:22} {lines:6} lines {files:4} files")
    print(f"{'all':22} {sum(text.count(chr(10)) for text in texts.values()):6} lines {len(texts):4} files")
    print(f"largest folder: {max(folders.values())} files in {max(folders, key=folders.get)}")
    large = sorted((name for name in folders if folders[name] > 12), key=lambda name: (-folders[name], name))
    print("folders of more than a dozen files: " + ", ".join(f"{name[len('Sources/'):]} {folders[name]}" for name in large))
    complaints = [] if len(sys.argv) > 1 else stale(texts)
    for kind, example, pattern, most, effect, others in EXAMPLES:
        left = naming(texts, pattern) - set(effect).union(*others.values())
        print(f"{kind} ({example}): {count(left)} ({', '.join(map(short, sorted(left)))})", end="")
        print(f", takes effect in {', '.join(map(short, effect))}" if effect else "")
        for why, files in others.items():
            print(f"    {', '.join(map(short, files))}: {why}")
        if len(left) > most:
            complaints.append(f"{kind} ({example}) has {count(left)}, at most {most} are allowed")
    shapes = sorted({shape for text in texts.values() for shape in DECLARED.findall(text) if SHAPES.fullmatch(shape)})
    users = {name for name, text in texts.items() if SHAPES.search(text)}
    print(f"shapes that a run goes through: {len(shapes)} ({' '.join(shapes)})")
    print(f"    named in {len(users)} files of {len({name.split('/')[1] for name in users})} modules")
    entries = sorted({shape for text in texts.values() for shape in DECLARED.findall(text) if ENTRY.fullmatch(shape)})
    users = {name for name, text in texts.items() if any(re.search(rf"\b{shape}\b", text) for shape in entries)}
    print(f"shapes of an entry of a manifest: {len(entries)} ({' '.join(entries)})")
    print(f"    named in {len(users)} files of {len({name.split('/')[1] for name in users})} modules")
    for complaint in complaints:
        print(f"places.py: {complaint}", file=sys.stderr)
    return 1 if complaints and len(sys.argv) == 1 else 0


if __name__ == "__main__":
    sys.exit(main())

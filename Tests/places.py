#!/usr/bin/env python3
"""Shows what the sources weigh, and how many places name one thing of each kind, at any commit.

    Tests/places.py [COMMIT]     default: the files as they are

Of each kind there is an example that is there already. Counted are the files of Sources that name it, with the lines that do:
where it is declared, where it is carried, and where it takes effect. What only carries is what this is meant to show.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = [
    ("option of a run: --allow-older", r"\ballowOlder\b|\ballow_older\b"),
    ("option with a key: --speed-limit", r"\bspeedLimit\b|\bspeed_limit\b"),
    ("option and key of pruning: --max-delete", r"\bmaxDelete\b|\bmax_delete\b|\bmaximumRemovals"),
    ("schedule backend: cron", r"\.cron\b|\.cronSystem\b|\bcase cron|\bCronBackend\b"),
    ("event: manifest.revision", r'"manifest\.revision"|\.manifestRevision\b'),
    ("codec: zstd with a dictionary", r"\.zstdDictionary\b|\bcase zstdDictionary\b"),
    ("column of runs, where it is declared: first_paths", r"\bfirst_paths\b|\bvar firstPaths\b"),
    ("column of runs, where it is declared: waiting_since", r"\bwaiting_since\b|\bvar waitingSince\b"),
]
# The shapes that what `pull --background` asks for goes through, before and after.
SHAPES = re.compile(
    r"\b(RunRecipe|EnqueueRequest|PullOptions|RunTerms|StoredOptions|KeptRecipe|RunStart|EngineNeeds|EngineTuning|LoadedSettings|"
    r"RunSettings|KeptSettings|BackgroundSettings|TransferSettings|TransportConfiguration|HookSpecification|PlannedHook|RunHook|"
    r"HookSetting)\b"
)
DECLARED = re.compile(r"^\s*(?:(?:package|public|private|fileprivate|final)\s+)*(?:struct|enum|class)\s+(\w+)", re.MULTILINE)


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def sources(commit):
    """Swift files of Sources with their text."""
    if commit is None:
        return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in (ROOT / "Sources").rglob("*.swift")}
    names = [name for name in git("ls-tree", "-r", "--name-only", commit, "Sources").split("\n") if name.endswith(".swift")]
    return {name: git("show", f"{commit}:{name}") for name in names}


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
    for what, pattern in EXAMPLES:
        found = {name: len(re.findall(pattern, text)) for name, text in texts.items()}
        found = {name: count for name, count in found.items() if count}
        print(f"{what}: {len(found)} files, {sum(found.values())} lines")
        for name, count in sorted(found.items()):
            print(f"    {count:3} {name}")
    shapes = sorted({shape for text in texts.values() for shape in DECLARED.findall(text) if SHAPES.fullmatch(shape)})
    users = {name for name, text in texts.items() if SHAPES.search(text)}
    print(f"shapes that a run goes through: {len(shapes)} ({' '.join(shapes)})")
    print(f"    named in {len(users)} files of {len({name.split('/')[1] for name in users})} modules")


if __name__ == "__main__":
    main()

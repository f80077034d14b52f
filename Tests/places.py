#!/usr/bin/env python3
"""Shows what the sources weigh, how many places have to be touched for one more thing of each kind, and how many types some
things pass on their way, at any commit.

    Tests/places.py [COMMIT]     default: the files as they are
    Tests/places.py abc4deda     how it was before the sources became smaller

Of each kind there is an example that is there already. Every file of Sources that names it is counted from the text; then it is
told apart where it takes effect, where nothing new has to be added (with the reason), and the places that are left: declared and
carried. Exits with 1 when these are more than their kind may have, when a file said here names the example no longer, or when a
walk below names a type that is declared nowhere.

A line of code is neither blank nor a comment nor only brackets.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Kind, example, what names it, how many places it may have, where it takes effect, and where nothing new has to be added.
EXAMPLES = [
    (
        "option of a run",
        "--allow-older",
        r"\ballow_older\b|\ballows?Older\b",
        2,
        ["SyncEngine/Survey/Refusals", "SyncEngine/Run/PullEngine"],
        {},
    ),
    (
        "setting with a key",
        "--speed-limit",
        r"\bspeedLimit\b|\bspeed_limit\b",
        3,
        [
            "SyncTransfer/Configuration/TransportConfiguration",
            "SyncTransfer/Worker/CurlWorker",
            "SyncTransfer/Worker/AnswerHandling",
        ],
        {},
    ),
    (
        "option of a run, and its key",
        "--max-delete",
        r"\bmaxDelete\b|\bmax_delete\b",
        3,
        ["SyncDaemon/RunEntry", "SyncEngine/Place/Removal"],
        {},
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
        ["SyncEngine/Report/RunJournal"],
        {},
    ),
    ("variant of a codec", "zstd with a dictionary", r"\.zstdDictionary\b|\bcase zstdDictionary\b", 3, [], {}),
    (
        "codec of its own",
        "zstd",
        r"\.zstd\b|\bcase zstd\b|\bZstdDecompressor\b|\bZstdCompressor\b|\bdecodeZstd\b",
        3,
        [],
        {
            "zstd itself": [f"SyncContent/Compression/Zstd{part}" for part in ("Compressor", "Decompressor")],
            "manifests and task files are always zstd": [
                "SyncAssembly/Engine/UserState",
                "SyncServer/Cache/Fetch/DocumentCache",
                "SyncEngine/Find/ManifestParts",
                "SyncEngine/Find/ManifestSource",
                "SyncEngine/Trust/ReleaseSource",
                "SyncPublisher/Former/BasePlace",
                "SyncPublisher/Manifest/PartMaker",
                "SyncPublisher/Release/TargetPlace",
            ],
            "deltas and dictionaries are always zstd": [
                "SyncManifest/Planning/Plan",
                "SyncPublisher/Encode/DictionaryMaker",
                "SyncPublisher/Former/DeltaEncoder",
            ],
        },
    ),
    ("column of runs", "first_paths", r"\bfirst_paths\b|\bvar firstPaths\b", 2, [], {}),
    ("column of runs", "waiting_since", r"\bwaiting_since\b|\bvar waitingSince\b", 2, [], {}),
]
# When the sources began to become smaller. What stands in a walk and is no longer declared was declared then.
BEFORE = "abc4deda"
# What passes which types, from where it comes in to where it takes effect or is shown; how many there may be. Whoever adds a type to a
# way adds it here.
WALKS = {
    "an entry of a manifest": (
        35,
        "JSONReader ManifestAssembly FileKeys FileTable FileTraits TableChecks EntryPlaces RowSelection Manifest Blob Delta Codec "
        "Survey InventoryScan SliceResult Inventory StatIndex IndexRecord RecordColumn PlannedFile WantedBlob Plan "
        "CoalescedSpan PackPosition Span LocalCopies ChunkReuse FetchRounds SpanEnd TransferSubject "
        "TransferSubjects TransferRequest SpanSink WorkItem DecodeWorker SpanUnpacker BlobConsumer BlobStream BlobDecoder Installer "
        "Staging StagedName WholeDirectories PartFile PartFiles Committer FileVerification Placement IndexLog "
        "RunJournal RowStates TaskTracker TaskState TaskFile TaskListing StoredTask TaskRecord TaskStatus FileFailure ProgressCount "
        "OriginLedger IndexMerge StatIndexWriter",
    ),
    "a redirect": (
        18,
        "Exchange AnswerVerdict PieceEnding PieceMachine PieceAction PieceRoute Settlement Dispatcher Router Turn RedirectChain "
        "RedirectPolicy Lead Exemption RedirectMemory Lesson LinkRecord LinkChanges LinkFile LinkExpiry RewriteRules RewriteResolver "
        "Resolution ResolutionQueue ResolverRequest RequestDisposition URLScope AddressScope HopReason Announcer TransferEvent Hop "
        "TransferStatus RequestStatus RoutedTransport",
    ),
    "a background pull": (
        30,
        "PullCommand TargetOptions BackgroundOptions BackgroundPull RunRecipe RunConfiguration EngineRequest PluginSet RunSettings "
        "KeptSettings TransferSettings RunKey KeyedOptions EngineCall EngineTuning EngineAssembly EngineEnvironment EngineNeeds EngineClient EngineHandle AssembledEngine "
        "EnginePlugins PluginAssembly TransportConfiguration TrustChoice EnqueueReply AgentReach AgentCall "
        "AgentLauncher LaunchedAgent AgentPlace ControlClient ControlJSON ControlRequest ControlKeys StrictJSON Route ControlResponder "
        "ControlServer AgentControl Agent AgentEnvironment SessionJob JobWork RunConditionCheck LiveSessions RunStart StartedRun "
        "KeptRecipe ManifestFacts RunRecord StoredRun SessionRecord StoredSession SessionRequest SessionLease FileLock PullEngine PullRun "
        "RunContext PreparedRun SessionStatus RunStatus StatusReader",
    ),
    "an event": (
        9,
        "SyncEvent EventName EventFields RunJournal EventRecorder LiveRun EventLog EventCompression EventRecord StoredEvent EventPage "
        "ObserverFeed ObservedEvent EventLines EventStreams EventLine LineStream SessionEvents SessionEvent EventFeed EventText "
        "TransferEvent",
    ),
    # What hands TransferSettings on whole (RunRecipe, RunSettings, EngineRequest) does not name it.
    "--limit-rate": (
        6,
        "LimitOptions TransferSettings TransferKey KeptSettings KeptRecipe EngineNeeds EngineTuning TransportConfiguration "
        "ExchangePool Throttle",
    ),
}
DECLARED = re.compile(
    r"^\s*(?:@\w+(?:\([^)]*\))? )*(?:(?:public|package|internal|private|fileprivate|final|indirect|nonisolated|open) )*"
    r"(?:struct|class|enum|actor|protocol) (\w+)",
    re.MULTILINE,
)
BRACKETS = re.compile(r"[\[\](){},;]+")


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def sources(commit):
    """Swift files of Sources with their text."""
    if commit is None:
        return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in (ROOT / "Sources").rglob("*.swift")}
    names = [name for name in git("ls-tree", "-r", "--name-only", commit, "Sources").split("\n") if name.endswith(".swift")]
    return {name: git("show", f"{commit}:{name}") for name in names}


def code(text):
    """The lines of code of a file."""
    lines, is_comment = [], False
    for line in map(str.strip, text.splitlines()):
        if is_comment or line.startswith("/*"):
            is_comment = "*/" not in line
        elif line and not line.startswith("//") and not BRACKETS.fullmatch(line):
            lines.append(line)
    return lines


def declared(texts):
    """The types of some files; a name that several have as often as they have it."""
    return [name for text in texts.values() for name in DECLARED.findall("\n".join(code(text)))]


def walks(types, complaints):
    """Prints how many types each walk has, and complains of one that never was."""
    try:
        known = set(types) | set(declared(sources(BEFORE)))
    except subprocess.CalledProcessError:
        known = None  # A clone without the commit.
    for what, (most, names) in WALKS.items():
        names = names.split()
        there = [name for name in names if name in types]
        print(f"{what} passes {len(there)} types, goal {most}: {' '.join(there)}")
        if known is not None:
            complaints += [f"the walk of {what} names {name}, which is no type" for name in names if name not in known]
        if len(set(names)) < len(names):
            complaints.append(f"the walk of {what} names a type twice")


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
        modules.setdefault(name.split("/")[1], {})[name] = text
        folder = name.rsplit("/", 1)[0]
        folders[folder] = folders.get(folder, 0) + 1

    def show(what, files):
        lines = sum(len(code(text)) for text in files.values())
        print(f"{what:22} {lines:6} lines of code {len(declared(files)):5} types {len(files):4} files")

    for module, files in sorted(modules.items()):
        show(module, files)
    show(f"{len(modules)} modules", texts)
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
    walks(set(declared(texts)), complaints)
    for complaint in complaints:
        print(f"places.py: {complaint}", file=sys.stderr)
    return 1 if complaints and len(sys.argv) == 1 else 0


if __name__ == "__main__":
    sys.exit(main())

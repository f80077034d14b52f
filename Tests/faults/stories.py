"""The stories in which calls fail, files vanish and space runs out: for each verb what is there before, the command, and
what must be so afterwards. Each is told in a `Place` of its own; `act` does it with the wrapper that makes things fail."""

import os
import shutil
import subprocess
import time

import place as places

checks = places.checks
STORIES = {}
HANGS_AGENT = 60  # Seconds until an agent that was told to stop counts as hanging.


def story(kind):
    STORIES[kind.name] = kind()
    return kind


class Pull:
    """A pull of revision `after` where `before` is."""

    before, after, more, ends = None, "two", (), 0

    def prepare(self, place):
        if self.before:
            place.have(self.before)
        if os.path.exists(place.calls):
            os.unlink(place.calls)

    def act(self, place, wrap):
        return place.pull(self.after, *self.more, wrap=wrap)

    def judge(self, place, done):
        yield from place.judge_end(done)
        yield from place.judge_files(self.before, self.after)
        yield from place.judge_told(done, self.after)
        if done.status == 0 and len(place.called()) != 1:
            yield f"hook: exit 0, and the hook was called {len(place.called())} times"
        yield from place.judge_next(self.after)
        yield from place.judge_hooks(self.after)


@story
class First(Pull):
    name = "first"


@story
class Update(Pull):
    name, before = "update", "one"


@story
class Nothing(Pull):
    name, before = "no-op", "two"


@story
class Backup(Pull):
    """Besides: of what was here nothing is lost."""

    name, before = "backup", "one"

    def act(self, place, wrap):
        return place.pull(self.after, "--backup-dir", place.backup, wrap=wrap)

    def judge(self, place, done):
        yield from place.judge_end(done)
        backup = place.backup
        kept = list(checks.describe(backup).values()) if os.path.isdir(backup) else []
        kept += place.files().values()
        for path, what in place.base.wanted["one"].items():
            if what not in kept:
                yield f"gone: what {path} was is neither here nor in the backup"
        yield from super().judge(place, done)


class Whole(Pull):
    """An update that readers see at once. Besides: they have one revision, whole, at every moment."""

    before = "one"
    former = 1  # Trees that may be kept afterwards: one stays as it was for an hour.
    atomic = ("--atomic", "--keep-for", "0")

    def prepare(self, place):
        place.base.server.revision = "one"
        place.must(*place.pull_arguments(*self.atomic))
        os.unlink(place.calls)

    def act(self, place, wrap):
        return place.pull(self.after, *self.atomic, wrap=wrap)

    def judge_seen(self, found, place):
        """That what readers have is one revision; which one is known by then."""
        sides = {name: checks.differences(wanted, found) for name, wanted in place.base.wanted.items()}
        if all(sides.values()):
            yield f"mixed: readers have neither revision: {sides['one'][0]}; {sides['two'][0]}"

    def judge(self, place, done):
        yield from place.judge_end(done)
        yield from self.judge_seen(place.files(), place)
        missing = place.is_whole(self.after)
        if done.status == 0 and missing:
            yield f"lie: exit 0, and {missing[0]}"
        # What is told to be installed is so in the tree that is to be shown.
        if missing:
            yield from self.judge_unshown(place, missing)
        else:
            yield from place.judge_record([], self.after)
        yield from self.judge_next(place)

    def judge_unshown(self, place, missing):
        yield from place.judge_shown(missing, self.after)

    def judge_next(self, place):
        yield from place.judge_next(self.after)
        yield from place.judge_hooks(self.after)
        home = os.path.join(os.path.dirname(place.dest), f".syncagent-{os.path.basename(place.dest)}")
        if checks.shown(place.dest) != place.dest:
            home = os.path.join(place.dest, checks.OWN)
            yield from (f"next: {line}" for line in checks.tops(place.dest))
        left = [name for at, _, names in os.walk(f"{home}/state") for name in names if "/staging" in at]
        if left:
            yield f"next: left in staging: {left[:3]}"
        trees = os.listdir(f"{home}/rev") if os.path.isdir(f"{home}/rev") else []
        most = self.former + (checks.shown(place.dest) != place.dest)  # With links what is shown is one of them.
        if len(trees) > most:
            yield f"next: {len(trees)} trees are there, not {most}: {trees}"


@story
class Atomic(Whole):
    name = "atomic"


@story
class Links(Whole):
    """The same behind links."""

    name, atomic = "links", ("--atomic=links", "--keep-for", "0")


@story
class AtomicFirst(Whole):
    """Where files have changed one by one until now."""

    name = "atomic-first"

    def prepare(self, place):
        place.have("one")
        os.unlink(place.calls)


@story
class Rollback(Whole):
    """Back to the first revision."""

    name, before, after, former = "rollback", "two", "one", 2

    def prepare(self, place):
        super().prepare(place)
        if place.pull("two", *self.atomic).status != 0:
            raise SystemExit("what the trials start from cannot be pulled as a whole")
        os.unlink(place.calls)

    def act(self, place, wrap):
        return place.run("rollback", "s", "--json", wrap=wrap)

    def judge_unshown(self, place, missing):
        # The run that brought it long ago is on record as what it was.
        last = [run for one in place.run("status", "s", "--json").events() if (run := one.get("run"))]
        if last and last[-1].get("result") == "ok" and last[-1]["manifest_sha256"] == place.digest("one"):
            yield f"lie: status says ok, and {missing[0]}"

    def judge_next(self, place):
        # A second one does it, unless the first has; what is held stays away until it is let go.
        if place.is_whole("one"):
            again = place.run("rollback", "s")
            if again.status != 0 or place.is_whole("one"):
                yield f"next: the next rollback: {again} {place.is_whole('one')[:1]}"
        held = place.pull("two")
        if held.status != 77 or place.is_whole("one"):
            yield f"next: what is held was pulled: {held} {place.is_whole('one')[:1]}"
        if (released := place.run("rollback", "s", "--release")).status != 0:
            yield f"next: what is held cannot be let go: {released}"
        self.after = "two"
        try:
            yield from super().judge_next(place)
        finally:
            del self.after


@story
class Pinned(Pull):
    """An update of a pinned project. Besides: no floor of trust falls."""

    name, before = "pinned", "one"

    def arguments(self, place, site, *more):
        return ["pull", f"{place.base.root}/{site}/manifest.json", "--into", place.dest, "--session", "s", "--prune", "--force",
                "--json", "--hook", place.hook, *more]

    def prepare(self, place):
        place.must(*self.arguments(place, "signed-1", "--trust", f"{place.base.root}/keys/1.root"))
        os.unlink(place.calls)

    def act(self, place, wrap):
        return place.run(*self.arguments(place, "signed-2"), wrap=wrap)

    def judge(self, place, done):
        yield from place.judge_end(done)
        yield from place.judge_files("one", "two")
        missing = place.is_whole("two")
        if done.status == 0 and missing:
            yield f"lie: exit 0, and {missing[0]}"
        floor = [one.get("revision") for one in place.run("trust", "show", "p", "--json").events()]
        if not floor or floor[0] not in (1, 2):
            yield f"trust: after it the pin says {floor}"
        if floor == [2]:
            old = place.run(*self.arguments(place, "signed-1"))
            if old.status != 77:
                yield f"trust: revision 2 was accepted, and 1 again: {old}"
        yield from self.judge_again(place)

    def judge_again(self, place):
        again = place.run(*self.arguments(place, "signed-2"))
        if again.status != 0 or place.is_whole("two"):
            yield f"next: the next pull: {again} {place.is_whole('two')[:1]}"
        old = place.run(*self.arguments(place, "signed-1"))
        if old.status != 77:
            yield f"trust: an older release after a newer one: {old}"
        yield from place.judge_hooks("two")


class Damaged:
    """One file has wrong bytes, and another is missing."""

    ends = 0

    def prepare(self, place):
        place.have("two")
        with open(f"{place.dest}/sheets/00.txt", "r+b") as file:
            file.write(b"damage")
        os.unlink(f"{place.dest}/sheets/04.txt")


@story
class Verify(Damaged):
    name, ends = "verify", 2

    def act(self, place, wrap):
        return place.run("verify", place.base.server.url, "--into", place.dest, "--json", wrap=wrap)

    def judge(self, place, done):
        yield from place.judge_end(done)
        if done.status == 0:
            yield "lie: verify says that all is as it should be"
        if done.status == 2:
            for path in ("sheets/00.txt", "sheets/04.txt"):
                if path not in done.out:
                    yield f"lie: verify tells differences, and not {path}"


# What `cat` is right to do for a reader that has left.
CUT = "lie: exit 0, and only the beginning of the file was printed"


@story
class Cat(Damaged):
    name = "cat"

    def act(self, place, wrap):
        return place.run("cat", place.base.server.url, "model.ifc", wrap=wrap)

    def judge(self, place, done):
        yield from place.judge_end(done)
        with open(f"{place.base.root}/set-2/model.ifc", "rb") as file:
            right = file.read().decode(errors="replace")
        if done.status == 0 and done.out != right:
            yield CUT if right.startswith(done.out) else "lie: exit 0, and what was printed is not the file"
        if not right.startswith(done.out):
            yield "wrong bytes: what was printed is not the beginning of the file"


class Publish:
    """A second release where the first is."""

    more, ends = (), 0

    def prepare(self, place):
        place.must("publish", f"{place.base.root}/set-1", "--to", place.out, "--project", "p", "--pack-size", "256K")

    def arguments(self, place):
        return ["publish", f"{place.base.root}/set-2", "--to", place.out, *self.more]

    def act(self, place, wrap):
        return place.run(*self.arguments(place), wrap=wrap)

    def read(self, place, manifest, *more):
        """What somebody new gets: a revision, or why none."""
        into = f"{place.root}/reader"
        shutil.rmtree(into, ignore_errors=True)
        shutil.rmtree(f"{place.root}/other", ignore_errors=True)
        os.makedirs(f"{place.root}/other", 0o700)
        done = place.run("pull", manifest, "--into", into, "--quiet", *more, XDG_STATE_HOME=f"{place.root}/other")
        found = checks.describe(into) if os.path.isdir(into) else {}
        return done, next((name for name, wanted in place.base.wanted.items() if found == wanted), None)

    def judge(self, place, done):
        yield from place.judge_end(done)
        yield from self.judge_readers(place, done.status == 0)

    def judge_readers(self, place, is_done):
        """That readers get one release whole, the new one if the publish is done, and all of them after the next publish."""
        for ending in ("", ".zst"):
            read, revision = self.read(place, f"{place.out}/manifest.json{ending}")
            if read.status != 0 or revision is None:
                yield f"published: manifest.json{ending} is neither release: {read}"
            elif is_done and revision != "two":
                yield f"lie: exit 0, and manifest.json{ending} is the old release"
        yield from self.judge_next(place)

    def judge_next(self, place, *more):
        again = place.run(*self.arguments(place))
        if again.status != 0:
            yield f"next: the next publish: {again}"
        read, revision = self.read(place, f"{place.out}/manifest.json", *more)
        if read.status != 0 or revision != "two":
            yield f"next: after the next publish a reader has {revision}: {read}"
        left = [name for _, folders, names in os.walk(place.out) for name in folders + names if name.startswith(".")]
        if left:
            yield f"next: left over: {left[:3]}"
        named = {pack["url"] for pack in checks.load(f"{place.out}/manifest.json")["packs"]}
        for url in named:
            if not url.endswith(checks.sha256(f"{place.out}/{url}") + ".pack"):
                yield f"wrong bytes: {url}"


@story
class PublishPlain(Publish):
    name = "publish"


@story
class PublishNew(Publish):
    """The first release of all."""

    name = "publish-new"

    def prepare(self, place):
        pass

    def arguments(self, place):
        return [*super().arguments(place), "--project", "p", "--pack-size", "256K"]

    def judge_readers(self, place, is_done):
        if is_done or all(os.path.exists(f"{place.out}/manifest.json{ending}") for ending in ("", ".zst")):
            yield from super().judge_readers(place, is_done)
        else:
            yield from self.judge_next(place)


@story
class PublishRetain(Publish):
    """The same, and the first release is noted as one that goes when its time of grace is over."""

    name, more = "publish-retain", ("--retain", "1")


class Releases(Publish):
    """What is done with releases that are there. Afterwards the newest has the second set, by a second try if need be."""

    sets = ("set-1", "set-2")

    def prepare(self, place):
        for name in self.sets:
            place.must("publish", f"{place.base.root}/{name}", "--to", place.out, "--project", "p", "--pack-size", "256K")


@story
class Prune(Releases):
    """The first release goes. Besides: the second is what readers have at every moment."""

    name = "prune"

    def arguments(self, place):
        return ["releases", "prune", place.out, "--keep", "1", "--grace", "0s"]

    def judge_readers(self, place, _=False):
        yield from super().judge_readers(place, True)
        kept = place.run("releases", "list", place.out, "--json")
        if kept.status != 0 or len(list(kept.events())) != 1:
            yield f"next: after the next prune there is more than one release: {kept}"
        for name in ("packs", "manifests"):
            left = set(os.listdir(f"{place.out}/{name}")) - {"unnamed.json"}
            named = {os.path.basename(pack["url"]) for pack in checks.load(f"{place.out}/manifest.json")["packs"]}
            if name == "packs" and left != named or name == "manifests" and len(left) != 1:
                yield f"next: after the next prune {name} has {len(left)} files"


@story
class Restore(Releases):
    """The older of two releases becomes the newest."""

    name, sets = "restore", ("set-2", "set-1")

    def arguments(self, place):
        return ["releases", "restore", place.out, "1"]


@story
class PublishSigned(Publish):
    name = "publish-sign"

    def prepare(self, place):
        # Below the same name as it was made, since what was signed there is remembered by name.
        shutil.copytree(f"{place.base.root}/signed-1", place.out, dirs_exist_ok=True)
        shutil.copytree(f"{place.base.root}/keys", place.keys)
        place.must("publish", f"{place.base.root}/set-1", "--to", place.out, "--sign", place.keys, "--accept-base")

    def arguments(self, place):
        return [*super().arguments(place), "--sign", place.keys]

    def judge_readers(self, place, is_done):
        pin = ("--trust", f"{place.keys}/1.root")
        read, revision = self.read(place, f"{place.out}/manifest.json", *pin)
        if read.status != 0 or revision is None:
            yield f"published: it is neither release: {read}"
        elif is_done and revision != "two":
            yield "lie: exit 0, and it is the old release"
        yield from self.judge_next(place, *pin)


@story
class Refresh(PublishSigned):
    name = "refresh"

    def arguments(self, place):
        return ["keys", "refresh", place.out, "--sign", place.keys]

    def judge_readers(self, place, _=False):
        pin = ("--trust", f"{place.keys}/1.root")
        for moment in ("published", "next"):
            read, revision = self.read(place, f"{place.out}/manifest.json", *pin)
            if read.status != 0 or revision != "one":
                yield f"{moment}: a reader has {revision}: {read}"
            if moment == "published":
                again = place.run(*self.arguments(place))
                if again.status != 0:
                    yield f"next: the next refresh: {again}"
        left = [name for _, folders, names in os.walk(place.out) for name in folders + names if name.startswith(".")]
        if left:
            yield f"next: left over: {left[:3]}"


@story
class Rotate(PublishSigned):
    """Another key. Whatever is there afterwards, the next release can be signed, and who has the first root reads it."""

    name = "rotate"

    def arguments(self, place):
        # The release that is there was signed with the key that has gone.
        return [*super().arguments(place), "--accept-base"]

    def act(self, place, wrap):
        return place.run("keys", "rotate", place.keys, "--role", "release", wrap=wrap)

    def judge_readers(self, place, _=False):
        yield from self.judge_next(place, "--trust", f"{place.base.root}/keys/1.root")


@story
class Collect(Pull):
    name, before = "gc", "two"

    def prepare(self, place):
        place.have("one")
        super().prepare(place)

    def act(self, place, wrap):
        return place.run("gc", wrap=wrap)

    def judge(self, place, done):
        yield from place.judge_end(done)
        yield from (f"gone: after gc {line}" for line in place.is_whole("two"))
        yield from place.judge_record([], "two")
        yield from place.judge_next("two")


class Agent(Pull):
    """Runs that an agent does. `fails`: in whom calls fail, the agent or the client that speaks to it."""

    fails, after = "agent", "two"

    def ask(self, place):
        return [*place.pull_arguments(), "--background"]

    def prepare(self, place):
        place.base.server.revision = self.after
        self.add(place)

    def add(self, place):
        pass

    def agent(self, place, wrap):
        log = open(f"{place.root}/agent.log", "ab")
        process = place.start("agent", "run", wrap=wrap, out=log, said=log)
        log.close()
        end = time.monotonic() + 5
        socket = f"{place.root}/runtime/syncagent/agent.sock"
        while not os.path.exists(socket) and process.poll() is None and time.monotonic() < end:
            time.sleep(0.005)
        return process

    def act(self, place, wrap):
        ours = self.agent(place, wrap if self.fails == "agent" else ())
        begun = time.monotonic()
        try:
            asked = place.run(*self.ask(place), wrap=wrap if self.fails == "client" else ())
            self.asked = asked
            if asked.status == 0:
                place.note("promised")
            # Whoever is the agent then: where the first has died, clients start another.
            waited = place.run("wait", "s", "--timeout", "60s", "--quiet")
            if self.fails == "client":
                return asked
            place.run("agent", "stop")
            try:
                status = ours.wait(HANGS_AGENT)
            except subprocess.TimeoutExpired:
                status = None
            if status is not None and status > 128 and status - 128 < 65 and status not in places.DOCUMENTED | {124, 125}:
                status = 128 - status
            waited.status = waited.status if status in (0, 75) else status
            if status not in (0, 75):
                with open(f"{place.root}/agent.log", errors="replace") as file:
                    waited.said = file.read()
            waited.seconds = time.monotonic() - begun
            return waited
        finally:
            place.run("agent", "stop")
            place.end(ours)

    def judge(self, place, done):
        yield from place.judge_end(done)
        yield from place.judge_files(None, self.after)
        missing = place.is_whole(self.after)
        promised = self.asked.status == 0
        if promised and done.status == 0 and missing:
            yield f"lie: exit 0, and {missing[0]}"
        yield from place.judge_record(missing, self.after)
        if promised:
            # What an agent has promised is done by the next, if need be, with nothing asked again.
            waited = place.run("wait", "s", "--timeout", "60s", "--quiet")
            if waited.status not in (0, 2, 5, 69, 73, 74):
                yield f"lost: the run was promised, and waiting for it: {waited}"
            if waited.status == 0 and place.is_whole(self.after):
                yield f"lie: wait says 0, and {place.is_whole(self.after)[0]}"
            if waited.status == 0 and not any(call[2] == "ok" for call in place.called()):
                yield "lost: the run ended well, and its hook was not called"
        self.settle(place)
        yield from place.judge_next(self.after)
        yield from place.judge_hooks(self.after)
        place.run("agent", "stop")

    def settle(self, place):
        place.run("agent", "stop")


@story
class Background(Agent):
    name = "background"


@story
class BackgroundClient(Agent):
    name, fails = "background-client", "client"


class Scheduled(Agent):
    def add(self, place):
        place.must("schedule", "add", place.base.server.url, "--into", place.dest, "--session", "s", "--prune", "--force", "--name", "n",
                   "--hook", place.hook, "--every", "6h", "--backend", "agent", "--interactive")
        place.run("agent", "stop")
        os.chmod(place.state, 0o700)

    def ask(self, place):
        return ["schedule", "run", "n", "--now", "--quiet"]

    def settle(self, place):
        place.must("schedule", "remove", "n")
        super().settle(place)


@story
class Schedule(Scheduled):
    name = "schedule"


@story
class ScheduleClient(Scheduled):
    name, fails = "schedule-client", "client"

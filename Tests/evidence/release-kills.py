#!/usr/bin/env python3
"""The trials of release-kills.sh; started by it, which says what is checked."""
import argparse, hashlib, json, os, random, re, shutil, subprocess, sys, time
from collections import Counter
import checks

CALLS = ["openat", "mkdirat", "mkdir", "write", "writev", "pwrite64", "pwritev", "ftruncate", "fallocate", "fchmod", "linkat",
         "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "fsync", "fdatasync", "flock"]


class Trials:
    def __init__(self, a):
        self.a = a
        self.syncagent = os.environ["SYNCAGENT"]
        self.start, self.site = f"{a.work}/start", f"{a.work}/site"
        self.source, self.keys = f"{a.work}/source", f"{a.work}/keys"
        self.random = random.Random(a.seed)
        self.violations, self.texts = [], {}

    def run(self, *words, prefix=(), check=False):
        done = subprocess.run([*prefix, self.syncagent, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              cwd=self.a.work)
        if check and done.returncode != 0:
            sys.exit(f"{' '.join(words)}: exit {done.returncode}: {done.stderr}")
        return done

    @property
    def sign(self):
        return ["--sign", self.keys] if self.a.signed else []

    def publish(self, *more):
        return ["publish", self.source, "--to", self.site, "--project", "release.trial", "--rehash", *self.sign, *more]

    def change(self, night):
        for index in range(4):
            path = f"{self.source}/f{self.random.randrange(24):02}"
            with open(path, "wb") as file:
                file.write(self.random.randbytes(4000) + b"%d %d" % (night, index))

    def make(self):
        """Six nights, of which a channel holds the second."""
        os.makedirs(self.source)
        for index in range(24):
            with open(f"{self.source}/f{index:02}", "wb") as file:
                file.write(self.random.randbytes(4000))
        if self.a.signed:
            self.run("keys", "new", self.keys, "--project", "release.trial", check=True)
        for night in range(1, 7):
            self.run(*self.publish("--channel", "default", "--quiet"), check=True)
            if night == 2:
                self.run("channel", "set", self.site, "stable", "2", *self.sign, check=True)
            self.change(night)
        os.rename(self.site, self.start)
        # What this machine has signed goes with the directory.
        self.state = os.environ["XDG_STATE_HOME"]
        os.rename(self.state, f"{self.a.work}/start-state")

    def fresh(self):
        for path in (self.site, self.state):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(f"{self.a.work}/start-state", self.state)
        shutil.copytree(self.start, self.site, symlinks=True, copy_function=os.link)
        # Links would be written through.
        for path in ("manifests/unnamed.json", ):
            if os.path.exists(f"{self.site}/{path}"):
                os.unlink(f"{self.site}/{path}")
                shutil.copy2(f"{self.start}/{path}", f"{self.site}/{path}")

    def manifests(self):
        """Every manifest in the place, by its path."""
        found = {}
        for folder in ("", "manifests", "channels"):
            directory = f"{self.site}/{folder}"
            if not os.path.isdir(directory):
                continue
            for name in os.listdir(directory):
                path = os.path.join(directory, name)
                if name.startswith(".") or not re.fullmatch(r"(manifest|[0-9a-f]{64}|\d+|[a-z]+)\.json(\.zst)?", name) or name in ("index.json", "unnamed.json"):
                    continue
                with open(path, "rb") as file:
                    data = file.read()
                digest = hashlib.sha256(data).digest()
                if digest not in self.texts:
                    self.texts[digest] = json.loads(data if name.endswith(".json") else
                                                    subprocess.run(["zstd", "-dcq", path], stdout=subprocess.PIPE, check=True).stdout)
                found[os.path.relpath(path, self.site)] = self.texts[digest]
        return found

    def look(self, where, pulls=True):
        broken = []
        found = self.manifests()
        for path, manifest in found.items():
            for pack in manifest.get("packs", []):
                file = f"{self.site}/packs/{pack['sha256']}.pack"
                if not os.path.exists(file):
                    broken.append(f"{path} names {pack['sha256'][:12]}, which is not there")
                elif checks.sha256(file) != pack["sha256"]:
                    broken.append(f"{path} names {pack['sha256'][:12]}, which has other bytes")
        for path in ("manifest.json", "manifest.json.zst", "channels/stable.json.zst"):
            if path not in found:
                broken.append(f"{path} is gone")
        if pulls:
            for words in ([], ["--channel", "stable"]):
                shutil.rmtree(f"{self.a.work}/place", ignore_errors=True)
                done = self.run("pull", f"{self.site}/manifest.json", "--into", f"{self.a.work}/place", "--session",
                                f"s{time.monotonic_ns()}", "--quiet", *words)
                if done.returncode != 0:
                    broken.append(f"pull {' '.join(words)}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
        return self.tell(where, broken)

    def tell(self, where, broken):
        for line in broken[:5]:
            print(f"BROKEN at {where}: {line}", flush=True)
        self.violations += broken
        return not broken

    def end(self, where, words):
        """The same command again, and then a prune that waits for nobody."""
        again = self.run(*words)
        broken = [] if again.returncode == 0 else [f"again: exit {again.returncode}: {again.stderr.strip()[-300:]}"]
        done = self.run("releases", "prune", self.site, "--keep", "2", "--grace", "0")
        if done.returncode != 0:
            broken.append(f"prune: exit {done.returncode}: {done.stderr.strip()[-300:]}")
        needed = {p["sha256"] for m in self.manifests().values() for p in m.get("packs", [])}
        more = {name[:64] for name in os.listdir(f"{self.site}/packs")} - needed
        left = [n for f in ("", "packs", "manifests", "channels", "trust") if os.path.isdir(f"{self.site}/{f}")
                for n in os.listdir(f"{self.site}/{f}") if n.startswith(".publish-")]
        if more or left:
            broken.append(f"left over: {len(more)} packs, {left[:3]}")
        self.tell(where, broken)
        self.look(f"{where}, in the end", pulls=False)

    def count(self, words):
        self.fresh()
        trace = f"{self.a.work}/trace"
        known = ",".join("?" + call for call in CALLS)
        done = self.run(*words, prefix=["strace", "-f", "-qq", "-o", trace, "-e", f"trace={known}"])
        if done.returncode != 0:
            sys.exit(f"{words[0]} under strace ends with {done.returncode}: {done.stderr}")
        each, most = Counter(), Counter()
        with open(trace, errors="replace") as file:
            for line in file:
                match = re.match(r"(\d+) +(\w+)\(", line)
                if match:
                    each[match[2], match[1]] += 1
        for (call, _), count in each.items():
            most[call] = max(most[call], count)
        return most

    def kills(self, name, words):
        most = self.count(words)
        points = [(call, n) for call in CALLS for n in range(1, most[call] + 1)]
        everything = len(points)
        if self.a.sample and self.a.sample < everything:
            points = sorted(self.random.sample(points, self.a.sample))
        died = 0
        for call, n in points:
            self.fresh()
            done = self.run(*words, prefix=["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}",
                                            "-e", f"inject={call}:signal=SIGKILL:when={n}"])
            died += done.returncode not in (0, 65, 73, 74, 75, 77)
            where = f"{name}, {call} {n}"
            # A pull is slow, and looks at what the packs have shown.
            self.look(where, pulls=n == most[call] or call in ("rename", "renameat2", "renameat", "unlinkat", "linkat"))
            self.end(where, words)
        print(f"{name}: killed at {died} of {len(points)} points ({everything} in all)", flush=True)

    def races(self):
        ends = Counter()
        for trial in range(self.a.races):
            self.fresh()
            commands = self.random.sample([self.publish("--retain", "2"), self.publish(),
                                           ["releases", "prune", self.site, "--keep", "1", "--grace", "0"],
                                           ["releases", "restore", self.site, "4", *self.sign]], 2)
            running = [subprocess.Popen([self.syncagent, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, cwd=self.a.work) for words in commands]
            for process, words in zip(running, commands):
                text = process.communicate()[1]
                ends[process.returncode] += 1
                # What one has pruned the other cannot restore.
                allowed = (0, 75, 66) if "restore" in words else (0, 75)
                if process.returncode not in allowed:
                    self.tell(f"race {trial}", [f"{words[:2]}: exit {process.returncode}: {text.strip()[-300:]}"])
            self.look(f"race {trial}", pulls=trial % 5 == 0)
        print(f"{self.a.races} races: ends {dict(sorted(ends.items()))}", flush=True)

    def main(self):
        print(f"seed {self.a.seed}", flush=True)
        self.make()
        begin = time.monotonic()
        self.kills("prune", ["releases", "prune", self.site, "--keep", "2", "--grace", "0"])
        self.kills("restore", ["releases", "restore", self.site, "3", *self.sign])
        self.kills("publish --retain", self.publish("--retain", "2"))
        self.races()
        print(f"{time.monotonic() - begin:.0f} s: {len(self.violations)} violations")
        sys.exit(1 if self.violations else 0)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--work", required=True)
parser.add_argument("--sample", type=int)
parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
parser.add_argument("--races", type=int, default=100)
parser.add_argument("--signed", action="store_true")
Trials(parser.parse_args()).main()

#!/usr/bin/env python3
"""What a signature costs: the same set published unsigned and signed, pulled in turn.

usage: signed-cost.py PROGRAM SET [--again N] [--fresh N]

Publishes the directory SET twice, serves both with PROGRAM itself, and pulls them in turn, the order changing from round to
round: N times with nothing new (default 40), N times into an empty directory with no state (default 20). Prints the medians, and
pair by pair the difference and the ratio, with their quartiles.

Environment: TMPDIR, where everything goes; a disk in memory is best. Exit status: 0 when every pull was well, 1 not.
"""
import argparse, os, re, shutil, statistics, subprocess, sys, tempfile, time


class Side:
    """One of the two: its site, its server, and a machine that pulls it."""

    def __init__(self, program, work, name, options):
        self.program, self.work, self.options = program, f"{work}/{name}", options
        os.makedirs(f"{self.work}/home/run")
        self.environment = dict(
            os.environ, HOME=f"{self.work}/home", XDG_STATE_HOME=f"{self.work}/home/state",
            XDG_CONFIG_HOME=f"{self.work}/home/config", XDG_RUNTIME_DIR=f"{self.work}/home/run")

    def run(self, *words):
        """Seconds."""
        start = time.perf_counter()
        result = subprocess.run([self.program, *words], env=self.environment, capture_output=True, text=True)
        seconds = time.perf_counter() - start
        if result.returncode != 0:
            sys.exit(f"{' '.join(words)}: {result.stderr}")
        return seconds

    def serve(self):
        self.server = subprocess.Popen(
            [self.program, "serve", f"{self.work}/site", "--port", "0"], env=self.environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.server.stdout:
            if found := re.search(r"http://[\d.]+:\d+/", line):
                self.url = found[0] + "manifest.json"
                return
        sys.exit("the server did not start")

    def pull(self):
        return self.run("pull", self.url, "--into", f"{self.work}/into", *self.options, "--quiet")

    def forget(self):
        for name in ("into", "home/state"):
            shutil.rmtree(f"{self.work}/{name}", ignore_errors=True)


def tell(what, pairs):
    unsigned, signed = (statistics.median(side) for side in zip(*pairs))
    differences = statistics.quantiles([(b - a) * 1000 for a, b in pairs], n=4)
    ratios = statistics.quantiles([b / a for a, b in pairs], n=4)
    print(f"{what}: {len(pairs)} pairs, unsigned {unsigned:.3f} s, signed {signed:.3f} s; "
          f"difference {differences[1]:.1f} ms ({differences[0]:.1f} to {differences[2]:.1f}), "
          f"ratio {ratios[1]:.3f} ({ratios[0]:.3f} to {ratios[2]:.3f})")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("set")
    arguments.add_argument("--again", type=int, default=40)
    arguments.add_argument("--fresh", type=int, default=20)
    given = arguments.parse_args()
    program = os.path.abspath(given.program)
    with tempfile.TemporaryDirectory() as work:
        unsigned = Side(program, work, "unsigned", [])
        signed = Side(program, work, "signed", ["--trust", f"{work}/keys/1.root"])
        signed.run("keys", "new", f"{work}/keys", "--project", "p")
        unsigned.run("publish", given.set, "--to", f"{unsigned.work}/site", "--project", "p")
        signed.run("publish", given.set, "--to", f"{signed.work}/site", "--project", "p", "--sign", f"{work}/keys")
        sides = [unsigned, signed]
        try:
            for side in sides:
                side.serve()
                side.pull()
            for what, count, prepare in (("nothing new", given.again, False), ("first pull", given.fresh, True)):
                pairs = []
                for turn in range(count):
                    seconds = {}
                    for side in sides if turn % 2 else sides[::-1]:
                        if prepare:
                            side.forget()
                        seconds[side] = side.pull()
                    pairs.append((seconds[unsigned], seconds[signed]))
                tell(what, pairs)
        finally:
            for side in sides:
                if hasattr(side, "server"):
                    side.server.terminate()
                    side.server.wait()


if __name__ == "__main__":
    main()

"""Attacks by what a process inherits or finds about it: umask, signals, directories, locale, proxies."""

import os
import stat

from holes_place import attack, until

ALL = {"a": b"1" * 100, "d/b": b"2" * 100}


def masked(mask):
    """Runs the program with a umask."""
    return "sh", "-c", f'umask {mask}; exec "$0" "$@"'


def deaf(*more):
    """Runs the program by somebody who ignores SIGCHLD."""
    return "env", "--ignore-signal=CHLD", *more


def mode(place, name):
    return stat.S_IMODE(os.stat(place.path(name)).st_mode)


@attack("inherited", "a background pull after an agent that was started with another umask")
def umask(place):
    place.publish({"a": b"1" * 100})
    os.chmod(place.path("site"), 0o755)
    done = place.run("pull", "site/manifest.json", "--into", "dest", "--background",
                     wrap=masked("022"))
    assert done.status == 0, done
    place.run("wait")
    place.run("agent", "stop")
    mode = stat.S_IMODE(os.stat(place.path("dest/a")).st_mode)
    return None if mode == 0o644 else f"dest/a has mode {mode:o}"


@attack("inherited", "a caller that ignores SIGCHLD")
def children(place):
    place.publish({"a": b"1" * 100})
    hook = place.hook("hook", "exit 0")
    done = place.run("pull", "site/manifest.json", "--into", "dest", "--hook", hook,
                     wrap=deaf())
    return None if done.status == 0 else f"{done}"


@attack("inherited", "a scheduled pull after an agent that was started with another umask")
def scheduled(place):
    place.publish(ALL)
    added = place.run("schedule", "add", place.path("site/manifest.json"), "--into", place.path("dest"), "--nightly", "02:00",
                      "--backend", "agent", "--name", "night", "--interactive", wrap=masked("022"))
    assert added.status == 0, added
    place.run("agent", "stop")
    place.start("agent", "run", wrap=masked("077"))
    assert until(lambda: os.path.exists(place.state("agent.sock")), 10), "no agent"
    done = place.run("schedule", "run", "night", "--now", wrap=masked("077"))
    assert done.status == 0, done
    place.run("agent", "stop")
    found = mode(place, "dest/a")
    return None if (found, mode(place, "dest/d")) == (0o644, 0o755) else f"dest/a has mode {found:o}"


@attack("inherited", "the umask of a run, where somebody looks for it")
def told_umask(place):
    place.publish(ALL)
    for command in (("pull", "site/manifest.json", "--into", "dest", "--background"), ("wait",)):
        done = place.run(*command, wrap=masked("027"))
        assert done.status == 0, done
    done = place.run("status", "holes", "--json")
    place.run("agent", "stop")
    return None if '"umask":"027"' in done.out.replace(" ", "") else "status does not say it"


@attack("inherited", "state that is made under a umask of 000")
def open_state(place):
    place.publish(ALL)
    for more in ((), ("--background",)):
        done = place.pull(*more, wrap=masked("000"))
        assert done.status == 0, done
    place.run("wait", wrap=masked("000"))
    place.run("agent", "stop")
    for base, directories, names in os.walk(place.state()):
        for name in [*directories, *names]:
            found = stat.S_IMODE(os.lstat(os.path.join(base, name)).st_mode)
            if found & 0o077:
                return f"{name} has mode {found:o}"
    return None


@attack("inherited", "a caller that ignores SIGCHLD: a program that verifies")
def verifier_of_deaf(place):
    place.publish(ALL)
    done = place.pull("--verify-program", place.hook("verify", "cat > /dev/null\n"), "--deadline", "8s", wrap=deaf())
    return None if done.status == 0 else str(done)


@attack("inherited", "a caller that ignores SIGCHLD: an agent with a program as condition, and a hook")
def condition_of_deaf(place):
    place.publish(ALL)
    done = place.pull("--background", "--condition-program", "/bin/true", "--hook", place.hook("hook", "exit 0\n"), wrap=deaf())
    assert done.status == 0, done
    waited = place.run("wait", "--timeout", "8s", wrap=deaf())
    place.run("agent", "stop")
    return None if waited.status == 0 and place.read("dest/a") == ALL["a"] else str(waited)


@attack("inherited", "a caller that ignores SIGCHLD: a plugin whose worker ends")
def plugin_of_deaf(place):
    place.publish(ALL)
    place.plugin("ends", "hook", """
def answer(method, params):
    os._exit(3)
""")
    place.configure('{plugins: {use: [{plugin: "ends", point: "hook"}]}}')
    done = place.pull("--hook", "plugin:ends", wrap=deaf())
    told = done.said + place.run("hooks", "list").out + place.run("events", "holes").out
    return "of a hook that ran it says that it was not started" if "not started" in told or "not be started" in told else None


@attack("inherited", "a caller that ignores SIGCHLD: a program that signs")
def signer_of_deaf(place):
    place.write(b"data", "source/a")
    assert place.run("keys", "new", "keys", "--project", "holes").status == 0
    os.makedirs(place.path("safe"))
    for name in ("release.key", "fresh.key"):
        os.rename(place.path(f"keys/{name}"), place.path(f"safe/{name}"))
    signer = place.hook("signer", f'exec ssh-keygen -Y sign -n "$1" -f {place.path("safe")}/"${{1#syncagent-}}".key\n')
    publish = ("publish", "source", "--to", "site", "--project", "holes", "--sign", "keys", "--signer", signer)
    done = place.run(*publish, wrap=deaf())
    return None if done.status == 0 else str(done)


@attack("inherited", "an agent that cannot start: said at once, with its own words")
def cannot_start(place):
    place.publish(ALL)
    place.write(b"", "taken/syncagent")
    os.makedirs(place.path("open"))
    os.chmod(place.path("open"), 0o777)
    long = place.path("d" * 90)
    os.makedirs(long)
    for directory in (place.path("taken"), place.path("open"), long):
        done = place.pull("--background", seconds=30, XDG_RUNTIME_DIR=directory)
        if done.status in (0, None) or done.seconds > 5 or "host name" in done.said:
            return f"{done}, after {done.seconds:.0f} s"
    return None


@attack("inherited", "a runtime directory that is missing: the state directory serves")
def no_runtime_directory(place):
    place.publish(ALL)
    done = place.pull("--background", seconds=30, XDG_RUNTIME_DIR=place.path("gone"))
    waited = place.run("wait", XDG_RUNTIME_DIR=place.path("gone"))
    place.run("agent", "stop")
    return None if done.status == waited.status == 0 and place.read("dest/a") == ALL["a"] else str(done)


@attack("inherited", "a host with an umlaut, where no locale is set")
def international(place):
    # The name is the proxy's to know.
    proxy = place.server(lambda handler: handler.answer(404))
    for locale in ("C", "POSIX"):
        done = place.run("pull", "http://bücher.example/manifest.json", "--into", "dest", "--proxy", proxy.url, LC_ALL=locale,
                         LANG=locale)
        if not any(path.startswith("http://xn--bcher-kva.example/") for path, _ in proxy.hits):
            return f"{locale}: {done}"
        proxy.hits.clear()
    return None


@attack("inherited", "a final dot in a host, and in no_proxy")
def final_dot(place):
    place.publish(ALL)
    server, proxy = place.server(), place.server(lambda handler: handler.answer(404))
    for host, exception in (("localhost.", "localhost"), ("localhost", "localhost.")):
        url = f"http://{host}:{server.server_port}/manifest.json"
        place.run("pull", url, "--into", "dest", "--patience", "3s", http_proxy=proxy.url, no_proxy=exception)
        if proxy.hits:
            return f"{host} with no_proxy={exception}: the proxy was asked"
    return None

"""Attacks on what the program says and takes from people: schedules, units, times, options, names, lines."""

import json
import os
import re
import subprocess
import threading
import time

from holes_place import NotShown, attack, until


@attack("said", "control characters in a file of schedules, on the terminal of whoever applies it")
def applied(place):
    for key in ("nightly", "session", "connections"):
        entry = {"name": "a", "manifest": "https://h.example/m.json", "into": "/srv/a", "nightly": "02:00", key: "\x1b]0;x\x07"}
        place.write(json.dumps({"format": "syncagent-schedules/1", "schedules": [entry]}), "schedules.json")
        done = place.run("schedule", "apply", "schedules.json")
        if "\x1b" in done.out + done.said:
            return f"{key}: they are printed as they are"
    return None


@attack("said", "a resolver for /pa/, and URLs that lead out of it with .. and %2e")
def led_out(place):
    server = place.server()
    entries = [place.entry(f"f{number}", b"%d" % number * 50, "other/f") for number in range(2)]
    for entry, url in zip(entries, ("/pa/%2e%2e/other/f", "/pa/x/../../other/f")):
        entry["urls"] = [server.url + url]
    place.manifest(entries)
    place.plugin("res", "resolver", f"""
def answer(method, params):
    with open({place.path('asked')!r}, "a") as file:
        file.writelines(request["url"] + "\\n" for request in params["requests"])
    return {{"dispositions": [{{"disposition": "continue"}}] * len(params["requests"])}}
""")
    place.configure('{plugins: {use: [{plugin: "res", point: "resolver", for: ["%s/pa/"]}]}}' % server.url)
    place.pull("--deadline", "8s", manifest=server.url + "/manifest.json")
    asked = (place.read("asked") or b"").decode().splitlines()
    return f"it was asked about {asked[0].removeprefix(server.url)}" if asked else None


@attack("said", "the machine's configuration, /etc/syncagent/config.json, below the user's")
def machine_configuration(place):
    if os.environ.get("HOLES_ISOLATED") != "1":
        raise NotShown("no mounts of its own to put before /etc")
    subprocess.run(["cp", "-a", "/etc", place.path("etc")], check=False, capture_output=True)
    place.write('{metrics: {textfile: "%s"}, connections: 2}' % place.path("m.prom"), "etc/syncagent/config.json")
    if subprocess.run(["mount", "--bind", place.path("etc"), "/etc"], check=False, capture_output=True).returncode:
        raise NotShown("no mounts of its own to put before /etc")
    place.closing.append(lambda: subprocess.run(["umount", "/etc"], check=False))
    place.manifest([place.entry("a", b"1")])
    place.configure("{connections: 3}")
    done = place.pull()
    assert done.status == 0, done
    return None if os.path.exists(place.path("m.prom")) else "it is not read"


@attack("said", "the sessions of the packaged service, for an administrator")
def of_system(place):
    taken = [command for command in ("status", "events", "report") if "Unknown option" in place.run(command, "--system").said]
    return f"{', '.join(taken)}: there is no --system" if taken else None


@attack("said", "a unit of systemd for Europe/Berlin: no dates of this year")
def unit(place):
    if os.environ.get("HOLES_ISOLATED") != "1" or subprocess.run(["mount", "-t", "tmpfs", "holes", "/run"], check=False).returncode:
        raise NotShown("no mounts of its own to put before /run")
    place.closing.append(lambda: subprocess.run(["umount", "/run"], check=False))
    os.makedirs("/run/systemd/system")
    # One that agrees to everything: the unit is what is looked at.
    place.hook("bin/systemctl", "exit 0\n")
    place.manifest([place.entry("a", b"1")])
    done = place.run("schedule", "add", place.path("site/manifest.json"), "--into", place.path("dest"), "--nightly", "02:30",
                     "--time-zone", "Europe/Berlin", "--backend", "systemd", "--name", "night", "--dry-run",
                     PATH=place.path("bin") + ":/usr/bin:/bin")
    if "OnCalendar" not in done.out + done.said:
        raise NotShown(f"no unit is printed: {done}")
    found = re.findall(r"OnCalendar=(20\d\d-.*)", done.out + done.said)
    return f"OnCalendar={found[0]}, and {len(found) - 1} more" if found else None


@attack("said", "the times of events: local, with their zone")
def local_times(place):
    place.manifest([place.entry("a", b"1")])
    assert place.pull().status == 0
    line = place.run("events", "holes", TZ="Asia/Kolkata").out.splitlines()[0]
    return None if "+05:30" in line else line[:60]


@attack("said", "report --since 7 and pull --deadline 7: seven of what?")
def unitless(place):
    place.manifest([place.entry("a", b"1")])
    assert place.pull().status == 0
    for done in (place.run("report", "--since", "7"), place.pull("--deadline", "7")):
        if done.status != 64:
            return str(done)
    return None if place.run("events", "holes", "--since", "1").status == 0 else "events --since 1 is refused"


@attack("said", "ls of a directory in a set, and channel list of a URL")
def listed(place):
    for name in ("maps/a", "maps/b", "texts/a"):
        place.write(name, "source/" + name)
    done = place.run("publish", "source", "--to", "site", "--project", "holes", "--channel", "beta")
    assert done.status == 0, done
    server = place.server()
    done = place.run("ls", "site/channels/beta.json.zst", "maps")
    if done.status != 0 or "maps/a" not in done.out or "texts/a" in done.out:
        return f"ls: {done}"
    done = place.run("channel", "list", server.url)
    return None if done.status == 0 and "beta" in done.out else f"channel list: {done}"


def silent(place):
    """A server that takes connections and says nothing until it is let go."""
    go = threading.Event()

    def reply(handler):
        if handler.path.startswith("/d/"):
            go.wait(20)
        handler.file(place.path("site"))

    server = place.server(reply)
    place.manifest([place.entry(f"d/{number}", b"%d" % number * 50) for number in range(3)])
    done = place.pull("--background", manifest=server.url + "/manifest.json")
    assert done.status == 0, done
    assert until(lambda: any(path.startswith("/d/") for path, _ in server.hits), 10), "nothing is asked for"
    return go


@attack("said", "prioritize with a directory")
def prioritized(place):
    go = silent(place)
    done = place.run("prioritize", "holes", "d")
    go.set()
    place.run("wait", "--timeout", "10s")
    place.run("agent", "stop")
    return None if done.status == 0 else str(done)


@attack("said", "resume of a run that was cancelled")
def resumed(place):
    go = silent(place)
    assert place.run("cancel", "holes").status == 0
    go.set()
    done = place.run("resume", "holes")
    waited = place.run("wait", "--timeout", "15s")
    place.run("agent", "stop")
    return None if done.status == waited.status == 0 and os.path.exists(place.path("dest/d/0")) else f"{done}; {waited}"


@attack("said", "a hook with its arguments in one word: the message says how")
def hook_arguments(place):
    place.manifest([place.entry("a", b"1")])
    hook = place.hook("hook", "exit 0\n")
    done = place.pull("--hook", f"{hook} --fast")
    return None if done.status in (64, 66, 78) and "argument" in done.said else f"{done}"


@attack("said", "an error of publish --json")
def json_errors(place):
    place.write(b"x", "file")
    for arguments in (("nothing", "--to", "site"), ("file", "--to", "site"), ("source", "--to", "site", "--base", "none.json")):
        os.makedirs(place.path("source"), exist_ok=True)
        done = place.run("publish", *arguments, "--project", "holes", "--json")
        try:
            last = json.loads(done.out.splitlines()[-1])
        except (IndexError, ValueError):
            return f"{arguments[0]}: {done}: no JSON"
        if done.status == 0 or "error" not in json.dumps(last):
            return f"{arguments[0]}: {done}: {done.out[:100]}"
    return None


@attack("said", ".git and .syncagent in what is published")
def left_out(place):
    for name in ("a", ".git/config", "sub/.syncagent/index", ".syncagent/lock"):
        place.write(b"x", "source/" + name)
    done = place.run("publish", "source", "--to", "site", "--project", "holes")
    if done.status != 0:
        return str(done)
    names = [entry["path"] for entry in json.loads(place.read("site/manifest.json"))["files"]]
    return None if names == ["a"] else f"published: {', '.join(names)}"


@attack("said", "another name for a project")
def renamed(place):
    place.write(b"x", "source/a")
    assert place.run("publish", "source", "--to", "site", "--project", "holes").status == 0
    plain = place.run("publish", "source", "--to", "site", "--project", "other")
    if plain.status == 0:
        return "it is changed without a question"
    done = place.run("publish", "source", "--to", "site", "--project", "other", "--rename")
    if done.status != 0:
        return str(done)
    document = json.loads(place.read("site/manifest.json"))
    return None if (document["project"], document["revision"]) == ("other", 2) else f"revision {document['revision']}"


@attack("said", "a pull of 12 seconds whose output is a file: no line every five seconds, no word left over")
def quiet(place):
    def reply(handler):
        if handler.path.startswith("/f"):
            time.sleep(12 if handler.path == "/f0" else 0)
        handler.file(place.path("site"))

    server = place.server(reply)
    place.manifest([place.entry(f"f{number}", b"%d" % number * 50) for number in range(2)])
    done = place.pull(manifest=server.url + "/manifest.json", seconds=40)
    assert done.status == 0, done
    lines = done.said.splitlines()
    return f"{len(lines)} lines, such as {lines[0][:60]!r}" if len(lines) > 1 or "Looking" in done.said else None

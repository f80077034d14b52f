"""Attacks on what is on record: tries that failed, hooks that are owed, and who is said to be at fault."""

import json
import os
import socket

from holes_agent import request, status
from holes_place import attack, until


def closed_port():
    """Where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def pulled(place):
    place.publish({"a": b"1" * 100})
    done = place.pull()
    assert done.status == 0, done


# MARK: Every end is on record

@attack("record", "a pull of a known session that finds no manifest: status, report, metrics and doctor tell the same")
def failed_try(place):
    pulled(place)
    done = place.pull(manifest="site/nope.json")
    assert done.status != 0, done
    views = {"status": "idle (failed)", "report": "FAILED", "metrics": 'last_run_result{result="failed",session="holes"} 1'}
    silent = [command for command, words in views.items() if words not in place.run(command).out]
    if place.run("doctor", "--strict").status == 0:
        silent.append("doctor")
    return f"nothing of it in {', '.join(silent)}" if silent else None


@attack("record", "a schedule whose manifest is gone: schedule list and report tell of it")
def failed_schedule(place):
    pulled(place)
    added = place.run("schedule", "add", place.path("site/nope.json"), "--into", place.path("dest"), "--session", "holes",
                      "--nightly", "02:00", "--backend", "agent", "--name", "night", "--interactive")
    assert added.status == 0, added
    done = place.run("schedule", "run", "night", "--now")
    place.run("agent", "stop")
    if done.status == 0:
        return str(done)
    listed = place.run("schedule", "list", "--json").out
    return None if '"failed"' in listed and "FAILED" in place.run("report").out else f"{done}: schedule list or report says nothing"


@attack("record", "a configuration whose plugin is not there: doctor says what a pull says")
def examined(place):
    pulled(place)
    place.configure('{plugins: {use: [{plugin: "no-such", point: "resolver"}]}}')
    done = place.pull()
    examined = place.run("doctor")
    return None if done.status == 78 and "no-such" in examined.out + examined.said else f"pull: {done}; doctor: {examined}"


@attack("record", "a hook that is owed to a paused run, when another pull finishes the set")
def promised(place):
    place.publish({"a": b"1" * 100})
    hook = place.hook("hook", f"echo x >> {place.path('called')}\n")
    _, send = place.agent()
    body = {"manifest": place.path("site/manifest.json"), "destination": place.path("dest"), "paused": True,
            "hooks": [{"arguments": [hook], "group": "all"}]}
    answer = send(request("POST", "/v1/runs", json.dumps(body)))
    assert status(answer) == "201", answer
    done = place.pull()
    assert done.status == 0, done
    return None if until(lambda: place.read("called") == b"x\n", 5) else "it was never called"


@attack("record", "a schedule whose hook program is not there")
def missing_hook(place):
    pulled(place)
    done = place.run("schedule", "add", place.path("site/manifest.json"), "--into", place.path("dest"), "--nightly", "02:00",
                     "--backend", "agent", "--name", "night", "--hook", "/opt/no/such/hook")
    return None if "/opt/no/such/hook" in done.said + done.out and "does not exist" in done.said + done.out else f"{done}: not said"


@attack("record", "the hooks 1 and 12 fail: each answers for itself in the report")
def hook_numbers(place):
    place.publish({"a": b"1"})
    hooks = []
    for number in range(1, 13):
        fails = number in (1, 12)
        hooks += ["--hook", place.hook(f"hook-{number}", f"echo the words of {number}.\nexit {int(fails)}\n")]
    done = place.pull(*hooks, seconds=40)
    assert done.status == 5, done
    lines = place.run("report").out.splitlines()
    for number in (1, 12):
        at = next((at for at, line in enumerate(lines) if f"/hook-{number}:" in line), None)
        if at is None or f"the words of {number}." not in " ".join(lines[at:at + 2]):
            return f"hook {number}: {lines[at + 1].strip() if at is not None else 'not in the report'}"
    return None


# MARK: Who is at fault

@attack("record", "401 and 403 end with 77, and refused credentials are called refused")
def refused(place):
    for code in (401, 403):
        server = place.server(lambda handler, code=code: handler.answer(code))
        done = place.pull("--deadline", "8s", manifest=server.url + "/manifest.json")
        if done.status != 77:
            return f"{code}: {done}"
        place.write(f"[{server.url}]\ntype = bearer\ntoken = abc\n", "credentials", 0o600)
        done = place.pull("--deadline", "8s", "--credentials", "credentials", manifest=server.url + "/manifest.json")
        if "refused" not in done.said:
            return f"{code} with credentials: {done}"
    return None


@attack("record", "a proxy that is dead, and one that gives no tunnel: it is called the proxy")
def proxies(place):
    refusing = place.server(lambda handler: handler.answer(502))
    refusing.RequestHandlerClass.do_CONNECT = lambda handler: handler.answer(502)
    for url in (f"http://127.0.0.1:{closed_port()}", refusing.url):
        done = place.pull("--proxy", url, "--patience", "2s", "--deadline", "8s", manifest="https://files.example/manifest.json")
        if f"the proxy {url}" not in done.said:
            return str(done)
    return None


@attack("record", "a file that is missing, with a dead mirror: the missing file is told, and soon")
def missing_beside_dead(place):
    server = place.server()
    entry = place.entry("a", b"12345")
    os.remove(place.path("site/a"))
    entry["urls"] = ["a", f"http://127.0.0.1:{closed_port()}/a"]
    place.manifest([entry])
    done = place.pull(manifest=server.url + "/manifest.json", seconds=25)
    if done.status is None or done.seconds > 15:
        return f"{done}, after {done.seconds:.0f} s"
    return None if "404" in done.said else f"{done}: {done.said.strip()[:200]}"


@attack("record", "a redirect loop that sets a cookie")
def loop(place):
    server = place.server(lambda handler: handler.answer(302, [("Location", handler.path), ("Set-Cookie", "seen=1")]))
    done = place.pull("--deadline", "8s", manifest=server.url + "/manifest.json")
    return None if "cookie" in done.said.lower() else str(done)


@attack("record", "a 403 and a 404 of another project on the same host: the next pull asks the host first")
def other_project(place):
    server, mirror = place.server(), place.server()
    for code in (404, 403):
        place.manifest([place.entry("x", b"1" * 50, f"gone{code}")], "site/one.json", project="one")
        os.remove(place.path(f"site/gone{code}"))
        server.reply = lambda handler, code=code: handler.answer(code) if "gone" in handler.path \
            else handler.file(place.path("site"))
        done = place.run("pull", server.url + "/one.json", "--into", f"one{code}", "--session", f"one{code}", "--deadline", "8s")
        assert done.status != 0, done
        entries = [place.entry(f"f{number}", b"%d" % number * 50) for number in range(4)]
        for entry in entries:
            entry["urls"].append(mirror.url + "/" + entry["path"])
        place.manifest(entries, "site/two.json", project="two")
        mirror.hits.clear()
        done = place.run("pull", server.url + "/two.json", "--into", f"two{code}", "--session", f"two{code}")
        assert done.status == 0, done
        if mirror.hits:
            return f"after {code} the mirror was asked {len(mirror.hits)} times"
    return None


@attack("record", "the URL of a directory without its slash, whatever the server says of it")
def slashless(place):
    place.publish({"a": b"1" * 100})
    os.makedirs(place.path("web"))
    os.rename(place.path("site"), place.path("web/tower-1.0"))
    page = (200, [("Content-Type", "text/html")], b"<!DOCTYPE html><html>Index</html>")
    for answer in ((404,), (403,), (401,), (301, [("Location", "/tower-1.0/")]), page, (200, (), b"[]"), (200,)):
        server = place.server(lambda handler, answer=answer: handler.answer(*answer) if handler.path == "/tower-1.0"
                              else handler.file(place.path("web")))
        done = place.pull("--deadline", "8s", manifest=server.url + "/tower-1.0")
        if done.status != 0:
            return f"where it is answered with {answer[0]}: {done}"
    return None

"""Attacks by servers whose answers are odd, slow or short and whose bytes are right, and on what a pull says that it does."""

import json
import os
import threading
import time

from holes_place import attack


# MARK: The digest decides

@attack("digest", "Content-Encoding that says nothing: empty, identity, aws-chunked")
def plain_codings(place):
    place.publish({f"f{number}": os.urandom(5_000) for number in range(4)})
    for coding in ("", "identity", "aws-chunked", "aws-chunked,identity", "Identity , AWS-chunked"):
        def reply(handler, coding=coding):
            send = handler.send_header
            handler.send_header = lambda name, value: (send(name, value), name == "ETag" and send("Content-Encoding", coding))
            handler.file(place.path("site"))

        server = place.server(reply)
        done = place.run("pull", server.url + "/manifest.json", "--into", f"dest-{len(coding)}", "--session", f"s{len(coding)}",
                         "--deadline", "8s")
        if done.status != 0:
            return f"'{coding}': {done}"
    return None


def capping(place, most, data):
    """A server that gives so many bytes at a time, however many are asked for: RFC 9110, section 15.3.7."""
    place.manifest([place.entry("a", data)])

    def reply(handler):
        if handler.path != "/a":
            return handler.file(place.path("site"))
        first = int(handler.headers.get("Range", "bytes=0-")[6:].partition("-")[0])
        last = min(first + most, len(data)) - 1
        if "Range" not in handler.headers:
            # It begins with all of it, and ends early.
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(data)))
            handler.close_connection = True
        else:
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
            handler.send_header("Content-Length", str(last + 1 - first))
        handler.send_header("ETag", '"e"')
        handler.send_header("Accept-Ranges", "bytes")
        handler.end_headers()
        handler.wfile.write(data[first:last + 1])

    return place.server(reply).url + "/manifest.json"


@attack("digest", "a server that gives 48 KiB an answer, whatever is asked for")
def short_answers(place):
    data = os.urandom(48 * 1024 * 40)
    done = place.pull("--deadline", "60s", manifest=capping(place, 48 * 1024, data), seconds=70)
    return None if done.status == 0 and os.path.getsize(place.path("dest/a")) == len(data) else str(done)


@attack("digest", "403 with Retry-After")
def limited(place):
    place.manifest([place.entry("a", b"12345")])
    asked = []

    def reply(handler):
        if handler.path == "/a":
            asked.append(time.monotonic())
            if len(asked) == 1:
                return handler.answer(403, [("Retry-After", "2")])
        return handler.file(place.path("site"))

    done = place.pull("--deadline", "15s", manifest=place.server(reply).url + "/manifest.json")
    if done.status != 0:
        return str(done)
    return None if asked[1] - asked[0] > 1.5 else f"asked again after {asked[1] - asked[0]:.1f} s"


@attack("digest", "a file of 24 MiB from a server that gives 4 MiB/s a connection")
def slow_connections(place):
    data = os.urandom(24 << 20)
    place.manifest([place.entry("a", data)])
    lock, now, most = threading.Lock(), [0], [0]

    def reply(handler):
        if handler.path != "/a":
            return handler.file(place.path("site"))
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        send, head = handler.wfile.write, handler.send_header
        handler.send_header = lambda name, value: (head(name, value), name == "ETag" and head("Accept-Ranges", "bytes"))

        def slowly(piece):
            for at in range(0, len(piece), 1 << 18):
                send(piece[at:at + (1 << 18)])
                if len(piece) > 10_000:
                    time.sleep(1 / 16)

        handler.wfile.write = slowly
        try:
            handler.file(place.path("site"))
        finally:
            handler.wfile.write = send
            with lock:
                now[0] -= 1

    done = place.pull("--deadline", "40s", manifest=place.server(reply).url + "/manifest.json", seconds=45)
    if done.status != 0:
        return str(done)
    return None if most[0] > 1 else f"one connection, {done.seconds:.0f} s"


# MARK: A plan is what happens, and it is said

@attack("plan", "files that no pull has installed are replaced: how many, and --backup-dir")
def replaced(place):
    place.publish({"a": b"1" * 100, "b": b"2" * 100})
    for name in "ab":
        place.write(b"somebody's", f"dest/{name}")
    done = place.pull()
    words = done.said + done.out
    return None if done.status == 0 and "--backup-dir" in words and "2" in words.split("--backup-dir")[0] else f"{done}: not said"


@attack("plan", "files that are no longer in the set: how many, and --prune")
def obsolete(place):
    place.publish({"a": b"1" * 100, "b": b"2" * 100, "c": b"3" * 100})
    assert place.pull().status == 0
    for name in "bc":
        os.remove(place.path("source", name))
    done = place.run("publish", "source", "--to", "site", "--project", "holes", "--allow-fewer")
    done = place.run("publish", "source", "--to", "site", "--project", "holes") if done.lacks_option else done
    assert done.status == 0, done
    done = place.pull()
    return None if "--prune" in done.said + done.out else f"{done}: not said"


@attack("plan", "verify where files stand that are in no set")
def extra(place):
    place.publish({"a": b"1" * 100})
    assert place.pull().status == 0
    place.write(b"somebody's", "dest/other")
    place.write(b"somebody's", "dest/d/other")
    done = place.run("verify", "site/manifest.json", "--into", "dest", "--json")
    return None if '"extra":2' in done.out.replace(" ", "") else f"{done}: not counted"


@attack("plan", "a second copy that was edited here: the plan says what is fetched")
def second_copy(place):
    place.publish({"a": b"1" * 10_000, "b": b"1" * 10_000, "c": b"3" * 10_000})
    assert place.pull().status == 0
    os.remove(place.path("dest/a"))
    place.write(b"edited", "dest/b")
    done = place.run("plan", "site/manifest.json", "--into", "dest", "--json")
    plan = json.loads(done.out.splitlines()[-1])
    server = place.server()
    fetched = place.run("pull", server.url + "/manifest.json", "--into", "dest", "--session", "holes", "--json")
    assert fetched.status == 0, fetched
    wanted = plan["bytes"]["packs"] + plan["bytes"]["loose"]
    packs = sum(path.startswith("/packs/") for path, _ in server.hits)
    return None if (wanted > 0) == (packs > 0) else f"the plan fetches {wanted} bytes, and the pull asked for {packs} packs"

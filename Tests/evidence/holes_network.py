"""Attacks 7 to 14 that a server makes: places that were not meant, exhaustion, silence."""

import os
import re
import signal
import socket
import threading
import time

from holes_place import PUBLIC, attack, until, zstd_bomb

TOKEN = """
def answer(method, params):
    return {"credential": {"kind": "bearer", "token": "s3cret"}}
"""


# MARK: 7. Secrets

def asked_with_token(place, scope, port):
    """What an origin was told, when a credential plugin is for `scope`."""
    server = place.server(port=port)
    place.publish({"a": b"1" * 100})
    place.plugin("token", "credential", TOKEN)
    place.configure('{plugins: {use: [{plugin: "token", point: "credential", for: ["%s"]}]}}' % scope)
    done = place.pull(manifest=server.url + "/manifest.json")
    return done, any("s3cret" in headers.get("Authorization", "") for _, headers in server.hits)


@attack("7", "a credential for http://127.0.0.1:2817 and a server at port 28173")
def longer_port(place):
    done, was_told = asked_with_token(place, "http://127.0.0.1:2817", 28173)
    return "the other port was told the token" if was_told else None if done.status == 0 else str(done)


@attack("7", "a credential for a host whose name begins another one's: assets.example and assets.example.evil.invalid")
def longer_host(place):
    # The name is the proxy's to know.
    proxy = place.server(lambda handler: handler.answer(404))
    place.plugin("token", "credential", TOKEN)
    place.configure('{plugins: {use: [{plugin: "token", point: "credential", for: ["http://assets.example"]}]}}')
    place.run("pull", "http://assets.example.evil.invalid/manifest.json", "--into", "dest", "--proxy", proxy.url)
    if not proxy.hits:
        return "the attack did not happen: nothing was asked"
    was_told = any("s3cret" in headers.get("Authorization", "") for _, headers in proxy.hits)
    return "the longer name was told the token" if was_told else None


@attack("7", "a credential for an origin written with a final /, as documented, is used")
def final_slash(place):
    done, was_told = asked_with_token(place, "http://127.0.0.1:2817/", 2817)
    return None if was_told and done.status == 0 else f"it was not used: {done}"


@attack("7", "a resolver for http://127.0.0.1:2817/pa is not asked about /packs/")
def resolver_prefix(place):
    server = place.server(port=2817)
    place.publish({"a": b"1" * 100})
    place.plugin("res", "resolver", f"""
def answer(method, params):
    with open({place.path('asked')!r}, "a") as file:
        file.writelines(request["url"] + "\\n" for request in params["requests"])
    return {{"dispositions": [{{"disposition": "continue"}}] * len(params["requests"])}}
""")
    place.configure('{plugins: {use: [{plugin: "res", point: "resolver", for: ["%s/pa"]}]}}' % server.url)
    done = place.pull(manifest=server.url + "/manifest.json")
    asked = (place.read("asked") or b"").decode().splitlines()
    return f"it was asked about {asked[0]}" if asked else None if done.status == 0 else str(done)


# MARK: 8, 9. Places that were not meant

@attack("8", "a manifest of a public address that names a private one")
def private_name(place):
    private = place.server(lambda handler: handler.answer(200, (), b"12345"))
    public = place.server(address=PUBLIC)
    place.manifest([place.entry("a", b"12345", private.url + "/a")])
    done = place.pull("--deadline", "8s", manifest=public.url + "/manifest.json")
    if private.hits:
        return "the private server was asked"
    if done.status != 77:
        return str(done)
    allowed = place.pull("--allow-private-redirect", "127.0.0.1", manifest=public.url + "/manifest.json")
    return None if allowed.status == 0 else f"with leave: {allowed}"


@attack("8", "a public manifest that names a private address by a name of its own (rebinding)")
def private_by_name(place):
    private = place.server(lambda handler: handler.answer(200, (), b"12345"))
    public = place.server(address=PUBLIC)
    place.manifest([place.entry("a", b"12345", f"http://localhost:{private.server_port}/a")])
    done = place.pull("--deadline", "8s", manifest=public.url + "/manifest.json")
    return "the private server was asked" if private.hits else None if done.status == 77 else str(done)


@attack("8", "an https manifest that names http")
def plain_name(place):
    plain = place.server(lambda handler: handler.answer(200, (), b"12345"))
    certificate = place.certificate("127.0.0.1")
    secure = place.server(certificate=certificate)
    place.manifest([place.entry("a", b"12345", plain.url + "/a")])
    options = ("--cacert", certificate + ".crt", "--deadline", "8s")
    done = place.pull(*options, manifest=secure.url + "/manifest.json")
    if plain.hits:
        return "it was asked without TLS"
    if done.status != 77:
        return str(done)
    allowed = place.pull(*options, "--allow-redirect-downgrade", "127.0.0.1", manifest=secure.url + "/manifest.json")
    return None if allowed.status == 0 else f"with leave: {allowed}"


@attack("9", "a redirect to a URL with %0d%0a")
def line_end(place):
    target = place.server(lambda handler: handler.answer(200, (), b"12345"))
    location = target.url + "/a%0d%0aX-Injected:%20yes"
    server = place.server(lambda handler: handler.answer(302, [("Location", location)]) if handler.path == "/a"
                          else handler.file(place.path("site")))
    place.manifest([place.entry("a", b"12345")])
    done = place.pull("--deadline", "8s", manifest=server.url + "/manifest.json")
    return "it was followed" if target.hits else None if done.status not in (0, None) else str(done)


# MARK: 10. Patterns

def many_patterns(place, paths, groups):
    """Little text when it is compressed: long paths, and 1,000 times a pattern in each group, tried at every letter."""
    deep = "/".join(["a" * 250] * 15)
    pattern = "**/" + "*a" * 30 + "b*/**"
    place.manifest([{"path": f"{number}/{deep}", "link": "b"} for number in range(paths)],
                   groups=[{"name": f"g{number}", "include": [pattern] * 1_000} for number in range(groups)])


@attack("10", "2,000 long paths, and 10,000 patterns that are tried at every letter of them")
def work(place):
    many_patterns(place, 2_000, 10)
    done = place.pull("--group", "g9", seconds=40)
    return None if done.status in (0, 65) else str(done)


@attack("10", "one pattern that can be tried in more ways than there are seconds")
def patterns(place):
    for pattern, path in (("**/a/" * 24 + "b", "a/" * 60 + "a"), ("*a" * 60 + "b", "a" * 200)):
        files = [{"path": path, "link": "x"}]
        place.manifest(files, groups=[{"name": "g", "include": [pattern]}])
        done = place.pull("--group", "g", seconds=10)
        if done.status not in (0, 65):
            return str(done)
    return None


@attack("10", "3,000 groups that name 1,000 hooks each which nobody knows")
def unknown_hooks(place):
    hooks = [f"n{number}" for number in range(1_000)]
    place.manifest([place.entry("a", b"1")], groups=[{"name": f"g{n}", "hooks": hooks} for n in range(3_000)])
    done = place.pull(seconds=20)
    return f"{done}, {done.seconds:.0f} s" if done.status is None or done.status not in (0, 65) else None


# MARK: 11. Memory

def bounded(done, statuses, most=300):
    if done.mib > most:
        return f"it took {done.mib:.0f} MiB; {done}"
    return None if done.status in statuses else str(done)


@attack("11", "a manifest of 32 KB that becomes a gigabyte")
def manifest_bomb(place):
    place.write(zstd_bomb(8_192), "site/m.json.zst")
    return bounded(place.pull(manifest="site/m.json.zst", seconds=60), (65,))


@attack("11", "a manifest that does not end, 2 GiB at most")
def endless(place):
    def reply(handler):
        if handler.path != "/manifest.json":
            return handler.answer(404)
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        for _ in range(2_048):
            handler.wfile.write(b" " * (1 << 20))
        handler.close_connection = True

    server = place.server(reply)
    return bounded(place.pull("--deadline", "40s", manifest=server.url + "/manifest.json", seconds=60), (65,))


def part(claim, pack):
    digest = "a" * 64
    return ([{"blob": [0, 0, len(pack), claim, "zstd", digest], "files": 5_000_000}],
            {"packs": [{"url": "packs/a.pack", "size": len(pack), "sha256": digest}]})


@attack("11", "a part that claims 1,000 MiB, and one that gives 60")
def large_part(place):
    for claim, pack in ((1_048_576_000, zstd_bomb(40) + bytes(40_000)), (60 << 20, zstd_bomb(480))):
        place.write(pack, "site/packs/a.pack")
        parts, more = part(claim, pack)
        place.manifest(parts, key="parts", **more)
        found = bounded(place.pull(seconds=60), (65,))
        if found:
            return found
    return None


def windows(place, over_http):
    packs, files = [], []
    for number in range(32):
        # More than its window; the digest is wrong, which shows when all of it has been decoded.
        frame = zstd_bomb(1_040, byte=number)
        place.write(frame, f"site/packs/{number}.pack")
        packs.append({"url": f"packs/{number}.pack", "size": len(frame), "sha256": f"{number:064x}"})
        size = 1_040 << 17
        files.append({"path": f"f{number}", "size": size, "sha256": f"{number:064x}",
                      "blobs": [[number, 0, len(frame), size, "zstd"]]})
    place.manifest(files, packs=packs)
    manifest = place.server().url + "/manifest.json" if over_http else "site/manifest.json"
    return bounded(place.pull("--connections", "32", "--deadline", "80s", manifest=manifest, seconds=90), (2,))


@attack("11", "32 packs whose frames want windows of 128 MiB, from a server")
def windows_served(place):
    return windows(place, True)


# MARK: 12. serve

@attack("12", "200 clients of serve that do not read")
def deaf_readers(place):
    place.sparse("site/big", 64 << 20)
    running = place.start("serve", "site", "--port", "0")

    def port():
        with open(running.log.name) as file:
            return re.search(r"http://127\.0\.0\.1:(\d+)", file.read())

    assert until(port, 10), "serve does not start"
    port, clients = int(port()[1]), []
    try:
        for number in range(200):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.bind((f"127.0.0.{1 + number % 8}", 0))
            client.settimeout(5)
            clients.append(client)
            client.connect(("127.0.0.1", port))
            client.sendall(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(3)
        with socket.create_connection(("127.0.0.1", port), 5) as other:
            other.sendall(b"GET /big HTTP/1.1\r\nHost: x\r\nRange: bytes=0-9\r\n\r\n")
            answer = other.recv(200)
        most = running.status_line("VmHWM")
        if b" 206 " not in answer:
            return "another client gets no answer"
        return f"it took {most:.0f} MiB" if most > 150 else None
    finally:
        for client in clients:
            client.close()


# MARK: 13. One byte a second

def slow_server(place):
    def reply(handler):
        if handler.path != "/a":
            return handler.file(place.path("site"))
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        for _ in range(100):
            handler.wfile.write(b"x")
            handler.wfile.flush()
            time.sleep(1)

    server = place.server(reply)
    place.manifest([place.entry("a", b"x" * 100_000)])
    return server


def asked_again(place, seconds, *options):
    server = slow_server(place)
    running = place.start("pull", server.url + "/manifest.json", "--into", "dest", "--deadline", "90s", *options)
    isasked = until(lambda: running.process.poll() is not None or
                    sum(path == "/a" for path, _ in server.hits) > 1, seconds)
    if running.process.poll() == 64:
        return "there is no such option"
    return None if isasked else f"after {seconds} s it still waits for the first answer"


@attack("13", "a server of one byte a second, with --speed-limit 1K --speed-time 3s")
def slow(place):
    return asked_again(place, 20, "--speed-limit", "1K", "--speed-time", "3s")


@attack("13", "a server of one byte a second, with nothing said")
def slow_default(place):
    return asked_again(place, 75)


# MARK: 14. Stopping in the foreground

def silent(place):
    """A server that takes connections and says nothing."""
    listener = socket.create_server(("127.0.0.1", 0))
    held = []

    def accept():
        while True:
            try:
                held.append(listener.accept()[0])
            except OSError:
                return

    threading.Thread(target=accept, daemon=True).start()
    place.closing += [lambda: [client.close() for client in held], listener.close]
    return f"http://127.0.0.1:{listener.getsockname()[1]}", held


def stopped(running, isready, statuses=(143,), most=1.5):
    if not until(isready, 20):
        return f"the attack did not happen: the program is not at work (exit {running.process.poll()})"
    status, seconds = running.ends(signal.SIGTERM, 10)
    if status is None:
        return "still running 10 s after SIGTERM"
    if seconds > most:
        return f"{seconds:.1f} s after SIGTERM"
    return None if status in statuses else f"exit {status}"


def pulling(place, manifest="site/manifest.json", *more):
    return place.start("pull", manifest, "--into", "dest", *more)


@attack("14", "SIGTERM while a server does not answer for the manifest")
def stop_manifest(place):
    url, held = silent(place)
    return stopped(pulling(place, url + "/manifest.json"), lambda: held)


@attack("14", "SIGTERM while a server does not answer for the files")
def stop_files(place):
    url, held = silent(place)
    place.manifest([place.entry("a", b"12345", url + "/a")])
    return stopped(pulling(place), lambda: held)


@attack("14", "SIGTERM while patterns are matched")
def stop_matching(place):
    many_patterns(place, 300, 1)
    running = pulling(place, "site/manifest.json", "--group", "g0")
    return stopped(running, lambda: running.has_worked(1))


@attack("14", "SIGTERM while a manifest of 600,000 entries is read, and while 600,000 links are made")
def stop_reading(place):
    place.manifest([{"path": f"d/{number}", "link": "x"} for number in range(600_000)])
    for words in ("reading", "making links"):
        running = pulling(place)
        isready = (lambda: running.has_worked(0.2)) if words == "reading" else (lambda: os.path.exists(place.path("dest/d")))
        found = stopped(running, isready)
        if found:
            return f"{words}: {found}"
    return None


def terabyte(place):
    digest = "1" * 64
    place.manifest([{"path": "f", "size": 1 << 40, "sha256": digest, "blobs": [[0, 0, 1 << 40]]}],
                   packs=[{"url": "a", "size": 1 << 40, "sha256": digest}])
    place.sparse("dest/f", 1 << 40)


@attack("14", "SIGTERM while a file of 1 TiB is hashed, by pull and by verify")
def stop_hashing(place):
    terabyte(place)
    for command in ("pull", "verify"):
        running = place.start(command, "site/manifest.json", "--into", "dest")
        found = stopped(running, lambda running=running: running.has_worked(0.5))
        if found:
            return f"{command}: {found}"
    return None


def deaf_hook(place):
    place.manifest([place.entry("a", b"1")])
    return place.hook("hook.sh", f"trap '' TERM\ntouch {place.path('on')}\nsleep 20\n")


@attack("14", "SIGTERM while a hook does not listen")
def stop_hook(place):
    running = pulling(place, "site/manifest.json", "--hook", deaf_hook(place))
    return stopped(running, lambda: os.path.exists(place.path("on")), (5, 143))


@attack("14", "a second SIGTERM ends the process")
def second(place):
    running = pulling(place, "site/manifest.json", "--hook", deaf_hook(place))
    assert until(lambda: os.path.exists(place.path("on")), 10)
    running.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    status, seconds = running.ends(signal.SIGTERM, 5)
    return None if status is not None and seconds < 0.5 else f"exit {status}, {seconds:.1f} s after the second"

"""A file system in memory that knows what was synced, served through /dev/fuse: for power cuts, and for what other file systems
lack. It speaks the kernel's protocol (linux/fuse.h) itself: no library is needed, only root.

Every change is written down as an operation. A cut at operation K makes the file system what a disk could show afterwards:
changes that a sync before K covers are there; of the others, as the kind of disk says:

    kept        all of them (the machine only stopped)
    lost        none: a sync of a file covers its bytes and attributes, not its name; one of a directory covers its names
    ordered     names in their order up to some moment, each sync of anything being one (a journal, as that of ext4); bytes
                of files may be missing all the same
    unordered   names in their order within each directory, as Documentation/reference/On-disk-state.md expects of file systems;
                all else by itself, by chance, in pieces of 4,096 bytes

syncfs(2) does not come through FUSE. `synced.c`, preloaded, sends it as fsetxattr(2) of user.syncfs; it covers the first directory
below the root that the file is in, so that two such directories behave as two disks.
"""

import ctypes
import errno
import multiprocessing
import os
import random
import select
import stat
import struct
import time

PIECE = 4096
EXISTS, MISSING = errno.EEXIST, errno.ENOENT
LIBC = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    pass


class Node:
    __slots__ = ("mode", "uid", "gid", "data", "entries", "target", "links", "times", "rdev", "attributes")

    def __init__(self, mode, uid=0, gid=0, rdev=0):
        self.mode, self.uid, self.gid, self.rdev, self.links, self.target = mode, uid, gid, rdev, 0, b""
        self.data, self.entries = bytearray(), {} if stat.S_ISDIR(mode) else None
        now = time.time_ns()
        self.times, self.attributes = [now, now, now], {}

    def copy(self):
        other = Node(self.mode, self.uid, self.gid, self.rdev)
        other.data, other.links, other.target, other.times = bytearray(self.data), self.links, self.target, list(self.times)
        other.attributes = dict(self.attributes)
        other.entries = None if self.entries is None else dict(self.entries)
        return other


class Model:
    """Nodes by number, and what the operations do to them. An operation on what is not there does nothing."""

    def __init__(self):
        self.nodes = {1: Node(stat.S_IFDIR | 0o755)}
        self.nodes[1].links = 2

    def copy(self):
        other = Model()
        other.nodes = {number: node.copy() for number, node in self.nodes.items()}
        return other

    def apply(self, operation):
        kind, *arguments = operation
        getattr(self, kind)(*arguments)

    def make(self, number, mode, uid, gid, rdev, target, times):
        if number not in self.nodes:
            self.nodes[number] = Node(mode, uid, gid, rdev)
            self.nodes[number].target, self.nodes[number].times = target, list(times)

    def enter(self, parent, name, number):
        if parent in self.nodes and number in self.nodes:
            self.nodes[parent].entries[name] = number
            self.nodes[number].links += 1

    def leave(self, parent, name, number):
        if parent in self.nodes and self.nodes[parent].entries.get(name) == number:
            del self.nodes[parent].entries[name]
            self.nodes[number].links -= 1

    def move(self, parent, name, new_parent, new_name, number):
        if new_parent not in self.nodes or number not in self.nodes:
            return
        former = self.nodes[new_parent].entries.get(new_name)
        if former is not None and former != number:
            self.leave(new_parent, new_name, former)
        self.enter(new_parent, new_name, number)
        self.leave(parent, name, number)

    def exchange(self, parent, name, new_parent, new_name, number, other):
        if parent in self.nodes and new_parent in self.nodes:
            self.nodes[parent].entries[name] = other
            self.nodes[new_parent].entries[new_name] = number

    def write(self, number, offset, data):
        if number in self.nodes:
            content = self.nodes[number].data
            if len(content) < offset:
                content.extend(bytes(offset - len(content)))
            content[offset:offset + len(data)] = data

    def truncate(self, number, size):
        if number in self.nodes:
            content = self.nodes[number].data
            del content[size:]
            content.extend(bytes(size - len(content)))

    def change(self, number, values):
        if number in self.nodes:
            for name, value in values.items():
                setattr(self.nodes[number], name, list(value) if name == "times" else value)

    def sync(self, *_):
        pass

    def mark(self, *_):
        pass

    def files(self, number=1, prefix=""):
        """Path and node of all that is there."""
        for name, child in sorted(self.nodes[number].entries.items()):
            path, node = prefix + os.fsdecode(name), self.nodes[child]
            yield path, node
            if node.entries is not None:
                yield from self.files(child, path + "/")

    def tops(self):
        """For each node the first directory below the root that it is in."""
        return {child: top for top, start in self.nodes[1].entries.items() for child in self.below(start)}

    def below(self, number):
        yield number
        for child in (self.nodes[number].entries or {}).values():
            yield from self.below(child)


def is_about_names(operation):
    return operation[0] in ("enter", "leave", "move", "exchange")


def survivors(log, cut, kind, chance):
    """The operations before `cut` that a disk of this kind shows after a cut there."""
    log = log[:cut]
    if kind == "kept":
        return log
    covered = bytearray(len(log))
    last_sync = 0
    for at, operation in enumerate(log):
        if operation[0] != "sync":
            continue
        last_sync = at
        _, what, number, nodes = operation
        for earlier in range(at):
            if covered[earlier]:
                continue
            other = log[earlier]
            if what == "all":
                covered[earlier] = other[0] in ("sync", "mark") or bool(touched(other) & nodes)
            elif what == "file":
                covered[earlier] = other[0] in ("make", "write", "truncate", "change") and other[1] == number
            else:
                covered[earlier] = is_about_names(other) and number in touched_directories(other) or \
                    other[0] in ("make", "change") and other[1] == number
    # A name that is there is that of a node that is there.
    named = {operation[3] if operation[0] == "enter" else operation[5]
             for at, operation in enumerate(log) if covered[at] and operation[0] in ("enter", "move")}
    moment = chance.randrange(last_sync, len(log) + 1) if kind == "ordered" else 0
    result, torn = [], set()  # Directories of which an operation is lost: no later one of theirs is there.
    for at, operation in enumerate(log):
        if covered[at]:
            keep = True
        elif kind == "lost":
            keep = operation[0] == "make" and operation[1] in named
        elif kind == "ordered":
            keep = at < moment and (operation[0] not in ("write",) or chance.random() < 0.5)
        else:
            keep = operation[0] == "make" or chance.random() < (0.85 if is_about_names(operation) else 0.5)
            if is_about_names(operation) and (not keep or torn & touched_directories(operation)):
                keep = False
                torn |= touched_directories(operation)
        if keep:
            result.append(operation)
    return result


def touched_directories(operation):
    kind = operation[0]
    if kind in ("enter", "leave"):
        return {operation[1]}
    return {operation[1], operation[3]} if kind in ("move", "exchange") else set()


def touched(operation):
    return touched_directories(operation) or ({operation[1]} if len(operation) > 1 else set())


class Server:
    """Answers the kernel, and the trials through a pipe."""

    def __init__(self, pipe, mountpoint, options):
        self.pipe, self.options = pipe, options
        self.live, self.base, self.log = Model(), Model(), []
        self.next, self.handles = 2, {}
        self.kept = None
        self.configure(options)
        self.fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        data = f"fd={self.fuse},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions".encode()
        if LIBC.mount(b"forgetful", mountpoint.encode(), b"fuse", 0, data) != 0:
            raise OSError(ctypes.get_errno(), "mount")

    # MARK: Operations

    def do(self, *operation):
        self.log.append(operation)
        self.live.apply(operation)

    def node(self, number):
        if number not in self.live.nodes:
            raise Failed(errno.ESTALE)
        return self.live.nodes[number]

    def touch(self, number, modified=True):
        now = time.time_ns()
        times = list(self.live.nodes[number].times)
        times[2] = now
        if modified:
            times[1] = now
        self.do("change", number, {"times": times})

    def check_name(self, name):
        if len(name) > self.name_limit:
            raise Failed(errno.ENAMETOOLONG)

    def make(self, parent, name, mode, context, rdev=0, target=b""):
        self.check_name(name)
        directory = self.node(parent)
        if name in directory.entries:
            raise Failed(EXISTS)
        number, now = self.next, time.time_ns()
        self.next += 1
        gid = context[1]
        if directory.mode & stat.S_ISGID:
            gid = directory.gid
        self.do("make", number, mode, context[0], gid, rdev, target, (now, now, now))
        self.do("enter", parent, name, number)
        self.touch(parent)
        return number

    def attr(self, number):
        node = self.node(number)
        size = len(node.target) if stat.S_ISLNK(node.mode) else len(node.data)
        links = node.links
        if node.entries is not None:
            links = 2 + sum(self.live.nodes[child].entries is not None for child in node.entries.values())
        seconds, nanos = zip(*(divmod(moment, 10**9) for moment in node.times))
        return struct.pack("<6Q10I", number, size, (size + 511) // 512, *seconds, *nanos, node.mode, links, node.uid, node.gid,
                           node.rdev, PIECE, 0)

    def entry(self, number):
        return struct.pack("<4Q2I", number, 0, 0, 0, 0, 0) + self.attr(number)

    def handle(self, number):
        return struct.pack("<QII", number, 0, 0)

    # MARK: The kernel's requests

    def init(self, _, body, __):
        major, minor, readahead, flags = struct.unpack_from("<4I", body)
        wanted = flags & (1 | 1 << 3 | 1 << 5 | 1 << 18 | 1 << 22)
        return struct.pack("<4I2H2I2HI28x", 7, min(minor, 31), readahead, wanted, 12, 10, 1 << 20, 1, 256, 0, 0)

    def lookup(self, number, body, _):
        name = body[:-1]
        self.check_name(name)
        if number == 1 and name == b".now":
            return self.entry_of_now()
        found = self.node(number).entries.get(name)
        if found is None:
            raise Failed(MISSING)
        return self.entry(found)

    NOW = 1 << 40  # The number of a file that says how many operations there were.

    def entry_of_now(self):
        attr = struct.pack("<6Q10I", self.NOW, 20, 1, *[0] * 6, stat.S_IFREG | 0o444, 1, 0, 0, 0, PIECE, 0)
        return struct.pack("<4Q2I", self.NOW, 0, 0, 0, 0, 0) + attr

    def getattr(self, number, _, __):
        return struct.pack("<QII", 0, 0, 0) + (self.entry_of_now()[40:] if number == self.NOW else self.attr(number))

    def setattr(self, number, body, _):
        valid, _, _, size, _, atime, mtime, _, anano, mnano, _, mode, _, uid, gid, _ = struct.unpack("<II6Q8I", body)
        node = self.node(number)
        values, now = {}, time.time_ns()
        if valid & 1:
            values["mode"] = stat.S_IFMT(node.mode) | mode & 0o7777
        if valid & 2:
            values["uid"] = uid
        if valid & 4:
            values["gid"] = gid
        times = list(node.times)
        if valid & 16:
            times[0] = now if valid & 128 else atime * 10**9 + anano
        if valid & 32:
            times[1] = now if valid & 256 else mtime * 10**9 + mnano
        if valid & 8:
            self.do("truncate", number, size)
            times[1] = now
        times[2] = now
        self.do("change", number, values | {"times": times})
        return struct.pack("<QII", 0, 0, 0) + self.attr(number)

    def readlink(self, number, _, __):
        return self.node(number).target

    def symlink(self, number, body, context):
        name, target = body[:-1].split(b"\0")
        return self.entry(self.make(number, name, stat.S_IFLNK | 0o777, context, target=target))

    def mknod(self, number, body, context):
        mode, rdev = struct.unpack_from("<II", body)
        return self.entry(self.make(number, body[16:-1], mode, context, rdev))

    def mkdir(self, number, body, context):
        mode, = struct.unpack_from("<I", body)
        mode |= self.node(number).mode & stat.S_ISGID
        return self.entry(self.make(number, body[8:-1], stat.S_IFDIR | mode, context))

    def create(self, number, body, context):
        _, mode = struct.unpack_from("<II", body)
        made = self.make(number, body[16:-1], stat.S_IFREG | mode & 0o7777, context)
        return self.entry(made) + self.handle(made)

    def remove(self, number, body, is_directory):
        name = body[:-1]
        found = self.node(number).entries.get(name)
        if found is None:
            raise Failed(MISSING)
        entries = self.node(found).entries
        if is_directory and entries is None:
            raise Failed(errno.ENOTDIR)
        if is_directory and entries:
            raise Failed(errno.ENOTEMPTY)
        if not is_directory and entries is not None:
            raise Failed(errno.EISDIR)
        self.do("leave", number, name, found)
        self.touch(number)
        self.touch(found, modified=False)
        return b""

    def unlink(self, number, body, _):
        return self.remove(number, body, False)

    def rmdir(self, number, body, _):
        return self.remove(number, body, True)

    def rename(self, number, body, _, flags=0, at=8):
        to, = struct.unpack_from("<Q", body)
        name, new_name = body[at:-1].split(b"\0")
        self.check_name(new_name)
        source = self.node(number).entries.get(name)
        target = self.node(to).entries.get(new_name)
        if source is None:
            raise Failed(MISSING)
        if flags & ~3 or flags == 3:
            raise Failed(errno.EINVAL)
        if flags == 1 and target is not None:
            raise Failed(EXISTS)
        if flags == 2:
            if target is None:
                raise Failed(MISSING)
            self.do("exchange", number, name, to, new_name, source, target)
        elif source != target:
            if target is not None:
                over = self.node(target).entries
                if over:
                    raise Failed(errno.ENOTEMPTY)
                if (over is None) != (self.node(source).entries is None):
                    raise Failed(errno.ENOTDIR if over is None else errno.EISDIR)
            self.do("move", number, name, to, new_name, source)
        self.touch(number)
        if to != number:
            self.touch(to)
        self.touch(source, modified=False)
        return b""

    def rename2(self, number, body, context):
        flags, = struct.unpack_from("<I", body, 8)
        return self.rename(number, body, context, flags, 16)

    def link(self, number, body, _):
        old, = struct.unpack_from("<Q", body)
        name = body[8:-1]
        self.check_name(name)
        if name in self.node(number).entries:
            raise Failed(EXISTS)
        self.do("enter", number, name, old)
        self.touch(number)
        self.touch(old, modified=False)
        return self.entry(old)

    def open(self, number, body, _):
        flags, = struct.unpack_from("<I", body)
        if number == self.NOW:
            return struct.pack("<QII", number, 1, 0)
        if flags & os.O_TRUNC:
            self.do("truncate", number, 0)
            self.touch(number)
        self.node(number)
        return self.handle(number)

    def opendir(self, number, _, __):
        # The names as they are now: others may go while it is read.
        entries = self.node(number).entries
        self.handles[self.next] = [(b".", number), (b"..", number), *entries.items()]
        self.next += 1
        return self.handle(self.next - 1)

    def readdir(self, _, body, __):
        handle, offset, size = struct.unpack_from("<QQI", body)
        result = b""
        for at, (name, number) in enumerate(self.handles.get(handle, [])[offset:], offset + 1):
            node = self.live.nodes.get(number)
            kind = stat.S_IFMT(node.mode) >> 12 if node else 0
            one = struct.pack("<QQII", number, at, len(name), kind) + name
            one += bytes(-len(one) % 8)
            if len(result) + len(one) > size:
                break
            result += one
        return result

    def read(self, number, body, _):
        _, offset, size = struct.unpack_from("<QQI", body)
        if number == self.NOW:
            return f"{len(self.log):19}\n".encode()[offset:offset + size]
        return bytes(self.node(number).data[offset:offset + size])

    def write(self, number, body, _):
        _, offset, size = struct.unpack_from("<QQI", body)
        data = body[40:40 + size]
        at = 0
        while at < size:
            end = min(size, at + PIECE - (offset + at) % PIECE)
            self.do("write", number, offset + at, data[at:end])
            at = end
        self.touch(number)
        return struct.pack("<II", size, 0)

    def statfs(self, _, __, ___):
        return struct.pack("<5Q4I24x", 1 << 20, 1 << 19, 1 << 19, 1 << 20, 1 << 19, PIECE, self.name_limit, PIECE, 0)

    def fsync(self, number, _, __):
        self.do("sync", "file", number, None)
        return b""

    def fsyncdir(self, number, _, __):
        self.do("sync", "directory", number, None)
        return b""

    def setxattr(self, number, body, _):
        size, _ = struct.unpack_from("<II", body)
        name, _, value = body[8:].partition(b"\0")
        if name != b"user.syncfs":
            raise Failed(errno.EOPNOTSUPP)
        if "SYNCFS" in self.lacks:
            raise Failed(self.lacks["SYNCFS"])
        tops = self.live.tops()
        if self.options.get("apart"):
            nodes = {one for one, top in tops.items() if top == tops.get(number)}
        else:
            nodes = set(self.live.nodes)
        # What had been there and is so no more is covered, too: a directory from which something was moved away.
        self.do("sync", "all", number, nodes)
        return b""

    def getxattr(self, *_):
        raise Failed(errno.EOPNOTSUPP)

    listxattr = removexattr = fallocate = getxattr

    def nothing(self, *_):
        return b""

    access = flush = release = releasedir = destroy = nothing
    OPERATIONS = {1: "lookup", 3: "getattr", 4: "setattr", 5: "readlink", 6: "symlink", 8: "mknod", 9: "mkdir", 10: "unlink",
                  11: "rmdir", 12: "rename", 13: "link", 14: "open", 15: "read", 16: "write", 17: "statfs", 18: "release", 20: "fsync",
                  21: "setxattr", 22: "getxattr", 23: "listxattr", 24: "removexattr", 25: "flush", 26: "init", 27: "opendir",
                  28: "readdir", 29: "releasedir", 30: "fsyncdir", 34: "access", 35: "create", 38: "destroy", 43: "fallocate",
                  45: "rename2"}
    SILENT = {2, 36, 42}  # FORGET, INTERRUPT, BATCH_FORGET
    CHANGING = {"setattr", "symlink", "mknod", "mkdir", "unlink", "rmdir", "rename", "rename2", "link", "write", "fsync", "fsyncdir",
                "setxattr", "create"}

    def check_cue(self, name, number):
        """Fails from the cue on: requests that change something, counted where they count."""
        first, most, code, top = self.fails
        if name not in self.CHANGING or top and self.live.tops().get(number) != top:
            return
        self.changing += 1
        if first <= self.changing < first + most:
            raise Failed(code)

    def answer(self, request):
        length, opcode, unique, number, uid, gid, _, _ = struct.unpack_from("<IIQQIIII", request)
        if opcode in self.SILENT:
            return
        name, result, code = self.OPERATIONS.get(opcode), b"", 0
        try:
            if name is None:
                raise Failed(errno.ENOSYS)
            if name.upper() in self.lacks:
                raise Failed(self.lacks[name.upper()])
            if self.fails:
                self.check_cue(name, number)
            result = getattr(self, name)(number, request[40:length], (uid, gid))
        except Failed as failed:
            code = failed.args[0]
        try:
            os.write(self.fuse, struct.pack("<IiQ", 16 + len(result), -code, unique) + result)
        except OSError as error:
            if error.errno != MISSING:  # The request was interrupted.
                raise

    # MARK: The trials' requests

    def base_is_now(self):
        self.base, self.log = self.live.copy(), []

    def length(self):
        return len(self.log)

    def syncs(self):
        return [at for at, operation in enumerate(self.log) if operation[0] == "sync"]

    def image(self, cut, kind, seed):
        model = self.base.copy()
        for operation in survivors(self.log, cut, kind, random.Random(seed)):
            model.apply(operation)
        return model

    def cut(self, cut, kind, seed):
        """Makes the file system what it is after a cut; what was written down stays, for other cuts."""
        self.live = self.image(cut, kind, seed)
        self.kept = self.kept or (self.base, self.log)
        self.base, self.log = self.live.copy(), []

    def rewind(self):
        """Back to what was written down before the first cut."""
        self.base, self.log = self.kept
        self.kept = None

    def look(self, cut, kind, seed):
        """All that is there after a cut: path to type, mode and bytes or target."""
        model = self.image(cut, kind, seed)
        return {path: (stat.S_IFMT(node.mode), node.mode & 0o777, bytes(node.target if stat.S_ISLNK(node.mode) else node.data))
                for path, node in model.files()}

    def changes(self):
        return self.changing

    def empty(self):
        self.live, self.base, self.log = Model(), Model(), []

    def configure(self, options):
        """`name_limit`: bytes of a name; `lacks`: names of operations to what they fail with; `fails`: from which change on, how
        many of them, with what, and below which directory of the root if not everywhere."""
        self.options, self.changing = options, 0
        self.name_limit, self.lacks = options.get("name_limit", 255), options.get("lacks", {})
        self.fails = options.get("fails")

    def serve(self):
        while True:
            ready, _, _ = select.select([self.fuse, self.pipe], [], [])
            if self.fuse in ready:
                try:
                    self.answer(os.read(self.fuse, (1 << 20) + 8192))
                except OSError as error:
                    if error.errno == errno.ENODEV:
                        return
                    if error.errno not in (errno.ENOENT, errno.EINTR, errno.EAGAIN):
                        raise
            elif self.pipe in ready:
                try:
                    name, *arguments = self.pipe.recv()
                except EOFError:
                    return
                try:
                    self.pipe.send(("ok", getattr(self, name)(*arguments)))
                except Exception as error:  # The trial has to hear of it, and not to wait for ever.
                    self.pipe.send(("failed", repr(error)))


class Forgetful:
    """Mounted at `mountpoint` until it is closed. Its methods are those of `Server` below “The trials' requests”."""

    def __init__(self, mountpoint, **options):
        os.makedirs(mountpoint, exist_ok=True)
        self.mountpoint = mountpoint
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("fork").Process(target=self.work, args=(theirs, mountpoint, options), daemon=True)
        self.process.start()
        theirs.close()
        end = time.monotonic() + 10
        while not os.path.ismount(mountpoint):
            if time.monotonic() > end or not self.process.is_alive():
                raise OSError("nothing is mounted")
            time.sleep(0.01)

    @staticmethod
    def work(pipe, mountpoint, options):
        Server(pipe, mountpoint, options).serve()

    def __getattr__(self, name):
        def ask(*arguments):
            self.pipe.send((name, *arguments))
            kind, result = self.pipe.recv()
            if kind != "ok":
                raise RuntimeError(f"{name}: {result}")
            return result
        return ask

    def close(self):
        LIBC.umount2(self.mountpoint.encode(), 2)
        self.pipe.close()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()

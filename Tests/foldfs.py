#!/usr/bin/env python3
"""A filesystem that takes names for one which differ only in case, as vfat, APFS and an ext4 directory with +F do.

    Tests/foldfs.py SOURCE MOUNTPOINT [own-inodes] [no-modes] [lost-renames]

Shows the directory SOURCE below MOUNTPOINT until it is unmounted. With own-inodes, each spelling of a name has a number of
its own, as on exFAT by FUSE and on CIFS without those of the server. With no-modes, chmod(2) succeeds without effect: every
file has mode 0755, as where vfat is mounted with "quiet". With lost-renames, each rename(2) of a file is done and reports an
error, as over NFS where the answer is lost. For tests on kernels that mount no such filesystem; it needs root, /dev/fuse and
python3-fusepy.
"""
import errno
import os
import stat
import sys
import unicodedata

import fusepy as fuse


def folded(name):
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


class Folding(fuse.Operations):
    def __init__(self, source, options):
        self.source = source
        self.has_modes = "no-modes" not in options
        self.loses_renames = "lost-renames" in options
        # Files that the kernel still knows by their former names, since their renames were reported as failed: for its next
        # look at the open file.
        self.renamed = {}

    def place(self, path):
        """Where a path is: each component as it was first written."""
        found = self.source
        for name in filter(None, path.split("/")):
            exact = os.path.join(found, name)
            if not os.path.lexists(exact) and os.path.isdir(found):
                same = [one for one in os.listdir(found) if folded(one) == folded(name)]
                exact = os.path.join(found, same[0]) if same else exact
            found = exact
        return found

    def getattr(self, path, handle=None):
        try:
            found = os.lstat(self.renamed.pop(path, None) or self.place(path))
        except OSError as error:
            raise fuse.FuseOSError(error.errno) from error
        names = ["mode", "nlink", "size", "uid", "gid", "ino", "dev"]
        result = {"st_" + name: getattr(found, "st_" + name) for name in names}
        if not self.has_modes and not stat.S_ISLNK(found.st_mode):
            result["st_mode"] = stat.S_IFMT(found.st_mode) | 0o755
        return result | {"st_" + kind: getattr(found, "st_" + kind) for kind in ("atime", "mtime", "ctime")}

    def readdir(self, path, handle):
        return [".", "..", *os.listdir(self.place(path))]

    def readlink(self, path):
        return os.readlink(self.place(path))

    def mkdir(self, path, mode):
        os.mkdir(self.place(path), mode)

    def rmdir(self, path):
        os.rmdir(self.place(path))

    def unlink(self, path):
        os.unlink(self.place(path))

    def symlink(self, path, target):
        os.symlink(target, self.place(path))

    def rename(self, old, new):
        target = self.place(new)
        os.rename(self.place(old), target)
        # The library renames what is removed while it is open.
        if self.loses_renames and not os.path.isdir(target) and ".fuse_hidden" not in new:
            self.renamed[old] = target
            raise fuse.FuseOSError(errno.EIO)

    def link(self, path, source):
        os.link(self.place(source), self.place(path))

    def chmod(self, path, mode):
        if self.has_modes:
            os.chmod(self.place(path), mode)

    def chown(self, path, user, group):
        os.chown(self.place(path), user, group, follow_symlinks=False)

    def utimens(self, path, times=None):
        os.utime(self.place(path), times, follow_symlinks=False)

    def open(self, path, flags):
        return os.open(self.place(path), flags)

    def create(self, path, mode, info=None):
        if os.path.lexists(self.place(path)):
            raise fuse.FuseOSError(errno.EEXIST)
        return os.open(self.place(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, stat.S_IMODE(mode))

    def read(self, path, size, offset, handle):
        return os.pread(handle, size, offset)

    def write(self, path, data, offset, handle):
        return os.pwrite(handle, data, offset)

    def truncate(self, path, length, handle=None):
        os.truncate(self.place(path) if handle is None else handle, length)

    def flush(self, path, handle):
        return 0

    def fsync(self, path, data_only, handle):
        os.fsync(handle)

    def release(self, path, handle):
        os.close(handle)

    def statfs(self, path):
        found = os.statvfs(self.source)
        names = ["bsize", "frsize", "blocks", "bfree", "bavail", "files", "ffree", "favail", "namemax"]
        return {"f_" + name: getattr(found, "f_" + name) for name in names}


if __name__ == "__main__":
    options = set(sys.argv[3:])
    if len(sys.argv) < 3 or options - {"own-inodes", "no-modes", "lost-renames"}:
        sys.exit(__doc__)
    fuse.FUSE(
        Folding(os.path.realpath(sys.argv[1]), options), sys.argv[2], foreground=True, nothreads=True,
        use_ino="own-inodes" not in options,
        default_permissions=True, attr_timeout=0, entry_timeout=0, negative_timeout=0,
    )

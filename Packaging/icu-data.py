#!/usr/bin/env python3
"""Takes the parts of ICU's data that syncagent uses out of the library with all of it.

usage: Packaging/icu-data.py lib_FoundationICU.a OUT.o

Prints the name of the data's symbol. OUT.o defines the same with __wrap_ before it: linked with ld's --wrap=SYMBOL, the
member with all the data is never asked for. What is left out, the languages of the world, ICU says it does not have, as it
does for a language that nobody has written down yet.

The shape is that of udata.h and ucmndata.h: a header with its own length, then a count, then for every item the offsets of
its name and of its bytes, both from the end of the header, then the names, then the items, each at a multiple of 16.
Exit status: 0; 1 when the library is not as described here, with the reason.
"""

import pathlib
import re
import struct
import subprocess
import sys
import tempfile

MEMBER = "icu_packaged_data.cpp.o"
# Time zones (TimeZone), names of hosts (URL, UTS #46), and what ICU opens before it opens anything else.
KEPT = {
    "icuver.res", "keyTypeData.res", "metaZones.res", "nfkc.nrm", "pool.res", "res_index.res", "root.res", "timezoneTypes.res",
    "uts46.nrm", "windowsZones.res", "zoneinfo64.res",
}


def items(data: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """The header, and every item with its name."""
    length, magic = struct.unpack_from("<H2s", data)
    if magic != b"\xda\x27" or data[12:16] != b"CmnD":
        raise ValueError("it does not begin as common data does")
    header, body = data[:length], data[length:]
    (count,) = struct.unpack_from("<I", body)
    offsets = [struct.unpack_from("<II", body, 4 + 8 * number) for number in range(count)]
    ends = [start for _, start in offsets[1:]] + [len(body)]
    return header, [
        (body[name : body.index(b"\0", name)], body[start:end]) for (name, start), end in zip(offsets, ends)
    ]


def packed(header: bytes, chosen: list[tuple[bytes, bytes]]) -> bytes:
    """The same shape with fewer items, which stay sorted by name."""
    place = 4 + 8 * len(chosen)
    names, name_offsets = b"", []
    for name, _ in chosen:
        name_offsets.append(place + len(names))
        names += name + b"\0"
    names += bytes(-(len(header) + place + len(names)) % 16)
    place += len(names)
    bodies, starts = b"", []
    for _, body in chosen:
        starts.append(place + len(bodies))
        bodies += body + bytes(-len(body) % 16)
    table = struct.pack("<I", len(chosen)) + b"".join(struct.pack("<II", *pair) for pair in zip(name_offsets, starts))
    return header + table + names + bodies


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 64
    library, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        try:
            subprocess.run(["ar", "x", str(library), MEMBER], cwd=work, check=True)
            table = subprocess.run(["nm", MEMBER], cwd=work, check=True, capture_output=True, text=True).stdout
            symbols = re.findall(r"^0+ [RD] (icudt\d+_dat)$", table, re.MULTILINE)
            if len(symbols) != 1 or len(table.splitlines()) != 1:
                raise ValueError(f"{MEMBER} has other symbols than the data's")
            subprocess.run(["objcopy", "-O", "binary", "-j", ".rodata", MEMBER, "data"], cwd=work, check=True)
            header, every = items((work / "data").read_bytes())
            chosen = [(path, body) for path, body in every if path.split(b"/", 1)[-1].decode() in KEPT]
            if absent := KEPT - {path.split(b"/", 1)[-1].decode() for path, _ in chosen}:
                raise ValueError(f"it has no {', '.join(sorted(absent))}")
            (work / "kept").write_bytes(packed(header, chosen))
            assembly = f'.section .rodata\n.globl __wrap_{symbols[0]}\n.balign 16\n__wrap_{symbols[0]}:\n.incbin "kept"\n'
            assembly += '.section .note.GNU-stack,"",%progbits\n'
            (work / "kept.s").write_text(assembly)
            subprocess.run(["as", "-o", str(out), "kept.s"], cwd=work, check=True)
        except (OSError, ValueError, IndexError, struct.error, subprocess.CalledProcessError) as error:
            print(f"icu-data.py: {library}: {error}", file=sys.stderr)
            return 1
    print(f"icu-data.py: {len(chosen)} of {len(every)} items, {out.stat().st_size:,} bytes", file=sys.stderr)
    print(symbols[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())

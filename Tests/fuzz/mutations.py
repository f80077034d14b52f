"""Mutations of bytes and of JSON, each by a random generator that is passed in."""

import json
import struct

NUMBERS = [-1, 0, 1, 2, 7, 255, 256, 4095, 4096, 65535, 65536, 2**20, 2**27, 2**31 - 1, 2**31, 2**32 - 1, 2**32,
           2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30]
TEXTS = ["", ".", "..", "/", "a", "\u0000", "a\u0000b", "\n", "\u202e", "\ud800", "%00", "%0d%0aX: y", "~", "*", "**",
         "é", "e\u0301", "K" * 255, "K" * 256, "k/" * 1980 + "k", "k/" * 2048, "k" * 70000]
WORDS = [b"\0", b"\xff", b"\xff\xff\xff\xff", b"\x80", b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"\\u0000",
         b"\n", b"\r\n", b"-", b"1e9", b"0x", b"../", b"null", b"true", b"/*", b"\xef\xbb\xbf", b"\xc0\xaf"]


def of_bytes(random, data, most=3):
    """Between one and `most` small changes."""
    data = bytearray(data)
    for _ in range(random.randint(1, most)):
        size = len(data)
        at = random.randrange(size) if size else 0
        kind = random.randrange(13)
        if kind == 0 and size:
            data[at] ^= 1 << random.randrange(8)
        elif kind == 1 and size:
            data[at] = random.randrange(256)
        elif kind == 2:
            data[at:at] = random.choice(WORDS)
        elif kind == 3:
            del data[at:at + random.choice([1, 1, 2, 4, 8, 64, 1024])]
        elif kind == 4:
            del data[at:]
        elif kind == 5:
            length = random.choice([1, 4, 16, 128, 1024])
            data[at:at] = data[at:at + length] * random.choice([1, 2, 3, 50])
        elif kind == 6:
            number = random.choice(NUMBERS) % 2**64
            data[at:at + 8] = struct.pack("<Q", number)
        elif kind == 7:
            data[at:at + 4] = struct.pack("<I", random.choice(NUMBERS) % 2**32)
        elif kind == 8:
            length = random.choice([1, 8, 64, 512, 4096])
            data[at:at + length] = bytes(len(data[at:at + length]))
        elif kind == 9:
            data += bytes(random.randrange(256) for _ in range(random.choice([1, 8, 64, 1000])))
        elif kind == 10 and size:
            other, length = random.randrange(size), random.choice([1, 8, 64])
            data[at:at + length] = data[other:other + length]
        elif kind == 11 and size:
            digits = [index for index in range(size) if 0x30 <= data[index] <= 0x39]
            if digits:
                data[random.choice(digits)] = random.randrange(0x30, 0x3A)
        elif kind == 12:
            data += b"\0" * random.choice([1, 4096, 200_000])
    return bytes(data)


def places(value):
    """Every (container, key) of a JSON value."""
    found, waiting = [], [value]
    while waiting:
        value = waiting.pop()
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in items:
            found.append((value, key))
            waiting.append(inner)
    return found


def strange(random):
    """A value that is probably not wanted."""
    kind = random.randrange(8)
    if kind < 3:
        return random.choice(NUMBERS)
    if kind < 5:
        return random.choice(TEXTS)
    if kind == 5:
        return random.choice([None, True, False, 1.5, -0.0, 1e300])
    if kind == 6:
        return random.choice([[], {}, [[]], [0] * 3000, {str(n): n for n in range(300)}])
    deep = []
    for _ in range(random.choice([10, 63, 64, 65, 5000])):
        deep = [deep]
    return deep


class Raw(str):
    """Stands for itself in JSON text."""


def of_json(random, document, hostile=None):
    """One to three changes of a document in place; `hostile(container, key)` may give a value of the place's kind."""
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        all_places = places(document)
        if not all_places:
            return
        container, key = random.choice(all_places)
        kind = random.randrange(10)
        value = hostile(container, key) if hostile and kind < 6 else None
        if value is not None:
            container[key] = value
        elif kind < 7:
            container[key] = strange(random)
        elif kind == 7:
            del container[key]
        elif kind == 8 and isinstance(container, list):
            container[key:key] = [container[key]] * random.choice([1, 2, 100, 2000])
        elif kind == 8:
            container[random.choice(["x-a", "y", key + "\u0000", key.upper()])] = container[key]
        else:
            other, place = random.choice(all_places)
            if not isinstance(other[place], (dict, list)):  # Nothing may come to hold itself.
                container[key] = other[place]


def json_text(random, document):
    """A document as text; now and then with a key twice."""
    text = as_text(document)
    if random.randrange(12) == 0:
        keys = [at for at in range(len(text)) if text.startswith('{"', at)]
        if keys:
            at = random.choice(keys)
            end = text.find(":", at)
            if end > 0:
                text = text[:at + 1] + text[at + 1:end] + ":0," + text[at + 1:]
    return text.encode("utf-8", "surrogatepass" if random.randrange(2) else "replace")


def as_text(value, most=4 << 20):
    """JSON without recursion, however deep it is; cut off where it becomes very long."""
    parts, stack, length = [], [value], 0
    while stack and length < most:
        item = stack.pop()
        length += len(parts[-1]) if parts else 0
        if isinstance(item, Raw):
            parts.append(item)
        elif isinstance(item, dict):
            stack.append(Raw("}"))
            for number, (key, inner) in enumerate(reversed(item.items())):
                stack += [inner, Raw(json.dumps(str(key), ensure_ascii=False) + ":")]
                if number + 1 < len(item):
                    stack.append(Raw(","))
            stack.append(Raw("{"))
        elif isinstance(item, list):
            stack.append(Raw("]"))
            for number, inner in enumerate(reversed(item)):
                stack.append(inner)
                if number + 1 < len(item):
                    stack.append(Raw(","))
            stack.append(Raw("["))
        else:
            parts.append(json.dumps(item, ensure_ascii=False))
    return "".join(parts)

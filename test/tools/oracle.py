#!/usr/bin/env python3
"""An independent builder of the rules in docs/: pairs of a JSON export, roots, app hash.

oracle.py pairs FILE.json          map TAB hex key TAB hex value, sorted
oracle.py roots [FILE]             reads such lines, prints `MAP ROOT` lines and `app_hash HEX`
"""
import hashlib
import json
import sys

PAGE_BITS = 5


class Number(str):
    """A number as written."""


def compact(value):
    return str(value) if isinstance(value, Number) else json.dumps(value, ensure_ascii=False)


def flatten(value, pointer):
    if isinstance(value, dict) and value:
        for name, member in value.items():
            step = name.replace("~", "~0").replace("/", "~1")
            yield from flatten(member, pointer + "/" + step)
    elif isinstance(value, list) and value:
        for index, element in enumerate(value):
            yield from flatten(element, pointer + "/" + str(index))
    else:
        yield pointer[1:], compact(value)


def pairs(path):
    with open(path, encoding="utf-8") as file:
        document = json.load(file, parse_int=Number, parse_float=Number)
    top = document.get("app_state")
    maps = top if isinstance(top, dict) else document
    lines = []
    for name, value in maps.items():
        if isinstance(value, (dict, list)) and value:
            for key, text in flatten(value, ""):
                lines.append((name.encode(), key.encode(), text.encode()))
    for name, key, value in sorted(lines):
        print(name.decode(), key.hex(), value.hex(), sep="\t")


def sha256(data):
    return hashlib.sha256(data).digest()


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def rank(key):
    number = int.from_bytes(sha256(key), "big")
    return (256 - number.bit_length()) // PAGE_BITS


def fold(nodes):
    while len(nodes) > 1:
        odd = nodes[len(nodes) & ~1 :]
        nodes = [inner(nodes[i], nodes[i + 1]) for i in range(0, len(nodes) - 1, 2)] + odd
    return nodes[0]


def inner(left, right):
    height, size = 1 + max(left[1], right[1]), left[2] + right[2]
    text = varint(2 * height) + varint(2 * size) + b"\0"
    return sha256(text + b"\x20" + left[0] + b"\x20" + right[0]), height, size


def root(items):
    """items: sorted (key, value)."""
    if not items:
        return sha256(b"")
    leaf = b"\x00\x02\x00"
    entries = [
        (key, (sha256(leaf + varint(len(key)) + key + b"\x20" + sha256(value)), 0, 1))
        for key, value in items
    ]
    level = 0
    while True:
        pages = []
        for key, node in entries:
            if not pages or rank(key) > level:
                pages.append((key, []))
            pages[-1][1].append(node)
        entries = [(key, fold(nodes)) for key, nodes in pages]
        level += 1
        if len(entries) == 1:
            return entries[0][1][0]


def rfc6962(leaves):
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return sha256(b"\x01" + rfc6962(leaves[:split]) + rfc6962(leaves[split:]))


def roots(file):
    maps = {}
    for line in file:
        name, key, value = line.rstrip("\n").split("\t")
        maps.setdefault(name, []).append((bytes.fromhex(key), bytes.fromhex(value)))
    leaves = []
    for name in sorted(maps, key=str.encode):
        digest = root(sorted(maps[name]))
        print(name, digest.hex().upper())
        text = varint(len(name.encode())) + name.encode() + b"\x20" + sha256(digest)
        leaves.append(sha256(b"\x00" + text))
    print("app_hash", (rfc6962(leaves) if leaves else sha256(b"")).hex().upper())


if sys.argv[1] == "pairs":
    pairs(sys.argv[2])
else:
    with open(sys.argv[2]) if len(sys.argv) > 2 else sys.stdin as source:
        roots(source)

# SPDX-License-Identifier: MIT
"""Objects that no compiler makes: the bytes of one, changed where the loader looks."""
import struct

PT_LOAD, PT_DYNAMIC, PAGE = 1, 2, 4096
TAGS = {"audit": 0x6FFFFEFC, "depaudit": 0x6FFFFEFB}


def program_headers(data):
    """[(place in the file, type, offset, address, bytes in the file)]"""
    start, = struct.unpack_from("<Q", data, 32)
    size, n = struct.unpack_from("<HH", data, 54)
    rows = []
    for i in range(n):
        at = start + i * size
        kind, _, offset, address, _, in_file = struct.unpack_from("<IIQQQQ", data, at)
        rows.append((at, kind, offset, address, in_file))
    return rows


def overlap(data):
    """The last segment lies over the first: what the check saw of one is not what the loader leaves of it."""
    loads = [r for r in program_headers(data) if r[1] == PT_LOAD]
    at, _, offset, _, _ = loads[-1]
    struct.pack_into("<Q", data, at + 16, loads[0][3] + offset % PAGE)


def audit(data, tag):
    """The loader is told to load a library that watches it."""
    _, _, offset, _, size = next(r for r in program_headers(data) if r[1] == PT_DYNAMIC)
    for at in range(offset, offset + size - 16, 16):
        if struct.unpack_from("<Q", data, at)[0] == 0:
            struct.pack_into("<QQ", data, at, tag, 1)
            return
    raise AssertionError("no free row in the dynamic section")


def changed(data, how):
    data = bytearray(data)
    if how == "overlap":
        overlap(data)
    elif how in TAGS:
        audit(data, TAGS[how])
    return bytes(data)

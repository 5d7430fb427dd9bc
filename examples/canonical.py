#!/usr/bin/env python3
"""Canonical JSON by CPython, to compare the library with; the standard library is all it needs.

Standard input: one document a line, its bytes in hex. Standard output: one answer a line, the SHA-256
of the document's canonical form in hex, or `refused`.

The canonical form is what `json.dumps` prints with the arguments below, as UTF-8. What the contract
and the library refuse on purpose and `json.loads` does not is stated here, each rule once; no document
is left out of the comparison.
"""

import hashlib
import json
import sys

# Contract 1.2: digits of an integer, its sign not counted.
INTEGER_DIGITS_MAX = 4300
# Contract 1.3: bytes of a message's canonical form.
MESSAGE_BYTES_MAX = 4_000_000
# The library's own limit: no document of the contract nests deeper than five levels.
DEPTH_MAX = 64


class Refused(ValueError):
    """A document that is refused on purpose."""


def members(pairs):
    """An object; the last of repeated keys would win in CPython (D18)."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Refused("a key is repeated")
    return found


def integer(digits):
    """An integer; CPython's own limit depends on its version and its settings."""
    if len(digits.lstrip("-")) > INTEGER_DIGITS_MAX:
        raise Refused("an integer is too long")
    return int(digits)


def constant(_name):
    """NaN, Infinity and -Infinity, which are no JSON."""
    raise Refused("a number is not finite")


def check_depth(value, depth=0):
    """Lists and objects inside each other."""
    if isinstance(value, dict):
        inside = value.values()
    elif isinstance(value, list):
        inside = value
    else:
        return
    if depth == DEPTH_MAX:
        raise Refused("it nests too deep")
    for item in inside:
        check_depth(item, depth + 1)


def canonical(document):
    """The canonical form of a document, as bytes."""
    # Given bytes, json.loads would guess their encoding; a byte order mark is refused in text.
    text = document.decode("utf-8")
    value = json.loads(
        text, object_pairs_hook=members, parse_int=integer, parse_constant=constant
    )
    check_depth(value)
    printed = json.dumps(
        value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
    )
    # Lone surrogates end here: they cannot be UTF-8.
    form = printed.encode("utf-8")
    if len(form) > MESSAGE_BYTES_MAX:
        raise Refused("it is too large")
    return form


def answer(document):
    """One line for one document."""
    try:
        return hashlib.sha256(canonical(document)).hexdigest()
    except (ValueError, RecursionError):
        return "refused"


def main():
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    for line in sys.stdin.buffer:
        document = bytes.fromhex(line.decode("ascii"))
        sys.stdout.write(answer(document) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

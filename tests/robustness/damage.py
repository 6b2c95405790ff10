"""What is done to valid inputs: to bytes, to text, to values of JSON, to arrays, to options.

Every function draws from the `Random` that it is given and from nothing else.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

# Text that is unlike any name: not encodable, steering a terminal, turning lines around, long.
HOSTILE_TEXT = (
    "",
    " ",
    "\ud800",
    "\x00",
    "\x1b]0;owned\x07\x1b[31m",
    "\u202eevil\u2066",
    "\r\n",
    "<script>alert(1)</script>",
    "../../../../etc/passwd",
    "x" * 100_000,
    "9" * 5000,
    "nan",
    "inf",
    "-1",
    "1e999",
    "rc(" * 400 + "naive" + ")" * 400,
    "\N{ROMAN NUMERAL FIVE}",
)
HOSTILE_NUMBERS = (
    *(0, -1, 1, 2, 3, 0.5, -0.0, 1e308, -1e308, 5e-324, 10**5, 100_001, 2**31, 2**63, 2**64),
    *(10**21, 10**400, float("nan"), float("inf"), float("-inf")),
)
HOSTILE_VALUES: tuple[Any, ...] = (
    *HOSTILE_TEXT,
    *HOSTILE_NUMBERS,
    *(None, True, False, [], {}, [[]], [None], [{}], {"": None}),
    list(range(2000)),
)
HOSTILE_BYTES = (
    *(b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\x1b[2J", b"\xe2\x80\xae", b"\xc3\x28", b"{", b"}"),
    *(b"[" * 10_000, b'"', b"(", b")", b";", b",", b"<", b"&#0;", b"\n", b"\r", b"-", b"1e999"),
    *(b"NaN", b"null", b"9" * 5000, b"A" * 65_536),
)


def damaged_bytes(data: bytes, draws: Random) -> bytes:
    """One to three changes at random places: a bit, a piece lost, doubled, moved or put in."""
    for _ in range(draws.randint(1, 3)):
        at = draws.randrange(len(data) + 1)
        to = min(len(data), at + draws.choice((1, 1, 2, 8, 64, 1024)))
        match draws.randrange(7):
            case 0 if at < len(data):
                data = data[:at] + bytes([data[at] ^ (1 << draws.randrange(8))]) + data[at + 1 :]
            case 1:
                data = data[:at]
            case 2:
                data = data[:at] + data[to:]
            case 3:
                data = data[:to] + data[at:]
            case 4:
                data = data[:at] + draws.choice(HOSTILE_BYTES) + data[to:]
            case 5:
                data = data[:at] + draws.choice(HOSTILE_BYTES) + data[at:]
            case _:
                data = data[at:to] + data[:at] + data[to:]
    return data


def damage_file(path: Path, draws: Random) -> None:
    """Damage the bytes of a file."""
    path.write_bytes(damaged_bytes(path.read_bytes(), draws))


def damaged_json(value: Any, draws: Random) -> Any:
    """One or two places of a JSON value made something else, lost, doubled, renamed or nested."""
    root = [copy.deepcopy(value)]
    for _ in range(draws.randint(1, 2)):
        _damage_place(root, draws)
    return root[0]


def _damage_place(root: list[Any], draws: Random) -> None:
    places = [(root, 0), *_places(root[0])]
    # The root is rarely the interesting place, and in large values leaves are most of them.
    holder, key = draws.choice(places[1:] if len(places) > 1 and draws.random() < 0.95 else places)
    match draws.randrange(8):
        case 0 if holder is not root:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[draws.choice(HOSTILE_TEXT)] = holder.pop(key)
        case 2:
            holder[key] = [holder[key]]
        case 3 if isinstance(holder[key], list) and holder[key]:
            holder[key] = holder[key] * draws.choice((2, 50))
        case 4 if isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
            holder[key] = draws.choice(HOSTILE_NUMBERS)
        case 5 if isinstance(holder[key], str):
            holder[key] = draws.choice(HOSTILE_TEXT)
        case 6:
            holder[key] = str(holder[key])
        case _:
            holder[key] = copy.deepcopy(draws.choice(HOSTILE_VALUES))


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place of a value: what holds it, and under which key or number."""
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    out: list[tuple[Any, Any]] = []
    for key in list(keys):
        out += [(value, key), *_places(value[key])]
    return out


def json_bytes(value: Any) -> bytes:
    """A value as the text that Python reads back, NaN and half characters included."""
    return json.dumps(value).encode()


def damaged_arrays(arrays: dict[str, Any], draws: Random) -> dict[str, Any]:
    """Named arrays, one of them of another shape, type or value, missing, or renamed."""
    out: dict[str, Any] = {name: np.array(array) for name, array in arrays.items()}
    name = draws.choice(sorted(out))
    array = out[name]
    match draws.randrange(10):
        case 0:
            del out[name]
        case 1:
            out[draws.choice(("x", "policy", "reward", "horizon"))] = out.pop(name)
        case 2:
            kind = draws.choice(("S8", "U8", "c16", "f2", "i1", "u8", "M8[s]", "?", "f4"))
            with np.errstate(all="ignore"):
                try:
                    out[name] = array.astype(kind)
                except (TypeError, ValueError):
                    out[name] = np.zeros(array.shape, kind)
        case 3:
            out[name] = array[None]
        case 4:
            out[name] = array.reshape(-1)
        case 5:
            out[name] = array[..., :0] if array.ndim else np.zeros(0)
        case 6:
            out[name] = np.concatenate([array, array]) if array.ndim else np.array([array, array])
        case 7:
            out[name] = np.array(draws.choice((0, -1, 1, 10**9, 2**62, 1e308, np.nan, np.inf)))
        case 8:
            out[name] = np.array([{"an": "object"}], dtype=object)
        case _:
            number = draws.choice((np.nan, np.inf, -np.inf, -1, 2, 1e308, 5e-324, 2**31))
            flat = array.astype(float).reshape(-1)
            if flat.size:
                flat[draws.randrange(flat.size)] = number
            out[name] = flat.reshape(array.shape)
    return out

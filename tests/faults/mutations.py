"""Random mutations of JSON values and of bytes. All choices come from the given `Random`."""

import json
from copy import deepcopy

ODD_VALUES = [
    *(None, True, False, 0, -1, 7, 1.5, 2**31, 2**63, 10**400, 1e308, -1e308),
    *("", "x", "\0", "\ud800", "é" * 50, "A" * 10_000, "2099-01-01T00:00:00", "0001-01-01T00:00:00+14:00", "../../etc"),
    *([], [[]], [None, None], [1, "2"], {}, {"a": {"b": []}}, {"__type__": "uuid", "__value__": 1}, {"task": "x"}),
]


def mutate_json(random, value):
    """Return a copy of a JSON value, changed in one to three places."""
    copy = json.loads(json.dumps(value))
    for _ in range(random.randint(1, 3)):
        copy = _mutate_once(random, copy)
    return copy


def _mutate_once(random, value):
    if not isinstance(value, list | dict) or not value or random.random() < 0.15:
        return _odd_value(random, value)
    if isinstance(value, dict):
        key = random.choice(list(value))
        match random.randrange(6):
            case 0:
                del value[key]
            case 1:
                value[random.choice(["self", "get", "x", "", "\0", "__class__", "errbacks", "chord"])] = deepcopy(
                    value[key]
                )
            case _:
                value[key] = _mutate_once(random, value[key])
        return value
    index = random.randrange(len(value))
    match random.randrange(6):
        case 0:
            del value[index]
        case 1:
            value.insert(index, deepcopy(random.choice(ODD_VALUES)))
        case _:
            value[index] = _mutate_once(random, value[index])
    return value


def _odd_value(random, value):
    if random.random() < 0.1:
        for _ in range(random.choice([10, 60, 70, 300])):
            value = [value]
        return value
    return deepcopy(random.choice(ODD_VALUES))


def mutate_bytes(random, data):
    """Return bytes with a few flipped, removed, repeated or inserted."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 4)):
        start = random.randrange(len(changed) + 1)
        stop = min(len(changed), start + random.choice([1, 1, 4, 64]))
        match random.randrange(5):
            case 0:
                del changed[start:stop]
            case 1:
                changed[start:start] = changed[start:stop]
            case 2:
                changed[start:stop] = random.randbytes(stop - start)
            case 3:
                changed[start:start] = random.choice([b"[" * 2000, b"\xff", b"\0", b'"', b"}", b"9" * 5000, b'{"a":'])
            case 4:
                del changed[start:]
    return bytes(changed)

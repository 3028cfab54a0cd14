"""`decode_json`: the only function that parses JSON from the network, with all limits and all errors."""

import json
from typing import Any

from maabo_dist.errors import FormatError

# Lists and objects inside each other. No message of this project has more than a dozen, and JSON that is nested more
# deeply than this may exhaust the stack of whatever handles it next.
MAX_NESTING = 64


def decode_json(data: str | bytes, *, max_bytes: int | None = None) -> Any:
    """Parse JSON text; whatever is wrong with it, raise a FormatError that says what."""
    if max_bytes is not None and len(data) > max_bytes:
        raise FormatError(f"The JSON text has {len(data):,} bytes; at most {max_bytes:,} are accepted.")
    try:
        value = json.loads(data)
    except RecursionError:
        raise FormatError(f"The JSON text is nested more than {MAX_NESTING} levels deep.") from None
    except MemoryError:
        raise FormatError("The JSON text does not fit into memory.") from None
    except ValueError as error:  # also invalid UTF-8, and numbers of too many digits
        raise FormatError(f"The JSON text is invalid: {error}.") from None
    check_nesting(value)
    return value


def check_nesting(value: object) -> None:
    """Raise a FormatError if lists and objects are nested too deeply."""
    level = [value]
    for _ in range(MAX_NESTING):
        level = [item for container in level if isinstance(container, list | dict) for item in _items(container)]
        if not level:
            return
    raise FormatError(f"The JSON text is nested more than {MAX_NESTING} levels deep.")


def _items(container: list[Any] | dict[str, Any]) -> list[Any]:
    """The lists and objects inside a list or object."""
    values = container.values() if isinstance(container, dict) else container
    return [value for value in values if isinstance(value, list | dict)]

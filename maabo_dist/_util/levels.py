"""The text of a categorical level, in prepared tables and in raw cells alike."""

import numpy as np


def level_text(value: object) -> str:
    """Return the text of a level: booleans in lower case, whole numbers without a fraction."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)

"""Every error this project raises on purpose.

MaaboError
├── InputError            something the user gave is wrong; the message says what, the value and the remedy
│   ├── DatasetError      the table
│   ├── SettingsError     an option or a setting
│   └── FormatError       a file of ours that is damaged, truncated or of another version
└── SearchError           the search was driven wrongly (a bug in the caller)

`kind` says which problem document (`contract/problem.py`) another service gets.
"""

from typing import ClassVar


class MaaboError(Exception):
    """Base of every error raised on purpose."""

    kind: ClassVar[str] = "internal"


class InputError(MaaboError, ValueError):
    """Something the user gave is wrong. Shown without a traceback; exit code 2."""

    kind = "invalid-input"

    def __init__(self, *message: object, field: str | None = None, remedy: str | None = None) -> None:
        super().__init__(*message)
        self.field, self.remedy = field, remedy


class DatasetError(InputError):
    """The table cannot be read or cannot be mined."""

    kind = "invalid-dataset"


class SettingsError(InputError):
    """A setting is out of range or does not fit the table."""

    kind = "invalid-settings"


class FormatError(InputError):
    """A file written by this project is damaged, truncated or of a version this one does not read."""

    kind = "unreadable"


class SearchError(MaaboError):
    """The search was driven out of order, for example by observing a subset that was never suggested."""

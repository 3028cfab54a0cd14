"""Every error this project raises on purpose.

MaaboError
├── InputError            something the user gave is wrong; the message says what, the value and the remedy
│   ├── DatasetError      the table
│   ├── SettingsError     an option or a setting
│   └── FormatError       a file of ours that is damaged, truncated or of another version
└── SearchError           the search was driven wrongly (a bug in the caller)
"""


class MaaboError(Exception):
    """Base of every error raised on purpose."""


class InputError(MaaboError, ValueError):
    """Something the user gave is wrong. Shown without a traceback; exit code 2."""


class DatasetError(InputError):
    """The table cannot be read or cannot be mined."""


class SettingsError(InputError):
    """A setting is out of range or does not fit the table."""


class FormatError(InputError):
    """A file written by this project is damaged, truncated or of a version this one does not read."""


class SearchError(MaaboError):
    """The search was driven out of order, for example by observing a subset that was never suggested."""

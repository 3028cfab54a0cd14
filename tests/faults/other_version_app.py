"""A worker of the next contract version: `celery -A tests.faults.other_version_app worker`."""

import sys
from importlib.util import find_spec, module_from_spec

NAME = "maabo_dist.contract.messages"

spec = find_spec(NAME)
source = spec.loader.get_source(NAME)
assert "\nVERSION = 2\n" in source
module = module_from_spec(spec)
sys.modules[NAME] = module
exec(compile(source.replace("\nVERSION = 2\n", "\nVERSION = 3\n"), spec.origin, "exec"), module.__dict__)

from workers.app import app  # noqa: E402, F401 - after the change

"""A worker that supports only the next contract version: `celery -A tests.faults.other_version_app worker`."""

import sys
from importlib.util import find_spec, module_from_spec

NAME = "maabo_dist.contract.messages"

spec = find_spec(NAME)
source = spec.loader.get_source(NAME)
for name in ("VERSION", "WRITTEN_VERSION", "OLDEST_VERSION"):
    assert f"\n{name} = 2\n" in source
    source = source.replace(f"\n{name} = 2\n", f"\n{name} = 3\n")
module = module_from_spec(spec)
sys.modules[NAME] = module
exec(compile(source, spec.origin, "exec"), module.__dict__)

from workers.app import app  # noqa: E402, F401 - after the change

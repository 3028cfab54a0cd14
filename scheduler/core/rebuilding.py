"""`rebuild_columns`: prepares an uploaded table again if its columns have vanished from the store."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import scheduler
from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.store import ArtifactStore, MissingArtifactError
from maabo_dist.contract.job import JobSpec
from maabo_dist.data.columns import Columns
from maabo_dist.errors import FormatError, MaaboError
from scheduler.ledger import Ledger

logger = StructuredLogger("maabo.scheduler")

# The API has read the table within its own limits before. These only keep an accident small.
MAX_SECONDS, MAX_BYTES = 600.0, 1 << 36
# As in the API, the file is read in a process without connections or secrets.
_COMMAND = "from scheduler.api.reader_process import answer_request; answer_request()"
_ROOT = Path(scheduler.__file__).resolve().parent.parent
_VARIABLES = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "HOME")


def rebuild_columns(ledger: Ledger, store: ArtifactStore, spec: JobSpec) -> bool:
    """Store the columns of a job's table again. False if the uploaded file is not known or not there any more."""
    settings, dataset = spec.dataset.settings, None
    if spec.dataset_id is not None and settings is not None:
        dataset = ledger.datasets.get(spec.tenant, spec.dataset_id)
    if dataset is None or settings is None:
        return False
    with TemporaryDirectory(prefix="maabo-rebuild-") as directory:
        folder = Path(directory)
        file = folder / f"table.{dataset.format}"
        try:
            store.get(f"tables/{dataset.digest}", file)
        except MissingArtifactError:
            return False
        limits = {"columns": dataset.columns + 1, "bytes": MAX_BYTES, "seconds": MAX_SECONDS}
        request = {"task": "prepare", "file": file.name, "table": settings.model_dump(mode="json"), **limits}
        (folder / "request.json").write_text(json.dumps(request))
        _run_reader(folder, dataset.name)
        columns = Columns.load(folder / "columns")
        if columns.fingerprint != spec.dataset.fingerprint:
            raise FormatError(
                f"The columns of table {dataset.name!r} are no longer in the store, and this version prepares others "
                "from the uploaded file. Submit the job again."
            )
        store.put(f"columns/{columns.fingerprint}", folder / "columns")
    logger.warning("columns were missing in the store; prepared again", job=spec.id, dataset=spec.dataset_id)
    return True


def _run_reader(folder: Path, name: str) -> None:
    variables = {variable: os.environ[variable] for variable in _VARIABLES if variable in os.environ}
    variables["PYTHONPATH"] = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        subprocess.run(  # noqa: S603 - the command is fixed
            [sys.executable, "-P", "-c", _COMMAND],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=MAX_SECONDS,
        )
        answer = json.loads((folder / "answer.json").read_bytes())
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        raise MaaboError(f"Table {name!r} could not be prepared again: {error}.") from error
    if "error" in answer:
        raise MaaboError(f"Table {name!r} could not be prepared again: {answer['error']['detail']}")

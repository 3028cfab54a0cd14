"""How a client's table comes to the cluster: into its artifact store or, where that cannot be used, its Redis."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.stores import open_store
from maabo_dist.contract.record import ClusterRecord
from maabo_dist.errors import SettingsError
from maabo_dist.store import ArtifactStore, StoreError

if TYPE_CHECKING:
    from maabo_dist.data.columns import Columns

Say = Callable[[str], None]


def deliver(
    columns: "Columns", settings: ClusterSettings, cluster: ClusterRecord | None, client: Any, say: Say
) -> None:
    """Store the table under its fingerprint: in the store that the user named, else in the cluster's, else in Redis."""
    with TemporaryDirectory(prefix="maabo-") as folder:
        path = Path(folder) / "table"
        columns.save(path)
        table = _Table(f"columns/{columns.fingerprint}", path, say)
        if "store_url" in settings.model_fields_set:
            table.put(open_store(settings, client))
        elif cluster is None or not _put_in_reach(table, cluster, settings, client):
            table.put(open_store(_with_store(settings, "redis://"), client))


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    path: Path
    say: Say

    def put(self, store: ArtifactStore) -> None:
        stored = store.has(self.name)
        # Put even then: its age starts anew, so that it is not swept away before the job names it.
        store.put(self.name, self.path)
        if stored:
            self.say("table already stored")


def _put_in_reach(table: _Table, cluster: ClusterRecord, settings: ClusterSettings, client: Any) -> bool:
    """Whether the cluster's own store has the table now. A directory is in reach on its own machine only."""
    if urlsplit(cluster.store).scheme in {"", "file"} and cluster.host != gethostname():
        return False
    try:
        table.put(open_store(_with_store(settings, cluster.store), client))
    except (SettingsError, StoreError) as error:
        # Not to be permitted is common where the cluster has a user of its own.
        if not isinstance(error.__cause__, PermissionError):
            table.say(f"{error} The table goes through Redis instead.")
        return False
    return True


def _with_store(settings: ClusterSettings, url: str) -> ClusterSettings:
    return settings.model_copy(update={"store_url": url})

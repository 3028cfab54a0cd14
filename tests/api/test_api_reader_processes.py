"""Processes that read tables: they are killed in time, leave nothing behind, and have no secrets."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from scheduler.api.scratch import ScratchSpace, remove_abandoned
from scheduler.api.settings import ApiSettings
from tests import servers
from tests.api.uploads import PEOPLE
from tests.api_data import files_in

pytestmark = pytest.mark.usefixtures("temporary")


@pytest.fixture
def api_settings(table_directory):
    return ApiSettings(upload_bytes=2_000_000, tables_url=f"file://{table_directory}", upload_columns=100)


def request_in(folder, file):
    job_request = {"task": "describe", "file": file, "columns": 100, "bytes": 1 << 28, "seconds": 60}
    (folder / "request.json").write_text(json.dumps(job_request))


def readers_in(folder):
    """The processes whose working directory is this folder."""
    processes = []
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            processes += [path] if path.readlink() == folder else []
    return processes


def reader_parents():
    """The processes of this test that fork reader processes."""
    return [one for one in psutil.Process().children() if "scheduler.api.reader_process" in one.cmdline()]


def test_a_reader_process_is_killed_after_its_time_limit(reader_processes, tmp_path):
    os.mkfifo(tmp_path / "table.csv")  # opening it blocks forever
    request_in(tmp_path, "table.csv")

    assert not asyncio.run(reader_processes.run(tmp_path, 0.5))
    servers.wait_for(lambda: not readers_in(tmp_path), what="the end of the reader")
    assert not (tmp_path / "answer.json").exists()


def test_the_process_of_a_cancelled_reader_is_killed(reader_processes, tmp_path):
    os.mkfifo(tmp_path / "table.csv")
    request_in(tmp_path, "table.csv")

    async def run_and_cancel():
        task = asyncio.create_task(reader_processes.run(tmp_path, 60))
        await asyncio.to_thread(servers.wait_for, lambda: readers_in(tmp_path), what="a reader")
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(run_and_cancel())
    assert not readers_in(tmp_path)


def test_files_of_killed_processes_are_removed_and_those_of_others_stay(temporary):
    program = (
        "import os, signal; from scheduler.api.scratch import ScratchSpace; space = ScratchSpace();"
        "folder = space.new_folder(); open(folder.name + '/table.csv', 'w').close();"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = os.environ | {"TMPDIR": str(temporary)}
    subprocess.run([sys.executable, "-c", program], env=environment, cwd=servers.ROOT, check=False)
    abandoned = files_in(temporary)
    with closing(ScratchSpace()) as scratch, scratch.new_folder() as folder:
        path = Path(folder) / "table.csv"
        path.touch()
        removed = remove_abandoned()

        assert [file.name for file in abandoned] == ["table.csv"]
        assert removed == [abandoned[0].parent.parent]
        assert files_in(temporary) == [path]
    assert list(temporary.iterdir()) == []


def test_a_killed_parent_of_reader_processes_is_restarted_and_has_no_secrets(reader_processes, tmp_path, monkeypatch):
    monkeypatch.setenv("MAABO_REDIS", "redis://:secret@127.0.0.1")
    (tmp_path / "table.csv").write_bytes(PEOPLE)
    request_in(tmp_path, "table.csv")
    asyncio.run(reader_processes.run(tmp_path, 60))
    for parent in reader_parents():
        parent.kill()
        parent.wait()
    (tmp_path / "answer.json").unlink()

    assert asyncio.run(reader_processes.run(tmp_path, 60))
    assert json.loads((tmp_path / "answer.json").read_text())["result"]["rows"] == 3
    assert [parent for parent in reader_parents() if "secret" in str(parent.environ())] == []

"""Malicious and damaged tables: a problem or a valid table, never a crash, and rejected tables leave nothing behind."""

import io
import os
import random
from functools import cache
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies
from pyarrow import parquet

from maabo_dist.errors import DatasetError
from scheduler.api.reader_process import TASKS
from scheduler.api.settings import ApiSettings
from tests import servers
from tests.api_data import files_in

MOST = 32 << 20
READ_BYTES = 256 << 20
PARQUET = "application/vnd.apache.parquet"
QUICK = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


pytestmark = pytest.mark.usefixtures("temporary")


@pytest.fixture
def api_settings():
    return ApiSettings(upload_bytes=MOST, upload_columns=10_000, read_bytes=READ_BYTES, read_seconds=30)


def write_parquet(table, **options):
    file = io.BytesIO()
    parquet.write_table(table, file, **options)
    return file.getvalue()


@cache
def bomb(value, rows, groups):
    """Return a file that repeats one value: compact on disk, large in memory."""
    file = io.BytesIO()
    table = pa.table({"a": pa.repeat(value, rows), "b": pa.repeat(value, rows)})
    with parquet.ParquetWriter(file, table.schema, compression="zstd") as writer:
        for _ in range(groups):
            writer.write_table(table, row_group_size=rows)
    return file.getvalue()


@cache
def proper():
    numbers = list(range(200))
    return write_parquet(
        pa.table({"a": numbers, "b": [float(n) for n in numbers], "c": [f"t{n % 7}" for n in numbers]})
    )


def with_false_description(offset_from_end, change):
    """Return a valid file with other bytes in its description."""
    body = bytearray(proper())
    body[-offset_from_end : -offset_from_end + len(change)] = change
    return bytes(body)


def twice_named():
    return write_parquet(pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4])], names=["a", "a"]))


def header(*names):
    return ",".join(names).encode() + b"\n" + b"1," * (len(names) - 1) + b"2\n"


REFUSED = {
    "nothing": lambda: b"",
    "blank lines": lambda: b"\n\n\n",
    "a header only": lambda: b"a,b\n",
    "ragged": lambda: b"a,b\n1,2\n1,2,3\n",
    "an open quotation mark": lambda: b'a,b\n"1,2\n3,4\n',
    "bytes": lambda: bytes(range(256)) * 300,
    "UTF-16 without a mark": lambda: "a,b\nä,2\n".encode("utf-16-le"),
    "a field of ten megabytes in the header": lambda: b"a" * (10 << 20) + b",b\n1,2\n",
    "no line break at all": lambda: b"a," * (5 << 20),
    "a hundred thousand columns": lambda: header(*(f"c{n}" for n in range(100_000))),
    "names with line breaks and too many columns": lambda: b'"a\n",' + header(*(f"c{n}" for n in range(20_000))),
    "two columns of one name": lambda: header("a", "a", "b"),
    "gzip": lambda: b"\x1f\x8b\x08" + bytes(100),
    "zip": lambda: b"PK\x03\x04" + bytes(100),
    "Parquet called CSV": proper,
}
REFUSED_PARQUET = {
    "nothing": lambda: b"",
    "CSV called Parquet": lambda: b"a,b\n1,2\n",
    "magic alone": lambda: b"PAR1PAR1",
    "magic and a length": lambda: b"PAR1" + b"\xff\xff\xff\x7f" + b"PAR1",
    "truncated": lambda: proper()[:-100],
    "without its beginning": lambda: proper()[100:],
    "its end alone": lambda: b"PAR1" + proper()[-600:],
    "a description that is too long": lambda: with_false_description(8, b"\xff\xff\xff\x7f"),
    "a description that is negative": lambda: with_false_description(8, b"\xff\xff\xff\xff"),
    "a bomb of numbers": lambda: bomb(1.5, 2_000_000, 10),
    "a bomb of texts": lambda: bomb("x" * 100_000, 1000, 10),
    "no rows": lambda: write_parquet(pa.table({"a": pa.array([], pa.int64())})),
    "no columns": lambda: write_parquet(pa.table({})),
    "two columns of one name": twice_named,
    "too many columns": lambda: write_parquet(pa.table({f"c{n}": [1] for n in range(10_001)})),
}
KEPT = {
    "a column without a name": lambda: header("a", "", "b"),
    "UTF-16": lambda: "a,b\n1,2\n".encode("utf-16"),
    "Latin-1": lambda: "a,b\nä,2\n".encode("latin-1"),
    "HTML": lambda: header("<script>alert(1)</script>", '"<img src=x onerror=""alert(1)"">"'),
    "SQL": lambda: header("Robert'); DROP TABLE maabo_datasets;--", "b"),
    "a formula": lambda: header("=cmd|' /C calc'!A0", "@SUM(1+1)", "+1", "-1"),
    "a path": lambda: header("../../etc/passwd", "/etc/shadow", "C:\\x"),
    "line breaks": lambda: b'"a\nb","c\r\nd"\n1,2\n',
    "NUL": lambda: b"a\0b,c\n\0,2\n1\0,3\n",
    "signs of the other direction": "a\u202eb,\ufeffc,e\u0301,😀\n1,2,3,4\n".encode,
    "a field of ten megabytes": lambda: b"a,b\n1," + b"x" * (10 << 20) + b"\n",
    "numbers beyond all bounds": lambda: b"a,b\n1e999,nan\n-1e999,99999999999999999999999\n",
}


def check_problem(response):
    assert 400 <= response.status_code < 500, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["detail"]
    assert len(response.content) < 10_000
    assert "/tmp" not in response.text
    return problem


def check_nothing_left(resources, temporary):
    assert files_in(temporary) == []
    assert list(resources.store.list()) == []
    assert resources.ledger.datasets.page(None) == []


def check_response(client, body, media):
    """Check that the response is a valid table, which is then deleted, or a problem."""
    response = client.post("/v1/datasets", content=body, headers={"content-type": media})
    if response.status_code == 201:
        url = response.headers["location"]
        assert len(client.get(url).json()["features"]) == response.json()["columns"]
        assert client.delete(url).status_code == 204
    else:
        check_problem(response)


@pytest.mark.parametrize(
    ("body", "media"),
    [(body, "text/csv") for body in REFUSED.values()] + [(body, PARQUET) for body in REFUSED_PARQUET.values()],
    ids=[*REFUSED, *(f"Parquet: {name}" for name in REFUSED_PARQUET)],
)
def test_an_invalid_table_is_a_problem_and_leaves_nothing_behind(client, resources, temporary, body, media):
    response = client.post("/v1/datasets", content=body(), headers={"content-type": media}, params={"name": "mine"})

    problem = check_problem(response)
    assert response.status_code == 422
    assert "mine" in problem["detail"], "the table is called what its sender calls it"
    check_nothing_left(resources, temporary)


@pytest.mark.parametrize("body", KEPT.values(), ids=KEPT)
def test_unusual_tables_are_accepted(client, resources, body):
    response = client.post("/v1/datasets", content=body(), headers={"content-type": "text/csv"})

    assert response.status_code == 201, response.text
    features = client.get(response.headers["location"]).json()["features"]
    assert all(len(text) <= 100 for feature in features for text in feature["levels"] or [])
    request = {"dataset": response.json()["id"], "table": {"target": features[0]["name"]}, "settings": {"trees": 20}}
    check_problem(client.post("/v1/jobs", json=request))  # too few rows


@pytest.mark.parametrize("row_count", [b"\xfe\x7f", b"\x8e\x03", b"\x82\x00"], ids=["8191", "199", "1"])
def test_a_parquet_file_with_a_false_row_count_does_no_harm(client, resources, temporary, row_count):
    truth = b"\x90\x03"  # 200 rows, as the description has them
    start = len(proper()) - 8 - int.from_bytes(proper()[-8:-4], "little")
    assert proper()[start:].count(truth) > 1

    for lies in (1, -1):
        check_response(client, proper()[:start] + proper()[start:].replace(truth, row_count, lies), PARQUET)
    check_nothing_left(resources, temporary)


@given(body=strategies.binary(max_size=300))
@QUICK
def test_random_bytes_do_no_harm(client, resources, temporary, body):
    check_response(client, body, "text/csv")
    check_nothing_left(resources, temporary)


@given(
    changes=strategies.lists(
        strategies.tuples(strategies.integers(0, 10_000), strategies.integers(0, 255)), max_size=8
    ),
    cut=strategies.integers(0, 50),
)
@QUICK
def test_damaged_parquet_files_do_no_harm(client, resources, temporary, changes, cut):
    body = bytearray(proper())
    for index, value in changes:
        body[index % len(body)] = value
    check_response(client, bytes(body[: len(body) - cut * (cut < 5)]), PARQUET)
    check_nothing_left(resources, temporary)


@given(body=strategies.text(strategies.sampled_from('ab1.,;\t|"\n\r\0-e+=é'), max_size=200))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_described_or_rejected(tmp_path, body):
    path = tmp_path / "table.csv"
    path.write_text(body, encoding="utf-8", newline="")
    request = {"file": str(path), "columns": 50, "bytes": READ_BYTES}

    try:
        description = TASKS["describe"](request)
    except DatasetError:
        return
    assert description["rows"] > 0
    assert len(description["features"]) == description["columns"]


def resident(process):
    """Bytes of memory of a process."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.soak
def test_the_memory_of_the_server_stays_small(settings, tmp_path, resources):
    """Each of these would take hundreds of megabytes if it were held or unpacked in the server."""
    folder = tmp_path / "of-the-server"
    folder.mkdir()
    limits = {"MAABO_UPLOAD_BYTES": str(100 << 20), "MAABO_READ_BYTES": str(READ_BYTES), "TMPDIR": str(folder)}
    block = random.Random(1).randbytes(1 << 16).replace(b"\n", b"")

    def endless():
        while True:
            yield block

    with servers.http_process(settings, tmp_path, **limits) as (url, process), httpx.Client(timeout=60) as client:
        datasets_url = f"{url}/v1/datasets"
        assert client.post(datasets_url, content=b"a,b\n1,2\n", headers={"content-type": "text/csv"}).status_code == 201
        before = resident(process.pid)
        cut = client.post(datasets_url, content=endless(), headers={"content-type": "text/csv"})
        for value, rows, groups in [(1.5, 2_000_000, 10), ("x" * 100_000, 1000, 10)]:
            response = client.post(datasets_url, content=bomb(value, rows, groups), headers={"content-type": PARQUET})
            check_problem(response)
        growth = resident(process.pid) - before

    assert cut.status_code == 413
    assert growth < 64 << 20
    assert files_in(folder) == []
    assert len(resources.ledger.datasets.page(None)) == len(list(resources.store.list())) == 1

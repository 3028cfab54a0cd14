"""The content of table files, and the errors of unreadable ones."""

import gzip
import io
import sys

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from maabo_dist.data.file_checks import NOTES
from maabo_dist.data.readers import read_table
from maabo_dist.data.text_files import DECODED_BYTES, encoding_problem
from maabo_dist.errors import DatasetError

TEXT = b"age,sex\n29,female\n31,male\n"


def write_file(folder, name, content=TEXT):
    path = folder / name
    path.write_bytes(content)
    return path


def refusal(path, **options):
    with pytest.raises(DatasetError) as caught:
        read_table(path, **options)
    return str(caught.value)


def test_a_csv_file_gives_its_columns_and_rows(tmp_path):
    frame = read_table(write_file(tmp_path, "t.csv"))

    assert list(frame.columns) == ["age", "sex"]
    assert frame["age"].tolist() == [29, 31]
    assert frame["sex"].tolist() == ["female", "male"]


def test_the_extension_may_be_in_capitals_and_the_path_a_string(tmp_path):
    frame = read_table(str(write_file(tmp_path, "T.CSV")))

    assert len(frame) == 2


def test_a_gzipped_csv_file_reads_as_the_plain_one(tmp_path):
    plain = read_table(write_file(tmp_path, "t.csv"))
    packed = read_table(write_file(tmp_path, "t.csv.gz", gzip.compress(TEXT)))

    pd.testing.assert_frame_equal(packed, plain)


@pytest.mark.parametrize("name", ["t.tsv", "t.tab"])
def test_a_tsv_file_is_separated_by_tabs_even_where_names_hold_commas(tmp_path, name):
    frame = read_table(write_file(tmp_path, name, b"a,b\tc\n1\t2\n"))

    assert list(frame.columns) == ["a,b", "c"]


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_a_csv_file_without_commas_in_its_header_is_read_by_the_separator_it_has(tmp_path, separator):
    content = f"age{separator}sex\n29{separator}female\n".encode()

    frame = read_table(write_file(tmp_path, "t.csv", content))

    assert list(frame.columns) == ["age", "sex"]


def test_a_quoted_comma_is_not_a_separator_of_the_header(tmp_path):
    frame = read_table(write_file(tmp_path, "t.csv", b'"name, first";age\nAnn;3\n'))

    assert list(frame.columns) == ["name, first", "age"]


def test_a_byte_order_mark_is_not_part_of_the_first_name(tmp_path):
    frame = read_table(write_file(tmp_path, "t.csv", b"\xef\xbb\xbf" + TEXT))

    assert list(frame.columns) == ["age", "sex"]


def test_empty_cells_and_the_usual_texts_are_missing_in_numbers_and_in_text(tmp_path):
    frame = read_table(write_file(tmp_path, "t.csv", b"n,s\n1,a\n,\nNA,NA\nnan,None\n2,b\n"))

    assert frame["n"].isna().tolist() == [False, True, True, True, False]
    assert frame["s"].isna().tolist() == [False, True, True, True, False]
    assert frame["n"].dtype == float


def test_further_texts_can_be_declared_missing(tmp_path):
    path = write_file(tmp_path, "t.csv", b"n,s\n1,a\n?,?\n")

    as_it_is = read_table(path)
    declared = read_table(path, na_values=("?",))

    assert as_it_is["n"].tolist() == ["1", "?"]
    assert declared["n"].iloc[0] == 1.0
    assert declared["n"].isna().tolist() == declared["s"].isna().tolist() == [False, True]


def test_dates_and_times_stay_text(tmp_path):
    content = b"day,clock,moment\n2020-01-31,10:00,2020-01-31 10:00:00\n2020-02-01,11:30,2020-02-01T11:30:00\n"

    frame = read_table(write_file(tmp_path, "t.csv", content))

    assert frame["day"].tolist() == ["2020-01-31", "2020-02-01"]
    assert frame["clock"].tolist() == ["10:00", "11:30"]
    assert frame["moment"].tolist() == ["2020-01-31 10:00:00", "2020-02-01T11:30:00"]


def test_a_quoted_line_break_survives(tmp_path):
    frame = read_table(write_file(tmp_path, "t.csv", b'a,b\n"x\ny",1\nz,2\n'))

    assert frame["a"].tolist() == ["x\ny", "z"]


def test_a_header_of_more_than_a_megabyte_is_read(tmp_path):
    names = [f"a_rather_long_column_name_{number}" for number in range(40_000)]
    content = ",".join(names).encode() + b"\n" + b",".join([b"1"] * len(names)) + b"\n"

    frame = read_table(write_file(tmp_path, "t.csv", content))

    assert frame.shape == (1, 40_000)


@pytest.mark.parametrize(
    ("row", "fields"), [(b"3", "1 field"), (b"3,4,5", "3 fields")], ids=["a field too few", "a field too many"]
)
def test_a_ragged_row_is_named_by_its_line(tmp_path, row, fields):
    message = refusal(write_file(tmp_path, "t.csv", b'a,b\n"x\ny",2\n\n' + row + b"\n5,6\n"))

    assert f"line 5 has {fields}, and the header has 2" in message


@pytest.mark.parametrize(
    ("content", "title"),
    [
        (b"a,b\n1,x\n2,caf\xe9\n", "byte 13, in line 3, is 0xe9. It was read as Windows-1252."),
        (b"a,b\n1,\x81\n2,caf\xe9\n", "byte 6, in line 2, is 0x81. It was read as Latin-1."),
        ("a,b\n1,x\n2,café\n".encode("utf-16"), "byte 0, in line 1, is 0xff. It was read as UTF-16."),
    ],
    ids=["Windows-1252", "Latin-1", "UTF-16"],
)
def test_other_encodings_are_recognised_and_noted(tmp_path, content, title):
    frame = read_table(write_file(tmp_path, "t.csv", content))

    assert frame["b"].tolist()[1] == "café"
    assert frame.attrs[NOTES][0].endswith(f"t.csv is not UTF-8: {title}")


@pytest.mark.parametrize("before", range(4))
def test_characters_at_the_border_of_two_blocks_are_utf_8(tmp_path, before):
    text = "a" * (DECODED_BYTES - before) + "€"
    (tmp_path / "whole.csv").write_bytes(text.encode())
    (tmp_path / "cut.csv").write_bytes(text.encode()[:-1])

    assert encoding_problem(tmp_path / "whole.csv") is None
    position = f"byte {DECODED_BYTES - before:,}, in line 1, is 0xe2"
    assert position in encoding_problem(tmp_path / "cut.csv")


def test_bytes_that_are_not_text_are_refused(tmp_path):
    message = refusal(write_file(tmp_path, "t.csv", b"a,b\n1,\xff\0\n"))

    assert "is not UTF-8: byte 6, in line 2, is 0xff. Save the file again with the encoding UTF-8." in message


def test_decimal_commas_are_read_where_a_semicolon_separates(tmp_path):
    frame = read_table(write_file(tmp_path, "t.csv", b"p;q;s\n1,5;1.234,5;a,b\n2;7;c\n;-3,25;d\n"))

    assert frame["p"].tolist()[:2] == [1.5, 2.0]
    assert frame["q"].tolist() == [1234.5, 7.0, -3.25]
    assert frame["s"].tolist() == ["a,b", "c", "d"]
    assert frame.attrs[NOTES] == ("Read the decimal commas of 'p', 'q'.",)


@pytest.mark.parametrize("name", ["t.jsonl", "t.ndjson", "t.json"])
def test_json_lines_are_read(tmp_path, name):
    frame = read_table(write_file(tmp_path, name, b'{"age": 29, "sex": "female"}\n\n{"age": null, "sex": "NA"}\n'))

    assert frame["age"].tolist()[0] == 29
    assert frame["sex"].isna().tolist() == [False, True]


def test_all_lines_that_are_not_json_objects_are_named(tmp_path):
    message = refusal(write_file(tmp_path, "t.jsonl", b'{"a": 1}\n{"a": \n[2]\n'))

    assert "line 2 is not JSON" in message
    assert "line 3 is not an object but [2]" in message


def test_an_excel_file_needs_a_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)

    assert "pip install 'maabo-dist[excel]', or save the sheet as CSV" in refusal(write_file(tmp_path, "t.xlsx"))


def write_excel(folder, **sheets):
    path = folder / "t.xlsx"
    with pd.ExcelWriter(path) as file:
        for name, frame in sheets.items():
            frame.to_excel(file, sheet_name=name, index=False)
    return path


def test_the_first_sheet_of_an_excel_file_is_read(tmp_path):
    frame = pd.DataFrame(
        {
            "age": [29, 31, None],
            "sex": ["female", "NA", "male"],
            "code": ["A1", "B2", "C3"],
            "joined": pd.to_datetime(["2024-01-31", "2024-02-29", "2025-12-01"]),
            "member": [True, False, True],
        }
    )

    read = read_table(write_excel(tmp_path, people=frame, notes=frame[["age"]], more=frame[["age"]]))

    assert read["age"].isna().tolist() == [False, False, True]
    assert read["sex"].isna().tolist() == [False, True, False]
    assert read["code"].tolist() == ["A1", "B2", "C3"]
    assert read["joined"].dt.day.tolist() == [31, 29, 1]
    assert read["member"].tolist() == [True, False, True]
    assert read.attrs[NOTES] == ("Read the sheet 'people'; not read: 'notes', 'more'.",)


def test_problems_of_an_excel_file_are_named(tmp_path):
    damaged = write_file(tmp_path, "damaged.xlsx", b"PK\x03\x04 no workbook")

    assert "the sheet 'one' has no rows" in refusal(write_excel(tmp_path, one=pd.DataFrame({"a": []})))
    assert "cannot be read as Excel" in refusal(damaged)


def test_an_excel_file_is_read_from_standard_input(tmp_path, monkeypatch):
    content = write_excel(tmp_path, one=pd.DataFrame({"age": [29, 31]})).read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    assert read_table("-")["age"].tolist() == [29, 31]


@pytest.mark.parametrize(
    "content", [TEXT, gzip.compress(TEXT, mtime=0), b'{"age": 29, "sex": "female"}\n{"age": 31}\n']
)
def test_standard_input_is_read_by_its_content(monkeypatch, content):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    assert read_table("-")["age"].tolist() == [29, 31]


def test_all_problems_of_a_file_are_named_at_once(tmp_path):
    message = refusal(write_file(tmp_path, "t.csv", b"a,,a\n1,2\n1,2,3\n1,2,3,4\n"))

    assert "more than one column is called 'a'" in message
    assert "line 2 has 2 fields, line 4 has 4 fields, and the header has 3" in message


def test_a_name_used_twice_is_refused(tmp_path):
    message = refusal(write_file(tmp_path, "t.csv", b"a,b,a\n1,2,3\n"))

    assert "more than one column is called 'a'" in message


def test_a_name_used_twice_is_refused_in_parquet_too(tmp_path):
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table([[1], [2]], names=["a", "a"]), path)

    assert "more than one column is called 'a'" in refusal(path)


@pytest.mark.parametrize(
    ("content", "names", "note"),
    [
        (b",a,b\n0,1,2\n", ["column 1", "a", "b"], "Column 1 has no name and is called 'column 1'."),
        (
            b"a,,b, \n0,1,2,3\n",
            ["a", "column 2", "b", "column 4"],
            "Columns 2, 4 have no name and are called 'column 2', 'column 4'.",
        ),
    ],
)
def test_columns_without_a_name_are_called_by_their_place(tmp_path, content, names, note):
    frame = read_table(write_file(tmp_path, "t.csv", content))

    assert (list(frame.columns), frame.attrs[NOTES]) == (names, (note,))


def test_columns_beside_the_table_of_an_excel_sheet_are_left_out(tmp_path):
    frame = pd.DataFrame([[1, 7, None, 2], [3, 8, None, 4]], columns=["a", "", "", "b"])

    read = read_table(write_excel(tmp_path, one=frame))

    assert list(read.columns) == ["a", "column 2", "b"]


def test_a_name_that_a_nameless_column_would_get_is_refused(tmp_path):
    message = refusal(write_file(tmp_path, "t.csv", b",column 1\n1,2\n"))

    assert "a column has no name, and another is called 'column 1'" in message


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet", "t.feather"])
def test_an_empty_file_is_refused(tmp_path, name):
    assert "is empty" in refusal(write_file(tmp_path, name, b""))


def test_a_file_of_blank_lines_is_refused(tmp_path):
    assert "blank lines only" in refusal(write_file(tmp_path, "t.csv", b"\n  \n"))


@pytest.mark.parametrize("header", [b"a,b", b"a,b\n"])
def test_a_header_without_rows_is_refused(tmp_path, header):
    assert "no rows" in refusal(write_file(tmp_path, "t.csv", header))


def test_a_missing_file_is_refused(tmp_path):
    assert "There is no file" in refusal(tmp_path / "absent.csv")


def test_a_directory_is_refused(tmp_path):
    assert "is a directory" in refusal(tmp_path)


def test_a_file_that_may_not_be_read_is_refused(tmp_path, monkeypatch):
    path = write_file(tmp_path, "t.csv")

    def denied(*_arguments, **_options):
        raise PermissionError

    monkeypatch.setattr("pathlib.Path.open", denied)

    assert "permission denied" in refusal(path)


@pytest.mark.parametrize("name", ["t.xls", "t", "t.gz", "t.parquet.gz"])
def test_an_unknown_extension_is_answered_with_the_known_ones(tmp_path, name):
    message = refusal(write_file(tmp_path, name))

    assert ".csv.gz" in message
    assert ".parquet" in message


@pytest.mark.parametrize("content", [b"no gzip at all", gzip.compress(TEXT * 1000)[:-40]], ids=["foreign", "truncated"])
def test_a_damaged_gzip_file_is_refused(tmp_path, content):
    assert "write it again" in refusal(write_file(tmp_path, "t.csv.gz", content))


@pytest.mark.parametrize("name", ["t.parquet", "t.pq", "t.feather", "t.arrow"])
def test_parquet_and_feather_keep_their_types(tmp_path, name):
    frame = pd.DataFrame({"n": [1.5, None], "s": ["a", "b"], "b": [True, False]}, index=[7, 9])
    path = tmp_path / name
    if name.endswith(("parquet", "pq")):
        frame.to_parquet(path)
    else:
        feather.write_feather(frame.reset_index(drop=True), path)

    result = read_table(path)

    pd.testing.assert_frame_equal(result, frame.reset_index(drop=True))


def test_texts_declared_missing_are_missing_in_parquet_too(tmp_path):
    pd.DataFrame({"n": [1, 2], "s": ["a", "?"]}).to_parquet(tmp_path / "t.parquet")

    frame = read_table(tmp_path / "t.parquet", na_values=("?", "2"))

    assert frame["n"].tolist() == [1, 2]
    assert frame["s"].isna().tolist() == [False, True]


@pytest.mark.parametrize("name", ["t.parquet", "t.feather"])
@pytest.mark.parametrize("share", [0.9, 0.5, None], ids=["end cut off", "half cut off", "foreign"])
def test_a_damaged_binary_file_is_refused(tmp_path, name, share):
    frame, path = pd.DataFrame({"n": range(1000)}), tmp_path / name
    frame.to_parquet(path) if name == "t.parquet" else feather.write_feather(frame, path)
    content = path.read_bytes()
    path.write_bytes(TEXT if share is None else content[: int(len(content) * share)])

    assert "cannot be read as" in refusal(path)


def test_a_damaged_description_of_the_columns_is_refused(tmp_path):
    path = tmp_path / "t.feather"
    feather.write_feather(pd.DataFrame({"n": [1]}), path)
    path.write_bytes(path.read_bytes().replace(b'"numpy_type"', b'"numpy_tyqe"'))

    assert "cannot be read as Feather" in refusal(path)


def test_a_binary_file_without_rows_is_refused(tmp_path):
    pd.DataFrame({"n": pd.Series([], dtype=float)}).to_parquet(tmp_path / "t.parquet")

    assert "no rows" in refusal(tmp_path / "t.parquet")

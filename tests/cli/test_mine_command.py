"""`maabo mine` from outside: exit codes, output streams and files.

Most runs call the console entry in this process, as the installed script does; tests about the process itself (signals,
pipes, a terminal) start one.
"""

import csv
import json
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from functools import partial

import numpy as np
import pandas as pd
import pytest
from jsonschema import Draft202012Validator

from maabo_dist.contract.result import load_schema
from maabo_dist.trees.forest import Forest
from tests.cli.tables import numbers, write_csv

COMMAND = [sys.executable, "-m", "maabo_dist", "mine"]
# A parent in the background may ignore SIGINT, which children inherit; they must restore the default.
LISTEN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from maabo_dist.cli import main; main()"
)
LISTENING = [sys.executable, "-c", LISTEN, "mine"]
QUICK = ("--trees", "10", "--min-samples", "20", "--jobs", "1")


@pytest.fixture
def run(maabo):
    """Runs `maabo mine` in this process; returns exit code, stdout and stderr."""
    return partial(maabo, "mine")


def bad_tables():
    """Tables that cannot be mined: the content of the file, and a word of the message."""
    good = numbers(60)
    return {
        "an empty file": (b"", "empty"),
        "one class": (good.assign(y="yes"), "1 class"),
        "duplicate column names": (b"x,x,y\n1,2,a\n2,3,b\n", "'x'"),
        "too few rows to split": (good[:5], "5 rows"),
        "ragged rows": (b"x,z,y\n1,2,a\n2,b\n3,4,a\n", "line 3"),
        "bytes that are not text": (b"x,z,y\n1,\xff\0,a\n2,e,b\n", "UTF-8"),
    }


@pytest.mark.parametrize("kind", bad_tables())
def test_an_invalid_table_is_rejected_with_the_reason(kind, tmp_path, run):
    content, word = bad_tables()[kind]
    path = tmp_path / "table.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.to_csv(index=False).encode())

    code, out, err = run(path, "--target", "y", *QUICK)

    assert (code, out) == (2, "")
    assert err.startswith("maabo: ")
    assert word in err
    assert "Traceback" not in err


def test_a_broken_parquet_file_is_rejected(tmp_path, run):
    path = tmp_path / "table.parquet"
    path.write_bytes(b"PAR1 and then nothing of the kind PAR1")

    code, _, err = run(path, "--target", "y")

    assert code == 2
    assert "Parquet" in err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["nowhere.csv", "--target", "y"], "nowhere.csv"),
        ([], "No table is given"),
        (["a.csv", "--dataset", "wine"], "cannot be used together"),
        (["--dataset", "roses"], "'roses'"),
        (["--dataset", "wine", "--subset-size", "0"], "--subset-size '0'"),
        (["--dataset", "wine", "--trees", "many"], "--trees 'many'"),
        (["--dataset", "wine", "--gini", "1.5", "--h", "-1"], "--gini '1.5'"),
        (["--dataset", "wine", "--alpha", "nan"], "--alpha 'nan'"),
        (["--dataset", "wine", "--strategy", "magic"], "'maabo'"),
        (["--dataset", "wine", "--jobs", "0"], "--jobs 0"),
        (["--dataset", "wine", "--out", __file__], "Give a directory"),
        (["--dataset", "wine", "--format", "xml"], "--format"),
        (["--dataset", "wine", "--no-such-option"], "--no-such-option"),
        (["--dataset", "wine", "--target", "wein"], "'wein'"),
    ],
)
def test_an_invalid_option_is_rejected_by_name(arguments, word, run):
    code, out, err = run(*arguments)

    assert (code, out) == (2, "")
    assert word in err
    assert "Traceback" not in err


def test_json_follows_the_schema_and_is_all_of_stdout(tmp_path, run):
    table = numbers().assign(constant=1, **{'"; DROP TABLE <b>': numbers(seed=2)["x3"]})

    code, out, err = run(write_csv(tmp_path, table), "--target", "y", "--json", "--holdout", "0.2", *QUICK)

    document = json.loads(out)
    Draft202012Validator(load_schema()).validate(document)
    assert code == 0
    assert document["rules"]
    assert document["dataset"]["name"] == "table.csv"
    assert "constant" in document["notes"][0]
    assert err == f"maabo: {document['notes'][0]}\n"


def test_the_table_shows_rules_and_notes_on_stdout(tmp_path, run):
    code, out, err = run(write_csv(tmp_path, numbers().assign(constant=1)), "--target", "y", *QUICK)

    assert (code, err) == (0, "")
    assert "R1" in out
    assert "'constant'" in out


def test_the_rules_do_not_depend_on_the_number_of_threads(tmp_path, run):
    path = write_csv(tmp_path, numbers())
    one, two = (json.loads(run(path, "--target", "y", "--json", *QUICK, "--jobs", jobs)[1]) for jobs in (1, 2))

    assert one["digest"] == two["digest"]


@pytest.mark.parametrize(
    ("form", "start"), [("csv", "rule,if,then"), ("markdown", "**"), ("sql", "-- R1"), ("pandas", "# R1")]
)
def test_every_format_is_printed(form, start, tmp_path, run):
    code, out, _ = run(
        write_csv(tmp_path, numbers()), "--target", "y", "--format", form, "--table-name", "t", "-q", *QUICK
    )

    assert code == 0
    assert out.startswith(start)
    assert ('FROM "t"' in out) == (form == "sql")


def test_columns_are_listed_by_commas_by_repeating_and_in_quotes(tmp_path, run):
    table = numbers(columns=6).rename(columns={"x5": "a,b"})
    lists = ["--exclude", "x2,x3", "--exclude", '"a,b"', "--subset-size", "2"]

    _, out, _ = run(write_csv(tmp_path, table), "--target", "y", "--json", *lists, *QUICK)

    document = json.loads(out)
    assert document["dataset"]["settings"]["exclude"] == ["x2", "x3", "a,b"]
    assert document["space"]["features"] == 3


def test_every_subset_has_the_columns_that_it_must_have_and_one_of_a_group(tmp_path, run):
    table = numbers(columns=6).rename(columns={"x1": "size, m"})
    limits = ["--always", "x0", "--one-of", '"size, m",x2', "--one-of", "x3,x4", "--strategy", "exhaustive"]

    _, out, _ = run(write_csv(tmp_path, table), "--target", "y", "--json", *limits)

    document = json.loads(out)
    assert document["settings"]["one_of"] == [["size, m", "x2"], ["x3", "x4"]]
    # x0 and two of the five others, without the pair of either group
    assert document["search"]["planned"] == document["search"]["trees"] == 8


def test_options_override_the_target_of_a_bundled_table(run):
    _, out, _ = run("--dataset", "diabetes", "--target-quantiles", "3", "--json", *QUICK)

    settings = json.loads(out)["dataset"]["settings"]
    assert (settings["target"], settings["target_above"], settings["target_quantiles"]) == ("progression", None, 3)


def test_out_contains_everything_to_repeat_the_run(tmp_path, run):
    folder = tmp_path / "new" / "run"

    code, out, _ = run(
        write_csv(tmp_path, numbers()), "--target", "y", "--seed", "7", "--out", folder, "--json", *QUICK
    )

    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    document = json.loads((folder / "rules.json").read_text(encoding="utf-8"))
    assert code == 0
    assert document == json.loads(out)
    assert sorted(path.name for path in folder.iterdir()) == ["rules.csv", "rules.json", "run.json", "trees.bin"]
    assert (
        len(list(csv.reader((folder / "rules.csv").open(newline="", encoding="utf-8")))) == len(document["rules"]) + 1
    )
    assert len(Forest.load(folder / "trees.bin")) == 10
    assert (record["seed"], record["digest"]) == (7, document["digest"])
    assert record["dataset"] == {"name": "table.csv", "fingerprint": document["dataset"]["fingerprint"]}
    assert {"python", "maabo-dist", "numpy", "numba", "scikit-learn", "pandas"} == record["versions"].keys()


@contextmanager
def started(*arguments):
    """Start a process with a terminal as its stderr, as for interactive use."""
    reader, terminal = pty.openpty()
    process = subprocess.Popen([*LISTENING, *map(str, arguments)], stdout=subprocess.PIPE, stderr=terminal)
    os.close(terminal)
    try:
        yield process, reader
    finally:
        process.kill()
        process.wait()
        os.close(reader)


def read_until(reader, pattern):
    output = b""
    while not re.search(pattern, output):
        output += os.read(reader, 4096)


def test_ctrl_c_during_the_search_prints_the_rules_found_so_far(tmp_path):
    path = write_csv(tmp_path, numbers(rows=400, columns=60))
    with started(path, "--target", "y", "--subset-size", "4", "--trees", "100%", "--json") as (process, reader):
        read_until(reader, rb"[1-9] reliable")

        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)

    document = json.loads(out)
    assert process.returncode == 130
    assert document["search"]["stopped"] == "interrupted"
    assert 0 < document["search"]["trees"] < document["search"]["planned"]
    assert document["rules"]
    assert "these are the rules found so far" in document["notes"][-1]


def test_ctrl_c_while_the_table_is_read_ends_in_one_line(tmp_path):
    pipe = tmp_path / "table.csv"
    os.mkfifo(pipe)
    with started(pipe, "--target", "y") as (process, reader):
        with pipe.open("wb"):  # the reader has opened its end, and waits for data that never arrives
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=60)
        read_until(reader, rb"maabo: interrupted\.")

    assert (process.returncode, out) == (130, b"")


def test_a_separate_process_exits_with_the_code_and_one_line():
    finished = subprocess.run([*COMMAND, "nowhere.csv", "--target", "y"], capture_output=True, text=True, check=False)

    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr == "maabo: There is no file nowhere.csv. Check the path.\n"


def test_a_closed_pipe_is_not_an_error(tmp_path):
    path = write_csv(tmp_path, numbers())
    shell = " ".join(map(str, [*COMMAND, path, "--target", "y", "--json", *QUICK])) + " | head -c 1"

    finished = subprocess.run(shell, shell=True, capture_output=True, text=True, check=False)

    assert finished.stdout == "{"
    assert finished.stderr == ""


@pytest.mark.parametrize("more", [(), ("--quiet",)])
def test_explain_prints_the_choices_on_stderr_and_does_not_change_stdout(more, tmp_path, run):
    table = write_csv(tmp_path, numbers(120))

    _, plain, _ = run(table, "--target", "y", *QUICK, "--format", "csv", *more)
    code, out, err = run(table, "--target", "y", *QUICK, "--format", "csv", "--explain", *more)

    assert (code, out) == (0, plain)
    assert "maabo: trees: 10, all of the space" in err or "maabo: trees: 10 (--trees)" in err
    assert "maabo: conditions: " in err


@pytest.mark.parametrize(("option", "value"), [("--repeats", "-1"), ("--repeats", "many"), ("--consensus", "1.5")])
def test_invalid_repeats_are_rejected_by_option(option, value, tmp_path, run):
    code, _, err = run(write_csv(tmp_path, numbers()), "--target", "y", option, value)

    assert code == 2
    assert err.startswith(f"maabo: {option} ")


def test_repeats_on_too_few_rows_are_rejected_before_the_search(tmp_path, run):
    table = write_csv(tmp_path, numbers(12).assign(y=["yes"] + ["no"] * 11))

    code, _, err = run(table, "--target", "y", "--split-seed", "1", "--repeats", "20", *QUICK)

    assert code == 2
    assert err.startswith("maabo: --repeats: half of the rows are too few.")


def test_with_repeats_the_directory_contains_their_counts(tmp_path, run):
    table = write_csv(tmp_path, numbers())
    folder = tmp_path / "run"

    code, out, _ = run(table, "--target", "y", *QUICK, "--repeats", "2", "--json", "--out", folder)

    with (folder / "rules.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert code == 0
    assert {row["repeats"] for row in rows} == {"2"}
    assert json.loads((folder / "rules.json").read_text(encoding="utf-8")) == json.loads(out)


@pytest.mark.soak
def test_ctrl_c_in_a_repeat_keeps_the_rules_and_the_repeats_before(tmp_path):
    path = write_csv(tmp_path, numbers(rows=300, columns=8))
    with started(path, "--target", "y", "--min-samples", "20", "--repeats", "1000", "--json") as (process, reader):
        read_until(reader, rb"repeat [1-9][0-9]* of 1,000")

        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)

    document = json.loads(out)
    assert process.returncode == 130
    assert document["search"]["stopped"] == "exhausted"
    assert document["rules"]
    assert document["repeats"]["done"] < 1000
    assert f"Only {document['repeats']['done']:,} of 1,000 repeats were done" in document["notes"][-1]


def odd_tables():
    """Tables as they come: the content, and a part of the note that tells what was done."""
    good = numbers(60)
    return {
        "a target with missing values": (good.assign(y=good["y"].where(good.index > 3)), "Left out 4 rows of 60"),
        "an all-missing column": (good.assign(x1=np.nan), "there is no value: 'x1'"),
        "infinite values": (good.assign(x1=good["x1"].where(good.index > 0, np.inf)), "1 of 'x1'"),
        "row numbers": (good.assign(row=range(60)), "'row' (60 distinct numbers)"),
        "a numeric target": (good.assign(y=good["x0"] * 2), "cut at its median"),
        "few columns": (good[["x0", "y"]], ""),
    }


@pytest.mark.parametrize("kind", odd_tables())
def test_a_table_is_taken_as_it_comes(kind, tmp_path, run):
    frame, note = odd_tables()[kind]
    frame.to_csv(tmp_path / "table.csv", index=False)

    code, out, _ = run(tmp_path / "table.csv", "--target", "y", *QUICK, "--json")

    assert code == 0
    assert note in " ".join(json.loads(out)["notes"])


def test_the_options_that_a_message_names_show_the_rule(tmp_path, run):
    draw = np.random.default_rng(1)
    frame = pd.DataFrame(draw.random((200, 5)).round(2), columns=list("abcde"))
    favoured = (frame["a"] > 0.7) & (draw.random(200) < 0.55)
    table = write_csv(tmp_path, frame.assign(y=np.where(favoured, "yes", draw.choice(["yes", "no"], 200))))

    code, out, _ = run(table, "--target", "y", "--certify", "off", "--format", "markdown")
    message = out.replace("\\_", "_").replace("&gt;", ">")
    rule, options = re.search(
        r"The nearest is IF (.*) THEN y = yes .*?; (--max-p \S+|--.*?) shows it", message
    ).groups()
    assert code == 0
    assert "**No findings.**" in out

    code, out, _ = run(table, "--target", "y", "--certify", "off", "--format", "pandas", *options.split())
    assert code == 0
    assert "R1 = df[" in out

    code, out, _ = run(table, "--target", "y", "--certify", "off", "--json", *options.split())
    assert f"IF {rule} THEN y = yes" in [each["text"] for each in json.loads(out)["rules"]]


def test_an_unknown_class_is_rejected_with_the_classes_of_the_table(tmp_path, run):
    code, out, err = run(write_csv(tmp_path, numbers()), "--target", "y", "--for-class", "maybe", *QUICK)

    assert (code, out) == (2, "")
    assert "--for-class 'maybe': this table has no such class; it has 'no', 'yes'." in err

"""Files of numbers as users have them, good and bad."""

from tests.for_each import for_each
from tests.problems import refused
from workbench.graph import numbers_file
from workbench.graph.numbers_file import read_numbers


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@for_each(
    ("name", "text", "columns"),
    [
        ("lat.json", '{"conv": 1.5, "relu": 2}', {"lat": {"conv": 1.5, "relu": 2.0}}),
        (
            "a.json",
            '{"ms": {"conv": 1}, "mW": {"conv": "3"}, "note": "x"}',
            {"ms": {"conv": 1.0}, "mW": {"conv": 3.0}},
        ),
        ("a.csv", "node,,ms\nconv,1,2\n", {"column 2": {"conv": 1.0}, "ms": {"conv": 2.0}}),
        ("a.csv", "node,ms,mW\nconv,1,\nrelu,nan,4\n", {"ms": {"conv": 1.0}, "mW": {"relu": 4.0}}),
        ("bom.csv", b"\xef\xbb\xbfnode,ms\r\n\xe5\xb1\x82,2\r\n", {"ms": {"\u5c42": 2.0}}),
    ],
)
def test_that_json_and_csv_are_read(tmp_path, name, text, columns):
    assert read_numbers(write(tmp_path, name, text)).columns == columns


@for_each(
    ("name", "text", "code"),
    [
        ("a.json", "{", "numbers-file-not-json"),
        ("a.json", "[1, 2]", "numbers-file-not-object"),
        ("a.json", '{"conv": "fast"}', "numbers-file-empty"),
        ("a.csv", "conv", "numbers-file-no-header"),
        ("a.csv", "node,ms\nconv,fast", "numbers-file-empty"),
        ("a.csv", b"\xff\xfe\x00", "numbers-file-not-utf8"),
        ("a.csv", "node\nconv", "numbers-file-no-header"),
        ("a.csv", "node\nconv,1", "numbers-file-no-header"),
        ("a.csv", "node,ms\n" + "c" * 140_000, "numbers-file-invalid"),
        ("a.json", '{"conv": [1], "relu": true}', "numbers-file-empty"),
    ],
)
def test_that_a_file_without_numbers_is_told(tmp_path, name, text, code):
    with refused(code):
        read_numbers(write(tmp_path, name, text))


def test_that_a_missing_file_is_told(tmp_path):
    with refused("numbers-file-unreadable"):
        read_numbers(tmp_path / "none.csv")


def test_that_operations_of_all_columns_are_known_and_large_files_refused(tmp_path, monkeypatch):
    file = read_numbers(write(tmp_path, "a.csv", "node,ms,mW\nconv,1,\nrelu,,4\n"))
    assert file.operations == {"conv", "relu"}
    monkeypatch.setattr(numbers_file, "LARGEST_BYTES", 24)
    assert read_numbers(write(tmp_path, "a.csv", "node,ms\nconvolution,100\n"))
    with refused("numbers-file-too-large"):
        read_numbers(write(tmp_path, "a.csv", "node,ms\nconvolution,1000\n"))
    with refused("numbers-file-unreadable"):
        read_numbers(tmp_path / "none.csv")

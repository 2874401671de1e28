"""Borders of the strict reader of ``.pt2`` files: sizes, numbers of records, and lacking ones."""

import json
import pickle
import zipfile

import pytest

from tests.for_each import for_each
from tests.workbench.project.test_pt2 import GRAPH, MODEL, PLAIN, RECORDS, SAMPLES, edited, inner, rebuilt
from workbench.project import pt2

DATA = PLAIN.read_bytes()
WEIGHT = "data/weights/weight_0"


def assert_doubtful(data):
    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(data)


@for_each(
    ("limit", "most"),
    [
        ("_MAX_RECORDS", len(RECORDS)),
        ("_MAX_JSON_BYTES", len(RECORDS[f"plain/{MODEL}"])),
        ("_MAX_JSON_ITEMS", sum(RECORDS[f"plain/{MODEL}"].count(sign) for sign in b"[{,")),
    ],
)
def test_that_an_archive_as_large_as_a_limit_is_read_and_a_larger_one_is_not(monkeypatch, limit, most):
    monkeypatch.setattr(pt2, limit, most)
    assert pt2.read(DATA)
    monkeypatch.setattr(pt2, limit, most - 1)
    assert_doubtful(DATA)


def test_that_a_pickle_of_sample_inputs_has_its_limit(monkeypatch):
    pickled = pickle.dumps((1, 2), 2)
    monkeypatch.setattr(pt2, "_MAX_PICKLE_BYTES", len(pickled))
    assert pt2.read(inner(pickled))
    monkeypatch.setattr(pt2, "_MAX_PICKLE_BYTES", len(pickled) - 1)
    assert_doubtful(inner(pickled))
    assert pt2.is_plain_pickle(b".")


def test_that_a_weight_in_a_second_folder_is_doubtful_although_it_is_not_read(tmp_path):
    path = tmp_path / "forged.pt2"
    path.write_bytes(DATA)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("other/data/weights/weight_999999", b"x")
    assert len(pt2.risks(path)) == 1
    assert_doubtful(path.read_bytes())


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_that_a_record_that_stands_twice_is_doubtful_with_the_same_content_too():
    assert_doubtful(rebuilt(added={WEIGHT: RECORDS[f"plain/{WEIGHT}"]}))


def test_that_an_encrypted_weight_is_doubtful_although_it_is_not_read(tmp_path):
    forged = bytearray(DATA)
    # The flags of an entry of the directory are 38 bytes before its name.
    forged[forged.rindex(f"plain/{WEIGHT}".encode()) - 38] |= 1
    path = tmp_path / "forged.pt2"
    path.write_bytes(forged)
    assert len(pt2.risks(path)) == 1


@for_each(("record", "passes"), [("byteorder", True), ("archive_format", False), ("archive_version", False)])
def test_that_only_the_order_of_bytes_may_be_left_out(record, passes):
    data = rebuilt({record: lambda _: None})
    if passes:
        assert pt2.read(data)
        return
    assert_doubtful(data)


def test_that_keys_of_a_program_are_names():
    assert pt2.read(edited("opset_version", value={"aten": 10}))
    assert_doubtful(edited("opset_version", value={"a b": 10}))
    assert_doubtful(edited("range_constraints", value={"s0 + 1": {"min_val": 1, "max_val": 2}}))


def test_that_a_free_size_counts_as_one_element():
    document = json.loads(RECORDS[f"plain/{MODEL}"])
    sizes = document["graph_module"]["graph"]["tensor_values"]["x"]["sizes"]
    free = next(size for size in sizes if "as_expr" in size)
    place = (*GRAPH, "tensor_values", "x", "sizes")
    assert pt2.read(edited(*place, value=[free, {"as_int": 1 << 31}]))
    assert_doubtful(edited(*place, value=[free, {"as_int": (1 << 31) + 1}]))


def test_that_empty_sample_inputs_are_none():
    assert pt2.read(rebuilt({SAMPLES: lambda _: b""})).records[SAMPLES] == b""

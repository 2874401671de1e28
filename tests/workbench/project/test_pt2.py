"""The strict reader of ``.pt2`` files: what passes, and what is doubtful or unreadable.

``plain.pt2`` is a small program of torch 2.13 with a dynamic batch, a branch, a buffer, a constant
and nested inputs and outputs. The engine's tests prove that no forged file runs code.
"""

import io
import json
import pickle
import zipfile
from pathlib import Path

import pytest

from tests.for_each import for_each
from workbench.project import pt2

PLAIN = Path(__file__).parents[2] / "data" / "programs" / "plain.pt2"
MODEL, SAMPLES = pt2.MODEL, pt2.SAMPLE_INPUTS
GRAPH = ("graph_module", "graph")
NODE = (*GRAPH, "nodes", 0)
SIGNATURE = ("graph_module", "module_call_graph", 0, "signature")
SIZE = (*GRAPH, "tensor_values", "x", "sizes", 0)


with zipfile.ZipFile(PLAIN) as whole:
    RECORDS = {name: whole.read(name) for name in whole.namelist()}


def rebuilt(changes=None, added=None, *, root="plain", **entry):
    """Return the archive with other contents of some records (None: without), and further ones."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as new:
        for full, content in RECORDS.items():
            name = full.partition("/")[2]
            given = changes[name](content) if name in (changes or {}) else content
            if given is not None:
                new.writestr(f"{root}/{name}", given, **entry)
        for name, content in (added or {}).items():
            new.writestr(f"{root}/{name}", content, **entry)
    return buffer.getvalue()


def edited(*path, value, record=MODEL):
    """Return the archive with another value in one place of a description."""

    def change(content):
        document = json.loads(content)
        place = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        return json.dumps(document).encode()

    return rebuilt({record: change})


def sized(text):
    """Return the archive with another expression as the first size of the input."""
    return edited(*SIZE, value={"as_expr": {"expr_str": text, "hint": None}})


def spec(kind="builtins.dict", context="null", children=(), protocol=1, **more):
    """Return the text of a structure of inputs or outputs."""
    item = {"type": kind, "context": context, "children_spec": list(children), **more}
    return json.dumps([protocol, item])


LEAF = {"type": None, "context": None, "children_spec": []}


def test_that_a_plain_program_is_read_with_all_its_records():
    records = pt2.read(PLAIN.read_bytes()).records
    with zipfile.ZipFile(PLAIN) as archive:
        names = {name.partition("/")[2] for name in archive.namelist()}
        assert records.keys() == names
        for name in names - {MODEL}:
            assert records[name] == archive.read(f"plain/{name}")
    assert pt2.risks(PLAIN) == []


def test_that_free_text_and_code_are_removed_and_what_places_an_operation_is_kept():
    data = edited("guards_code", value=["print(1)"])
    document = json.loads(pt2.read(data).records[MODEL])
    assert document["guards_code"] == []
    assert document["graph_module"]["metadata"] == {}
    graph = document["graph_module"]["graph"]
    kept = [node["metadata"] for node in graph["nodes"]]
    assert all(set(m) <= {"stack_trace", "nn_module_stack", "torch_fn", "source_fn_stack"} for m in kept)
    assert any("net.py" in m.get("stack_trace", "") for m in kept)
    assert any("linear" in m.get("nn_module_stack", "") for m in kept)


@for_each(
    ("functions", "is_kept"),
    [
        ("linear,torch.nn.modules.linear.Linear", True),
        ("a,torch.nn.functional.relu;b,torch.nn.modules.linear.Linear", True),
        ("a,torch.nn.functional.relu;b,os.system", False),
        ("a,os.system", False),
        ("", False),
    ],
)
def test_that_only_functions_of_torch_are_kept_as_sources(functions, is_kept):
    data = edited(*NODE, "metadata", value={"source_fn_stack": functions, "torch_fn": "a;b"})
    node = json.loads(pt2.read(data).records[MODEL])["graph_module"]["graph"]["nodes"][0]
    assert ("source_fn_stack" in node["metadata"]) is is_kept
    assert node["metadata"]["torch_fn"] == "a;b"


def test_that_the_graphs_of_branches_are_cleaned_too():
    document = json.loads(pt2.read(PLAIN.read_bytes()).records[MODEL])
    inner = [
        argument["arg"]["as_graph"]["graph"]
        for node in document["graph_module"]["graph"]["nodes"]
        for argument in node["inputs"]
        if "as_graph" in argument["arg"]
    ]
    assert len(inner) == 2
    known = {"stack_trace", "nn_module_stack", "torch_fn", "source_fn_stack"}
    assert all(set(node["metadata"]) <= known for graph in inner for node in graph["nodes"])


@for_each(
    "target",
    ["torch.ops.aten.linear.default", "torch.ops.prims.add.default", "_operator.add", "math.ceil",
     "torch.ops.quantized_decomposed.quantize_per_tensor.default", "torch.sym_max",
     "torch.ops.higher_order.while_loop", "torch._sym_sqrt", "torch.sym_sqrt",
     "torch.ops.aten.__and__.Tensor"],
)  # fmt: skip
def test_that_listed_operators_pass(target):
    assert pt2.read(edited(*NODE, "target", value=target))


@for_each(
    "target",
    ["torch.os.system", "os.system", "torch.ops.aten.from_file.default", "torch.load", "",
     "torch.ops.aten.save.default", "torch.ops.aten._print.default", "torch.ops.mine.run.default",
     "torch.ops.aten.warn.default", "torch.ops.aten._test_optional.default", "builtins.eval",
     "torch.ops.aten.set_.source_Storage", "torch.ops.aten.add.__class__", "math.prod",
     "torch.ops.higher_order.call_torchbind", "torch.ops.aten.linear.default.x"],
)  # fmt: skip
def test_that_other_operators_are_doubtful(target):
    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(edited(*NODE, "target", value=target))


@for_each(
    "size",
    ["s77", "s77 + 1", "2*s77", "-s77", "s77 // 2", "s77 >= 2", "Max(1, s77)", "u0", "zu1",
     "Add(Symbol('s77', integer=True, positive=True), Integer(1))", "Pow(s77, 2)", " s77",
     "Where(s77 < 3, 1, s77)", "9223372036854775807", "s77 % 3", "~s77"],
)  # fmt: skip
def test_that_sizes_are_arithmetic_of_symbols(size):
    assert pt2.read(sized(size))


@for_each(
    "size",
    ["__import__('os')", "s77.__class__", "x", "s77(1)", "Pow(10, 100)", "10**9", "[s77]",
     "s77 if 1", "zuf1", "lambda: 1", "1.5", "'s77'", "True", "9223372036854775808",
     "Symbol(s77)", "s1234567",
     "ssss1", "Symbol('s77', real=f())", "Max(1, key=2)", "Unknown(1)", "s77 << 2", "é",
     "(" * 300 + ")" * 300,
     "1 + " * 3000 + "1", ""],
)  # fmt: skip
def test_that_other_sizes_are_doubtful(size):
    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(sized(size))


@for_each("name", ["linear", "a_1", "_x", "p" * 501])
def test_that_names_are_identifiers(name):
    assert pt2.read(edited(*NODE, "name", value=name))


@for_each("name", ["a b", "1a", "class", "a-b", "é", "p" * 502, "a\nb", "a;b"])
def test_that_other_names_are_doubtful(name):
    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(edited(*NODE, "name", value=name))


@for_each("fqn", ["", "blocks.0.conv", "a@1", "x" * 2000])
def test_that_paths_of_modules_pass(fqn):
    assert pt2.read(edited("graph_module", "module_call_graph", 0, "fqn", value=fqn))


@for_each("fqn", ["a b", "a.__class__", "x" * 2001, "a()", "é"])
def test_that_other_paths_are_doubtful(fqn):
    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(edited("graph_module", "module_call_graph", 0, "fqn", value=fqn))


@for_each(
    ("field", "text", "passes"),
    [
        ("in_spec", spec("builtins.tuple", children=[LEAF, LEAF]), True),
        ("in_spec", spec(context='["k", 1]', children=[LEAF, LEAF]), True),
        ("in_spec", spec(context='["a b"]', children=[LEAF]), False),
        ("in_spec", spec(context='["class"]', children=[LEAF]), False),
        ("out_spec", spec(context='["a b"]', children=[LEAF]), True),
        ("out_spec", spec(context='["a\\u0000"]', children=[LEAF]), False),
        ("out_spec", spec("collections.OrderedDict", '["k"]', [LEAF]), True),
        ("out_spec", spec("collections.namedtuple", '["k"]', [LEAF]), False),
        ("out_spec", spec("builtins.list", protocol=2), False),
        ("out_spec", spec("builtins.list", more=1), False),
        ("out_spec", spec(context='[{"__enum__": true}]', children=[LEAF]), False),
        ("out_spec", spec("builtins.list", children=[{**LEAF, "context": "1"}]), False),
        ("out_spec", spec("builtins.list", children=[{**LEAF, "children_spec": [LEAF]}]), False),
        ("out_spec", "[1]", False),
        ("out_spec", "", False),
    ],
)
def test_that_structures_are_of_plain_containers(field, text, passes):
    data = edited(*SIGNATURE, field, value=text)
    if passes:
        assert pt2.read(data)
        return
    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(data)


@for_each(
    ("path", "value"),
    [
        (("schema_version", "major"), 7),
        (("schema_version", "major"), True),
        (("schema_version", "major"), "8"),
        (("unknown",), 1),
        (("verifiers",), ["OTHER"]),
        (("verifiers",), "ATEN"),
        ((*GRAPH, "custom_obj_values"), {"x": {"name": "x", "class_fqn": "y"}}),
        (("graph_module", "treespec_namedtuple_fields"), {"x": {"field_names": []}}),
        ((*GRAPH, "is_single_tensor_return"), 0),
        ((*GRAPH, "nodes"), {}),
        ((*NODE, "inputs"), None),
        ((*NODE, "inputs", 0, "arg"), {"as_int": 1, "as_bool": True}),
        ((*NODE, "inputs", 0, "arg"), {}),
        ((*NODE, "inputs", 0, "arg"), {"as_custom_obj": {"name": "x", "class_fqn": "y"}}),
        ((*NODE, "inputs", 0, "arg"), {"as_int": 10**21}),
        ((*NODE, "inputs", 0, "arg"), {"as_float": "1e5"}),
        ((*NODE, "metadata", "stack_trace"), "a\x00b"),
        ((*GRAPH, "tensor_values", "x", "device"), {"type": "cuda", "index": None}),
        ((*GRAPH, "tensor_values", "x", "sizes"), [{"as_int": 1 << 40}]),
        ((*GRAPH, "tensor_values", "class"), None),
        (("graph_module",), []),
        (("range_constraints",), []),
    ],
)
def test_that_a_field_of_another_kind_is_doubtful(path, value):
    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(edited(*path, value=value))


@for_each("value", [1, 1.5, "Infinity", "-Infinity", "NaN"])
def test_that_floats_may_be_infinite(value):
    assert pt2.read(edited(*NODE, "inputs", 0, "arg", value={"as_float": value}))


@for_each("field", ["target", "inputs", "outputs"])
def test_that_a_lacking_field_is_doubtful(field):
    def change(content):
        document = json.loads(content)
        del document["graph_module"]["graph"]["nodes"][0][field]
        return json.dumps(document).encode()

    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(rebuilt({MODEL: change}))


def test_that_a_field_that_stands_twice_is_doubtful():
    def change(content):
        return content.replace(b'"guards_code": []', b'"guards_code": [], "guards_code": []')

    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(rebuilt({MODEL: change}))


@for_each("content", [b"", b"[", b"null", b"[]", b'"x"', b"{}", b"\xff", b"[" * 100_000])
def test_that_a_description_that_is_no_document_is_doubtful(content):
    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(rebuilt({MODEL: lambda _: content}))


def test_that_a_description_of_too_many_items_is_doubtful():
    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(rebuilt({MODEL: lambda _: b"[" + b"1," * 6_000_001 + b"1]"}))


@for_each("record", [MODEL, pt2.WEIGHTS_CONFIG, pt2.CONSTANTS_CONFIG, SAMPLES])
def test_that_an_archive_without_a_record_is_unreadable(record):
    with pytest.raises(pt2.UnreadableArchiveError):
        pt2.read(rebuilt({record: lambda _: None}))


@for_each("record", ["archive_format", "archive_version", "byteorder"])
def test_that_another_format_is_doubtful(record):
    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(rebuilt({record: lambda _: b"other"}))


@for_each(
    "name",
    ["data/weights/weight_1000000", "data/weights/x", "extra", "models/other.json", "code.py",
     "data/sample_inputs/other.pt", "data/constants/tensor_x", "../outside", "MODELS/MODEL.JSON",
     "data/weights/weight_0"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_that_an_unknown_or_second_record_is_doubtful(name):
    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(rebuilt(added={name: b"x"}))


def test_that_a_known_record_without_effect_passes():
    assert pt2.read(rebuilt(added={".format_version": b"1", "data/weights/weight_999999": b"x"}))


def test_that_compressed_records_are_doubtful():
    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(rebuilt(compress_type=zipfile.ZIP_DEFLATED))


def test_that_a_second_folder_is_doubtful():
    buffer = io.BytesIO(PLAIN.read_bytes())
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("other/version", "1")
    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(buffer.getvalue())


@for_each("data", [b"", b"PK", b"not an archive", PLAIN.read_bytes()[:5000]])
def test_that_no_archive_is_unreadable(data, tmp_path):
    with pytest.raises(pt2.UnreadableArchiveError):
        pt2.read(data)
    path = tmp_path / "cut.pt2"
    path.write_bytes(data)
    assert pt2.risks(path) == []


def test_that_an_empty_archive_is_doubtful():
    buffer = io.BytesIO()
    zipfile.ZipFile(buffer, "w").close()
    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(buffer.getvalue())


def test_that_a_damaged_weight_is_noticed_when_weights_are_read(tmp_path):
    data = bytearray(PLAIN.read_bytes())
    with zipfile.ZipFile(PLAIN) as archive:
        info = archive.getinfo("plain/data/weights/weight_0")
    start = info.header_offset + 30 + len(info.filename)
    data[start] ^= 1
    with pytest.raises(pt2.UnreadableArchiveError):
        pt2.read(bytes(data))
    path = tmp_path / "damaged.pt2"
    path.write_bytes(data)
    assert pt2.risks(path) == []


def test_that_a_doubtful_file_says_why(tmp_path):
    path = tmp_path / "forged.pt2"
    path.write_bytes(edited(*NODE, "target", value="os.system\n" + "x" * 200))
    (reason,) = pt2.risks(path)
    assert "os.system?" in reason
    assert len(reason) < 120
    assert pt2.risks(tmp_path / "absent.pt2") == []


WEIGHT = ("config", "linear.weight")


@for_each(
    ("path", "value", "passes"),
    [
        ((*WEIGHT, "path_name"), "weight_1", True),
        ((*WEIGHT, "path_name"), "../constants/tensor_0", False),
        ((*WEIGHT, "path_name"), "tensor_0", False),
        ((*WEIGHT, "path_name"), "weight_77", False),
        ((*WEIGHT, "use_pickle"), True, False),
        ((*WEIGHT, "use_pickle"), 0, False),
        ((*WEIGHT, "tensor_meta"), None, False),
        ((*WEIGHT, "tensor_meta", "device"), {"type": "meta", "index": None}, False),
        ((*WEIGHT, "tensor_meta", "dtype"), 99, False),
        ((*WEIGHT, "tensor_meta", "sizes"), [{"as_int": 1 << 18}], True),
        ((*WEIGHT, "tensor_meta", "sizes"), [{"as_int": (1 << 18) + 1}], False),
        ((*WEIGHT, "tensor_meta", "dtype"), 8, True),
        (("config",), [], False),
        ((*WEIGHT, "more"), 1, False),
    ],
)
def test_that_weights_are_plain_and_no_larger_than_their_record(path, value, passes):
    data = edited(*path, value=value, record=pt2.WEIGHTS_CONFIG)
    if passes:
        assert pt2.read(data)
        return
    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(data)


def test_that_an_empty_record_holds_no_weight():
    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(rebuilt({"data/weights/weight_0": lambda _: b""}))
    # Not even one of a single byte.
    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(weighing(1, 1, **{"data/weights/weight_0": lambda _: b""}))
    assert pt2.read(weighing(1, 0, **{"data/weights/weight_0": lambda _: b""}))


def inner(pickled, name="data.pkl", before=b"", after=b""):
    """Return a file of sample inputs with another pickle."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"model/{name}", pickled)
        archive.writestr("model/version", "3\n")
    data = before + buffer.getvalue() + after
    return rebuilt({SAMPLES: lambda _: data})


def test_that_sample_inputs_may_be_lacking_or_plain():
    assert pt2.read(rebuilt({SAMPLES: lambda _: b""}))
    assert pt2.read(inner(pickle.dumps(((1, 2.5), {"k": None}, [True, -3]), 2)))


@for_each(
    "data",
    [
        inner(pickle.dumps(print, 2)),
        inner(pickle.dumps((1,), 4)),
        inner(pickle.dumps((1,), 2) + b"."),
        inner(pickle.dumps((1,), 2)[:-1]),
        inner(pickle.dumps((1 << 41,), 2)),
        inner(b""),
        inner(pickle.dumps((1,), 2), name="other.pkl"),
        inner(pickle.dumps((1,), 2), before=b"#!/bin/sh\n"),
        inner(pickle.dumps((1,), 2), after=b"\0"),
        inner(pickle.dumps(["x" * (1 << 20)], 2)),
    ],
)
def test_that_sample_inputs_that_could_run_code_are_doubtful(data):
    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(data)


# Bytes per element of torch's scalar types, by their number in the schema of torch 2.13.
BYTES = {
    1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 2, 7: 4, 8: 8, 9: 4, 10: 8, 11: 16, 12: 1, 13: 2, 28: 2,
    29: 1, 30: 1, 31: 1, 32: 1, 33: 1, 34: 4, 35: 8,
}  # fmt: skip


def weighing(dtype, elements, **changes):
    """Return the archive whose first weight has so many elements of a type."""

    def change(content):
        document = json.loads(content)
        meta = document["config"]["linear.weight"]["tensor_meta"]
        meta.update(dtype=dtype, sizes=[{"as_int": elements}])
        return json.dumps(document).encode()

    return rebuilt({pt2.WEIGHTS_CONFIG: change, **changes})


def test_that_a_weight_takes_the_bytes_of_its_type():
    """Small records may be padded: up to 1 MiB is allowed."""
    for dtype, size in BYTES.items():
        assert pt2.read(weighing(dtype, (1 << 20) // size)), dtype
        with pytest.raises(pt2.DoubtfulArchiveError):
            pt2.read(weighing(dtype, (1 << 20) // size + 1))
    for dtype in (0, 14, 27, 36):
        with pytest.raises(pt2.DoubtfulArchiveError):
            pt2.read(weighing(dtype, 1))


@for_each(
    ("sizes", "passes"),
    [
        ([1 << 31], True), ([(1 << 31) + 1], False), ([1 << 16, 1 << 15], True),
        ([1 << 16, 1 << 15, 2], False), ([-(1 << 31) - 1], False), ([0], True),
    ],
)  # fmt: skip
def test_that_a_tensor_of_the_graph_has_at_most_two_thousand_million_elements(sizes, passes):
    data = edited(*GRAPH, "tensor_values", "x", "sizes", value=[{"as_int": n} for n in sizes])
    if passes:
        assert pt2.read(data)
        return
    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(data)


@for_each(("digits", "passes"), [(20, True), (21, False)])
def test_that_numbers_have_up_to_twenty_digits(digits, passes):
    data = edited("schema_version", "minor", value=int("1" * digits))
    if passes:
        assert pt2.read(data)
        return
    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(data)


@for_each(
    ("value", "passes"), [((1 << 40) - 1, True), (1 << 40, False), (1 - (1 << 40), True), (-(1 << 40), False)]
)
def test_that_a_number_of_a_pickle_has_up_to_forty_bits(value, passes):
    assert pt2.is_plain_pickle(pickle.dumps((value,), 2)) is passes


def test_that_a_pickle_ends_with_its_last_opcode():
    plain = pickle.dumps((1, None, True, 2.5, "text"), 2)
    assert pt2.is_plain_pickle(plain)
    for other in (plain + b"\0", plain[:-1], b"", b"\xff", b"cos\nsystem\n."):
        assert not pt2.is_plain_pickle(other)


@for_each(("length", "passes"), [(10_000, True), (10_001, False)])
def test_that_a_size_has_up_to_ten_thousand_characters(length, passes):
    text = "s77".ljust(length)
    if passes:
        assert pt2.read(sized(text))
        return
    with pytest.raises(pt2.DoubtfulArchiveError):
        pt2.read(sized(text))


def test_that_a_value_is_shown_short_on_one_line():
    assert pt2._shown("a\nb\x07c") == "a?b?c"
    assert pt2._shown("x" * 80) == "x" * 80
    assert len(pt2._shown("x" * 81)) == 80

"""An ETRecord that is read without ExecuTorch, and the events of a run that it names."""

import io
import json
import zipfile

from tests.problems import refused
from workbench.deploy.simulators import etrecord
from workbench.deploy.simulators.etrecord import located, read_record
from workbench.results import RuntimeEvent


def node(name, handle, stack):
    return {
        "target": f"executorch.exir.dialects.edge.ops.{name}",
        "metadata": {"debug_handle": str(handle), "nn_module_stack": stack},
    }


NODES = [
    node("aten.convolution.default", 1, "k,,Net;k.conv,body.conv,torch.nn.Conv2d"),
    node("aten.relu.default", 2, "k,,Net;k.act,body.act,torch.nn.ReLU"),
    {"target": "placeholder", "metadata": {}},
    node("aten.topk.default", 3, "k,,Net"),
]
ENDLESS = [{"metadata": {"debug_handle": float("inf")}}]
HANDLES = {"forward": {"0": [1, 2, 2], "1": 3}}
DELEGATES = {"forward": {"0": {"name": "EthosUBackend", "delegate_map": None}}}


def record(**changed):
    entries = {
        "ETRECORD_V0": "",
        "edge_dialect_exported_program/forward": json.dumps({"graph_module": {"graph": {"nodes": NODES}}}),
        "debug_handle_map": json.dumps(HANDLES),
        "delegate_map": json.dumps(DELEGATES),
        **changed,
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in entries.items():
            if text is not None:
                archive.writestr(name, text)
    return file.getvalue()


def event(name, kind, instruction):
    return RuntimeEvent(name=name, kind=kind, cycles=1, calls=1, instruction=instruction)


def test_that_instructions_have_operators_and_modules():
    read = read_record(record())
    assert read.instructions[0].operators == ("aten.convolution.default", "aten.relu.default")
    assert read.instructions[0].modules == ("body.conv", "body.act")
    assert read.instructions[1].modules == ("",)
    events = [
        event("DELEGATE_CALL", "npu", 0),
        event("topk.values", "cpu", 1),
        event("Method::execute", "runtime", None),
    ]
    assert [what.modules for _, what in located(events, read)] == [("body.conv", "body.act"), ("",), ()]


def test_that_the_run_of_another_program_is_refused():
    for other in (event("add.out", "cpu", 7), event("add.out", "cpu", 0), event("DELEGATE_CALL", "npu", 1)):
        with refused("etdump-of-another-program"):
            list(located([other], read_record(record())))


def test_that_damaged_records_are_refused(monkeypatch):
    for changed in (
        {"ETRECORD_V0": None},
        {"debug_handle_map": None},
        {"debug_handle_map": "{"},
        {"debug_handle_map": "[]"},
        {"debug_handle_map": '{"forward": {"x": 1}}'},
        {"delegate_map": '{"forward": {"x": 1}}'},
        {"delegate_map": "3"},
        {"edge_dialect_exported_program/forward": '{"graph_module": 3}'},
        {"edge_dialect_exported_program/forward": "[" * 100_000},
        {"debug_handle_map": '{"forward": {"1": Infinity}}'},
        {
            "edge_dialect_exported_program/forward": json.dumps(
                {"graph_module": {"graph": {"nodes": ENDLESS}}}
            )
        },
    ):
        with refused("etrecord-unreadable"):
            read_record(record(**changed))
    encrypted = record().replace(b"PK\3\4\x14\0\0\0", b"PK\3\4\x14\0\1\0")
    encrypted = encrypted.replace(b"PK\1\2\x14\3\x14\0\0\0", b"PK\1\2\x14\3\x14\0\1\0")
    with refused("etrecord-unreadable") as caught:
        read_record(encrypted)
    assert "encrypted" in caught.value.infos[0].details
    with refused("etrecord-unreadable"):
        # 40 MB of values, which would take gigabytes.
        read_record(record(debug_handle_map="[" + "[]," * 8_000_000 + "[]]"))
    monkeypatch.setattr(etrecord, "_MAX_ENTRY_BYTES", 10)
    with refused("etrecord-unreadable"):
        read_record(record())

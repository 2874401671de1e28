"""ExecuTorch's Inspector works with the ETRecord that is written, and so does the command line."""

import json

import pytest
import torch

from tests.engine.in_process import project
from tests.problems import refused
from workbench import cli
from workbench.deploy.simulators.etrecord import read_record
from workbench.pipeline.plan import plan
from workbench.project import edits
from workbench.project.model import TargetChoice
from workbench.project.opened import OpenProject

pytestmark = pytest.mark.engine


def packed(engine, made):
    """Return the folder of a project's deliverables."""
    assert engine.run(made, "package", "evaluate", "verify", "run") == "done", engine.failure
    return engine.cache.folder(plan(OpenProject(made, engine.folder), engine.cache).key("package"))


def on_cpu():
    """A project whose operators all are on the CPU, where this machine can run them."""
    return edits.assign(project("small"), "global", "", "cpu")


def recorded(folder, program):
    """Run a program in ExecuTorch's runtime; return the path of its ETDump."""
    from executorch.extension.pybindings import portable_lib

    loaded = portable_lib._load_for_executorch(str(program), enable_etdump=True)
    loaded.forward([torch.ones(1, 3, 8, 8)])
    path = folder / "run.etdp"
    loaded.write_etdump_result_to_file(str(path))
    return path


@pytest.mark.slow
def test_that_the_inspector_and_the_verb_name_the_modules_of_a_recorded_run(engine, capsys):
    made = on_cpu()
    folder = packed(engine, made)
    record = folder / "small.etrecord"
    dump = recorded(engine.folder, folder / "small.pte")

    from executorch.devtools import Inspector

    inspector = Inspector(etdump_path=str(dump), etrecord=str(record))
    events = [event for block in inspector.event_blocks for event in block.events]
    found = {
        stack[-1][0]
        for event in events
        for stack in (list(s.values()) for s in event.module_hierarchy.values())
    }
    assert {"conv", "fc"} <= found

    assert cli.main(["etdump", str(dump), "--etrecord", str(record), "--json"]) == 0
    read = json.loads(capsys.readouterr().out)["events"]
    kernels = [event for event in read if event["kind"] == "cpu"]
    assert {"conv", "fc"} <= {name for event in kernels for name in event["modules"]}
    assert all(event["cycles"] > 0 for event in kernels if "conv" in event["modules"])

    other = packed(engine, project("small")) / "small.etrecord"
    capsys.readouterr()
    assert cli.main(["etdump", str(dump), "--etrecord", str(other), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "etdump-of-another-program"


def with_a_delegate(path):
    """Write the ETDump of a run that quantizes, calls the NPU and dequantizes."""
    from executorch.devtools.etdump import schema_flatcc as schema
    from executorch.devtools.etdump.serialize import serialize_to_etdump_flatcc

    def event(name, instruction, begun, ended):
        profile = schema.ProfileEvent(
            name=name,
            chain_index=0,
            instruction_id=instruction,
            delegate_debug_id_int=-1,
            delegate_debug_id_str=None,
            delegate_debug_metadata=None,
            start_time=begun,
            end_time=ended,
        )
        return schema.Event(profile_event=profile, allocation_event=None, debug_event=None)

    events = [
        event("native_call_quantize_per_tensor.out", 0, 10, 20),
        event("OPERATOR_CALL", 0, 9, 21),
        event("DELEGATE_CALL", 1, 30, 500),
        event("native_call_dequantize_per_tensor.out", 2, 510, 520),
        event("OPERATOR_CALL", 2, 509, 521),
    ]
    run = schema.RunData(name="Execute", bundled_input_index=-1, allocators=[], events=events)
    data = serialize_to_etdump_flatcc(schema.ETDumpFlatCC(version=0, run_data=[run]))
    # The runtime writes the size in front.
    path.write_bytes(len(data).to_bytes(4, "little") + data)
    return path


@pytest.mark.slow
def test_that_the_inspector_names_the_modules_of_a_delegate(engine, capsys):
    from executorch.devtools import Inspector

    record = packed(engine, project("small")) / "small.etrecord"
    dump = with_a_delegate(engine.folder / "run.etdp")
    inspector = Inspector(etdump_path=str(dump), etrecord=str(record))
    events = {event.name: event for block in inspector.event_blocks for event in block.events}
    stacks = events["DELEGATE_CALL"].module_hierarchy.values()
    assert {"conv", "fc"} <= {list(stack.values())[-1][0] for stack in stacks}
    capsys.readouterr()
    assert cli.main(["etdump", str(dump), "--etrecord", str(record), "--json"]) == 0
    read = {event["name"]: event for event in json.loads(capsys.readouterr().out)["events"]}
    assert read["DELEGATE_CALL"]["cycles"] == 470
    assert {"conv", "fc"} <= set(read["DELEGATE_CALL"]["modules"])


def test_that_equal_projects_have_equal_records_without_folders_and_samples(engine, tmp_path):
    made = project("small")
    first = (packed(engine, made) / "small.etrecord").read_bytes()
    record = read_record(first)
    assert record.delegates
    modules = {m for number in record.delegates for m in record.instructions[number].modules}
    assert {"conv", "fc"} <= modules
    assert str(tmp_path).encode() not in _unpacked(first)
    again = edits.set_target(made, TargetChoice(id="ethos-u55-128", options={"optimise": "Size"}))
    assert (packed(engine, again) / "small.etrecord").read_bytes() == first


def _unpacked(data):
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return b"".join(archive.read(name) for name in archive.namelist())


def test_that_the_record_can_be_left_out(engine):
    options = {"etrecord": False}
    made = edits.set_target(project("small"), TargetChoice(id="ethos-u55-128", options=options))
    assert not list(packed(engine, made).glob("*.etrecord"))


def test_that_what_is_no_record_is_refused():
    for data in (b"", b"PK\x05\x06" + bytes(18), b"nothing"):
        with refused("etrecord-unreadable"):
            read_record(data)

"""The document of a run."""

from tests.fakes.results import result_of, write_result
from workbench.api.summary import Delivered, summary
from workbench.graph.snapshot import GraphSnapshot, Node
from workbench.project.model import ModelSource, Project, Rule, TargetChoice
from workbench.project.opened import OpenProject
from workbench.results import (
    GRAPH_FILE,
    AppliedCorrection,
    CompilerCheck,
    ConvertResult,
    CpuNode,
    Deliverable,
    ExportedModel,
    FormatMemory,
    PackageResult,
    PrepareResult,
    save_result,
)


def project(target="ethos-u55-128", config="a8w8"):
    rules = (Rule(id="r1", kind="global", config=config),)
    return Project(name="net", model=ModelSource(spec="net.pt2"), target=TargetChoice(id=target), rules=rules)


def folder_with(tmp_path, stage, result=None):
    folder = tmp_path / stage
    folder.mkdir()
    write_result(stage, folder)
    if result is not None:
        save_result(result, folder)
    return folder


def test_that_warnings_name_their_stage_and_corrections_what_they_changed(tmp_path):
    prepared = PrepareResult(
        observers=1,
        annotations=(),
        warnings=("odd", "strange"),
        corrections=(AppliedCorrection(id="keep_relu_clamps", state="on", places=("relu",)),),
    )
    folders = {"prepare": folder_with(tmp_path, "prepare", prepared)}
    document = summary(OpenProject(project(), tmp_path), [], folders, None)
    assert document["warnings"] == [
        {"stage": "prepare", "message": "odd"},
        {"stage": "prepare", "message": "strange"},
    ]
    (told,) = document["corrections"]
    assert (told["id"], told["state"], list(told["places"])) == ("keep_relu_clamps", "on", ["relu"])
    assert "corrections" not in summary(OpenProject(project(), tmp_path), [], {}, None)


def test_that_the_toolchain_is_accelerated_unless_it_is_not_wanted(tmp_path):
    plain = summary(OpenProject(project(), tmp_path), [], {}, None)["acceleration"]
    assert plain == summary(OpenProject(project(), tmp_path), [], {}, None, accelerate=True)["acceleration"]
    assert plain != summary(OpenProject(project(), tmp_path), [], {}, None, accelerate=False)["acceleration"]


def test_that_emulated_numbers_are_told_with_their_memory(tmp_path):
    memory = FormatMemory(weight_bits=4.0, data_bits=8.0, weight_elements=10, data_elements=20)
    result = ConvertResult(nodes=1, quantized_weights_bytes=1, float_operators=0, memory=memory)
    folders = {"convert": folder_with(tmp_path, "convert", result)}
    emulated = summary(OpenProject(project("formats", "integer-8"), tmp_path), [], folders, None)["emulated"]
    assert emulated["target"] == "formats"
    assert (emulated["weight_bits"], emulated["data_bits"]) == (4.0, 8.0)
    assert (emulated["weight_density"], emulated["data_density"]) == (8.0, 4.0)
    early = summary(OpenProject(project("formats", "integer-8"), tmp_path), [], {}, None)["emulated"]
    assert set(early) == {"target", "sentence"}
    assert "emulated" not in summary(OpenProject(project(), tmp_path), [], folders, None)


def test_that_suggestions_come_with_their_evidence(tmp_path):
    rules = (
        Rule(id="r1", kind="global", config="a8w8"),
        Rule(id="r2", kind="module_name", match="head", config="float"),
    )
    floating = project().model_copy(update={"rules": rules})
    folders = {s: folder_with(tmp_path, s) for s in ("export", "prepare")}
    left = CpuNode(node="linear", op="aten.linear.default", module="head", reason="", cause="float")
    lowered = result_of("lower").model_copy(update={"cpu_nodes": (left,)})
    folders["lower"] = folder_with(tmp_path, "lower", lowered)
    node = Node("linear", "aten.linear.default", "call", attrs={"origin": "linear"})
    GraphSnapshot("edge", (node,), ()).save(folders["lower"] / GRAPH_FILE)
    (told,) = summary(OpenProject(floating, tmp_path), [], folders, None)["suggestions"]
    assert (told["id"], told["nodes"], told["in_project"]) == ("float:r2", ["linear"], True)
    assert told["source"] == []
    assert told["title"]
    assert told["evidence"]
    assert told["expected"]


def test_that_an_exported_model_has_no_suggestions(tmp_path):
    check = CompilerCheck(sentence="onnx-mlir is not installed.")
    exported = ExportedModel(
        opset=21, ir_version=10, nodes=3, bytes=4, rewritten=0, products=(), commands=(), check=check
    )
    lowered = result_of("lower").model_copy(update={"exported": exported})
    folders = {"lower": folder_with(tmp_path, "lower", lowered)}
    document = summary(OpenProject(project("nnpa", "int8-dyn"), tmp_path), [], folders, None)
    assert "suggestions" not in document
    assert "board" not in document


def test_that_files_are_told_where_they_were_written(tmp_path):
    files = (
        Deliverable(name="net.onnx", bytes=4, sha256="0" * 64, purpose="model"),
        Deliverable(name="note.md", bytes=5, sha256="1" * 64, purpose="note"),
    )
    result = PackageResult(
        files=files,
        kernels=("aten::linear.out",),
        method_pool_bytes=1,
        scratch_pool_bytes=2,
        planned_bytes=(3,),
        note="Read me.",
    )
    folders = {"package": folder_with(tmp_path, "package", result)}
    part = summary(OpenProject(project(), tmp_path), [], folders, None)["package"]
    assert part["model"] == {"path": str(folders["package"] / "net.onnx"), "bytes": 4, "sha256": "0" * 64}
    assert [f["path"] for f in part["files"]] == [str(folders["package"] / f.name) for f in files]
    assert (part["withheld"], part["note"]) == (False, "Read me.")
    assert part["kernels"] == ["aten::linear.out"]
    assert (part["method_pool_bytes"], part["scratch_pool_bytes"]) == (1, 2)
    assert part["planned_bytes"] == [3]
    out = tmp_path / "out"
    part = summary(OpenProject(project(), tmp_path), [], folders, Delivered(out, files[1:]))["package"]
    assert [f["path"] for f in part["files"]] == [str(out / "note.md")]
    withheld = summary(OpenProject(project(), tmp_path), [], folders, Delivered(out, ()))["package"]
    assert withheld["withheld"]
    assert withheld["model"]["path"] == str(folders["package"] / "net.onnx")

"""What a run tells at its end: every figure that it measured, and only those."""

import pytest

from tests.fakes.results import result_of
from workbench.api.summary import summary
from workbench.cli.run import print_summary
from workbench.project.model import ModelSource, Project, TargetChoice
from workbench.project.opened import OpenProject
from workbench.results import PrepareResult, save_result


@pytest.fixture
def told(capsys):
    """Return the lines that a document gives, without the padding of their labels."""

    def lines(**parts):
        print_summary({"warnings": [], **parts})
        return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]

    return lines


def dumped(stage, **changes):
    return {**result_of(stage).model_dump(mode="json"), **changes}


def test_that_a_run_ends_with_what_its_stages_found_odd(tmp_path, told):
    said = "Weights inside of branches are quantized as activations are."
    save_result(PrepareResult(observers=1, annotations=(), warnings=(said,)), tmp_path)
    target = TargetChoice(id="ethos-u85-256")
    project = Project(name="net", model=ModelSource(spec="net.py:net"), target=target)
    document = summary(OpenProject(project, tmp_path), [], {"prepare": tmp_path}, None)
    assert document["warnings"] == [{"stage": "prepare", "message": said}]
    assert told(**document) == [f"Warning {said}"]


def test_that_nothing_that_ran_gives_nothing_to_read(told):
    assert told() == []


def test_that_quality_has_only_the_figures_that_were_measured(told):
    assert told(evaluate=dumped("evaluate")) == [
        "Quality SQNR 34.50 dB over 16 samples",
        "calibrated on data.npz",
    ]
    text = {
        "perplexity_float": 3.84,
        "perplexity_quantized": 3.871,
        "kl_quantized": 0.01234,
        "worst_quantized": 1.5,
        "tokens": 64,
    }
    reading = {"title": "int8", "top1": None, "sqnr_db": None, "max_abs_error": 0.5, "marks": "a"}
    whole = dumped(
        "evaluate",
        samples=1,
        sqnr_db=None,
        top1_float=0.9833,
        top1_quantized=0.975,
        metric_float=0.5,
        metric_quantized=0.25,
        metric_name="mAP",
        text=text,
        readings=[reading, {**reading, "top1": 0.5, "sqnr_db": 12.345}],
    )
    assert told(evaluate=whole) == [
        "Quality SQNR equal over 1 sample; top-1 98.33% float, 97.50% quantized; "
        "mAP 0.5 float, 0.25 quantized",
        "calibrated on data.npz",
        "Text perplexity 3.84 float, 3.871 quantized; KL from float 0.0123 nats per token, "
        "at most 1.5 (64 tokens)",
        "int8 SQNR equal, max error 0.5: a",
        "int8 SQNR 12.35 dB, max error 0.5, top-1 50.00%: a",
    ]


def test_that_a_program_is_told_with_cost_and_what_stays_on_the_cpu(told):
    time = {
        "ms": 0.002,
        "low_ms": None,
        "high_ms": None,
        "origin": "estimated",
        "placement": "weights in flash",
        "sentence": "No measured data.",
        "beside": ["Not included: the time of 1 driver call."],
    }
    document = {**dumped("lower"), "time": time, "modules": [], "cycle_corrections": []}
    start = [
        "Program 1 delegate, 3 operators on the NPU, 1 on the CPU",
        "CPU: aten.linear.default float32 is not taken",
        "Estimated 1,000 cycles, SRAM 4.0 KiB, constants 2.0 KiB (Vela 5.1.0, ethos-u55-128, Shared_Sram)",
    ]
    assert told(lower=document) == [
        *start,
        "Time 0.002 ms on the NPU, estimated",
        "weights in flash. No measured data.",
        "Not included: the time of 1 driver call.",
    ]
    document["time"] = {**time, "low_ms": 0.001, "high_ms": 0.003, "origin": "anchored"}
    assert "Time 0.002 ms on the NPU (0.001 to 0.003), anchored" in told(lower=document)
    document["time"] = {**time, "ms": None, "sentence": "No time: not described.", "beside": []}
    assert told(lower=document) == [*start, "Time No time: not described."]
    document["cycle_corrections"] = [{"id": "pooling", "title": "Pooling", "cycles": 500}]
    document["vela"] = [{**document["vela"][0], "cycles_vela": 1500}]
    assert told(lower=document)[-1] == "Vela says 1,500 cycles; corrected: pooling -500"


def test_that_the_efficiency_is_told_with_what_the_cycles_are_lost_to(told):
    (report,) = dumped("lower")["vela"]
    near = report | {"ideal_cycles": 900, "efficiency": 0.9}
    time = {"ms": None, "sentence": "No time.", "beside": []}
    document = {**dumped("lower", vela=[near]), "time": time, "modules": [], "cycle_corrections": []}
    assert "Efficiency 90 %: the device needs at least 900 cycles" in told(lower=document)
    module = {"module": "stem", "operations": 1, "cycles": 1000, "share": 1.0}
    far = module | {"ideal_cycles": 30, "efficiency": 0.03, "cause": "stride"}
    lines = told(lower=document | {"modules": [far]})
    assert "stem: efficiency 3 %, 970 cycles lost, most to stride above 3" in lines


def test_that_rewrites_are_told_with_the_cycles_that_they_save(told):
    def row(state, *places, before=None, after=None):
        return {
            "title": f"T{state}{len(places)}",
            "state": state,
            "places": places,
            "cycles_before": before,
            "cycles_after": after,
        }

    rows = [row("on"), row("on", "conv", before=9000, after=100), row("on", "a", "b"), row("off")]
    assert told(rewrites=rows) == [
        "Rewrite Ton1: 1 place, 9,000 to 100 cycles",
        "Rewrite Ton2: 2 places",
        "Rewrite Toff0: switched off",
    ]


def test_that_an_exported_model_is_told_with_its_products_and_commands(told):
    product = {"quantized": True, "reason": "", "origin": "head", "node": "n"}
    left = [
        {"quantized": False, "reason": "too small", "origin": o, "node": f"n{i}"}
        for i, o in enumerate(("a", "b", "", "c", "a", "d"))
    ]
    exported = {
        "opset": 21,
        "bytes": 12345,
        "nodes": 9,
        "rewritten": 2,
        "products": [product, *left],
        "check": {"sentence": "Not installed."},
        "commands": [("Compile", "onnx-mlir net.onnx")],
        "notes": ["z17 only"],
    }
    assert told(lower=dumped("lower", exported=exported)) == [
        "Model ONNX opset 21, 12,345 bytes, 9 operations; 2 Gemm rewritten",
        "Predicted 1 of 7 matrix products become int8",
        "6 not (a, b, n2 and 2 more): too small",
        "Compiler Not installed.",
        "Command Compile: onnx-mlir net.onnx",
        "z17 only",
    ]
    exported["products"] = left[:3]
    assert "3 not (a, b, n2): too small" in told(lower=dumped("lower", exported=exported))


def test_that_corrections_are_told_that_did_something_or_could_not(told):
    def row(state, *places):
        return {"title": f"T{state}{len(places)}", "state": state, "places": places}

    rows = [row("on"), row("on", "relu"), row("on", "a", "b"), row("off"), row("aside")]
    assert told(corrections=rows) == [
        "Correction Ton1: 1 place",
        "Correction Ton2: 2 places",
        "Correction Toff0: switched off",
        "Correction Taside0: not applied: other tools",
    ]


def test_that_emulated_numbers_are_told_as_such(told):
    part = {"sentence": "emulated", "weight_bits": 4.0, "weight_density": 8.0, "data_bits": None}
    assert told(emulated=part) == [
        "Numbers emulated",
        "weights: 4.00 bits on average, memory density 8.00 (relative to float32; computed)",
    ]


def test_that_suggestions_stand_with_the_line_to_change(told):
    source = [{"place": "net.py:12", "now": "", "instead": "self.relu6(x)"}]
    part = {"title": "Use nn.ReLU6", "expected": "1 fewer.", "source": source}
    assert told(suggestions=[part]) == ["Suggestion Use nn.ReLU6. 1 fewer.", "net.py:12: self.relu6(x)"]


def test_that_each_memory_of_the_board_is_told_with_what_fills_it(told):
    demands = [{"what": "program", "bytes": 1024}, {"what": "pool", "bytes": 2048}]
    part = {
        "sentence": "Fits.",
        "fillings": [
            {"name": "SRAM", "bytes": 4096, "confirmed": False, "demands": demands},
            {"name": "Flash", "bytes": 1 << 20, "confirmed": True, "demands": demands[:1]},
            {"name": "DRAM", "bytes": None, "confirmed": True, "demands": []},
        ],
    }
    assert told(board=part) == [
        "Board Fits.",
        "SRAM: 3.0 KiB of 4 KiB, not confirmed (program 1.0, pool 2.0)",
        "Flash: 1.0 KiB of 1,024 KiB (program 1.0)",
        "DRAM: 0.0 KiB of size unknown",
    ]


def test_that_verification_tells_both_comparisons(told):
    assert told(verify=dumped("verify")) == [
        "Computed 98.75% of 160 outputs equal on the TOSA reference model, at most 1 LSB apart, "
        "same class for 16 of 16",
        "Functional 16 of 16 samples equal to the TOSA reference model "
        "(executed on the simulator, no timing)",
    ]
    executors = {
        "reference_samples": 2,
        "executor_samples": 16,
        "equal_tensors": 1030,
        "left": [],
        "differs": "",
    }
    assert told(verify=dumped("verify", executors=executors)) == [
        "Computed 98.75% of 160 outputs equal in TOSA, at most 1 LSB apart, same class for 16 of 16",
        "The built-in executor computed the TOSA program on 16 samples, the TOSA reference model also "
        "on 2 samples (1,030 tensors equal).",
        "Functional 16 of 16 samples equal to its TOSA (executed on the simulator, no timing)",
    ]
    empty = dumped("verify", elements=0, exact=0, compiled=None, first_divergence="conv2d", tensor_samples=2)
    assert told(verify=empty) == [
        "Computed 0.00% of 0 outputs equal on the TOSA reference model, at most 1 LSB apart, "
        "same class for 16 of 16",
        "first tensor that differs from the quantized model: conv2d, over 2 samples",
    ]


def test_that_a_compiled_program_that_differs_is_told_with_its_place(told):
    first = {
        "operation": "Conv2D",
        "module": "stem.conv",
        "source_line": "",
        "command": "",
        "output": 0,
        "delegate": 1,
        "computed": 5,
        "expected": 7,
    }
    finding = {
        "severity": "error",
        "command": "NPU_OP_CONV",
        "offset": 64,
        "delegate": 1,
        "message": "reads past the end",
    }
    compiled = {
        "refused": "",
        "samples": 16,
        "elements": 1600,
        "equal": 100,
        "max_lsb": 3,
        "first_difference": first,
        "findings": [finding],
    }
    assert told(verify=dumped("verify", compiled=compiled))[1:] == [
        "Functional 1,500 of 1,600 NPU outputs differ from the TOSA reference model, by at most 3 "
        "(executed on the simulator, no timing)",
        "first: output 0 of delegate 1, 5 instead of 7; Conv2D, stem.conv",
        "error: NPU_OP_CONV at 0x40 of delegate 1: reads past the end",
    ]
    unknown = {**first, "operation": "", "module": ""}
    lines = told(verify=dumped("verify", compiled={**compiled, "first_difference": unknown}))
    assert lines[2].endswith("operation unknown")
    refused = {**compiled, "refused": "Unknown operation.", "first_difference": None, "findings": []}
    assert told(verify=dumped("verify", compiled=refused))[1:] == [
        "Functional not checked on the compiled program: Unknown operation."
    ]


def test_that_a_runtime_is_compared_in_its_own_words(told):
    part = dumped("verify", runtime="ONNX Runtime", max_abs_error=0.00123, elements=1, samples=2)
    assert told(verify=part) == [
        "Computed ONNX Runtime and torch differ by at most 0.00123 over 1 output of 2 samples; "
        "same class for 16"
    ]


def test_that_a_simulation_is_told_beside_the_estimate(told):
    lines = told(run=dumped("run"))
    assert lines == [
        "Measured 1,180 NPU cycles per inference, 1.18 of Vela's estimate "
        "(FVP_Corstone_SSE-300_Ethos-U55 11.27.42)",
        "100.00% of 160 outputs equal to its TOSA, at most 0 LSB apart, same class for 16 of 16",
        "98.12% of 160 outputs equal to the quantized model, at most 1 LSB apart, same class for 16 of 16",
        "All 16 samples were computed in one start; the simulator was then ended.",
        "Flash or DRAM delivers 0.61 beats a cycle: reading weights bounds the run.",
    ]
    assert "0.00 of Vela's estimate" in told(run=dumped("run", estimated_cycles=0))[0]
    fast = told(run=dumped("run", cycles=None))
    assert fast[0].startswith("Measured functional only, no cycles")
    none = {**dumped("run")["against_quantized"], "elements": 0, "exact": 0}
    assert told(run=dumped("run", against_quantized=none)) == [*lines[:2], *lines[3:]]
    functional = told(run=dumped("run", kind="functional"))
    assert functional[:3] == ["Simulated executed on the simulator (no timing)", *lines[1:3]]


def test_that_the_verdict_stands_with_every_limit(told):
    limits = [
        {"name": "lsb", "limit": "<= 3", "value": 1.0, "held": True},
        {"name": "argmax", "limit": ">= 0.95", "value": 0.5, "held": False},
        {"name": "loss", "limit": "<= 3", "value": None, "held": None},
    ]
    lines = told(gate={"verdict": "differs", "reason": "", "limits": limits})
    assert lines[0].startswith("Verdict Compiled program differs")
    assert [line.split(":")[0] for line in lines[1:]] == ["passed", "FAILED", "not checked"]


def test_that_deliverables_are_listed_unless_they_are_withheld(told):
    files = [{"path": "/out/net.pte", "bytes": 1234, "purpose": "program"}]
    assert told(package={"withheld": False, "files": files}) == [
        "Deliverables in /out",
        "file bytes purpose",
        "net.pte 1,234 program",
    ]
    assert told(package={"withheld": True, "files": files}) == []

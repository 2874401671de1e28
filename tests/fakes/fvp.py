"""A double of Arm's simulators: started as a process, never reachable from the product.

It knows the parameters of each simulator and refuses all others, reads the runner, the program
and the inputs as a semihosted runner does, computes outputs by running the program's TOSA on the
reference model, and prints what the real runner prints (ExecuTorch, ``arm_executor_runner.cpp``,
``arm_perf_monitor.cpp``). Its counters are made up; the words it refuses parameters with too.

Asked for a trace, it writes one in the form of the real one, as the stream of commands goes:
each operation takes a part of the counted cycles that grows with its place in the stream.

``FVP_DOUBLE_LOWERED`` names a folder with ``program.pte`` and its ``delegate_0.tosa``;
``FVP_DOUBLE_FAIL`` a way to fail (see ``FAILURES`` below). ``FVP_DOUBLE_MEMO`` names a folder that
keeps what was computed once, by a hash of what it was computed from: a later start that needs
nothing new imports neither NumPy nor the workbench. Nor does it import ``re``, ``json`` or
``pathlib``, which take longer than all else that it does.
"""

from __future__ import annotations

import marshal
import os
import sys
import time
from _blake2 import blake2b

from tests.fakes.fvp_trace import Trace, leave_events
from tests.fakes.runner_elf import EVENTS, acted_out


def one_of(*words):
    return words.__contains__


def address(value):
    return value.replace("x", "").isalnum()


def extra(value):
    """Return whether these are options of the NPU's model."""
    words = iter(value.split(" "))
    return all(word == "--fast" or (word == "--pmu-trace" and next(words, "")) for word in words)


def any_text(_):
    return True


SWITCH = one_of("0", "1")
CPU = {
    "semihosting-enable": SWITCH,
    "semihosting-stack_base": address,
    "semihosting-heap_limit": address,
    "semihosting-cwd": any_text,
    "semihosting-cmd_line": any_text,
}
BOARD = {
    "visualisation.disable-visualisation": SWITCH,
    "telnetterminal0.start_telnet": SWITCH,
    "uart0.out_file": any_text,
    "uart0.shutdown_on_eot": SWITCH,
    "uart0.unbuffered_output": SWITCH,
}


def parameters(board, cpu, npu, macs, more=()):
    return {
        **{f"{board}.{name}": takes for name, takes in BOARD.items()},
        **{f"{cpu}.{name}": takes for name, takes in CPU.items()},
        f"{npu}.num_macs": one_of(*map(str, macs)),
        f"{npu}.extra_args": extra,
        **dict.fromkeys(more, SWITCH),
    }


SIMULATORS = {
    "FVP_Corstone_SSE-300_Ethos-U55": ("u55", parameters("mps3_board", "cpu0", "ethosu", (32, 64, 128, 256))),
    "FVP_Corstone_SSE-300_Ethos-U65": ("u65", parameters("mps3_board", "cpu0", "ethosu", (256, 512))),
    "FVP_Corstone_SSE-320": (
        "u85",
        parameters(
            "mps4_board",
            "mps4_board.subsystem.cpu0",
            "mps4_board.subsystem.ethosu",
            (128, 256, 512, 1024, 2048),
            ("vis_hdlcd.disable_visualisation",),
        ),
    ),
}
VERSION = "\nFast Models [11.27.42 (Jul 12 2024)]\nCopyright 2000-2024 ARM Limited.\n\n"
FAILURES = (
    "licence",
    "silent",
    "crash",
    "hang",
    "deaf",
    "early",
    "garbled",
    "flood",
    "kernel",
    "child",
    "forgets-outputs",
    "no-trace",
    "cut-trace",
    "full-disk",
    "cut-events",
)
ITEM_BYTES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "float16": 2,
    "int32": 4,
    "float32": 4,
    "int64": 8,
    "float64": 8,
}
# The placements of runners whose inputs and outputs are files.
FILES = ("semihosting", "embedded")
SOURCE = "arm_executor_runner.cpp"


def install(folder, binary):
    """Leave the double under the name of a simulator, and return its path."""
    import shlex
    import sysconfig
    from pathlib import Path

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / binary
    places = [str(Path(__file__).parents[2]), sysconfig.get_path("purelib")]
    # Without the module site, whose search for packages takes longer than the double itself.
    # A module that is imported is compiled once.
    code = f"import sys, {__name__} as double; sys.exit(double.main(sys.argv[1:]))"
    words = [sys.executable, "-S", "-c", code, binary]
    path.write_text(
        "#!/bin/sh\n"
        f'if [ "$*" = --version ]; then printf %s {shlex.quote(VERSION)}; exit 0; fi\n'
        f"PYTHONPATH={shlex.quote(os.pathsep.join(places))} "
        f'exec {shlex.join(words)} "$@"\n'
    )
    path.chmod(0o755)
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def remembered(parts, make):
    """Return ``make()``, plain values, or what it was when it was made of the same bytes."""
    folder = os.environ.get("FVP_DOUBLE_MEMO", "")
    if not folder:
        return make()
    path = os.path.join(folder, blake2b(b"\0".join(parts)).hexdigest())
    if os.path.isfile(path):
        return marshal.loads(read(path))
    document = make()
    write(f"{path}.{os.getpid()}", marshal.dumps(document))
    os.replace(f"{path}.{os.getpid()}", path)
    return document


def facts(program):
    """Return what the runner reads from a program: as ``describe``, with plan and commands."""
    from workbench.pte import npu_commands, vela_stream
    from workbench.pte import program as programs
    from workbench.pte.description import describe, memory

    document = describe(program) | {"planned_bytes": list(memory(program).planned_bytes)}
    delegates = programs.decode(program).methods[0].delegates
    if len(delegates) == 1:
        stream = npu_commands.decode(vela_stream.blocks(delegates[0].data)["cmd_data"].data)
        document["operations"] = [operation.offset for operation in stream.operations]
        document["last_command"] = stream.commands[-1].offset
    return document


class Refused(Exception):
    """The simulator does not start."""


def log(level, message, source=SOURCE):
    print(f"{level} [executorch:{source}:123 main()] {message}\r", flush=True)


def read_arguments(words, known):
    """Return parameters, application, data and time limit."""
    values, rest, words = {}, {"-a": "", "--data": "", "--timelimit": "0"}, list(words)
    while words:
        word = words.pop(0)
        if word not in {"-C", *rest} or not words:
            raise Refused(f"unrecognized option '{word}'")
        if word != "-C":
            rest[word] = words.pop(0)
            continue
        name, equals, value = words.pop(0).partition("=")
        if not equals or name not in known:
            raise Refused(f"unknown parameter '{name}'")
        if len(value) > 1 and value[0] == value[-1] == "'":
            value = value[1:-1]
        if not known[name](value):
            raise Refused(f"parameter '{name}' does not take '{value}'")
        values[name] = value
    return values, rest


def parameter(values, ending, default=""):
    return next((v for k, v in values.items() if k.endswith(ending)), default)


class Runner:
    """What the ELF does on the simulated board."""

    def __init__(self, family, values, rest):
        self.family, self.values = family, values
        self.acted = acted_out(read(rest["-a"]))
        self.fail = os.environ.get("FVP_DOUBLE_FAIL", "")
        self.rest = rest
        self.files_used = 0
        self.trace = Trace(parameter(values, "extra_args").split(), self.fail)

    def run(self):
        if self.acted["family"] != self.family:
            return 1  # a fault before the serial port is set up
        if self.acted["placement"] in FILES:
            if parameter(self.values, "semihosting-enable") != "1":
                return 1
            os.chdir(parameter(self.values, "semihosting-cwd"))
            words = parameter(self.values, "semihosting-cmd_line")[:256].split()
        else:
            words = []
        return self.main(words)

    def main(self, words):
        log("I", "Running executor with parameter:")
        semihosting = self.acted["placement"] in FILES
        least = {"semihosting": 7, "embedded": 5}.get(self.acted["placement"], 0)
        if len(words) < least:
            log("F", "Not right number of parameters!")
            return 1
        named = list(zip(words[1::2], words[2::2], strict=False))
        if self.acted["placement"] == "semihosting":
            path = dict(named)["-m"]
            self.program = self.read(path, f"Reading pte model from file {path}")
        else:
            self.program = read(os.environ["FVP_DOUBLE_LOWERED"] + "/program.pte")
        self.inputs = [value for key, value in named if key == "-i"]
        self.stem = dict(named).get("-o", "")
        log("I", f"PTE @ 0x70000010 [----{self.program[4:8].decode('latin-1')}]")
        if not self.load():
            return 1
        if dict(named).get("--server_mode") == "true" and self.acted["serves"]:
            for number, _ in enumerate(sys.stdin):
                if not self.infer():
                    return 1
                log("I", f"SERVER_INFERENCE_DONE {number}")
            return 0
        if not self.infer():
            return 1
        self.tell_memory()
        leave_events(self.acted, semihosting, self.fail)
        log("I", "Program complete, exiting.")
        if not semihosting:
            log("I", "\x04")
            if parameter(self.values, "shutdown_on_eot") != "1":
                self.time_out()
        return 0

    def read(self, name, sentence):
        log("I", sentence)
        try:
            data = read(name)
        except OSError as error:
            log("E", f"Could not open file {name} (errno: {error.errno}) for reading, exiting!")
            sys.exit(1)
        self.files_used += len(data)
        if self.files_used > self.acted["pools"]["files"]:
            self.allocation_failed(len(data), self.acted["pools"]["files"])
            sys.exit(1)
        return data

    def allocation_failed(self, wanted, given):
        source = "memory_allocator.h"
        log(
            "E",
            f"Memory allocation failed: {wanted}B requested (adjusted for alignment), {given}B available",
            source,
        )

    def load(self):
        self.found = remembered([b"facts", self.program], lambda: facts(self.program))
        pools, buffers = self.acted["pools"], self.found["planned_bytes"]
        log("I", f"PTE Model data loaded. Size: {len(self.program)} bytes.")
        log("I", "Model buffer loaded, has 1 methods")
        log("I", "Running method forward")
        log("I", f"Setup Method allocator pool. Size: {pools['method']} bytes.")
        for number, size in enumerate(buffers):
            log("I", f"Setting up planned buffer with mem_id={number + 1}, size {size}.")
        planned = sum(buffers)
        if planned > pools["method"]:
            self.allocation_failed(planned, pools["method"])
            log(
                "F",
                f"In function main(), assert failed (buffer != nullptr): Could not allocate "
                f"memory for planned buffer with mem_id=1, size {planned} in "
                "SLOW_MEMORY_REGION",
            )
            return False
        missing = [k for k in self.found["kernels"] if k not in self.acted["kernels"]]
        if self.fail == "kernel":
            missing = ["aten::softmax.out"]
        for number, kernel in enumerate(missing):
            log("E", f"kernel '{kernel}' not found.", "operator_registry.cpp")
            log("E", f"Missing operator: [{number}] {kernel}", "method.cpp")
        if missing:
            log("I", "Loading of method forward failed with status 0x14")
            return False
        log("I", "Method 'forward' loaded.")
        log("I", "Preparing inputs...")
        log("I", "Input prepared.")
        return True

    def infer(self):
        log("I", "Starting running 1 inferences...")
        npu = self.found["delegates"][0]["npu"]
        macs = int(parameter(self.values, "num_macs", "0"))
        if (npu["family"].split("-")[1], npu["macs"]) != (self.family, macs):
            print(f"E: NPU config mismatch. npu.macs={macs} optimizer.macs={npu['macs']}")
            log("E", "Ethos-U invocation failed error (-1)", "EthosUBackend_Cortex_M.cpp")
            log("F", "Execution of method forward failed with status 0x1")
            return False
        scratch, given = self.found["delegates"][0]["scratch_bytes"], self.acted["pools"]["scratch"]
        if scratch > given:
            log(
                "E",
                f"Failed to allocate scratch buffer of {scratch} bytes from temp_allocator",
                "EthosUBackend.cpp",
            )
            log("F", "Execution of method forward failed with status 0x21")
            return False
        outputs = self.compute()
        if outputs is None:
            return False
        self.tell_counters(npu)
        self.trace.add(self.found, counted(npu))
        log("I", "1 inferences finished")
        log("I", f"{len(outputs)} outputs: ")
        for number, data in enumerate(outputs):
            if not self.stem:
                for i, value in enumerate(memoryview(data).cast("b")):
                    print(f"Output[{number}][{i}]: (char) {value}")
                continue
            name = f"{self.stem}-{number}.bin"
            log("I", f"Writing output to file: {name}")
            if self.fail == "full-disk":
                log("E", f"Failed to write whole output file {name}, wrote 0 of {len(data)} bytes")
            if self.fail != "forgets-outputs":
                write(name, b"" if self.fail == "full-disk" else data)
        log("I", "Model run: 1")
        return True

    def compute(self):
        inputs = []
        for number, spec in enumerate(self.found["inputs"]):
            wanted = ITEM_BYTES[spec["dtype"]]
            for size in spec["shape"]:
                wanted *= size
            data = bytes([1]) * wanted
            if number < len(self.inputs):
                data = read(self.inputs[number])
            if len(data) != wanted:
                log("E", f"input size ({len(data)}) and tensor size ({wanted}) mismatch!")
                return None
            inputs.append(data)
        lowered = os.environ["FVP_DOUBLE_LOWERED"]
        if read(f"{lowered}/program.pte") != self.program:
            raise SystemExit("double: the TOSA of this program was not given")
        tosa, specs = f"{lowered}/delegate_0.tosa", self.found["inputs"]
        return computed(self.program, tosa, specs, inputs)

    def tell_counters(self, npu):
        cycles = counted(npu)
        log("I", "NPU Inferences : 1")
        log("I", "NPU delegations: 1 (1.00 per inference)")
        log("I", "Profiler report, CPU cycles per operator:")
        log("I", "ethos-u : cycle_cnt : 12345 cycles (12345.00 per inference)")
        log("I", "Operator(s) total: 12345 CPU cycles (12345.00 per inference)")
        log("I", "Inference runtime: 23456 CPU cycles total (23456.00 per inference)")
        log("I", "Inference CPU ratio: 47.37 %")
        log("I", "Ethos-U PMU report:")
        log("I", f"ethosu_pmu_cycle_cntr :  {cycles} ({cycles}.00 per inference)")
        names = EVENTS[self.family].split()
        for number in range(len(names)):
            shown = "zd" if self.fail == "garbled" else number
            value = cycles // (number + 2)
            log("I", f"ethosu_pmu_cntr{shown} : {value} ({value}.00 per inference)")
        listed = ", ".join(f"ETHOSU_PMU_{name}" for name in names)
        log("I", f"Ethos-U PMU Events:[{listed}]")

    def tell_memory(self):
        pools = self.acted["pools"]
        log("I", f"model_pte_program_size:     {len(self.program)} bytes.")
        if self.stem:
            log("I", pool("input_file_allocator_used:", self.files_used, pools["files"]))
        used = 4000 + sum(self.found["planned_bytes"])
        log("I", pool("method_allocator_used:    ", used, pools["method"]))
        log("I", f"temp_allocator:            {pools['scratch']}")

    def time_out(self):
        limit = int(self.rest["--timelimit"])
        time.sleep(limit or 3600)
        print("\nInfo: Simulation is stopping. Reason: CPU time has been exceeded.")


def counted(npu):
    return 1000 + 7 * npu["commands"]


def pool(name, used, given):
    return f"{name} {used} / {given} free: {given - used} ( used: {100 * used // given} % ) "


def computed(program, tosa, specs, inputs):
    """Return the bytes of the outputs for the bytes of the inputs, computed once."""
    outputs = remembered(
        [b"outputs", program, read(tosa), *inputs],
        lambda: [output.hex() for output in outputs_of(tosa, specs, inputs)],
    )
    return [bytes.fromhex(output) for output in outputs]


def learn(lowered, samples):
    """Compute here what the double needs for some inputs; a process would import it all again."""
    program = read(lowered / "program.pte")
    specs = remembered([b"facts", program], lambda: facts(program))["inputs"]
    for arrays in samples:
        inputs = [array.tobytes() for array in arrays]
        computed(program, lowered / "delegate_0.tosa", specs, inputs)


def outputs_of(tosa, specs, inputs):
    """Return the bytes of the outputs for the bytes of the inputs."""
    import numpy as np

    arrays = []
    for spec, data in zip(specs, inputs, strict=True):
        axes = spec.get("dim_order", range(len(spec["shape"])))
        shape = [spec["shape"][axis] for axis in axes]
        arrays.append(np.frombuffer(data, spec["dtype"]).reshape(shape))
    return [output.tobytes() for output in reference(tosa, arrays)]


def reference(tosa, arrays):
    """Run TOSA on the reference model, whose own words go nowhere."""
    import numpy as np
    import tosa_reference_model

    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        outputs, status = tosa_reference_model.run(
            read(tosa), arrays, verbosity="NONE", initialize_variable_tensor_from_numpy=True
        )
    finally:
        os.dup2(kept, 2)
        os.close(kept)
    assert status == tosa_reference_model.GraphStatus.TOSA_VALID
    return [np.array(output) for output in outputs]


def misbehave(fail):
    """Fail as asked before the runner has begun."""
    if fail == "licence":
        print("ERROR: license error: no valid license found for FVP_Corstone", flush=True)
        sys.exit(1)
    if fail == "silent":
        sys.exit(0)
    if fail == "crash":
        import signal

        os.kill(os.getpid(), signal.SIGSEGV)
    if fail == "early":
        log("I", "Running executor with parameter:")
        sys.exit(0)
    if fail in {"hang", "deaf", "child"}:
        if fail != "hang":
            import signal

            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if fail == "child":
            import subprocess

            child = subprocess.Popen(["/bin/sleep", "3600"])
            write(os.environ["FVP_DOUBLE_CHILD"], str(child.pid).encode())
        log("I", "Running executor with parameter:")
        time.sleep(3600)
    make_noise(fail)


def make_noise(fail):
    """Print what nobody should print, then go on."""
    if fail == "flood":
        line = b"D [executorch:method.cpp:1 f()] " + b"x" * 90 + b"\n"
        for _ in range(10):
            sys.stdout.buffer.write(line * 4_000)
        sys.stdout.flush()
    if fail == "garbled":
        sys.stdout.buffer.write(b"\xff\xfe\x00[exec I [executorch\r\r\n\x80" + b"=" * 9000 + b"\n")
        sys.stdout.flush()


def main(words):
    binary, *words = words
    family, known = SIMULATORS[binary]
    try:
        values, rest = read_arguments(words, known)
        if not os.path.isfile(rest["-a"]):
            raise Refused(f"application '{rest['-a']}' cannot be opened")
    except Refused as refusal:
        print(f"ERROR: {refusal}", file=sys.stderr)
        return 1
    misbehave(os.environ.get("FVP_DOUBLE_FAIL", ""))
    return Runner(family, values, rest).run()

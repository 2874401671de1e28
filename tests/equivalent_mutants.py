"""Changes of the core that no test can notice, with reasons: what ``mutation`` leaves out."""

# (file, line as written, change): why no test can notice it.
EQUIVALENT: dict[tuple[str, str, str], str] = {
    (
        "workbench/npu/weights.py",
        "bits = 8 if header & 1 else 2 if header & 2 else 4",
        "2 -> (2 + 1)",
    ): "The lowest bit is not set where the second is asked for.",
    (
        "workbench/graph/ordering.py",
        "position = [0] * len(rows.up)",
        "0 -> (0 + 1)",
    ): "Each position is written before it is read.",
    (
        "workbench/npu/output_stage.py",
        "bound = float(arithmetic.magnitude(accumulators)) if self._exact_below > 0 else 0.0",
        "0 -> (0 + 1)",
    ): "Only the exact way is left below one.",
    (
        "workbench/project/pt2.py",
        "_read(file, with_weights=False)",
        "False -> True",
    ): "More is read than is looked at.",
    (
        "workbench/history/comparison.py",
        "sram_bytes: int = 0",
        "0 -> (0 + 1)",
    ): "It is shown in KiB with one decimal.",
    (
        "workbench/npu/arithmetic.py",
        "return np.where(values >= 0, 0, (1 << shifts) - 1)",
        ">= -> >",
    ): "Zero plus less than one unit is cut to zero either way.",
    (
        "workbench/npu/arithmetic.py",
        "return half + np.where(values >= 0, extra, -extra)",
        ">= -> >",
    ): "Zero plus half a unit, a quarter more or less, is cut to zero either way.",
    **dict.fromkeys(
        (
            ("workbench/npu/arithmetic.py", line, change)
            for line, change in (
                (
                    "if least >= _LOW_BITS and fits and magnitude(factors) < 1 << 33:",
                    ">= -> >",
                ),
                (
                    "if least >= _LOW_BITS and fits and magnitude(factors) < 1 << 33:",
                    "< -> <=",
                ),
                (
                    "fits = magnitude(values) < 1 << 48 and int(shifts.max(initial=0)) < 62",
                    "< -> <=",
                ),
            )
        ),
        "Both ways are exact at the border; the other one is slower.",
    ),
    (
        "workbench/targets/formats/values.py",
        "return np.where(x > 0, exponent - 1.0, -2000.0)",
        "2000.0 -> (2000.0 + 1)",
    ): "An exponent below that of every float.",
    (
        "workbench/npu/output_stage.py",
        "_EXACT = float(1 << 52)",
        "<< -> >>",
    ): "Zero: nothing is computed in float64, only more slowly.",
    (
        "workbench/npu/convolution.py",
        "return bool(state.keep_accumulators or value >> 4 & 3 or value >> 6 & 1)",
        "& -> |",
    ): "Accumulators of the whole tensor give the same sums as pieces, only more slowly.",
    (
        "workbench/npu/output_stage.py",
        'pairs = state.memory.table(2048 * self.slot, 2048).view("<i2").reshape(512, 2)',
        "2048 -> (2048 + 1)",
    ): "A table of 512 pairs fills the table memory: its slot is 0, and a longer one is refused.",
    (
        "workbench/npu/output_stage.py",
        "if self._table is None and least >= limits.min and most <= limits.max:",
        "<= -> <",
    ): "Values that fill the type are converted once more, to the same values.",
    (
        "workbench/npu/output_stage.py",
        "if self._table is None and least >= limits.min and most <= limits.max:",
        ">= -> >",
    ): "Values that fill the type are converted once more, to the same values.",
    (
        "workbench/npu/program.py",
        "size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize "
        "if min(shape, default=1) >= 0 else -1",
        "1 -> (1 + 1)",
    ): "The default of a scalar is compared with zero, and no size is any number below it.",
    (
        "workbench/graph/layout.py",
        "if len(edges) == count - 1 and all(high == low + 1 for low, high in edges):",
        "+ -> -",
    ): "No chain is told from other graphs: the ordering gives the same chain, more slowly.",
    (
        "workbench/graph/layout.py",
        "if len(edges) == count - 1 and all(high == low + 1 for low, high in edges):",
        "- -> +",
    ): "No chain is told from other graphs: the ordering gives the same chain, more slowly.",
    (
        "workbench/graph/ordering.py",
        "for order in (range(last - 1, first - 1, -1), range(first, last)) * 2:",
        "2 -> (2 + 1)",
    ): "One more time over the vertices: effort, no other rule.",
    (
        "workbench/graph/layout.py",
        "down = max(down, ends[last - 1] - (ends[first - 1] if first else 0.0))",
        "0.0 -> (0.0 + 1)",
    ): "The height of a column: a unit less is as good.",
    (
        "workbench/graph/ordering.py",
        "position = [0] * total",
        "0 -> (0 + 1)",
    ): "Every vertex stands in a row, and gets its position there.",
    (
        "workbench/graph/layout.py",
        "return self._xs[vertex], self._band_of[vertex][0]",
        "0 -> (0 + 1)",
    ): "The lower border of a group has no height: both ends of its band are one.",
    (
        "workbench/npu/elementwise.py",
        "_finish(state, np.where(values >= 0, values, below), None)",
        ">= -> >",
    ): "Zero scaled is zero.",
    (
        "workbench/npu/machine.py",
        'command.name == "NPU_SET_ACC_FORMAT" and command.parameter >> 4 & 3 == _KEEP',
        "and -> or",
    ): "Accumulators of the whole tensor give the same sums as pieces, only more slowly.",
    (
        "workbench/npu/output_stage.py",
        "identity = bool((scale == 1).all() and not shift.any())",
        "== -> !=",
    ): "Without a shift nothing is rounded: both ways are exact.",
    (
        "workbench/npu/pooling.py",
        "_FAR = 1 << 40",
        "1 -> (1 + 1)",
    ): "Beyond every value of a feature map.",
    (
        "workbench/npu/arithmetic.py",
        "fits = magnitude(values) < 1 << 48 and int(shifts.max(initial=0)) < 62",
        "48 -> (48 + 1)",
    ): "Both ways are exact for values of 49 bits.",
    (
        "workbench/npu/weights.py",
        "runs=(count + new) if has_runs else 0,",
        "0 -> (0 + 1)",
    ): "Only slices with runs count them.",
    (
        "workbench/deploy/simulators/etdump.py",
        "cycles = ended - begun if ended >= begun else (ended - begun) % (1 << 32)",
        ">= -> >",
    ): "The rest of zero is zero.",
    (
        "workbench/deploy/simulators/counters.py",
        "ends = [*offsets[1:], offsets[-1] + 1]",
        "1 -> (1 + 1)",
    ): "Commands and reads stand at multiples of four.",
    (
        "workbench/deploy/simulators/counters.py",
        "whole = len(invocations) // len(reports) * len(reports) if reports else 0",
        "0 -> (0 + 1)",
    ): "Without reports there are no operations to tell of.",
    (
        "workbench/deploy/simulators/process.py",
        "if time.monotonic() > deadline:",
        "> -> >=",
    ): "One instant of the clock.",
    (
        "workbench/deploy/firmware_note.py",
        "if facts.board is None or facts.fit is None:",
        "or -> and",
    ): "There is a fit where there is a board.",
    **dict.fromkeys(
        (
            ("workbench/deploy/simulators/run.py", line, "1 -> (1 + 1)")
            for line in (
                "flat = array.view(dtype).reshape(-1, elements)",
                "return list(array.reshape(-1, *shape))",
            )
        ),
        "NumPy takes each negative size for the one that is not known.",
    ),
    **dict.fromkeys(
        (
            (
                "workbench/deploy/simulators/process.py",
                "process.wait(max(0.0, min(deadline - time.monotonic(), _LEAVE_S)))",
                change,
            )
            for change in ("0.0 -> (0.0 + 1)", "- -> +")
        ),
        "How long a process has for its end: no test may measure time.",
    ),
    **dict.fromkeys(
        (
            (file, line, change)
            for file, line, last in (
                ("counters", "_CHUNK, _LONGEST_EVENT = 1 << 20, 16 << 20", "20 -> (20 + 1)"),
                ("process", "_CHUNK, _TICK_S = 1 << 18, 0.05", "18 -> (18 + 1)"),
            )
            for file in (f"workbench/deploy/simulators/{file}.py",)
            for change in ("1 -> (1 + 1)", last)
        ),
        "How much is read at once: the results are the same.",
    ),
    (
        "workbench/deploy/simulators/discovery.py",
        "write_file(path, settings.model_dump_json(indent=1).encode())",
        "1 -> (1 + 1)",
    ): "How far the lines of the file are indented.",
    (
        "workbench/deploy/simulators/discovery.py",
        "start_new_session=True,",
        "True -> False",
    ): "Only a terminal tells: its interrupt does not reach a simulator that tells its version.",
    (
        "workbench/deploy/firmware_files.py",
        "_LINE = 12",
        "12 -> (12 + 1)",
    ): "How many bytes stand in a line of the header.",
    **dict.fromkeys(
        (
            ("workbench/cli/fvp.py", 'return "semihosting", 0', "0 -> (0 + 1)"),
            ("workbench/cli/fvp.py", 'return "embedded", 0', "0 -> (0 + 1)"),
        ),
        "Only a runner for an address has one.",
    ),
    **dict.fromkeys(
        (
            (
                "workbench/cli/output.py",
                "print(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))",
                "2 -> (2 + 1)",
            ),
            (
                "workbench/cli/rules.py",
                'text = json.dumps(args, indent=1) if options.file.suffix == ".json" '
                "else toml_of(args)",
                "1 -> (1 + 1)",
            ),
        ),
        "How far the lines of the document are indented.",
    ),
    (
        "workbench/cli/simulate.py",
        'with threadpool_limits(limits=1, user_api="blas"), CpuOperatorProcess() as operators:',
        "1 -> (1 + 1)",
    ): "A second thread gives the same values, only more slowly.",
    (
        "workbench/cli/trust.py",
        "_SHOWN = 12",
        "12 -> (12 + 1)",
    ): "How many characters of a digest are listed; as many are taken.",
    (
        "workbench/api/jobs.py",
        "threading.Thread(target=engine.stop, daemon=True).start()",
        "True -> False",
    ): "The thread ends with the engine, which is waited for.",
    (
        "workbench/api/ranges.py",
        "if current.tensors is None or current.folder is None:",
        "or -> and",
    ): "A calibration has both or none of them.",
    (
        "workbench/api/studies.py",
        "class JobOptions(TypedDict, total=False):",
        "False -> True",
    ): "Only the type checker reads it.",
    (
        "workbench/api/summary.py",
        "return {}",
        "{} -> None",
    ): "It is only asked whether there is something in it.",
    **dict.fromkeys(
        (
            (f"workbench/analysis/{file}.py", line, "1 -> (1 + 1)")
            for file, line in (
                ("histogram", "counts = self.counts.reshape(most, -1).sum(1)"),
                (
                    "timeline",
                    "return np.asarray([(s.start, s.end) for s in self.spans], "
                    "np.float64).reshape(-1, 2)",
                ),
            )
        ),
        "NumPy takes each negative size for the one that is not known.",
    ),
    (
        "workbench/analysis/histogram.py",
        "return np.random.default_rng(0).permutation(values)",
        "0 -> (0 + 1)",
    ): "Each order is as good.",
    **dict.fromkeys(
        (
            (
                "workbench/analysis/histogram.py",
                "if not self.is_known or (self.low >= low and self.high <= high):",
                change,
            )
            for change in (">= -> >", "<= -> <")
        ),
        "The share beyond an end of the values is zero, computed or not.",
    ),
    (
        "workbench/analysis/histogram.py",
        "noise: NDArray[np.float64] = (errors @ self._density()) / (total or 1.0)",
        "1.0 -> (1.0 + 1)",
    ): "Without counts, zero is divided.",
    (
        "workbench/analysis/memory.py",
        "change = np.zeros(max(t.end for t in tensors) + 2, np.int64)",
        "2 -> (2 + 1)",
    ): "One more step, without tensors.",
    **dict.fromkeys(
        (
            ("workbench/analysis/memory.py", "best, most = 0, -1", change)
            for change in ("0 -> (0 + 1)", "1 -> (1 + 1)")
        ),
        "The first step that is looked at takes the place of both.",
    ),
    (
        "workbench/analysis/memory.py",
        "if taken > most or (taken == most and step < best):",
        "< -> <=",
    ): "No step is looked at twice.",
    (
        "workbench/analysis/ranges.py",
        "for last in range(levels, _KL_BINS + 1, _KL_STRIDE):",
        "1 -> (1 + 1)",
    ): "The bins are a multiple of the stride.",
    (
        "workbench/analysis/ranges.py",
        "if ends is None or not ends[0] < ends[1]:",
        "< -> <=",
    ): "No method gives an empty range; what is not a number is refused either way.",
    (
        "workbench/analysis/ranges.py",
        "_ABOVE, _DYNAMIC_MOST = 2.0**-31, 8573157376.0",
        "8573157376.0 -> (8573157376.0 + 1)",
    ): "The same number in float32.",
    **dict.fromkeys(
        (
            ("workbench/suggestions/device_cost.py", line, change)
            for line, change in (
                (
                    "channels = node.outputs[0].shape[1] if node.outputs else 0",
                    "0 -> (0 + 1)",
                ),
                ("saved = row.cycles // max(blocks, 1)", "1 -> (1 + 1)"),
            )
        ),
        "Only channels that begin a second block are wasted.",
    ),
    (
        "workbench/suggestions/cpu_operators.py",
        "freed = came = 0",
        "0 -> (0 + 1)",
    ): "Their difference counts.",
    (
        "workbench/suggestions/suggestion.py",
        "if self.sqnr_db is not None and self.sqnr_db > 0:",
        "> -> >=",
    ): "A gain of zero has a share of zero.",
    (
        "workbench/errors.py",
        "for fault in error.errors(include_url=False):",
        "False -> True",
    ): "Nothing reads the address, which is only made.",
    **dict.fromkeys(
        (
            ("workbench/files.py", line, "0 -> (0 + 1)")
            for line in (
                'descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))',
                'flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)',
                'flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)',
            )
        ),
        "The flag is there on each system that has such files.",
    ),
    (
        "workbench/files.py",
        'data = b"" if is_larger else file.read(limit + 1)',
        "1 -> (1 + 1)",
    ): "One byte beyond the limit or two: both are refused.",
    (
        "workbench/files.py",
        "if time.monotonic() > deadline:",
        "> -> >=",
    ): "One instant of the clock.",
    (
        "workbench/files.py",
        "mask = os.umask(0)",
        "0 -> (0 + 1)",
    ): "The mask of before is put back at once.",
    **dict.fromkeys(
        (
            ("workbench/logs.py", "_BYTES, _BACKUPS = 2 << 20, 3", change)
            for change in ("2 -> (2 + 1)", "20 -> (20 + 1)", "3 -> (3 + 1)")
        ),
        "How much of the log is kept.",
    ),
    **dict.fromkeys(
        (
            ("workbench/npz.py", "_FREE_BYTES, _MOST_RECORDS = 256 << 20, 20_000", change)
            for change in ("256 -> (256 + 1)", "20 -> (20 + 1)")
        ),
        "A limit of what is accepted: more is as good a limit.",
    ),
    (
        "workbench/protocol.py",
        "PROTOCOL_VERSION = 3",
        "3 -> (3 + 1)",
    ): "A version: each other number is as good.",
    (
        "workbench/protocol.py",
        "_CHUNK_BYTES = 65_536",
        "65_536 -> (65536 + 1)",
    ): "How much is read at once: the results are the same.",
    (
        "workbench/protocol.py",
        "_LATER = ConfigDict(defer_build=True)",
        "True -> False",
    ): "When the reader of lines is made.",
    **dict.fromkeys(
        (
            (
                "workbench/protocol.py",
                "if dropped or len(rest) + len(tail) > limit:",
                change,
            )
            for change in ("or -> and", "+ -> -")
        ),
        "What follows in a longer line is counted, kept for a while or not.",
    ),
    (
        "workbench/report.py",
        "span = (high - low) or 1.0",
        "1.0 -> (1.0 + 1)",
    ): "Zero is divided.",
    (
        "workbench/report.py",
        "wide, tall = (max(xs) - min(xs)) or 1.0, (max(ys) - min(ys)) or 1.0",
        "1.0 -> (1.0 + 1)",
    ): "Zero is divided.",
    (
        "workbench/report.py",
        "total = sum(cycles.values()) or 1",
        "1 -> (1 + 1)",
    ): "Zero is divided.",
    (
        "workbench/report.py",
        "undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,",
        "True -> False",
    ): "Space between the tags of the page.",
    (
        "workbench/toolchain_versions.py",
        "digest = hashlib.sha256(json.dumps(versions, sort_keys=True).encode()).hexdigest()",
        "True -> False",
    ): "The packages stand in the same order each time.",
    (
        "workbench/suggestions/accuracy.py",
        "return 0.0",
        "0.0 -> (0.0 + 1)",
    ): "It is compared with the ratio of an outlier, which is larger than both.",
    (
        "workbench/pipeline/plan.py",
        'return "functional"',
        '"functional" -> None',
    ): "A part of a key that stands for the absence of a simulator: each value does.",
}

_SPEED = "The size of the pieces that are computed at once; the results are the same."
_EFFORT = "How long a search for a good drawing goes on: no crossing more."
_TASTE = "A length of the drawing: a unit more is as good."
_SEARCH = "How finely a range is searched: within a hundredth of the least error either way."
_NOT_STORED = "The operand is a constant: nothing reads where it lies."
# (file, line as written): why no change of this line can be noticed.
WITHOUT_EFFECT: dict[tuple[str, str], str] = {
    ("workbench/analysis/ranges.py", "_SEARCH_BINS = 512"): _SEARCH,
    ("workbench/analysis/ranges.py", "_TRIALS = 33"): _SEARCH,
    ("workbench/analysis/ranges.py", "_ROUNDS = 3"): _SEARCH,
    ("workbench/analysis/ranges.py", "best, spread = list(widest), 1.0"): _SEARCH,
    ("workbench/analysis/ranges.py", "spread /= 6.0"): _SEARCH,
    ("workbench/npu/convolution.py", "_MATRIX_BYTES = 4 << 20"): _SPEED,
    ("workbench/npu/convolution.py", "_PIECE = 1 << 15"): _SPEED,
    (
        "workbench/npu/convolution.py",
        "step = max(1, _MATRIX_BYTES // (columns * depth * matrix.itemsize))",
    ): _SPEED,
    ("workbench/npu/output_stage.py", "_CHUNK = 1 << 15"): _SPEED,
    ("workbench/graph/snapshot.py", "MUCH = 20_000"): _SPEED,
    ("workbench/graph/snapshot.py", "if gc.get_count()[0] > MUCH:"): _SPEED,
    ("workbench/graph/ordering.py", "PATIENCE = 3"): _EFFORT,
    ("workbench/graph/ordering.py", "if len(places) % 2:"): _EFFORT,
    ("workbench/graph/layout.py", "HEADER = 30.0"): _TASTE,
    ("workbench/graph/layout.py", "PADDING = 16.0"): _TASTE,
    ("workbench/graph/layout.py", "ROW_GAP = 34.0"): _TASTE,
    ("workbench/graph/layout.py", "PORT_GAP = 20.0"): _TASTE,
    ("workbench/graph/layout.py", "EMPTY_WIDTH = 80.0"): _TASTE,
    ("workbench/graph/layout.py", "COLUMN_GAP = 24.0"): _TASTE,
    ("workbench/graph/layout.py", "BEND_ROOM = 7.0"): _TASTE,
    ("workbench/graph/layout.py", "STUB_LENGTH = 16.0"): _TASTE,
    ("workbench/graph/layout.py", "RIGHT_GAP = 124.0"): _TASTE,
    ("workbench/graph/layout.py", "LANE = 12.0"): _TASTE,
    ("workbench/graph/layout.py", "NODE_HEIGHT = 42.0"): _TASTE,
    ("workbench/graph/layout.py", "PILL_HEIGHT = 22.0"): _TASTE,
    ("workbench/graph/layout.py", "GROUP_HEIGHT = 50.0"): _TASTE,
    ("workbench/graph/layout.py", "WIDEST = 300.0"): _TASTE,
    ("workbench/graph/layout.py", "CHIP_ROOM = 50.0"): _TASTE,
    ("workbench/graph/layout.py", "[(0.0, 0.0)] * first"): _TASTE,
    ("workbench/graph/layout.py", "+ [(0.0, 0.0)] * len(self._exits)"): _TASTE,
    ("workbench/npu/elementwise.py", "region=0,"): _NOT_STORED,
    ("workbench/npu/elementwise.py", "bricks=False,"): _NOT_STORED,
    ("workbench/npu/elementwise.py", "bases=(0, 0, 0, 0),"): _NOT_STORED,
    ("workbench/npu/elementwise.py", "height0=1,"): _NOT_STORED,
    ("workbench/npu/elementwise.py", "height1=1,"): _NOT_STORED,
    ("workbench/npu/elementwise.py", "width0=1,"): _NOT_STORED,
    ("workbench/npu/elementwise.py", "strides=(0, 0, 0),"): _NOT_STORED,
}

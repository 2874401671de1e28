"""Changes of the core that no test can notice, with reasons: what ``mutation`` leaves out."""

from tests.equivalent_npu_mutants import OF_NPU, same

# (file, line as written, change): why no test can notice it.
EQUIVALENT: dict[tuple[str, str, str], str] = {
    **OF_NPU,
    **same(
        "workbench/pipeline/cache.py",
        "How far the lines of a list are indented.",
        {
            "write_file(temporary / MANIFEST_FILE, json.dumps(manifest, indent=1).encode())": (
                "1 -> (1 + 1)",
            ),
        },
    ),
    **same(
        "workbench/pipeline/keys.py",
        "A nanosecond more of two seconds.",
        {
            "_RECENT_NS = 2_000_000_000": ("2_000_000_000 -> (2000000000 + 1)",),
        },
    ),
    **same(
        "workbench/pipeline/resolution.py",
        "How many near names are told.",
        {
            "close = difflib.get_close_matches(rule.match, names, n=3, cutoff=0.5)": (
                "3 -> (3 + 1)",
            ),
        },
    ),
    **same(
        "workbench/pipeline/cache.py",
        "What it raises is suppressed one line above.",
        {
            "shutil.rmtree(stale, ignore_errors=True)": ("True -> False",),
        },
    ),
    **same(
        "workbench/history/comparison.py",
        "Without a cost no run is a point.",
        {
            "fewest = min((run.cost.cpu_nodes for run in listed if run.cost is not None), "
            "default=0)": ("0 -> (0 + 1)",),
        },
    ),
    **same(
        "workbench/history/comparison.py",
        "It is only compared, and asked for truth.",
        {
            "spent.on_npu += 1": ("1 -> (1 + 1)",),
        },
    ),
    **same(
        "workbench/history/store.py",
        "Many builds of SQLite take an address either way.",
        {
            "with contextlib.closing(sqlite3.connect(address, uri=True)) as file:": (
                "True -> False",
            ),
        },
    ),
    **same(
        "workbench/history/store.py",
        "A second guard: no statement attaches a file.",
        {
            "file.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)": ("0 -> (0 + 1)",),
        },
    ),
    **same(
        "workbench/results/__init__.py",
        "How far the lines of a file are indented.",
        {
            "(folder / RESULT_FILE).write_text(result.model_dump_json(indent=1))": (
                "1 -> (1 + 1)",
            ),
        },
    ),
    **same(
        "workbench/studies/__init__.py",
        "A version: each other number is as good.",
        {
            '("evaluation", "ranges", "range_methods"), 2,': ("2 -> (2 + 1)",),
            '"target.quantizer", "target.compile"), 1,': ("1 -> (1 + 1)",),
            'Study("sweep", "Sweep", "Estimating on devices", "convert", ("target.files",), 2,': (
                "2 -> (2 + 1)",
            ),
            '("target.files",), 1, "workbench.engine.studies.budget:run", costs=True),': (
                "1 -> (1 + 1)",
            ),
            '("evaluation.data", "target.compile"), 2, "workbench.engine.studies.sample:run"),': (
                "2 -> (2 + 1)",
            ),
            '"convert", ("target.compile", "rules.placing"), 1, '
            '"workbench.engine.studies.blame:run",': ("1 -> (1 + 1)",),
            '("target.compile", "rules.placing"), 1, "workbench.engine.studies.placement:run"),': (
                "1 -> (1 + 1)",
            ),
            '("calibration", "evaluation.data", "verification", "improvers"), 1,': (
                "1 -> (1 + 1)",
            ),
            '("rules", "target.quantizer", "calibration", "training"), 1,': ("1 -> (1 + 1)",),
            'Study("runner", "Build a runner", "Building a runner", "lower", (), 1,': (
                "1 -> (1 + 1)",
            ),
        },
    ),
    **same(
        "workbench/studies/matrix.py",
        "How far a study goes where nobody says: one more is as good.",
        {
            "QAT_EPOCHS, QAT_SAMPLES = 5, 16": ("5 -> (5 + 1)", "16 -> (16 + 1)"),
        },
    ),
    **same(
        "workbench/studies/search.py",
        "How far a study goes where nobody says: one more is as good.",
        {
            "DEFAULT_TRIALS = 40": ("40 -> (40 + 1)",),
        },
    ),
    **same(
        "workbench/studies/search.py",
        "r1 is the global rule, and the names are enough.",
        {
            'free = (f"r{n}" for n in range(1, len(taken) + len(rules) + 1) '
            'if f"r{n}" not in taken)': ("1 -> (1 + 1)",),
        },
    ),
    **same(
        "workbench/studies/sensitivity.py",
        "How far a study goes where nobody says: one more is as good.",
        {
            "DEFAULT_SAMPLES = 16": ("16 -> (16 + 1)",),
        },
    ),
    **same(
        "workbench/studies/sweep.py",
        "An option of an axis has the value of the point.",
        {
            "options = {k: v for k, v in base.options.items() "
            "if device == base.id or k not in axes}": ("== -> !=",),
        },
    ),
    **same(
        "workbench/studies/sweep.py",
        "A size that reaches the largest one is left out.",
        {
            "sizes = (round(least * ratio**n / _GRAIN) * _GRAIN for n in range(1, steps + 1))": (
                "1 -> (1 + 1)",
            ),
        },
    ),
    **same(
        "workbench/studies/sweep.py",
        "Only points with figures are asked.",
        {
            "return point.totals.sram_bytes if point.totals else 0": ("0 -> (0 + 1)",),
            "return point.totals.cycles_total if point.totals else 0": ("0 -> (0 + 1)",),
        },
    ),
    **same(
        "workbench/studies/training.py",
        "How far a study goes where nobody says: one more is as good.",
        {
            "DEFAULT_EPOCHS = 60": ("60 -> (60 + 1)",),
            "batch: int = Field(default=16, ge=1, le=65_536)": ("16 -> (16 + 1)",),
            "observe: int = Field(default=30, ge=0)": ("30 -> (30 + 1)",),
            "patience: int = Field(default=20, ge=1)": ("20 -> (20 + 1)",),
            "halve_after: int = Field(default=4, ge=1)": ("4 -> (4 + 1)",),
        },
    ),
    **same(
        "workbench/studies/training.py",
        "The limits refuse what is not finite too.",
        {
            "learning_rate: float = Field(default=3e-4, gt=0.0, le=100.0, allow_inf_nan=False)": (
                "False -> True",
            ),
        },
    ),
    **same(
        "workbench/pte/description.py",
        "From which size a file is looked at before it is read.",
        {
            "_LARGE_BYTES = 64 << 20": ("64 -> (64 + 1)", "20 -> (20 + 1)"),
        },
    ),
    **same(
        "workbench/pte/npu_commands.py",
        "Nothing is less than no bytes, and the larger one counts.",
        {
            'lines = (state.get(f"{height}_M1", -1) + 1) * state.get(f"{side}_STRIDE_Y", 0)': (
                "1 -> (1 + 1)",
            ),
            'columns = (state.get(f"{width}_M1", -1) + 1) * state.get(f"{side}_STRIDE_X", 0)': (
                "1 -> (1 + 1)",
            ),
        },
    ),
    **same(
        "workbench/pte/flat.py",
        "A list of nothing begins nowhere.",
        {
            "return 0, 0": ("0 -> (0 + 1)",),
        },
    ),
    **same(
        "workbench/pte/program.py",
        "A file that ends with its header has no segments.",
        {
            "if bytes(view[8:12]) == _HEADER_MARK and len(view) >= 8 + _HEADER.size:": (
                ">= -> >",
                "8 -> (8 + 1)",
            ),
        },
    ),
    (
        "workbench/npu/weights.py",
        "bits = 8 if header & 1 else 2 if header & 2 else 4",
        "2 -> (2 + 1)",
    ): "The lowest bit is not set where the second is asked for.",
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
        "for vertex in [*reversed(between), *between] * 2:",
        "2 -> (2 + 1)",
    ): "One more time over the vertices: effort, no other rule.",
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
    (
        "workbench/graph/ordering.py",
        "several = (layer for layer in rows.layers[:-1] if len(layer) > 1)",
        "> -> >=",
    ): "Edges of one vertex do not cross.",
    (
        "workbench/graph/ordering.py",
        "shuffled = random.Random(0)",
        "0 -> (0 + 1)",
    ): "Other orders at random are as good.",
    (
        "workbench/graph/ordering.py",
        "for attempt in range(2 + SHUFFLES if thorough else 2):",
        "2 -> (2 + 1)",
    ): "One more order that is tried: effort, no other rule.",
    (
        "workbench/graph/ordering.py",
        "if attempt < 2:",
        "< -> <=",
    ): "One order less at random: effort, no other rule.",
    (
        "workbench/graph/ordering.py",
        "if attempt < 2:",
        "2 -> (2 + 1)",
    ): "One order less at random: effort, no other rule.",
    (
        "workbench/graph/ordering.py",
        "if best is None or crossings < best[0]:",
        "< -> <=",
    ): "Of orders with as many crossings, each is as good.",
    (
        "workbench/graph/ordering.py",
        "if crossings < best:",
        "< -> <=",
    ): "Of orders with as many crossings, each is as good.",
    (
        "workbench/graph/ordering.py",
        "if best == 0 or idle >= PATIENCE:",
        "or -> and",
    ): "Nothing is better than no crossing: it only takes longer.",
    (
        "workbench/graph/ordering.py",
        "if best == 0 or idle >= PATIENCE:",
        ">= -> >",
    ): "One more sweep without a gain: effort, no other rule.",
    (
        "workbench/graph/ordering.py",
        "_sweep(rows, downwards=sweep % 2 == 0)",
        "2 -> (2 + 1)",
    ): "Sweeps go in both directions, in another order.",
    (
        "workbench/graph/ordering.py",
        "if len(rows.up) <= TRANSPOSE_UP_TO:",
        "<= -> <",
    ): "A vertex more is as good a limit.",
    (
        "workbench/graph/ordering.py",
        "if len(layer) > 1:",
        "> -> >=",
    ): "A row of one vertex has one order.",
    (
        "workbench/graph/ordering.py",
        "for _ in range(4):",
        "4 -> (4 + 1)",
    ): "One more time over the rows: effort, no other rule.",
    (
        "workbench/graph/ordering.py",
        "improved = False",
        "False -> True",
    ): "Without a swap, the next time over the rows changes nothing.",
    (
        "workbench/graph/ordering.py",
        "rank += [max(rank, default=-1) + 1] * exits",
        "1 -> (1 + 1)",
    ): "Without other vertices, all are in one row, which becomes the first.",
    (
        "workbench/graph/ordering.py",
        "widest = max(half, default=0.0)",
        "0.0 -> (0.0 + 1)",
    ): "The default is for no vertex: no place has it.",
    (
        "workbench/graph/ordering.py",
        "if span > width * TOLERATED_WIDTH:",
        "> -> >=",
    ): "A drawing at the limit is as good as the narrowest.",
    (
        "workbench/graph/layout.py",
        "if len(edges) == count - 1 and all(high == low + 1 for low, high in edges):",
        "1 -> (1 + 1)",
    ): "No chain is told from other graphs: the ordering gives the same chain, more slowly.",
    (
        "workbench/graph/layout.py",
        "width = max((x + r for x, r in zip(columns, room, strict=True)), default=0.0)",
        "0.0 -> (0.0 + 1)",
    ): "A group without children has a width of its own.",
    (
        "workbench/graph/layout.py",
        "if abs(ends[row - 1] - wanted) <= TOLERATED * share",
        "<= -> <",
    ): "A row at the limit: a column begins there or not, as both are good.",
    (
        "workbench/graph/layout.py",
        "if error < best_error:",
        "< -> <=",
    ): "Of columns as far from the wanted shape, each are as good.",
    (
        "workbench/graph/layout.py",
        "elif error > 2 * best_error:",
        "> -> >=",
    ): "How long a search goes on: effort, no other rule.",
    (
        "workbench/graph/layout.py",
        "elif error > 2 * best_error:",
        "2 -> (2 + 1)",
    ): "How long a search goes on: effort, no other rule.",
    (
        "workbench/graph/layout.py",
        "elif error > 2 * best_error:",
        "* -> +",
    ): "How long a search goes on: effort, no other rule.",
    (
        "workbench/graph/layout.py",
        "if pair[0] > pair[1] or (source not in inner and target not in inner):",
        "> -> >=",
    ): "No child has a link to itself.",
    (
        "workbench/graph/layout.py",
        "starts, columns = [0.0, *ends], [*pairwise([0, *cuts, len(ends)])]",
        "0.0 -> (0.0 + 1)",
    ): "The height of a column: a unit less is as good.",
    (
        "workbench/graph/layout.py",
        "self._thorough = len(hierarchy.parent) <= THOROUGH_UP_TO",
        "<= -> <",
    ): "A unit less is as good a limit.",
    (
        "workbench/graph/layout.py",
        "if ROOT not in self._expanded or len(changed) > CHANGES_FOLLOWED:",
        "> -> >=",
    ): "Both ways find the same groups.",
    (
        "workbench/graph/hierarchy.py",
        "is_folded = False",
        "False -> True",
    ): "Without a run, everything is computed once more, to the same.",
    (
        "workbench/graph/hierarchy.py",
        "if position[ends[0]] < position[ends[1]]:",
        "< -> <=",
    ): "No child has a link to itself.",
    (
        "workbench/graph/hierarchy.py",
        "size: int = 0",
        "0 -> (0 + 1)",
    ): "It is computed before anything reads it.",
    (
        "workbench/graph/hierarchy.py",
        "signature: int = -1",
        "1 -> (1 + 1)",
    ): "It is computed before anything reads it.",
    (
        "workbench/graph/hierarchy.py",
        "return ()",
        "() -> None",
    ): "The title of an operator takes no shape as it takes an empty one.",
    (
        "workbench/graph/labels.py",
        'text = " ".join(text[: 4 * longest].split()) if len(text) > longest else text',
        "4 -> (4 + 1)",
    ): "How much of a very long text is looked at: a limit for speed.",
    (
        "workbench/graph/compare.py",
        "wanted = own.children[0] if own.is_run else group",
        "0 -> (0 + 1)",
    ): "The blocks of a run have the same structure.",
    (
        "workbench/graph/lineage.py",
        "for _ in range(len(_FOLLOWERS) + 1):",
        "1 -> (1 + 1)",
    ): "A limit where observers follow each other in a circle: one more is as good.",
    (
        "workbench/graph/snapshot.py",
        'if gc.get_count()[0] - before > MUCH and "torch" not in sys.modules:',
        "> -> >=",
    ): "One object more is as good a limit.",
    (
        "workbench/targets/formats/values.py",
        "return np.where(x > 0, exponent - 1.0, -2000.0)",
        "> -> >=",
    ): "Zero is rounded to zero in steps of every size.",
    (
        "workbench/targets/formats/values.py",
        "nearest = np.where(mantissa * 2 > np.sqrt(2.0), exponent, exponent - 1)",
        "> -> >=",
    ): "A value in the middle of two powers of two is as near to either.",
    (
        "workbench/targets/formats/values.py",
        "scale = np.exp2(np.where(largest > 0, top - bias, 0.0))",
        "0.0 -> (0.0 + 1)",
    ): "A block of zeros is zero in every scale.",
    (
        "workbench/targets/formats/values.py",
        "ceiling = np.where(largest > 0, exponent - (mantissa == 0.5), -2000.0)",
        "> -> >=",
    ): "A block of zeros is zero with every bias.",
    (
        "workbench/targets/formats/values.py",
        "ceiling = np.where(largest > 0, exponent - (mantissa == 0.5), -2000.0)",
        "2000.0 -> (2000.0 + 1)",
    ): "A block of zeros is zero with every bias.",
    (
        "workbench/targets/formats/values.py",
        "return _powers(rows, -bias, top - bias)",
        "- -> +",
    ): "Without a bias both are one; with one, no value of the block is above it.",
    (
        "workbench/targets/formats/values.py",
        "whole = float(largest.max()) / (_E2M1_LARGEST * _E4M3_LARGEST) or 1.0",
        "1.0 -> (1.0 + 1)",
    ): "A tensor of zeros is zero in every scale.",
    (
        "workbench/targets/formats/values.py",
        "divisor = np.where(scale > 0, scale, 1.0)",
        "1.0 -> (1.0 + 1)",
    ): "What is divided by it is multiplied with zero.",
    (
        "workbench/targets/formats/values.py",
        "_POINTS = 1 << 14",
        "1 -> (1 + 1)",
    ): "More points between the same ends have the same levels.",
    (
        "workbench/targets/formats/values.py",
        "_POINTS = 1 << 14",
        "14 -> (14 + 1)",
    ): "More points between the same ends have the same levels.",
    (
        "workbench/targets/formats/values.py",
        "return min(math.prod(_WHOLE if size < 0 else size for size in sizes), DRAWS)",
        "< -> <=",
    ): "A size of zero is refused.",
    (
        "workbench/targets/formats/values.py",
        "return min(math.prod(_WHOLE if size < 0 else size for size in sizes), DRAWS)",
        "0 -> (0 + 1)",
    ): "A size of zero is refused.",
    (
        "workbench/targets/formats/pass_args.py",
        "return {}",
        "{} -> None",
    ): "A problem was noted, which is raised instead.",
    (
        "workbench/targets/nnpa/command.py",
        'return json.dumps({"nnpa_ops_config": entries}, indent=2) + "\\n" if entries else ""',
        "2 -> (2 + 1)",
    ): "How far lines of the file are indented.",
    (
        "workbench/script/aot_arm_compiler.py",
        "model_part(project, folder, branches=False),",
        "False -> True",
    ): "The only rule is for all modules: none names a module.",
    (
        "workbench/script/model_and_data.py",
        'if taken.entry and form_of(path) == "module":',
        "and -> or",
    ): "A dictionary has no state_dict: the line that is added leaves it as it is.",
    (
        "workbench/script/quantizer.py",
        'return "None"',
        '"None" -> None',
    ): "It is written into text, where both are one.",
    (
        "workbench/project/checkpoints.py",
        "head = file.read(16)",
        "16 -> (16 + 1)",
    ): "More is read than is looked at.",
    (
        "workbench/project/edits.py",
        'depth = rule.match.count(".") if rule.kind == "module_name" else 0',
        "0 -> (0 + 1)",
    ): "Rules of another kind all have one depth, whatever it is.",
    (
        "workbench/project/model.py",
        "if self.std[0] < 0 or not 0 <= round(zero) <= 255 or abs(zero - round(zero)) > 1e-3:",
        "< -> <=",
    ): "No std is zero: that is refused before.",
    (
        "workbench/project/model.py",
        "if self.std[0] < 0 or not 0 <= round(zero) <= 255 or abs(zero - round(zero)) > 1e-3:",
        "> -> >=",
    ): "No float is that far from a whole number: a thousandth is none.",
    (
        "workbench/project/pt2.py",
        'root = archive.namelist()[0].partition("/")[0]',
        "0 -> (0 + 1)",
    ): "All records lie below one folder.",
    (
        "workbench/project/pt2.py",
        'root = entries[0].filename.partition("/")[0]',
        "0 -> (0 + 1)",
    ): "With two folders, one of the records is doubtful either way.",
    (
        "workbench/project/pt2.py",
        "end = -1",
        "1 -> (1 + 1)",
    ): "Without an opcode the pickle is refused before.",
    (
        "workbench/project/settings.py",
        '_put(raw, key, value.model_dump(mode="json", exclude_defaults=True))',
        "True -> False",
    ): "Defaults that are written out mean the same.",
    (
        "workbench/project/settings.py",
        '_put(raw, key, preprocess.model_dump(mode="json", exclude_defaults=True))',
        "True -> False",
    ): "Defaults that are written out mean the same.",
    (
        "workbench/project/settings.py",
        "close = difflib.get_close_matches(key, known, n=3, cutoff=0.5)",
        "3 -> (3 + 1)",
    ): "One more name in a hint.",
    (
        "workbench/project/sources.py",
        'if reference.kind == "file" or (reference.kind == "package" and is_source):',
        "and -> or",
    ): "What is no Python source imports nothing.",
    (
        "workbench/project/sources.py",
        'Place(kind="file", id=name[:60]),',
        "60 -> (60 + 1)",
    ): "How much is shown of a path that is too long.",
    (
        "workbench/project/store.py",
        'version = raw.get("version", 0)',
        "0 -> (0 + 1)",
    ): "Both are versions that are read; migrating asks for itself.",
    (
        "workbench/project/store.py",
        'return json.dumps({"version": project.version, **data}, indent=2, ensure_ascii=False) '
        '+ "\\n"',
        "2 -> (2 + 1)",
    ): "How far lines of the file are indented.",
    (
        "workbench/project/store.py",
        'f"The file holds a number that is too long: {error}."[:200],',
        "200 -> (200 + 1)",
    ): "The message of Python is shorter.",
    (
        "workbench/project/trust.py",
        'text = json.dumps({"version": _VERSION, "trusted": trusted}, indent=1)',
        "1 -> (1 + 1)",
    ): "How far lines of the file are indented.",
    (
        "workbench/project/trust.py",
        "return True",
        "True -> False",
    ): "Only on systems that the tests do not run on.",
    (
        "workbench/project/trust.py",
        "return True",
        "True -> None",
    ): "Only on systems that the tests do not run on.",
    (
        "workbench/project/frozen.py",
        "defer_build=True,",
        "True -> False",
    ): "When validators are built: the same ones, later or sooner.",
    (
        "workbench/project/recipes.py",
        "length: int = 0",
        "0 -> (0 + 1)",
    ): "Only recipes with texts have a length that is read, and they set it.",
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
    (
        "workbench/npu/output_stage.py",
        "row = max(1, int(np.prod(shape[1:], dtype=np.int64)))",
    ): _SPEED,
    ("workbench/npu/output_stage.py", "step = max(1, _CHUNK // row)"): _SPEED,
    ("workbench/npu/convolution.py", "step = max(1, _PIECE // (columns * depth))"): _SPEED,
    ("workbench/npu/convolution.py", "step = max(1, _MATRIX_BYTES // row_bytes)"): _SPEED,
    (
        "workbench/npu/convolution.py",
        "row_bytes = columns * max(inner, depth) * matrix.itemsize",
    ): _SPEED,
    ("workbench/npu/arithmetic.py", "_SAFE = 1 << 62"): "More products go the slower, exact way, "
    "or those that fit 63 bits the faster one.",
    ("workbench/graph/snapshot.py", "MUCH = 20_000"): _SPEED,
    ("workbench/graph/ordering.py", "PATIENCE = 3"): _EFFORT,
    ("workbench/graph/ordering.py", "if len(places) % 2:"): _EFFORT,
    ("workbench/graph/ordering.py", "SWEEPS = 8"): _EFFORT,
    ("workbench/graph/ordering.py", "TRANSPOSE_UP_TO = 300"): _EFFORT,
    ("workbench/graph/ordering.py", "SHUFFLES, SHUFFLED_UP_TO = 10, 150"): _EFFORT,
    ("workbench/graph/ordering.py", "idle = 0 if crossings < best else idle + 1"): _EFFORT,
    ("workbench/graph/layout.py", "THOROUGH_UP_TO = 8000"): _EFFORT,
    ("workbench/graph/layout.py", "CHANGES_FOLLOWED = 200"): _SPEED,
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

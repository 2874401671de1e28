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
_NOT_STORED = "The operand is a constant: nothing reads where it lies."
# (file, line as written): why no change of this line can be noticed.
WITHOUT_EFFECT: dict[tuple[str, str], str] = {
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

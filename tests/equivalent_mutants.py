"""Changes of the core that no test can notice, with reasons: what ``mutation`` leaves out."""


def _same(
    file: str, reason: str, lines: dict[str, tuple[str, ...]]
) -> dict[tuple[str, str, str], str]:
    """Return changes of lines of one file that have one reason."""
    return {(file, line, change): reason for line, changes in lines.items() for change in changes}


# (file, line as written, change): why no test can notice it.
EQUIVALENT: dict[tuple[str, str, str], str] = {
    **_same(
        "workbench/npu/accumulators.py",
        "The mask leaves the bits of the byte behind out.",
        {
            "shift = number(8, 1) & 63": ("1 -> (1 + 1)",),
            "return ChannelScales(_with_sign(number(0, 6), 48), number(6, 2) & 0x7FFF, shift)": (
                "2 -> (2 + 1)",
            ),
            "return ChannelScales(_with_sign(number(0, 4), 32), "
            "number(4, 4) & 0x7FFFFFFF, shift)": ("4 -> (4 + 1)",),
        },
    ),
    **_same(
        "workbench/npu/arithmetic.py",
        "Both ways are exact there; one is slower.",
        {
            "_LOW_BITS = 20": ("20 -> (20 + 1)",),
            "if largest + (1 << magnitude(shifts)) >= _SAFE:": (">= -> >", "1 -> (1 + 1)"),
            "fits = magnitude(values) < 1 << 48 and magnitude(shifts) < 62": (
                "< -> <=",
                "1 -> (1 + 1)",
                "48 -> (48 + 1)",
                "62 -> (62 + 1)",
                "<< -> >>",
            ),
            "if shifts.min() >= _LOW_BITS and fits and magnitude(factors) < 1 << 33:": (
                "< -> <=",
                ">= -> >",
                "1 -> (1 + 1)",
                "33 -> (33 + 1)",
                "<< -> >>",
            ),
        },
    ),
    **_same(
        "workbench/npu/arithmetic.py",
        "It tells zero from less, and zero is rounded to zero.",
        {
            "return np.where(values >= 0, 0, (1 << shifts) - 1)": ("0 -> (0 + 1)",),
            "return half + np.where(values >= 0, extra, -extra)": ("0 -> (0 + 1)",),
            "return half - np.where(values < 0, 1, 0)": ("< -> <=", "0 -> (0 + 1)"),
        },
    ),
    **_same(
        "workbench/npu/arithmetic.py",
        "Indices from the end name the same entries.",
        {
            "entry = (values + (1 << 15)) >> _ENTRIES_PER_STEP": ("+ -> -",),
        },
    ),
    **_same(
        "workbench/npu/block_dependency.py",
        "Bytes that no job writes are never early.",
        {
            "early = np.zeros(max(area.end for areas in jobs for area in areas) - first, "
            "np.uint8)": ("- -> +",),
        },
    ),
    **_same(
        "workbench/npu/block_dependency.py",
        "Row by row gives the same bytes, more slowly.",
        {
            "if area.first >= first and area.end <= first + data.size:": (
                ">= -> >",
                "<= -> <",
                "+ -> -",
            ),
            "if part.first < first + data.size and part.end > first:": (
                "< -> <=",
                "> -> >=",
                "and -> or",
            ),
        },
    ),
    **_same(
        "workbench/npu/block_dependency.py",
        "A first look: the jobs decide byte by byte.",
        {
            "area.region == other.region and area.first < other.end and other.first < area.end": (
                "< -> <=",
            ),
        },
    ),
    **_same(
        "workbench/npu/block_dependency.py",
        "A kernel that writes something sets it.",
        {
            "moves: bool = False": ("False -> True",),
        },
    ),
    **_same(
        "workbench/npu/checks.py",
        "Nothing is compared with what is before the first command.",
        {
            'self._now = _Command(0, "")': ("0 -> (0 + 1)",),
        },
    ),
    **_same(
        "workbench/npu/checks.py",
        "A mask of the same size is copied.",
        {
            "if mask is None or mask.size < size:": ("< -> <=",),
        },
    ),
    **_same(
        "workbench/npu/convolution.py",
        "The weights are copied, and not written.",
        {
            "matrix = weights.matrix.astype(dtype, copy=False)": ("False -> True",),
            "planes = weights.matrix.astype(dtype, copy=False)": ("False -> True",),
        },
    ),
    **_same(
        "workbench/npu/convolution.py",
        "Who begins with what is held keeps the accumulators.",
        {
            "return bool(state.keep_accumulators or value >> 4 & 3 or value >> 6 & 1)": (
                "4 -> (4 + 1)",
            ),
        },
    ),
    **_same(
        "workbench/npu/convolution.py",
        "A bound only saves work.",
        {
            'exact = None if state.registers["ACC_FORMAT"] >> 4 & 3 else bound': ("& -> |",),
        },
    ),
    **_same(
        "workbench/npu/convolution.py",
        "No output stage is asked for what stays inside.",
        {
            "return OutputStage(state, None)": ("OutputStage(state, None) -> None",),
        },
    ),
    **_same(
        "workbench/npu/elementwise.py",
        "Zero scaled is zero.",
        {
            "_finish(state, np.where(values >= 0, values, below), None)": ("0 -> (0 + 1)",),
            "result = np.where(first.values >= 0, positive, negative)": (">= -> >", "0 -> (0 + 1)"),
        },
    ),
    **_same(
        "workbench/npu/elementwise.py",
        "Modulo 2**32 half of it more is half of it less.",
        {
            "wrapped = ((a << b) + (1 << 31) & 0xFFFFFFFF) - (1 << 31)": ("+ -> -",),
        },
    ),
    **_same(
        "workbench/npu/elementwise.py",
        "All 32 bits are shifted out either way.",
        {
            "_SHIFT_MOST = 62": ("62 -> (62 + 1)",),
        },
    ),
    **_same(
        "workbench/npu/machine.py",
        "Another format always stands before the one that keeps.",
        {
            'command.name == "NPU_SET_ACC_FORMAT" and command.parameter >> 4 & 3 == _KEEP': (
                "== -> !=",
            ),
        },
    ),
    **_same(
        "workbench/npu/output_stage.py",
        "Indices from the end name the same entries.",
        {
            "outputs: Integers = self._data[values - least].astype(np.int64)": ("- -> +",),
        },
    ),
    **_same(
        "workbench/npu/output_stage.py",
        "Only double rounding asks for it.",
        {
            "self._rounding, self._double = Rounding.NATURAL, 0": ("0 -> (0 + 1)",),
        },
    ),
    **_same(
        "workbench/npu/output_stage.py",
        "Floats and integers give the same results there.",
        {
            "_EXACT = float(1 << 52)": ("1 -> (1 + 1)", "52 -> (52 + 1)"),
            "identity = bool((scale == 1).all() and not shift.any())": ("1 -> (1 + 1)",),
            "self._exact_below = -1.0": ("1.0 -> (1.0 + 1)",),
            "if self._rounding is not Rounding.NATURAL and not identity:": ("and -> or",),
            "self._exact_below = float(np.min((_EXACT - constant) / np.maximum(scale, 1)))": (
                "1 -> (1 + 1)",
            ),
            "if bound is None or bound >= self._exact_below:": (">= -> >",),
            "bound = float(arithmetic.magnitude(accumulators)) if self._exact_below > 0 else 0.0": (
                "> -> >=",
                "0.0 -> (0.0 + 1)",
            ),
            "if bound < self._exact_below:": ("< -> <=",),
        },
    ),
    **_same(
        "workbench/npu/output_stage.py",
        "Half a unit more than a whole number is cut off.",
        {
            "half = np.where(shift > 0, parts / 2, 0)": ("> -> >=",),
        },
    ),
    **_same(
        "workbench/npu/output_stage.py",
        "Numpy takes a limit beyond the type for none.",
        {
            "values = np.clip(values, limits.min, min(limits.max, (1 << 63) - 1))": (
                "1 -> (1 + 1)",
                "63 -> (63 + 1)",
                "- -> +",
            ),
        },
    ),
    **_same(
        "workbench/npu/output_stage.py",
        "A first look: the sums are compared one by one.",
        {
            "largest = 0 if self._bias is None else arithmetic.magnitude(self._bias)": (
                "0 -> (0 + 1)",
            ),
        },
    ),
    **_same(
        "workbench/npu/pooling.py",
        "Beyond every value of a feature map.",
        {
            "_FAR = 1 << 40": ("40 -> (40 + 1)",),
        },
    ),
    **_same(
        "workbench/npu/pooling.py",
        "How near to one a factor is that only moves data.",
        {
            "_NEARLY_ONE = 20": ("20 -> (20 + 1)",),
            "return abs(scale.scale - (1 << scale.shift)) > 1 << scale.shift >> _NEARLY_ONE": (
                "1 -> (1 + 1)",
            ),
        },
    ),
    **_same(
        "workbench/npu/pooling.py",
        "A bit more, or less by one part: averages of 8 and 16 bits "
        "are rounded to the same in windows of up to 2**13 elements.",
        {
            "return _divided(state, sums, 31)": ("31 -> (31 + 1)",),
            "return _divided(state, _sum(state), 30)": ("30 -> (30 + 1)",),
            "extra = np.array([int(n - 1).bit_length() for n in count.reshape(-1)])"
            ".reshape(count.shape)": ("- -> +", "1 -> (1 + 1)"),
            "factor = ((np.int64(1) << bits) + 1 << extra) // count": ("1 -> (1 + 1)",),
        },
    ),
    **_same(
        "workbench/npu/program.py",
        "No list and an empty one are compared, and asked for truth.",
        {
            "return ()": ("() -> None",),
        },
    ),
    **_same(
        "workbench/npu/state.py",
        "How far back an equal remark is looked for.",
        {
            "if finding not in self.findings[-8:]:": ("8 -> (8 + 1)",),
        },
    ),
    **_same(
        "workbench/npu/transfers.py",
        "There is one row or one plane, and nothing behind it.",
        {
            'skip = registers.stride("DMA0_SKIP0") if mode else 0': ("0 -> (0 + 1)",),
            'skip_plane = registers.stride("DMA0_SKIP1") if mode == _CUBES else 0': (
                "0 -> (0 + 1)",
            ),
            'beyond = registers.stride(f"DMA0_{name}_STRIDE1") if mode == _CUBES else 0': (
                "0 -> (0 + 1)",
            ),
            'skip = registers.stride("DMA0_IDX_SKIP1") if plane else 0': ("0 -> (0 + 1)",),
        },
    ),
    **_same(
        "workbench/npu/transfers.py",
        "Without its sign it is larger than each largest index.",
        {
            'index = int.from_bytes(data.tobytes(), "little", signed=True)': ("True -> False",),
        },
    ),
    **_same(
        "workbench/npu/weight_loading.py",
        "A key of the cache: other bytes name the same.",
        {
            "digest = hashlib.blake2b(digest_size=16)": ("16 -> (16 + 1)",),
            'digest.update(len(stream).to_bytes(8, "little"))': ("8 -> (8 + 1)",),
        },
    ),
    **_same(
        "workbench/npu/weight_loading.py",
        "The decoder refuses a stream that is too short.",
        {
            "_demand_bits(8 * len(streams[0]) * 4, size)": (
                "* -> +",
                "8 -> (8 + 1)",
                "4 -> (4 + 1)",
            ),
        },
    ),
    **_same(
        "workbench/npu/weight_order.py",
        "Blocks have eight channels; it keeps damaged programs from having none.",
        {
            "step = max(1, (geometry.block_depth + geometry.streams - 1 - stream) "
            "// geometry.streams)": ("1 -> (1 + 1)",),
        },
    ),
    **_same(
        "workbench/npu/weights.py",
        "Zeros behind the stream, of which some are left over.",
        {
            "padded = np.frombuffer(data + bytes(16), np.uint8)": ("16 -> (16 + 1)",),
            'windows: _Array = np.ndarray((len(data) + 8,), "<u8", padded.data, 0, (1,))': (
                "8 -> (8 + 1)",
            ),
        },
    ),
    **_same(
        "workbench/npu/weights.py",
        "Indices of 2 and 4 bits: 9 // 2 is 8 // 2, 9 // 4 is 8 // 4.",
        {
            "per_byte = 8 // bits": ("8 -> (8 + 1)",),
        },
    ),
    **_same(
        "workbench/npu/weights.py",
        "What ends too late is refused a little later too.",
        {
            "if at + count > self.bits:": ("+ -> -",),
            "if weights.size + int(runs.sum()) > stream.limit:": ("+ -> -",),
        },
    ),
    **_same(
        "workbench/npu/weights.py",
        "Only slices with runs have a divisor of runs.",
        {
            "run_divisor=zdiv if has_runs else 0,": ("0 -> (0 + 1)",),
        },
    ),
    **_same(
        "workbench/npu/weights.py",
        "A longer table, or more chunks, of which less is used.",
        {
            "symbols = bytes([_CHUNK]) * (1 << _CHUNK) if header.truncated else _ENDED": (
                "1 -> (1 + 1)",
            ),
            "symbols = bytes([size]) * (1 << _CHUNK) if raw or header.truncated else _ENDED": (
                "1 -> (1 + 1)",
            ),
            "count = -(-header.count // header.chunk)": ("// -> *",),
        },
    ),
    **_same(
        "workbench/npu/weights.py",
        "Each number below zero stands for none.",
        {
            "pending = run_pending = -1": ("1 -> (1 + 1)",),
        },
    ),
    **_same(
        "workbench/npu/weights.py",
        "Behind the last bit only remainders of no bits are left.",
        {
            "while at <= stream.bits:": ("<= -> <",),
        },
    ),
    **_same(
        "workbench/npu/weights.py",
        "It is set where it is used.",
        {
            "word, ahead, first, bits = words[at >> 3] >> (at & 7), weights - runs, 0, 0": (
                "0 -> (0 + 1)",
            ),
        },
    ),
    **_same(
        "workbench/pipeline/cache.py",
        "How far the lines of a list are indented.",
        {
            "write_file(temporary / MANIFEST_FILE, json.dumps(manifest, indent=1).encode())": (
                "1 -> (1 + 1)",
            ),
        },
    ),
    **_same(
        "workbench/pipeline/keys.py",
        "A nanosecond more of two seconds.",
        {
            "_RECENT_NS = 2_000_000_000": ("2_000_000_000 -> (2000000000 + 1)",),
        },
    ),
    **_same(
        "workbench/pipeline/resolution.py",
        "How many near names are told.",
        {
            "close = difflib.get_close_matches(rule.match, names, n=3, cutoff=0.5)": (
                "3 -> (3 + 1)",
            ),
        },
    ),
    **_same(
        "workbench/pipeline/cache.py",
        "What it raises is suppressed one line above.",
        {
            "shutil.rmtree(stale, ignore_errors=True)": ("True -> False",),
        },
    ),
    **_same(
        "workbench/history/comparison.py",
        "Without a cost no run is a point.",
        {
            "fewest = min((run.cost.cpu_nodes for run in listed if run.cost is not None), "
            "default=0)": ("0 -> (0 + 1)",),
        },
    ),
    **_same(
        "workbench/history/comparison.py",
        "It is only compared, and asked for truth.",
        {
            "spent.on_npu += 1": ("1 -> (1 + 1)",),
        },
    ),
    **_same(
        "workbench/history/store.py",
        "Many builds of SQLite take an address either way.",
        {
            "with contextlib.closing(sqlite3.connect(address, uri=True)) as file:": (
                "True -> False",
            ),
        },
    ),
    **_same(
        "workbench/history/store.py",
        "A second guard: no statement attaches a file.",
        {
            "file.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)": ("0 -> (0 + 1)",),
        },
    ),
    **_same(
        "workbench/results/__init__.py",
        "How far the lines of a file are indented.",
        {
            "(folder / RESULT_FILE).write_text(result.model_dump_json(indent=1))": (
                "1 -> (1 + 1)",
            ),
        },
    ),
    **_same(
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
    **_same(
        "workbench/studies/matrix.py",
        "How far a study goes where nobody says: one more is as good.",
        {
            "QAT_EPOCHS, QAT_SAMPLES = 5, 16": ("5 -> (5 + 1)", "16 -> (16 + 1)"),
        },
    ),
    **_same(
        "workbench/studies/search.py",
        "How far a study goes where nobody says: one more is as good.",
        {
            "DEFAULT_TRIALS = 40": ("40 -> (40 + 1)",),
        },
    ),
    **_same(
        "workbench/studies/search.py",
        "r1 is the global rule, and the names are enough.",
        {
            'free = (f"r{n}" for n in range(1, len(taken) + len(rules) + 1) '
            'if f"r{n}" not in taken)': ("1 -> (1 + 1)",),
        },
    ),
    **_same(
        "workbench/studies/sensitivity.py",
        "How far a study goes where nobody says: one more is as good.",
        {
            "DEFAULT_SAMPLES = 16": ("16 -> (16 + 1)",),
        },
    ),
    **_same(
        "workbench/studies/sweep.py",
        "An option of an axis has the value of the point.",
        {
            "options = {k: v for k, v in base.options.items() "
            "if device == base.id or k not in axes}": ("== -> !=",),
        },
    ),
    **_same(
        "workbench/studies/sweep.py",
        "A size that reaches the largest one is left out.",
        {
            "sizes = (round(least * ratio**n / _GRAIN) * _GRAIN for n in range(1, steps + 1))": (
                "1 -> (1 + 1)",
            ),
        },
    ),
    **_same(
        "workbench/studies/sweep.py",
        "Only points with figures are asked.",
        {
            "return point.totals.sram_bytes if point.totals else 0": ("0 -> (0 + 1)",),
            "return point.totals.cycles_total if point.totals else 0": ("0 -> (0 + 1)",),
        },
    ),
    **_same(
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
    **_same(
        "workbench/studies/training.py",
        "The limits refuse what is not finite too.",
        {
            "learning_rate: float = Field(default=3e-4, gt=0.0, le=100.0, allow_inf_nan=False)": (
                "False -> True",
            ),
        },
    ),
    **_same(
        "workbench/pte/description.py",
        "From which size a file is looked at before it is read.",
        {
            "_LARGE_BYTES = 64 << 20": ("64 -> (64 + 1)", "20 -> (20 + 1)"),
        },
    ),
    **_same(
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
    **_same(
        "workbench/pte/flat.py",
        "A list of nothing begins nowhere.",
        {
            "return 0, 0": ("0 -> (0 + 1)",),
        },
    ),
    **_same(
        "workbench/pte/program.py",
        "A file that ends with its header has no segments.",
        {
            "if bytes(view[8:12]) == _HEADER_MARK and len(view) >= 8 + _HEADER.size:": (
                ">= -> >",
                "8 -> (8 + 1)",
            ),
        },
    ),
    **_same("workbench/npu/inputs.py", "Each seed is as good.", {"SEED = 0": ("0 -> (0 + 1)",)}),
    **_same(
        "workbench/npu/memory.py",
        "Each number that no region has.",
        {
            "TABLES = -1": ("1 -> (1 + 1)",),
        },
    ),
    **_same(
        "workbench/npu/output_stage.py",
        "Only tables of pairs are narrow or wide.",
        {
            "def __init__(self, data: _Array, *, signed: bool, pairs: bool, wide: bool = False) "
            "-> None:": ("False -> True",),
        },
    ),
    **_same(
        "workbench/npu/state.py",
        "How many decoded weights are kept: others are decoded again.",
        {
            "def __init__(self, limit: int = 512 << 20) -> None:": (
                "512 -> (512 + 1)",
                "20 -> (20 + 1)",
            ),
        },
    ),
    **_same(
        "workbench/npu/transfers.py",
        "About how much a row costs.",
        {
            "_ROW_WORK = 20_000": ("20_000 -> (20000 + 1)",),
        },
    ),
    **_same(
        "workbench/npu/weights.py",
        "An index of four bits names one of 16.",
        {
            "_FAST_PALETTE_AT, _FAST_PALETTE, _FAST_BITS = 112, 16, 9": ("16 -> (16 + 1)",),
        },
    ),
    **_same(
        "workbench/npu/windows.py",
        "The view is not written.",
        {
            "writeable=False,": ("False -> True",),
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

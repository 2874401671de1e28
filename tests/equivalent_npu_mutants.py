"""Changes of the model of the NPU that no test can notice, with reasons."""


def same(
    file: str, reason: str, lines: dict[str, tuple[str, ...]]
) -> dict[tuple[str, str, str], str]:
    """Return changes of lines of one file that have one reason."""
    return {(file, line, change): reason for line, changes in lines.items() for change in changes}


# (file, line as written, change): why no test can notice it.
OF_NPU: dict[tuple[str, str, str], str] = {
    **same(
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
    **same(
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
    **same(
        "workbench/npu/arithmetic.py",
        "It tells zero from less, and zero is rounded to zero.",
        {
            "return np.where(values >= 0, 0, (1 << shifts) - 1)": ("0 -> (0 + 1)",),
            "return half + np.where(values >= 0, extra, -extra)": ("0 -> (0 + 1)",),
            "return half - np.where(values < 0, 1, 0)": ("< -> <=", "0 -> (0 + 1)"),
        },
    ),
    **same(
        "workbench/npu/arithmetic.py",
        "Indices from the end name the same entries.",
        {
            "entry = (values + (1 << 15)) >> _ENTRIES_PER_STEP": ("+ -> -",),
        },
    ),
    **same(
        "workbench/npu/block_dependency.py",
        "Bytes that no job writes are never early.",
        {
            "early = np.zeros(max(area.end for areas in jobs for area in areas) - first, "
            "np.uint8)": ("- -> +",),
        },
    ),
    **same(
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
    **same(
        "workbench/npu/block_dependency.py",
        "A first look: the jobs decide byte by byte.",
        {
            "area.region == other.region and area.first < other.end and other.first < area.end": (
                "< -> <=",
            ),
        },
    ),
    **same(
        "workbench/npu/block_dependency.py",
        "A kernel that writes something sets it.",
        {
            "moves: bool = False": ("False -> True",),
        },
    ),
    **same(
        "workbench/npu/checks.py",
        "Nothing is compared with what is before the first command.",
        {
            'self._now = _Command(0, "")': ("0 -> (0 + 1)",),
        },
    ),
    **same(
        "workbench/npu/checks.py",
        "A mask of the same size is copied.",
        {
            "if mask is None or mask.size < size:": ("< -> <=",),
        },
    ),
    **same(
        "workbench/npu/convolution.py",
        "The weights are copied, and not written.",
        {
            "matrix = weights.matrix.astype(dtype, copy=False)": ("False -> True",),
            "planes = weights.matrix.astype(dtype, copy=False)": ("False -> True",),
        },
    ),
    **same(
        "workbench/npu/convolution.py",
        "Who begins with what is held keeps the accumulators.",
        {
            "return bool(state.keep_accumulators or value >> 4 & 3 or value >> 6 & 1)": (
                "4 -> (4 + 1)",
            ),
        },
    ),
    **same(
        "workbench/npu/convolution.py",
        "A bound only saves work.",
        {
            'exact = None if state.registers["ACC_FORMAT"] >> 4 & 3 else bound': ("& -> |",),
        },
    ),
    **same(
        "workbench/npu/convolution.py",
        "No output stage is asked for what stays inside.",
        {
            "return OutputStage(state, None)": ("OutputStage(state, None) -> None",),
        },
    ),
    **same(
        "workbench/npu/elementwise.py",
        "Zero scaled is zero.",
        {
            "_finish(state, np.where(values >= 0, values, below), None)": ("0 -> (0 + 1)",),
            "result = np.where(first.values >= 0, positive, negative)": (">= -> >", "0 -> (0 + 1)"),
        },
    ),
    **same(
        "workbench/npu/elementwise.py",
        "Modulo 2**32 half of it more is half of it less.",
        {
            "wrapped = ((a << b) + (1 << 31) & 0xFFFFFFFF) - (1 << 31)": ("+ -> -",),
        },
    ),
    **same(
        "workbench/npu/elementwise.py",
        "All 32 bits are shifted out either way.",
        {
            "_SHIFT_MOST = 62": ("62 -> (62 + 1)",),
        },
    ),
    **same(
        "workbench/npu/machine.py",
        "Another format always stands before the one that keeps.",
        {
            'command.name == "NPU_SET_ACC_FORMAT" and command.parameter >> 4 & 3 == _KEEP': (
                "== -> !=",
            ),
        },
    ),
    **same(
        "workbench/npu/output_stage.py",
        "Indices from the end name the same entries.",
        {
            "outputs: Integers = self._data[values - least].astype(np.int64)": ("- -> +",),
        },
    ),
    **same(
        "workbench/npu/output_stage.py",
        "Only double rounding asks for it.",
        {
            "self._rounding, self._double = Rounding.NATURAL, 0": ("0 -> (0 + 1)",),
        },
    ),
    **same(
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
    **same(
        "workbench/npu/output_stage.py",
        "Half a unit more than a whole number is cut off.",
        {
            "half = np.where(shift > 0, parts / 2, 0)": ("> -> >=",),
        },
    ),
    **same(
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
    **same(
        "workbench/npu/output_stage.py",
        "A first look: the sums are compared one by one.",
        {
            "largest = 0 if self._bias is None else arithmetic.magnitude(self._bias)": (
                "0 -> (0 + 1)",
            ),
        },
    ),
    **same(
        "workbench/npu/pooling.py",
        "Beyond every value of a feature map.",
        {
            "_FAR = 1 << 40": ("40 -> (40 + 1)",),
        },
    ),
    **same(
        "workbench/npu/pooling.py",
        "How near to one a factor is that only moves data.",
        {
            "_NEARLY_ONE = 20": ("20 -> (20 + 1)",),
            "return abs(scale.scale - (1 << scale.shift)) > 1 << scale.shift >> _NEARLY_ONE": (
                "1 -> (1 + 1)",
            ),
        },
    ),
    **same(
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
    **same(
        "workbench/npu/program.py",
        "No list and an empty one are compared, and asked for truth.",
        {
            "return ()": ("() -> None",),
        },
    ),
    **same(
        "workbench/npu/state.py",
        "How far back an equal remark is looked for.",
        {
            "if finding not in self.findings[-8:]:": ("8 -> (8 + 1)",),
        },
    ),
    **same(
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
    **same(
        "workbench/npu/transfers.py",
        "Without its sign it is larger than each largest index.",
        {
            'index = int.from_bytes(data.tobytes(), "little", signed=True)': ("True -> False",),
        },
    ),
    **same(
        "workbench/npu/weight_loading.py",
        "A key of the cache: other bytes name the same.",
        {
            "digest = hashlib.blake2b(digest_size=16)": ("16 -> (16 + 1)",),
            'digest.update(len(stream).to_bytes(8, "little"))': ("8 -> (8 + 1)",),
        },
    ),
    **same(
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
    **same(
        "workbench/npu/weight_order.py",
        "Blocks have eight channels; it keeps damaged programs from having none.",
        {
            "step = max(1, (geometry.block_depth + geometry.streams - 1 - stream) "
            "// geometry.streams)": ("1 -> (1 + 1)",),
        },
    ),
    **same(
        "workbench/npu/weights.py",
        "Zeros behind the stream, of which some are left over.",
        {
            "padded = np.frombuffer(data + bytes(16), np.uint8)": ("16 -> (16 + 1)",),
            'windows: _Array = np.ndarray((len(data) + 8,), "<u8", padded.data, 0, (1,))': (
                "8 -> (8 + 1)",
            ),
        },
    ),
    **same(
        "workbench/npu/weights.py",
        "Indices of 2 and 4 bits: 9 // 2 is 8 // 2, 9 // 4 is 8 // 4.",
        {
            "per_byte = 8 // bits": ("8 -> (8 + 1)",),
        },
    ),
    **same(
        "workbench/npu/weights.py",
        "What ends too late is refused a little later too.",
        {
            "if at + count > self.bits:": ("+ -> -",),
            "if weights.size + int(runs.sum()) > stream.limit:": ("+ -> -",),
        },
    ),
    **same(
        "workbench/npu/weights.py",
        "Only slices with runs have a divisor of runs.",
        {
            "run_divisor=zdiv if has_runs else 0,": ("0 -> (0 + 1)",),
        },
    ),
    **same(
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
    **same(
        "workbench/npu/weights.py",
        "Each number below zero stands for none.",
        {
            "pending = run_pending = -1": ("1 -> (1 + 1)",),
        },
    ),
    **same(
        "workbench/npu/weights.py",
        "Behind the last bit only remainders of no bits are left.",
        {
            "while at <= stream.bits:": ("<= -> <",),
        },
    ),
    **same(
        "workbench/npu/weights.py",
        "It is set where it is used.",
        {
            "word, ahead, first, bits = words[at >> 3] >> (at & 7), weights - runs, 0, 0": (
                "0 -> (0 + 1)",
            ),
        },
    ),
    **same("workbench/npu/inputs.py", "Each seed is as good.", {"SEED = 0": ("0 -> (0 + 1)",)}),
    **same(
        "workbench/npu/memory.py",
        "Each number that no region has.",
        {
            "TABLES = -1": ("1 -> (1 + 1)",),
        },
    ),
    **same(
        "workbench/npu/output_stage.py",
        "Only tables of pairs are narrow or wide.",
        {
            "def __init__(self, data: _Array, *, signed: bool, pairs: bool, wide: bool = False) "
            "-> None:": ("False -> True",),
        },
    ),
    **same(
        "workbench/npu/state.py",
        "How many decoded weights are kept: others are decoded again.",
        {
            "def __init__(self, limit: int = 512 << 20) -> None:": (
                "512 -> (512 + 1)",
                "20 -> (20 + 1)",
            ),
        },
    ),
    **same(
        "workbench/npu/transfers.py",
        "About how much a row costs.",
        {
            "_ROW_WORK = 20_000": ("20_000 -> (20000 + 1)",),
        },
    ),
    **same(
        "workbench/npu/weights.py",
        "An index of four bits names one of 16.",
        {
            "_FAST_PALETTE_AT, _FAST_PALETTE, _FAST_BITS = 112, 16, 9": ("16 -> (16 + 1)",),
        },
    ),
    **same(
        "workbench/npu/windows.py",
        "The view is not written.",
        {
            "writeable=False,": ("False -> True",),
        },
    ),
}

"""What a TensorFlow Lite file says of itself: its inputs, outputs and operators.

Source: TensorFlow Lite, ``schema.fbs`` (tables and the order of their fields).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from workbench.errors import Place, failure
from workbench.pte.flat import Data, Table, damaged

MARK = b"TFL3"
VELA_OPERATOR = "ethos-u"
_CUSTOM, _PREFIX = 32, "tflite::"
DTYPES = {
    0: "float32",
    1: "float16",
    2: "int32",
    3: "uint8",
    4: "int64",
    6: "bool",
    7: "int16",
    9: "int8",
    10: "float64",
    15: "uint32",
    16: "uint16",
}
# Operators by their number, from schema.fbs; others are shown by their number.
_NAMES = {
    0: "ADD",
    1: "AVERAGE_POOL_2D",
    2: "CONCATENATION",
    3: "CONV_2D",
    4: "DEPTHWISE_CONV_2D",
    5: "DEPTH_TO_SPACE",
    6: "DEQUANTIZE",
    7: "EMBEDDING_LOOKUP",
    8: "FLOOR",
    9: "FULLY_CONNECTED",
    11: "L2_NORMALIZATION",
    14: "LOGISTIC",
    16: "LSTM",
    17: "MAX_POOL_2D",
    18: "MUL",
    19: "RELU",
    20: "RELU_N1_TO_1",
    21: "RELU6",
    22: "RESHAPE",
    23: "RESIZE_BILINEAR",
    25: "SOFTMAX",
    26: "SPACE_TO_DEPTH",
    28: "TANH",
    34: "PAD",
    36: "GATHER",
    37: "BATCH_TO_SPACE_ND",
    38: "SPACE_TO_BATCH_ND",
    39: "TRANSPOSE",
    40: "MEAN",
    41: "SUB",
    42: "DIV",
    43: "SQUEEZE",
    44: "UNIDIRECTIONAL_SEQUENCE_LSTM",
    45: "STRIDED_SLICE",
    47: "EXP",
    48: "TOPK_V2",
    49: "SPLIT",
    50: "LOG_SOFTMAX",
    53: "CAST",
    54: "PRELU",
    55: "MAXIMUM",
    56: "ARG_MAX",
    57: "MINIMUM",
    58: "LESS",
    59: "NEG",
    60: "PADV2",
    61: "GREATER",
    62: "GREATER_EQUAL",
    63: "LESS_EQUAL",
    64: "SELECT",
    65: "SLICE",
    66: "SIN",
    67: "TRANSPOSE_CONV",
    69: "TILE",
    70: "EXPAND_DIMS",
    71: "EQUAL",
    72: "NOT_EQUAL",
    73: "LOG",
    74: "SUM",
    75: "SQRT",
    76: "RSQRT",
    77: "SHAPE",
    78: "POW",
    79: "ARG_MIN",
    82: "REDUCE_MAX",
    83: "PACK",
    88: "UNPACK",
    92: "SQUARE",
    93: "ZEROS_LIKE",
    94: "FILL",
    97: "RESIZE_NEAREST_NEIGHBOR",
    98: "LEAKY_RELU",
    99: "SQUARED_DIFFERENCE",
    100: "MIRROR_PAD",
    101: "ABS",
    102: "SPLIT_V",
    104: "CEIL",
    105: "REVERSE_V2",
    108: "COS",
    111: "ELU",
    114: "QUANTIZE",
    116: "ROUND",
    117: "HARD_SWISH",
    118: "IF",
    119: "WHILE",
    120: "NON_MAX_SUPPRESSION_V4",
    121: "NON_MAX_SUPPRESSION_V5",
    122: "SCATTER_ND",
    123: "SELECT_V2",
    126: "BATCH_MATMUL",
    128: "CUMSUM",
    129: "CALL_ONCE",
    130: "BROADCAST_TO",
    142: "VAR_HANDLE",
    143: "READ_VARIABLE",
    144: "ASSIGN_VARIABLE",
    150: "GELU",
}
_INTEGERS = frozenset({"int8", "uint8", "int16"})


@dataclass(frozen=True)
class TfliteTensor:
    """An input or output: a real value is (code - ``zero_point``) * ``scale``.

    ``scale`` is 0 for a tensor that is not quantized.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    scale: float
    zero_point: int


@dataclass(frozen=True)
class TfliteModel:
    """The first graph of a file.

    Attributes:
        inputs: In the order of the file.
        outputs: In the order of the file.
        operators: The name of each operator, in the order in which they are computed; "ethos-u"
            for what Vela compiled.
        integer_operators: How many of them compute integers of 8 or 16 bits.
    """

    inputs: tuple[TfliteTensor, ...]
    outputs: tuple[TfliteTensor, ...]
    operators: tuple[str, ...]
    integer_operators: int

    @property
    def is_compiled(self) -> bool:
        """Whether Vela has compiled the file."""
        return VELA_OPERATOR in self.operators

    @property
    def on_cpu(self) -> dict[str, int]:
        """The operators that Vela left to the CPU, with how many there are of each."""
        names = (name.removeprefix(_PREFIX) for name in self.operators if name != VELA_OPERATOR)
        return dict(Counter(names))


def check_mark(data: bytes | memoryview, name: str = "program") -> None:
    """Check that a file begins as a TensorFlow Lite file does; ``name`` is its name in messages.

    Raises:
        WorkbenchError: It does not.
    """
    if bytes(data[4:8]) != MARK:
        raise failure(
            "This is no TensorFlow Lite file.",
            "Give a .tflite with integers of 8 or 16 bits, as TensorFlow's converter writes it.",
            Place(kind="file", id=name),
            code="tflite-not-a-model",
        )


def read_tflite(data: bytes | memoryview) -> TfliteModel:
    """Return what a TensorFlow Lite file holds, compiled by Vela or not.

    Raises:
        WorkbenchError: It is no TensorFlow Lite file, or damaged.
    """
    check_mark(data)
    root = Data(memoryview(data)).root()
    buffers = [table.bytes(0) for table in root.tables(4)]
    names = [operator_name(code) for code in root.tables(1)]
    graph = next(root.tables(2), None)
    if graph is None:
        raise damaged("it has no graph")
    tensors = [_tensor(table, len(buffers)) for table in graph.tables(0)]
    operators, integers = list[str](), 0
    for table in graph.tables(3):
        number = table.whole(0, "I")
        if number >= len(names):
            raise damaged("an operator is named that does not exist")
        operators.append(names[number])
        outputs = _named(tensors, table.numbers(2, "i"))
        integers += any(tensor.dtype in _INTEGERS for tensor in outputs)
    return TfliteModel(
        inputs=_named(tensors, graph.numbers(1, "i")),
        outputs=_named(tensors, graph.numbers(2, "i")),
        operators=tuple(operators),
        integer_operators=integers,
    )


def operator_name(code: Table) -> str:
    """Return the name of an operator code; that of a custom operator is its own."""
    number = max(code.whole(3, "i"), code.whole(0, "b"))
    if number == _CUSTOM:
        return code.text(1)
    return f"{_PREFIX}{_NAMES.get(number, f'builtin operator {number}')}"


def _tensor(table: Table, buffers: int) -> TfliteTensor:
    if table.whole(2, "I") >= buffers:
        raise damaged("a tensor names a buffer that does not exist")
    grid = table.table(4)
    scales = grid.reals(2) if grid is not None else ()
    zeros = grid.numbers(3, "q") if grid is not None else ()
    return TfliteTensor(
        name=table.text(3),
        dtype=DTYPES.get(table.whole(1, "b"), ""),
        shape=table.numbers(0, "i"),
        scale=scales[0] if scales else 0.0,
        zero_point=zeros[0] if zeros else 0,
    )


def _named(tensors: list[TfliteTensor], indices: tuple[int, ...]) -> tuple[TfliteTensor, ...]:
    if any(not -1 <= index < len(tensors) for index in indices):
        raise damaged("a tensor is named that does not exist")
    return tuple(tensors[index] for index in indices if index >= 0)

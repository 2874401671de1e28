"""Strict reader of ``.pt2`` files (``torch.export.save``): what it returns cannot run code.

Only listed records, fields, operators and formats pass. The engine loads a program that is not
trusted from what this reader returns, never from the file, so that no other reader of the same
bytes can find anything else in them. The fields are those of torch 2.13
(``torch/_export/serde/schema.py``, schema version 8).

A loaded graph becomes Python source, in which names stand as they are: names are identifiers.
"""

from __future__ import annotations

import ast
import io
import json
import keyword
import math
import pickletools
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.files import open_regular
from workbench.project.pt2_schema import OPTIONAL, RECORDS, UNIONS, words
from workbench.text import parse_expression

MODEL = "models/model.json"
SAMPLE_INPUTS = "data/sample_inputs/model.pt"
WEIGHTS_CONFIG = "data/weights/model_weights_config.json"
CONSTANTS_CONFIG = "data/constants/model_constants_config.json"

_PLAIN = {"archive_format": {b"pt2"}, "archive_version": {b"0"}, "byteorder": {b"little"}}
_UNREAD = re.compile(r"version|\.data/version|\.data/serialization_id|\.format_version")
_PAYLOAD = re.compile(r"data/(weights/weight|constants/tensor)_\d{1,6}")
_SCHEMA_MAJOR = 8
# An exported graph of 10,000 nodes takes 20 MB and 2 million values.
_MAX_JSON_BYTES = 48 << 20
_MAX_JSON_ITEMS = 6_000_000
_MAX_PICKLE_BYTES = 1 << 20
_MAX_RECORDS = 100_000
_MAX_ELEMENTS = 1 << 31
_SMALL_TENSOR_BYTES = 1 << 20
# Of the first local file and of the end of a ZIP archive without a comment.
_HEADER, _END, _END_BYTES = b"PK\x03\x04", b"PK\x05\x06", 22
# Bytes per element of torch's scalar types, by number (``ScalarType`` of the schema).
_ITEM_BYTES = {
    1: 1,
    2: 1,
    3: 2,
    4: 4,
    5: 8,
    6: 2,
    7: 4,
    8: 8,
    9: 4,
    10: 8,
    11: 16,
    12: 1,
    13: 2,
    28: 2,
    29: 1,
    30: 1,
    31: 1,
    32: 1,
    33: 1,
    34: 4,
    35: 8,
}

_TARGET = re.compile(
    r"torch\.ops\.(aten|prims|quantized_decomposed)\.[a-zA-Z_]\w*\.\w+|"
    r"torch\.ops\.higher_order\.(cond|while_loop|map_impl|scan|associative_scan|"
    r"wrap_with_set_grad_enabled|wrap_with_autocast)|"
    r"_operator\.(add|sub|mul|truediv|floordiv|mod|pow|neg|pos|eq|ne|lt|le|gt|ge|and_|or_|not_|"
    r"xor|abs|getitem|lshift|rshift)|"
    r"math\.(ceil|floor|trunc|sqrt)|torch\.sym_(float|int|max|min|not|ite|sum|sqrt)|"
    r"torch\._sym_(sqrt|log2)"
)
# Operators of aten that read or write files, print, or take objects that are no tensors.
_EXCLUDED = re.compile(
    r"torch\.ops\.aten\.(from_file|save|load|warn|_print|set|set_|Delete|_set_item|percentFormat|"
    r"format|record_stream|_test_\w+)\..*"
)
_SYMBOL = re.compile(r"[suz]{1,2}\d{1,6}")
_FUNCTIONS = words(
    "Add Mul Integer Rational Max Min Mod PythonMod FloorDiv CleanDiv CeilDiv IntTrueDiv "
    "FloatTrueDiv ToFloat TruncToInt CeilToInt FloorToInt RoundToInt Identity ModularIndexing "
    "Where Eq Ne Gt Ge Lt Le And Or Not Abs Equality Unequality GreaterThan LessThan "
    "StrictGreaterThan StrictLessThan"
)
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.BitAnd, ast.BitOr)
_SOURCE_FN = re.compile(r"[\w.]+,torch\.(nn\.functional|nn\.modules\.[a-z]\w*|_C\._nn|)\.?[a-zA-Z]\w*")
_CONTAINERS = {"builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"}
_OPCODES = words(
    "PROTO EMPTY_TUPLE GLOBAL BINPUT LONG_BINPUT BINGET LONG_BINGET MARK TUPLE TUPLE1 TUPLE2 "
    "TUPLE3 BINUNICODE BINPERSID BININT BININT1 BININT2 LONG1 BINFLOAT REDUCE EMPTY_DICT "
    "EMPTY_LIST SETITEM SETITEMS APPEND APPENDS NONE NEWTRUE NEWFALSE STOP"
)
_GLOBALS = re.compile(
    r"collections OrderedDict|torch\._utils _rebuild_(tensor_v2|parameter)|"
    r"torch (Float|Double|Half|BFloat16|Long|Int|Short|Char|Byte|Bool)Storage"
)
_INNER = re.compile(
    r"data\.pkl|data/\d{1,6}|version|byteorder|\.format_version|\.storage_alignment|"
    r"\.data/serialization_id"
)


# What Python raises for a description that has another structure than a checked one.
_MALFORMED = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RecursionError,
    OverflowError,
    IndexError,
    NotImplementedError,
    RuntimeError,
    EOFError,
    zlib.error,
    struct.error,
    zipfile.BadZipFile,
)


class UnreadableArchiveError(Exception):
    """The file is no whole archive; it is not loaded, trusted or not."""


class DoubtfulArchiveError(Exception):
    """The archive holds something that is not listed; loading it may run code."""


@dataclass(frozen=True)
class SafeProgram:
    """The records of a program that was read strictly.

    ``records`` maps names without the root folder to bytes. The graph's JSON is written anew from
    what was checked, without guards and free metadata.
    """

    records: dict[str, bytes]


def risks(path: Path) -> list[str]:
    """Return why loading a program may run code; [] if it cannot, or if it cannot be loaded."""
    try:
        with open_regular(path) as file:
            _read(file, with_weights=False)
    except DoubtfulArchiveError as doubt:
        return [str(doubt)]
    except (UnreadableArchiveError, OSError):
        return []
    return []


def read(data: bytes) -> SafeProgram:
    """Return the records of a program.

    Raises:
        UnreadableArchiveError: the bytes are no whole archive.
        DoubtfulArchiveError: they hold something that is not listed.
    """
    return _read(io.BytesIO(data), with_weights=True)


def _read(file: Any, *, with_weights: bool) -> SafeProgram:
    try:
        with zipfile.ZipFile(file) as archive:
            sizes = _sizes(archive, _known_record)
            root = archive.namelist()[0].partition("/")[0]
            records = {
                name: archive.read(f"{root}/{name}")
                for name in sizes
                if with_weights or not _PAYLOAD.fullmatch(name)
            }
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, struct.error, OverflowError) as error:
        raise UnreadableArchiveError(str(error)) from error
    except (ValueError, NotImplementedError, RuntimeError, KeyError, IndexError) as error:
        raise DoubtfulArchiveError("is not written by torch.export.save") from error
    try:
        return SafeProgram(_checked(records, sizes))
    except _MALFORMED as error:
        raise DoubtfulArchiveError("contains a description that cannot be checked") from error


def _known_record(name: str, size: int) -> None:
    if name.endswith(".json") or name in _PLAIN or _UNREAD.fullmatch(name):
        if name not in {MODEL, WEIGHTS_CONFIG, CONSTANTS_CONFIG} and name.endswith(".json"):
            raise DoubtfulArchiveError(f"contains the unknown record {_shown(name)}")
        if size > _MAX_JSON_BYTES:
            raise DoubtfulArchiveError("contains a graph that is too large to check")
    elif name != SAMPLE_INPUTS and not _PAYLOAD.fullmatch(name):
        raise DoubtfulArchiveError(f"contains the unknown record {_shown(name)}")


def _sizes(archive: zipfile.ZipFile, check: Any) -> dict[str, int]:
    """Return the size of every record; all are below one folder, stored, and named once."""
    entries = archive.infolist()
    if not entries or len(entries) > _MAX_RECORDS:
        raise DoubtfulArchiveError(f"contains {len(entries)} records")
    root = entries[0].filename.partition("/")[0]
    sizes: dict[str, int] = {}
    seen: set[str] = set()
    for entry in entries:
        folder, _, name = entry.filename.partition("/")
        if folder != root or entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            raise DoubtfulArchiveError(f"contains the unknown record {_shown(entry.filename)}")
        if name.lower() in seen or entry.compress_size != entry.file_size:
            raise DoubtfulArchiveError(f"contains the record {_shown(name)} twice")
        check(name, entry.file_size)
        seen.add(name.lower())
        sizes[name] = entry.file_size
    return sizes


def _checked(records: dict[str, bytes], sizes: dict[str, int]) -> dict[str, bytes]:
    for name in (MODEL, WEIGHTS_CONFIG, CONSTANTS_CONFIG, SAMPLE_INPUTS):
        if name not in records:
            raise UnreadableArchiveError(f"it lacks {name}")
    for name, values in _PLAIN.items():
        if records.get(name, next(iter(values)) if name == "byteorder" else b"") not in values:
            raise DoubtfulArchiveError(f"has another {name}")
    program = _json(records[MODEL])
    _check(program, "ExportedProgram")
    if program["schema_version"]["major"] != _SCHEMA_MAJOR:
        raise DoubtfulArchiveError("has another schema version")
    _clean(program)
    for name in (WEIGHTS_CONFIG, CONSTANTS_CONFIG):
        config = _json(records[name])
        _check(config, "PayloadConfig")
        _check_payloads(config["config"], name.rpartition("/")[0], sizes)
    if records[SAMPLE_INPUTS]:
        _check_sample_inputs(records[SAMPLE_INPUTS])
    return {**records, MODEL: json.dumps(program).encode()}


def _json(data: bytes) -> Any:
    if len(data) > _MAX_JSON_BYTES or sum(map(data.count, b"[{,")) > _MAX_JSON_ITEMS:
        raise DoubtfulArchiveError("contains a graph that is too large to check")
    return json.loads(data.decode(), object_pairs_hook=_distinct, parse_int=_number)


def _number(text: str) -> int:
    if len(text) > 20:
        raise DoubtfulArchiveError("contains a number that is too large")
    return int(text)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise DoubtfulArchiveError("contains a field twice")
    return values


_PYTHON: dict[str, type] = {"int": int, "bool": bool, "string": str, "text": str}


def _check(value: Any, kind: str) -> None:
    if kind.startswith("?"):
        if value is not None:
            _check(value, kind[1:])
    elif kind.startswith("["):
        if not isinstance(value, list):
            raise DoubtfulArchiveError("contains a field of another kind")
        for item in value:
            _check(item, kind[1:-1])
    elif kind[0] in "{<":
        for key, item in value.items():
            _check(key, "name" if kind[0] == "<" else "string")
            _check(item, kind[1:-1])
    elif kind in RECORDS:
        _check_record(value, kind)
    else:
        _check_value(value, kind)


def _check_record(value: Any, kind: str) -> None:
    fields = RECORDS[kind]
    if unknown := [key for key in value if key not in fields]:
        raise DoubtfulArchiveError(f"contains the unknown field {_shown(unknown[0])} of {kind}")
    if kind in UNIONS:
        if len(value) != 1:
            raise DoubtfulArchiveError(f"contains an ambiguous {kind}")
    elif lacking := [
        key
        for key, sort in fields.items()
        if key not in value and not sort.startswith("?") and key not in OPTIONAL
    ]:
        raise DoubtfulArchiveError(f"lacks the field {lacking[0]} of {kind}")
    for key, item in value.items():
        _check(item, fields[key])
    if kind == "TensorMeta" and _elements(value) > _MAX_ELEMENTS:
        raise DoubtfulArchiveError("contains a tensor that is too large")


def _check_value(value: Any, kind: str) -> None:
    if kind in _PYTHON:
        if type(value) is not _PYTHON[kind]:
            raise DoubtfulArchiveError("contains a field of another kind")
        plain = str(value) if kind == "string" else str(value).replace("\n", "").replace("\t", "")
        if not plain.isprintable():
            raise DoubtfulArchiveError("contains a text with control characters")
    elif kind == "float":
        if type(value) not in {int, float} and value not in {"Infinity", "-Infinity", "NaN"}:
            raise DoubtfulArchiveError("contains a field of another kind")
    elif not _TEXTS[kind](value):
        raise DoubtfulArchiveError(_REASONS.get(kind, "contains {}").format(_shown(value)))


def _is_name(value: Any) -> bool:
    return bool(re.fullmatch(r"[A-Za-z_]\w{0,500}", value, re.ASCII)) and not keyword.iskeyword(value)


def _is_path(value: Any) -> bool:
    """Return whether a value is a dotted path of attributes; numbers name modules of a list."""
    return bool(re.fullmatch(r"[\w.@]{0,2000}", value, re.ASCII)) and "__class__" not in value


def _is_target(value: Any) -> bool:
    return (
        bool(_TARGET.fullmatch(value))
        and not _EXCLUDED.fullmatch(value)
        and not any(part.startswith("__") for part in value.split(".")[-1:])
    )


def _is_expression(text: Any) -> bool:
    """Return whether a size is arithmetic of symbols, numbers and known functions.

    torch writes sizes as ``sympy.srepr`` does: ``Add(Symbol('s0', integer=True), Integer(1))``.
    """
    if len(text) > 10_000 or not text.isascii():
        return False
    try:
        tree = parse_expression(text.strip())
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return _is_term(tree.body)


def _is_term(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=value):
            known = type(value) is int and abs(value) < 1 << 63
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert(), operand=operand):
            known = _is_term(operand)
        case ast.BinOp(left=left, op=op, right=right):
            known = isinstance(op, _OPERATORS) and _is_term(left) and _is_term(right)
        case ast.Compare(left=left, comparators=others):
            known = all(map(_is_term, (left, *others)))
        case ast.Call(func=ast.Name(id="Pow"), args=[base, power], keywords=[]):
            known = _is_symbol(base) and _is_term(power)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            known = all(map(_is_term, arguments))
        case _:
            known = _is_symbol(node)
    return known


def _is_symbol(node: ast.expr) -> bool:
    """Return whether a term is a symbol; a power of a number could take for ever."""
    match node:
        case ast.Name(id=name):
            return bool(_SYMBOL.fullmatch(name))
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))]):
            # Assumptions: positive=True, integer=True.
            plain = all(isinstance(word.value, ast.Constant) for word in node.keywords)
            return bool(_SYMBOL.fullmatch(name)) and plain
    return False


def _is_treespec(text: Any, *, of_inputs: bool) -> bool:
    protocol, spec = _json(text.encode())
    stack = [spec]
    while stack:
        item = stack.pop()
        kind, context, children = item["type"], item["context"], item["children_spec"]
        if set(item) != {"type", "context", "children_spec"}:
            return False
        stack.extend(children)
        if kind is None:
            if context is not None or children:
                return False
            continue
        keys = _json(context.encode())
        if kind not in _CONTAINERS or not (keys is None or all(type(key) in {str, int} for key in keys)):
            return False
        for key in keys or ():
            if isinstance(key, str) and not (_is_name(key) if of_inputs else key.isprintable()):
                return False
    return bool(protocol == 1)


_TEXTS: dict[str, Callable[[Any], bool]] = {
    "name": _is_name,
    "maybe_name": lambda value: value == "" or _is_name(value),
    "path": _is_path,
    "target": _is_target,
    "expression": _is_expression,
    "in_spec": lambda value: _is_treespec(value, of_inputs=True),
    "out_spec": lambda value: _is_treespec(value, of_inputs=False),
    "device": lambda value: value in {"cpu", "meta"},
    "verifier": lambda value: value in {"TRAINING", "ATEN", "EDGE"},
    "nothing": lambda value: value == {},
}
_REASONS = {
    "target": "calls {}",
    "expression": "contains a size that is not arithmetic",
    "in_spec": "contains inputs of an unknown structure",
    "out_spec": "contains outputs of an unknown structure",
    "nothing": "contains script objects or named tuples",
    "device": "is exported for the device {}",
}


def _clean(program: dict[str, Any]) -> None:
    """Remove what describes a graph in free text or as code and is not needed to run it."""
    program["guards_code"] = []
    module = program["graph_module"]
    module["metadata"] = {}
    graphs = [module["graph"]]
    while graphs:
        graph = graphs.pop()
        for node in graph["nodes"]:
            node["metadata"] = _plain_metadata(node["metadata"])
            graphs.extend(
                argument["arg"]["as_graph"]["graph"]
                for argument in node["inputs"]
                if "as_graph" in argument["arg"]
            )


def _plain_metadata(metadata: dict[str, str]) -> dict[str, str]:
    kept = {key: metadata[key] for key in ("stack_trace", "nn_module_stack", "torch_fn") if metadata.get(key)}
    functions = metadata.get("source_fn_stack", "")
    if functions and all(_SOURCE_FN.fullmatch(item) for item in functions.split(";")):
        kept["source_fn_stack"] = functions
    return kept


def _check_payloads(config: dict[str, Any], folder: str, sizes: dict[str, int]) -> None:
    for payload in config.values():
        name = f"{folder}/{payload['path_name']}"
        meta = payload.get("tensor_meta")
        if payload["use_pickle"] or meta is None or not _PAYLOAD.fullmatch(name):
            raise DoubtfulArchiveError("contains script objects or pickled tensors")
        if meta["device"]["type"] != "cpu" or meta["dtype"] not in _ITEM_BYTES:
            raise DoubtfulArchiveError("contains tensors of another device")
        needed = _elements(meta) * _ITEM_BYTES[meta["dtype"]]
        if needed > (max(sizes[name], _SMALL_TENSOR_BYTES) if sizes[name] else 0):
            raise DoubtfulArchiveError("contains a tensor that is larger than its record")


def _elements(meta: dict[str, Any]) -> int:
    """Return the number of elements; free sizes count as one."""
    return math.prod(abs(size.get("as_int", 1)) for size in meta["sizes"])


def _check_sample_inputs(data: bytes) -> None:
    """Check a file of ``torch.save`` for anything but tensors in tuples, lists and dicts."""

    def known(name: str, size: int) -> None:
        if not _INNER.fullmatch(name) or (name == "data.pkl" and size > _MAX_PICKLE_BYTES):
            raise DoubtfulArchiveError("contains a pickle that can run code")

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if not data.startswith(_HEADER) or not data[-_END_BYTES:].startswith(_END):
            raise DoubtfulArchiveError("contains a pickle that can run code")
        sizes = _sizes(archive, known)
        root = archive.namelist()[0].partition("/")[0]
        pickled = archive.read(f"{root}/data.pkl")
        for name in sizes:
            archive.read(f"{root}/{name}")
    if not is_plain_pickle(pickled):
        raise DoubtfulArchiveError("contains a pickle that can run code")


def is_plain_pickle(data: bytes) -> bool:
    """Return whether a pickle only rebuilds tensors: listed opcodes and globals, nothing after."""
    end = -1
    try:
        for opcode, argument, position in pickletools.genops(data):
            if opcode.name not in _OPCODES:
                return False
            if opcode.name == "GLOBAL" and not _GLOBALS.fullmatch(str(argument)):
                return False
            if isinstance(argument, int) and abs(argument) >= 1 << 40:
                return False
            end = position or 0
    except (ValueError, KeyError, IndexError, UnicodeDecodeError, struct.error):
        return False
    return end == len(data) - 1


def _shown(value: object) -> str:
    """Return a value of the file for a message: short, one line, printable."""
    text = str(value)[:80]
    return "".join(letter if letter.isprintable() else "?" for letter in text)

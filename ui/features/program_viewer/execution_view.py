"""Executes a program on the functional simulator, operation by operation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QPushButton, QSplitter, QVBoxLayout, QWidget

from ui.features.program_viewer.program_contents import TFLITE_SUFFIX
from ui.shared.counter_table import COUNTER_COLUMNS, DELEGATE, MODULE, describe_counters
from ui.shared.file_dialogs import ask_to_open
from ui.shared.forms import make_primary
from ui.shared.labels import Label, literal
from ui.shared.number_format import DASH, count
from ui.shared.sortable_table import Column, FigureTableModel, FigureView
from ui.shared.theme import Theme
from ui.state.background import Background
from workbench.errors import WorkbenchError
from workbench.results.simulation import OperationCounters

if TYPE_CHECKING:
    from workbench.npu.memory import Access
    from workbench.npu.program import Program, Result
    from workbench.npu.state import Options

RANDOM = "Random inputs, seed 0"
NOT_EXECUTED = "Press Execute to compute the program on the functional simulator."
NO_OPERATION = "Select an operation to see what it reads and writes."
VECTORS = "Test vectors of the program"
_VALUES_SHOWN = 4096
_TOPIC, _STEP = "execute", "step"


@dataclass(frozen=True)
class OutputRow:
    """An output, or a tensor of an operation: range of its values, and what was expected."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    low: float
    high: float
    mean: float
    differing: int | None = None
    largest: float | None = None


TENSOR_COLUMNS: tuple[Column[OutputRow], ...] = (
    Column("Tensor", lambda r: r.name),
    Column("Type", lambda r: r.dtype),
    Column("Shape", lambda r: "\u00d7".join(map(str, r.shape)) or "scalar"),
    Column("Minimum", lambda r: f"{r.low:.6g}", lambda r: r.low),
    Column("Maximum", lambda r: f"{r.high:.6g}", lambda r: r.high),
    Column("Mean", lambda r: f"{r.mean:.6g}", lambda r: r.mean),
)
OUTPUT_COLUMNS: tuple[Column[OutputRow], ...] = (
    *TENSOR_COLUMNS[:1],
    Column(
        "Differing",
        lambda r: DASH if r.differing is None else count(r.differing),
        lambda r: r.differing,
        "Elements that differ from the test vector of the program, or from the reference",
    ),
    Column(
        "By at most",
        lambda r: DASH if r.largest is None else f"{r.largest:.6g}",
        lambda r: r.largest,
        "The largest difference from the test vector of the program, or from the reference",
    ),
    *TENSOR_COLUMNS[1:],
)
# Columns of the outputs that only a comparison fills.
_COMPARED = 1, 2


@dataclass(frozen=True)
class Executed:
    """A program after a run, with the inputs of the run."""

    program: Program
    inputs: tuple[Any, ...]
    result: Result
    outputs: tuple[OutputRow, ...]


class ExecutionView(QWidget):
    """Runs the program in a worker thread; lists operations and what they read and wrote."""

    def __init__(self, background: Background, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._path: Path | None = None
        self._method = ""
        self._inputs: Path | None = None
        self._reference: Path | None = None
        self._executed: Executed | None = None
        self._pending_command: tuple[int, int] | None = None
        self._build()
        background.done.connect(self._on_done)

    def render_method(self, path: Path, method: str, *, has_vectors: bool) -> None:
        """Set the program and its entry point."""
        self._path, self._method = path, method
        self._inputs = self._reference = None
        self.refer.setVisible(path.suffix == TFLITE_SUFFIX)
        self.referred.setText("")
        self.source.setText(VECTORS if has_vectors else RANDOM)
        self.note.setText("Values of the compiled program, executed on the simulator (no timing).")
        self._clear()

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        for table in (self.operation_table, self.output_table, self.tensor_table):
            table.set_look(theme, stale=False)

    def take_inputs(self, path: str) -> None:
        """Use the arrays in0, in1, ... of an .npz file."""
        self._inputs = Path(path)
        self.source.setText(self._inputs.name)
        self.source.setToolTip(literal(path))

    def take_reference(self, path: str) -> None:
        """Compare outputs with those of the .tflite from before Vela, by LiteRT's kernels."""
        self._reference = Path(path)
        self.referred.setText(f"compared with {self._reference.name}")
        self.referred.setToolTip(literal(path))

    def execute(self) -> None:
        """Run the program from the start."""
        if self._path is not None:
            self.note.setText("Executing\u2026")
            self.run.setEnabled(False)
            work = partial(execute, self._path, self._method, self._inputs, self._reference)
            self._background.submit(_TOPIC, lambda _outdated: work())

    def step_to(self, delegate: int, offset: int) -> None:
        """Run the program, and then choose the operation at an offset [bytes]."""
        self._pending_command = delegate, offset
        self.execute()

    def _build(self) -> None:
        self.choose = QPushButton("Inputs\u2026", self)
        self.choose.setToolTip("An .npz file with the arrays in0, in1, \u2026")
        self.choose.clicked.connect(self._ask)
        self.source = Label(RANDOM, self)
        self.refer = QPushButton("Reference\u2026", self)
        self.refer.setToolTip("The .tflite from before Vela, computed by LiteRT's reference kernels")
        self.refer.clicked.connect(self._ask_for_reference)
        self.referred = Label("", self)
        self.run = QPushButton("Execute", self)
        make_primary(self.run)
        self.run.clicked.connect(self.execute)
        self.note = Label("", self)
        self.note.setObjectName("Hint")
        self.note.setWordWrap(True)
        self.outputs = FigureTableModel(OUTPUT_COLUMNS, lambda r: r.name, self)
        self.output_table = FigureView("Outputs", self.outputs, self, empty=NOT_EXECUTED)
        self.output_table.rows_chosen.connect(self._on_output_chosen)
        self.operations = FigureTableModel(COUNTER_COLUMNS, describe_counters, self)
        self.operation_table = FigureView("Executed operations", self.operations, self, empty=NOT_EXECUTED)
        self.operation_table.rows_chosen.connect(self._on_operation_chosen)
        self.tensors = FigureTableModel(TENSOR_COLUMNS, lambda r: r.name, self)
        self.tensor_table = FigureView("Tensors of the operation", self.tensors, self, empty=NO_OPERATION)
        self.tensor_table.rows_chosen.connect(self._on_tensor_chosen)
        self.values = QPlainTextEdit(self)
        self.values.setReadOnly(True)
        self.values.setAccessibleName("Values")
        self.values.setPlaceholderText("Select a tensor to see its values.")
        self.values.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.values.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self._accesses: tuple[Access, ...] = ()
        self._lay_out()

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        for widget in (self.run, self.choose, self.source, self.refer, self.referred):
            head.addWidget(widget)
        head.addWidget(self.note, 1)
        split = QSplitter(Qt.Orientation.Vertical, self)
        above, below = QSplitter(split), QSplitter(split)
        for column, title, shown in (
            (above, "Operations: select one to see what it read and wrote", self.operation_table),
            (above, "Outputs of the program", self.output_table),
            (below, "Tensors of the operation", self.tensor_table),
            (below, "Values", self.values),
        ):
            side = QWidget(column)
            layout = QVBoxLayout(side)
            layout.setContentsMargins(4, 0, 0, 0)
            label = Label(title, side)
            label.setObjectName("Hint")
            layout.addWidget(label)
            layout.addWidget(shown, 1)
        above.setSizes([700, 420])
        below.setSizes([560, 560])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 4)
        layout.addLayout(head)
        layout.addWidget(split, 1)

    def _ask(self) -> None:
        start = self._path.parent if self._path else None
        ask_to_open(self, "Inputs", self.take_inputs, start=start, filters=["Arrays (*.npz)"])

    def _ask_for_reference(self) -> None:
        start = self._path.parent if self._path else None
        filters = ["TensorFlow Lite (*.tflite)"]
        ask_to_open(self, "Reference", self.take_reference, start=start, filters=filters)

    def _on_done(self, topic: str, value: object) -> None:
        if topic == _TOPIC:
            self.run.setEnabled(True)
            if isinstance(value, Executed):
                self._show(value)
            elif isinstance(value, WorkbenchError):
                info = value.infos[0]
                self.note.setText(f"{info.message} {info.hint}".strip())
                # Those shown are of other inputs.
                self._clear()
        elif topic == _STEP and isinstance(value, tuple):
            self._accesses = value
            self.tensors.set_rows(access_row(access) for access in value)

    def _clear(self) -> None:
        self._executed = None
        self.operation_table.empty = NOT_EXECUTED
        self.operations.set_rows(())
        self.outputs.set_rows(())
        self._clear_tensors()

    def _show(self, executed: Executed) -> None:
        self._executed = executed
        counted = executed.result.counters
        findings = executed.result.findings
        self.note.setText(
            f"{count(len(counted))} operations executed on the simulator (no timing)."
            + _agreement(executed.outputs)
            + (f" {count(len(findings))} remarks; the first: {findings[0].message}" if findings else "")
        )
        self.outputs.set_rows(executed.outputs)
        has_expected = any(row.differing is not None for row in executed.outputs)
        for column in _COMPARED:
            self.output_table.setColumnHidden(column, not has_expected)
        rows = [OperationCounters.model_validate(one.as_dict()) for one in counted]
        self.operation_table.empty = "" if rows else "No part of this program runs on the NPU."
        self.operations.set_rows(rows)
        # A program does not name its modules.
        self.operation_table.setColumnHidden(MODULE, True)
        self.operation_table.setColumnHidden(DELEGATE, len({row.delegate for row in rows}) < 2)
        self._clear_tensors()
        command, self._pending_command = self._pending_command, None
        if command is None:
            self.output_table.selectRow(0)
        for index in range(self.operations.rowCount()):
            row = self.operations.row_at(index)
            if row is not None and (row.delegate, row.offset) == command:
                self.operation_table.selectRow(index)

    def _clear_tensors(self) -> None:
        self._accesses = ()
        self.tensors.set_rows(())
        self.values.clear()

    def _on_output_chosen(self, shown: Sequence[int]) -> None:
        row = self.outputs.row_at(shown[0]) if shown else None
        if row is not None and self._executed is not None:
            self.tensor_table.clearSelection()
            number = self._executed.outputs.index(row)
            self.values.setPlainText(values_text(self._executed.result.outputs[number]))

    def _on_operation_chosen(self, shown: Sequence[int]) -> None:
        row = self.operations.row_at(shown[0]) if shown else None
        if row is not None and self._executed is not None:
            self._clear_tensors()
            self.output_table.clearSelection()
            work = partial(accesses_of, self._executed, row.delegate, row.offset)
            self._background.submit(_STEP, lambda _outdated: work())

    def _on_tensor_chosen(self, shown: Sequence[int]) -> None:
        if shown and (row := self.tensors.row_at(shown[0])) is not None:
            index = [access_row(access) for access in self._accesses].index(row)
            self.output_table.clearSelection()
            self.values.setPlainText(values_text(self._accesses[index].values))


def _agreement(outputs: Sequence[OutputRow]) -> str:
    """Return how many elements are as expected; "" where nothing was."""
    if any(row.differing is None for row in outputs):
        return ""
    elements = sum(math.prod(row.shape) for row in outputs)
    equal = elements - sum(row.differing or 0 for row in outputs)
    return f" {count(equal)} of {count(elements)} output elements are as expected."


def execute(
    path: Path, method: str, inputs: Path | None, reference: Path | None
) -> Executed | WorkbenchError:
    """Return a program after a run, or the error. Does not raise, because it runs in a thread."""
    from workbench.npu.inputs import drawn_inputs, read_samples
    from workbench.npu.program import load
    from workbench.npu.state import Options

    try:
        program = load(path, method)
        expected: Sequence[object] = ()
        if inputs is not None:
            given = read_samples(inputs, program.inputs)[0]
        elif program.cases and reference is None:
            given, expected = list(program.cases[0].inputs), program.cases[0].expected
        else:
            given = drawn_inputs(program.inputs)
        result, referred = _run(program, given, Options(counters=True, check=True), reference)
    except WorkbenchError as error:
        return error
    expected = referred or expected
    rows = [
        _row(f"out{number}", values, expected[number] if number < len(expected) else None)
        for number, values in enumerate(result.outputs)
    ]
    return Executed(program, tuple(given), result, tuple(rows))


def accesses_of(executed: Executed, delegate: int, offset: int) -> tuple[Access, ...]:
    """Return the tensors that an operation read and wrote, by another run with the same inputs."""
    from workbench.npu.state import Options

    options = Options(record=frozenset({(delegate, offset)}))
    result, _ = _run(executed.program, executed.inputs, options, None)
    return result.accesses.get((delegate, offset), ())


def _run(
    program: Program, inputs: Sequence[Any], options: Options, reference: Path | None
) -> tuple[Result, Sequence[object]]:
    """Return a run, and the outputs of its reference; none without one."""
    from threadpoolctl import threadpool_limits

    from workbench.npu.operator_process import CpuOperatorProcess
    from workbench.npu.tflite_reference import reference_outputs

    # The products are small: a second thread costs more than it gives.
    with threadpool_limits(limits=1, user_api="blas"), CpuOperatorProcess() as operators:
        result = program.run(inputs, options, operators)
        if reference is None:
            return result, ()
        return result, reference_outputs(reference, [inputs], result.outputs, operators)[0]


def access_row(access: Access) -> OutputRow:
    """Return the row of a tensor that an operation read or wrote."""
    verb = "writes" if access.written else "reads"
    name = f"{verb} {access.side}, region {access.region} at {access.address:#x}"
    return _row(name, access.values)


def _row(name: str, values: object, expected: object = None) -> OutputRow:
    """Return the row of a tensor, compared with what was expected."""
    import numpy as np

    array = np.asarray(values)
    numbers = array.astype(np.float64) if array.size else np.zeros(1)
    differing = largest = None
    if expected is not None:
        apart = np.abs(np.asarray(expected).astype(np.float64) - array.astype(np.float64))
        differing, largest = int(np.count_nonzero(apart)), float(apart.max(initial=0.0))
    return OutputRow(
        name,
        str(array.dtype),
        array.shape,
        float(numbers.min()),
        float(numbers.max()),
        float(numbers.mean()),
        differing,
        largest,
    )


def values_text(values: object) -> str:
    """Return the values of a tensor as text, a line for each row of (height, width)."""
    import numpy as np

    array = np.atleast_1d(np.asarray(values))
    flat = array.reshape(-1, array.shape[-1])
    rows = max(1, _VALUES_SHOWN // max(1, flat.shape[1]))
    form = ">12.6g" if np.issubdtype(array.dtype, np.floating) else ">4"
    lines = [" ".join(f"{value:{form}}" for value in row) for row in flat[:rows].tolist()]
    if flat.shape[0] > rows:
        lines.append(f"\u2026 {count(flat.shape[0] - rows)} more rows")
    return "\n".join(lines)

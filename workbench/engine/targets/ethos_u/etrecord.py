"""The ETRecord of a program: what ExecuTorch's Inspector needs to name the events of a run.

It holds the edge program before its operators went to the NPU, and the numbers by which the runtime
names instructions and delegates. Source: ExecuTorch 1.5.1, ``devtools/etrecord``.
"""

from __future__ import annotations

import io
import re
import zipfile
from typing import Any

# Entries of equal programs are equal: they have no date.
_DATE = (1980, 1, 1, 0, 0, 0)
_FOLDER = re.compile(r'File "[^"]*[\\/]([^"\\/]+)"')


def take_record(manager: Any) -> Any:
    """Return the record that an edge manager holds, and remove it there; None if it has none.

    The program of torch is left out: the Inspector reads the edge program. Folders are left out of
    the lines of source, so that equal models in other folders give equal records.
    """
    record = manager._etrecord  # noqa: SLF001 - ``get_etrecord`` asks the compiled program
    manager._etrecord = None  # noqa: SLF001
    if record is None:
        return None
    record.exported_program = record.export_graph_id = None
    # Example inputs are a sample of the user's data; the Inspector does not need them.
    record.edge_dialect_program._example_inputs = None  # noqa: SLF001
    for node in record.edge_dialect_program.graph.nodes:
        # Ids of objects in memory, which differ from run to run.
        node.meta.pop("from_node", None)
        if trace := node.meta.get("stack_trace"):
            node.meta["stack_trace"] = _FOLDER.sub(r'File "\1"', trace)
    return record


def written_record(record: Any, runtime: Any) -> bytes:
    """Return the file of a record for a compiled program; equal programs give equal bytes.

    Args:
        record: As ``take_record`` returned it.
        runtime: The compiled program (``ExecutorchProgramManager``).
    """
    own = record.copy()
    own.add_executorch_program(runtime)
    plain, packed = io.BytesIO(), io.BytesIO()
    own.save(plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(packed, "w") as target:
        for name in source.namelist():
            entry = zipfile.ZipInfo(name, _DATE)
            target.writestr(entry, source.read(name), zipfile.ZIP_DEFLATED, 1)
    return packed.getvalue()

"""Bundle a program with test vectors.

Source: ExecuTorch 1.5.1, ``devtools/bundled_program``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def bundle(program: bytes, cases: list[tuple[list[torch.Tensor], list[torch.Tensor]]]) -> bytes:
    """Return a bundled program with test vectors for ``forward``.

    Args:
        program: The plain program.
        cases: Inputs and expected outputs of each test.
    """
    # Imported when wanted: the package brings ExecuTorch's inspector and pandas.
    from executorch.devtools import BundledProgram
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer

    tests = [MethodTestCase(inputs=ins, expected_outputs=outs) for ins, outs in cases]
    suite = MethodTestSuite(method_name="forward", test_cases=tests)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.pte"
        path.write_bytes(program)
        bundled = BundledProgram(None, [suite], pte_file_path=str(path))
        return bytes(serialize_from_bundled_program_to_flatbuffer(bundled))

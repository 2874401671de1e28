"""What runners of language models ask a decoder's program, as methods that return a constant.

Source: ExecuTorch 1.5.1, ``_load_llama_model_metadata`` in
``examples/models/llama/export_llama_lib.py``, and its reader
``extension/llm/runner/llm_runner_helper.cpp``, which refuses a program without the first. The
number of layers is left out: nothing in a program tells it, and that reader does not ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.project import sources
from workbench.project.model import Tokenization
from workbench.results import ExportResult

if TYPE_CHECKING:
    from workbench.engine.context import StageContext


def methods_for_runners(context: StageContext) -> dict[str, int | bool]:
    """Return the constants by the methods' names; none for a model that reads no text."""
    project = context.project
    if project.calibration is None or not sources.reads_text(project):
        return {}
    exported = context.result("export", ExportResult)
    length = (project.calibration.tokens or Tokenization()).length
    carried = any(spec.dtype.startswith(("float", "bfloat")) for spec in exported.inputs)
    return {
        "get_max_seq_len": length,
        "get_max_context_len": length,
        "get_vocab_size": exported.outputs[0].shape[-1],
        "use_kv_cache": carried or bool(exported.state),
        "use_sdpa_with_kv_cache": False,
        "enable_dynamic_shape": False,
    }

"""Exact rewrites of the float graph that need fewer cycles on the NPU, one file each.

The files stand on torch, torchao, ExecuTorch and ``graph_writer`` alone, because a generated script
carries them along. The table of all rewrites is ``workbench.targets.ethos_u.rewrites``.
"""

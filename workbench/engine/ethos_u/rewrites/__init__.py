"""Exact rewrites of the float graph that need fewer cycles on the NPU, one file each.

The files stand on torch, torchao, ExecuTorch and the corrections alone, because a copy of both folders
is beside a generated script. The table of all rewrites is ``workbench.targets.ethos_u.rewrites``.
"""

"""Corrections of the tools: one public function each, whose docstring is its row.

The name of the function is the id of the correction and of its switch. The docstring has the title
and the sections Fault, Instead, Right because, Network, Tools and, where it was reported, Reported.
``workbench/targets/ethos_u/corrections.py`` reads them without importing torch. The module says
when a correction runs and what it is given:

- ``transposed_convolutions``, ``constants``, ``undefined_values``, ``masks``,
  ``unsupported_operators``, ``float_rewrites``: the float graph, before ExecuTorch decomposes operators;
- ``batch_norm_folding``: the float program's module, before batch norms are folded;
- ``annotation_contexts``: the float graph, around ExecuTorch's passes before annotation;
- ``small_scales``: the annotated graph;
- ``operator_support``, ``partition``: a node, and the result of the partitioner;
- ``before_fuse``, ``before_pools``, ``before_constants``, ``fewer_operations``, ``after_tosa``: the
  graph of a delegate, as passes;
- ``annotation_patches``, ``lowering_patches``, ``int16_tables``, ``vela``: context managers that
  replace a function of the tools, where no pass can correct it.

``quantizer``, ``partitioner`` and ``lowering`` run them. Nothing here imports the workbench: an
exported script has a copy of this folder.
"""

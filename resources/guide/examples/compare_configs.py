"""Compare 8-bit and 16-bit activations in the convolutions of the digits sample.

Run: python compare_configs.py digits.qwb
"""

import sys

import workbench.api as wb

net = wb.open(sys.argv[1])
eight = wb.run(net, until="lower", trust=True).raise_for_errors()
mixed = wb.set_module_type(net, "torch.nn.modules.conv.Conv2d", "a16w8")
sixteen = wb.run(mixed, until="lower", trust=True).raise_for_errors()
for part, changes in wb.compare(eight, sixteen).parts.items():
    for change in changes:
        print(f"{part:8} {change.what}: {change.before or '-'} -> {change.after or '-'}")

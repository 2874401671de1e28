"""Toolchains: environments with a release of ExecuTorch, torch and Vela, in which engines run.

The program has one of its own, whose name is "". Others are interpreters that the user added by a
name; an engine of such a toolchain runs under its interpreter. No module here imports torch.

- ``versions``: the packages of the running interpreter.
- ``probe``: the packages of another interpreter.
- ``registry``: the toolchains of this machine, by name.
- ``packages``: the folder that gives an engine this program under another interpreter.
"""

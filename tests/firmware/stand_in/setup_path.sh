# Read by ExecuTorch's build script in place of the file that examples/arm/setup.sh writes.
# The compiler is on the PATH; the kernels for Cortex-M need CMSIS-NN, which is not there.
cmake() {
  if [ "$1" = "-S" ]; then
    command cmake "$@" -DEXECUTORCH_BUILD_CORTEX_M=OFF
  else
    command cmake "$@"
  fi
}

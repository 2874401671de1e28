# In the runner's directory, with its variables: Corstone-300's linker script in place of its own.
execute_process(
  COMMAND
    ${CMAKE_C_COMPILER} ${_arm_runner_linker_preprocessor_options} -o ${LINK_FILE_OUT}
    ${CMAKE_CURRENT_SOURCE_DIR}/Corstone-300.ld COMMAND_ERROR_IS_FATAL ANY
)

"""The fields of an exported program's description (schema version 8), and what they may hold.

Source: torch 2.13, ``torch/_export/serde/schema.py``.
"""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


# One row per record of the schema: its fields and their kinds. A kind is the name of a check or of
# a record; "?kind" may be null or absent, "[kind]" is a list, "{kind}" an object with any keys,
# "<kind>" an object whose keys are names. Records in UNIONS have exactly one of their fields.
RECORDS: dict[str, dict[str, str]] = {
    "Device": {"type": "device", "index": "?int"},
    "SymExprHint": {"as_int": "int", "as_bool": "bool", "as_float": "float"},
    "SymExpr": {"expr_str": "expression", "hint": "?SymExprHint"},
    "SymInt": {"as_expr": "SymExpr", "as_int": "int"},
    "SymFloat": {"as_expr": "SymExpr", "as_float": "float"},
    "SymBool": {"as_expr": "SymExpr", "as_bool": "bool"},
    "TensorMeta": {
        "dtype": "int",
        "sizes": "[SymInt]",
        "requires_grad": "bool",
        "device": "Device",
        "strides": "[SymInt]",
        "storage_offset": "SymInt",
        "layout": "int",
    },
    "SymIntArgument": {"as_name": "name", "as_int": "int"},
    "SymFloatArgument": {"as_name": "name", "as_float": "float"},
    "SymBoolArgument": {"as_name": "name", "as_bool": "bool"},
    "TensorArgument": {"name": "name"},
    "TokenArgument": {"name": "name"},
    "OptionalTensorArgument": {"as_tensor": "TensorArgument", "as_none": "bool"},
    "GraphArgument": {"name": "name", "graph": "Graph"},
    "ComplexValue": {"real": "float", "imag": "float"},
    "Argument": {
        "as_none": "bool",
        "as_tensor": "TensorArgument",
        "as_tensors": "[TensorArgument]",
        "as_int": "int",
        "as_ints": "[int]",
        "as_float": "float",
        "as_floats": "[float]",
        "as_string": "string",
        "as_strings": "[string]",
        "as_sym_int": "SymIntArgument",
        "as_sym_ints": "[SymIntArgument]",
        "as_scalar_type": "int",
        "as_memory_format": "int",
        "as_layout": "int",
        "as_device": "Device",
        "as_bool": "bool",
        "as_bools": "[bool]",
        "as_sym_bool": "SymBoolArgument",
        "as_sym_bools": "[SymBoolArgument]",
        "as_graph": "GraphArgument",
        "as_optional_tensors": "[OptionalTensorArgument]",
        "as_operator": "target",
        "as_sym_float": "SymFloatArgument",
        "as_sym_floats": "[SymFloatArgument]",
        "as_optional_tensor": "OptionalTensorArgument",
        "as_complex": "ComplexValue",
        "as_nested_tensors": "[[TensorArgument]]",
        "as_int_lists": "[[int]]",
        "as_float_lists": "[[float]]",
    },
    "NamedArgument": {"name": "maybe_name", "arg": "Argument", "kind": "?int"},
    "Node": {
        "target": "target",
        "inputs": "[NamedArgument]",
        "outputs": "[Argument]",
        "metadata": "{text}",
        "is_hop_single_tensor_return": "?bool",
        "name": "?name",
    },
    "Graph": {
        "inputs": "[Argument]",
        "outputs": "[Argument]",
        "nodes": "[Node]",
        "tensor_values": "<TensorMeta>",
        "sym_int_values": "<SymInt>",
        "sym_bool_values": "<SymBool>",
        "is_single_tensor_return": "?bool",
        "custom_obj_values": "nothing",
        "sym_float_values": "?<SymFloat>",
    },
    "UserInputSpec": {"arg": "Argument"},
    "ConstantValue": {
        "as_none": "bool",
        "as_int": "int",
        "as_float": "float",
        "as_string": "string",
        "as_bool": "bool",
    },
    "InputToConstantInputSpec": {"name": "name", "value": "ConstantValue"},
    "InputToParameterSpec": {"arg": "TensorArgument", "parameter_name": "path"},
    "InputToBufferSpec": {"arg": "TensorArgument", "buffer_name": "path", "persistent": "bool"},
    "InputToTensorConstantSpec": {"arg": "TensorArgument", "tensor_constant_name": "path"},
    "InputTokenSpec": {"arg": "TokenArgument"},
    "InputSpec": {
        "user_input": "UserInputSpec",
        "parameter": "InputToParameterSpec",
        "buffer": "InputToBufferSpec",
        "tensor_constant": "InputToTensorConstantSpec",
        "token": "InputTokenSpec",
        "constant_input": "InputToConstantInputSpec",
    },
    "UserOutputSpec": {"arg": "Argument"},
    "LossOutputSpec": {"arg": "TensorArgument"},
    "BufferMutationSpec": {"arg": "TensorArgument", "buffer_name": "path"},
    "ParameterMutationSpec": {"arg": "TensorArgument", "parameter_name": "path"},
    "GradientToParameterSpec": {"arg": "TensorArgument", "parameter_name": "path"},
    "GradientToUserInputSpec": {"arg": "TensorArgument", "user_input_name": "name"},
    "UserInputMutationSpec": {"arg": "TensorArgument", "user_input_name": "name"},
    "OutputTokenSpec": {"arg": "TokenArgument"},
    "OutputSpec": {
        "user_output": "UserOutputSpec",
        "loss_output": "LossOutputSpec",
        "buffer_mutation": "BufferMutationSpec",
        "parameter_mutation": "ParameterMutationSpec",
        "gradient_to_parameter": "GradientToParameterSpec",
        "gradient_to_user_input": "GradientToUserInputSpec",
        "user_input_mutation": "UserInputMutationSpec",
        "token": "OutputTokenSpec",
    },
    "GraphSignature": {"input_specs": "[InputSpec]", "output_specs": "[OutputSpec]"},
    "RangeConstraint": {"min_val": "?int", "max_val": "?int"},
    "ModuleCallSignature": {
        "inputs": "[Argument]",
        "outputs": "[Argument]",
        "in_spec": "in_spec",
        "out_spec": "out_spec",
        "forward_arg_names": "?[name]",
    },
    "ModuleCallEntry": {"fqn": "path", "signature": "?ModuleCallSignature"},
    "GraphModule": {
        "graph": "Graph",
        "signature": "GraphSignature",
        "module_call_graph": "[ModuleCallEntry]",
        "metadata": "{text}",
        "treespec_namedtuple_fields": "nothing",
    },
    "SchemaVersion": {"major": "int", "minor": "int"},
    "ExportedProgram": {
        "graph_module": "GraphModule",
        "opset_version": "<int>",
        "range_constraints": "<RangeConstraint>",
        "schema_version": "SchemaVersion",
        "verifiers": "[verifier]",
        "torch_version": "string",
        "guards_code": "[text]",
    },
    "PayloadMeta": {
        "path_name": "string",
        "is_param": "bool",
        "use_pickle": "bool",
        "tensor_meta": "?TensorMeta",
    },
    "PayloadConfig": {"config": "{PayloadMeta}"},
}
UNIONS = words(
    "SymExprHint SymInt SymFloat SymBool SymIntArgument SymFloatArgument SymBoolArgument "
    "OptionalTensorArgument Argument ConstantValue InputSpec OutputSpec"
)
# Fields with a default in torch's schema.
OPTIONAL = words(
    "custom_obj_values treespec_namedtuple_fields verifiers torch_version guards_code "
    "is_single_tensor_return metadata"
)

"""The schemas of the JSON documents: those of the guide, and what they let through."""

import json

import jsonschema
import pytest

from workbench.api.documents import DOCUMENTS, schemas
from workbench.errors import ErrorInfo

TEXTS = schemas()
SCHEMAS = {name: json.loads(text) for name, text in TEXTS.items()}


def test_that_every_document_has_a_schema_file_of_its_name():
    assert set(SCHEMAS) == {f"{name}.schema.json" for name in DOCUMENTS}
    assert all(text.endswith("}\n") for text in TEXTS.values())
    for schema in SCHEMAS.values():
        assert schema["$schema"].endswith("/2020-12/schema")
        assert schema["properties"]["version"]["const"] == 1


@pytest.mark.parametrize(
    "names", [["error.schema.json"], pytest.param(list(SCHEMAS), marks=pytest.mark.slow)]
)
def test_that_the_schemas_are_schemas(names):
    for name in names:
        jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


def test_that_an_error_is_a_document_and_nothing_else_is():
    info = ErrorInfo(message="No.", code="no").model_dump(mode="json")
    found = {"version": 1, "error": info, "errors": [info], "exit_code": 2}
    schema = SCHEMAS["error.schema.json"]
    jsonschema.validate(found, schema)
    jsonschema.validate({**found, "error": None, "errors": []}, schema)
    for wrong in ({**found, "version": 2}, {**found, "more": 1}, {**found, "exit_code": "2"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)

"""The schemas of the JSON documents: those of the guide, and what they let through."""

import json

import jsonschema
import pytest

from workbench.api import JSON_VERSION
from workbench.api.documents import DOCUMENTS, schemas
from workbench.errors import ErrorInfo


@pytest.fixture(scope="module")
def texts():
    return schemas()


@pytest.fixture(scope="module")
def found(texts):
    return {name: json.loads(text) for name, text in texts.items()}


def test_that_every_document_has_a_schema_file_of_its_name(texts, found):
    assert set(texts) == {f"{name}.schema.json" for name in DOCUMENTS}
    assert all(text.endswith("}\n") for text in texts.values())
    for schema in found.values():
        assert schema["$schema"].endswith("/2020-12/schema")
        assert schema["properties"]["version"]["const"] == JSON_VERSION == 1


@pytest.mark.parametrize("names", [["error"], pytest.param(list(DOCUMENTS), marks=pytest.mark.slow)])
def test_that_the_schemas_are_schemas(found, names):
    for name in names:
        jsonschema.Draft202012Validator.check_schema(found[f"{name}.schema.json"])


def test_that_an_error_is_a_document_and_nothing_else_is(found):
    info = ErrorInfo(message="No.", code="no").model_dump(mode="json")
    given = {"version": 1, "error": info, "errors": [info], "exit_code": 2}
    schema = found["error.schema.json"]
    jsonschema.validate(given, schema)
    jsonschema.validate({**given, "error": None, "errors": []}, schema)
    for wrong in ({**given, "version": 2}, {**given, "more": 1}, {**given, "exit_code": "2"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)

"""Documents that verbs print, checked with the schemas of the guide."""

import functools
import json

import jsonschema

from workbench.guide import REFERENCE


@functools.cache
def _validator(name):
    schema = json.loads((REFERENCE / f"{name}.schema.json").read_text(encoding="utf-8"))
    return jsonschema.validators.validator_for(schema)(schema)


def checked(document, name):
    """Return the document, which the schema of that name lets through."""
    _validator(name).validate(document)
    return document

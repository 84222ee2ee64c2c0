"""Reads lines of {"name", "schema", "text"} and counts the texts that are JSON
and that jsonschema accepts. Exits with 1 where one is not."""
import importlib.metadata
import json
import sys
from decimal import Decimal

import jsonschema


def number(text):
    """Returns a number exactly: with floats, 0.3 is not a multiple of 0.0001."""
    value = Decimal(text)
    return int(value) if value.adjusted() < 1000 and value == value.to_integral_value() else value


def parse(text):
    return json.loads(text, parse_float=number)


validators, good, bad = {}, 0, 0
for line in sys.stdin:
    row = parse(line)
    if row["name"] not in validators:
        cls = jsonschema.validators.validator_for(row["schema"], default=jsonschema.Draft202012Validator)
        cls.check_schema(row["schema"])
        validators[row["name"]] = cls(row["schema"])
    try:
        validators[row["name"]].validate(parse(row["text"]))
        good += 1
    except (ArithmeticError, ValueError, jsonschema.ValidationError) as err:
        bad += 1
        if bad <= 10:
            print(f"{row['name']}: {row['text'][:200]!r}: {str(err).splitlines()[0]}")
print(f"jsonschema {importlib.metadata.version('jsonschema')}: {len(validators)} schemas, {good} texts valid, {bad} not")
sys.exit(bad > 0)

"""Reads lines of {"name", "schema", "text"} and counts the texts that are JSON
and that jsonschema accepts. Exits with 1 where one is not."""
import importlib.metadata
import json
import sys

import jsonschema

validators, good, bad = {}, 0, 0
for line in sys.stdin:
    row = json.loads(line)
    if row["name"] not in validators:
        cls = jsonschema.validators.validator_for(row["schema"], default=jsonschema.Draft202012Validator)
        cls.check_schema(row["schema"])
        validators[row["name"]] = cls(row["schema"])
    try:
        validators[row["name"]].validate(json.loads(row["text"]))
        good += 1
    except (ValueError, jsonschema.ValidationError) as err:
        bad += 1
        if bad <= 10:
            print(f"{row['name']}: {row['text'][:200]!r}: {str(err).splitlines()[0]}")
print(f"jsonschema {importlib.metadata.version('jsonschema')}: {len(validators)} schemas, {good} texts valid, {bad} not")
sys.exit(bad > 0)

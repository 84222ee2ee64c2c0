"""Reads what mm track export wrote by the readers of W&B (wandb 0.19.11: its last reader in
Python) and by the types of OpenLineage's client, without a network.

    track-export.py FOLDER METRICS.jsonl
"""
import glob
import importlib
import json
import math
import sys
import uuid

import wandb
from openlineage.client.event_v2 import InputDataset, Job, Run, RunEvent, RunState
from openlineage.client.generated.dataset_version_dataset import DatasetVersionDatasetFacet
from wandb.proto import wandb_internal_pb2 as pb

folder, log = sys.argv[1:3]
wandb._assert_is_internal_process = True  # the reader looks for it
store = importlib.import_module("wandb.sdk.internal.datastore").DataStore()
store.open_for_scan(glob.glob(folder + "/offline-run-*/run-*.wandb")[0])
history, kinds = [], []
while data := store.scan_data():
    record = pb.Record()
    record.ParseFromString(data)
    assert record.num == len(kinds), (record.num, len(kinds))
    kinds.append(record.WhichOneof("record_type"))
    if kinds[-1] == "history":
        history.append({"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in record.history.item})
        assert record.history.step.num == history[-1]["_step"]
    if kinds[-1] == "run":
        config = {i.key: json.loads(i.value_json) for i in record.run.config.update}
        print("run", record.run.run_id, record.run.display_name, len(config), "values of the recipe")
assert kinds[:2] == ["header", "run"] and kinds[-2:] == ["summary", "exit"], kinds
steps = [e for e in map(json.loads, open(log)) if e["event"] == "step"]
got = {h["_step"]: h["train/loss"] for h in history if "train/loss" in h}
assert len(got) == len(steps) and all(math.isclose(got[e["step"]], e["loss"]) for e in steps), (len(got), len(steps))
print("wandb: %d records, %d steps, losses equal those of the log" % (len(kinds), len(got)))

events = [json.loads(line) for line in open(glob.glob(folder + "/*.openlineage.jsonl")[0])]
for e in events:
    inputs = [InputDataset(namespace=i["namespace"], name=i["name"], facets={"version": DatasetVersionDatasetFacet(i["facets"]["version"]["datasetVersion"])}) for i in e["inputs"]]
    typed = RunEvent(eventType=RunState(e["eventType"]), eventTime=e["eventTime"], run=Run(str(uuid.UUID(e["run"]["runId"]))), job=Job(e["job"]["namespace"], e["job"]["name"]), inputs=inputs, producer=e["producer"])
    assert typed.schemaURL == e["schemaURL"], (typed.schemaURL, e["schemaURL"])
    for i, j in zip(inputs, e["inputs"]):
        assert i.facets["version"]._schemaURL == j["facets"]["version"]["_schemaURL"], (i.facets["version"]._schemaURL, j)
print("openlineage:", " ".join(e["eventType"] for e in events))

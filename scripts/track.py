"""Reads by MLflow's client what mm track sent: track.py URL REFERENCE."""
import sys

from mlflow import MlflowClient

client = MlflowClient(sys.argv[1])
runs = client.search_runs([client.get_experiment_by_name("mm").experiment_id])
assert len(runs) == 1 and runs[0].info.status == "FINISHED", runs
run = runs[0]
for key in run.data.metrics:
    steps = [m.step for m in client.get_metric_history(run.info.run_id, key)]
    assert len(steps) == len(set(steps)), f"{key}: figures twice"
    print(f"{key:20} {len(steps):5} figures, last {run.data.metrics[key]:.4f}")
assert len(client.get_metric_history(run.info.run_id, "train/loss")) == 1500
inputs = run.inputs.dataset_inputs
assert [i.dataset.name for i in inputs] == ["stories"], inputs
assert [a.path for a in client.list_artifacts(run.info.run_id)] == ["metrics.jsonl"]
version = client.get_model_version_by_alias("small", "prod")
assert version.source == "oci://" + sys.argv[2] and len(client.search_model_versions("name='small'")) == 1
print(f"{len(run.data.params)} parameters, data set {inputs[0].dataset.name} {inputs[0].dataset.digest}, model small version {version.version} {version.source}")

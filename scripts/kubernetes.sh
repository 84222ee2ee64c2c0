#!/usr/bin/env bash
# Judges the manifests that mm jobs export kubernetes writes for a batch and a study,
# and checks that planted faults are found. The definitions of Kueue, and of JobSet as
# Kubeflow's trainer embeds it, come from Go modules.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
at=$(mktemp -d)
trap 'rm -rf "$at"' EXIT
(cd "$root" && go build -o "$at/mm" ./cmd/mm)
mkdir "$at/judge" && cp "$root/scripts/kubernetes.go.txt" "$at/judge/main.go"
(cd "$at/judge" && go mod init judge 2>/dev/null && go get k8s.io/api@v0.35.4 k8s.io/apiextensions-apiserver@v0.35.4 k8s.io/apimachinery@v0.35.4 k8s.io/apiserver@v0.35.4 \
  sigs.k8s.io/yaml@v1.6.0 && go mod tidy && go build -o "$at/kubejudge" .) >"$at/log" 2>&1 || { tail "$at/log"; exit 1; }
module() { (cd "$at" && go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'); }
printf 'module x\ngo 1.26\n' >"$at/go.mod"
kueue=$(module sigs.k8s.io/kueue@v0.17.0)/config/components/crd/bases/kueue.x-k8s.io
trainer=$(module github.com/kubeflow/trainer/v2@v2.0.0)/manifests/base/crds/trainer.kubeflow.org_trainingruntimes.yaml
judge() {
  "$at/kubejudge" -crd "${kueue}_resourceflavors.yaml,${kueue}_clusterqueues.yaml,${kueue}_localqueues.yaml" \
    -embedded "$trainer:jobset.x-k8s.io/v1alpha2:JobSet:spec.template.spec" "$@"
}
image=registry.example/mm@sha256:$(printf '0%.0s' $(seq 64))
mkdir "$at/w"
cp "$root/catalog/recipes/wall.study.yaml" "$root/catalog/recipes/wall-phi-auto.yaml" "$at/w/"
sed -i 's|\.\./\.\./\.\./shared/||; s|\.\./shared/||' "$at/w/wall-phi-auto.yaml"
printf 'version: 1\nname: night\ncommands: [{name: a, run: [version], outputs: [v]}]\n' >"$at/w/night.jobs.yaml"
cd "$at/w"
"$at/mm" jobs export kubernetes night.jobs.yaml --image "$image" --queue team --out batch --gpus 1 >/dev/null
"$at/mm" jobs export kubernetes wall.study.yaml --image "$image" --queue team --out study --file-claim texts --namespace lab --level avx2 --workers 100 >/dev/null
"$at/mm" jobs export kubernetes wall.study.yaml --image "$image" --out alone --file-image "$image" --server tls://queue.example:4222 >/dev/null
judge batch/jobset.yaml batch/queues.yaml study/jobset.yaml study/queues.yaml alone/jobset.yaml

# Planted faults.
found=0
plant() { # FILE SED: the judge must refuse the changed file
  sed "$2" "$1" >"$at/planted.yaml"
  if cmp -s "$1" "$at/planted.yaml" || judge "$at/planted.yaml" >/dev/null 2>"$at/why"; then
    echo "not found: $2" >&2
    exit 1
  fi
  found=$((found + 1))
  echo "found $2: $(head -c 160 "$at/why" | tr '\n' ' ')"
}
plant batch/jobset.yaml 's/completionMode/completionMod/'
plant batch/jobset.yaml 's/restartPolicy: Never/restartPolicy: [Never]/'
plant batch/jobset.yaml 's/targetReplicatedJobs/targets/'
plant batch/jobset.yaml 's/operator: All/operator: Most/'
plant batch/jobset.yaml 's/status: Ready/status: Up/'
plant batch/jobset.yaml 's/containerPort: 4222/containerPort: "nats"/'
plant batch/jobset.yaml 's/immutable: true/immutabel: true/'
plant batch/queues.yaml 's/nominalQuota: 9000m/nominalQuota: much/'
plant batch/queues.yaml 's/queueingStrategy: BestEffortFIFO/queueingStrategy: Best/'
plant batch/queues.yaml 's/clusterQueue: team/clusterQueue: Team!/'
echo "$found planted faults found"

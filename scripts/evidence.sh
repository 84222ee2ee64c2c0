#!/bin/bash
# Compares evidence with cosign and the validators of CycloneDX and SPDX 3: cosign verifies what mm attests at
# two registries, mm verifies what cosign attests and refuses a provenance without contents,
# and promotions are refused where policies of cosign (rego, CUE) refuse the same statements.
#
#   scripts/evidence.sh     needs scripts/peers.sh (cosign, a registry) and python3; oras and syft are asked where they are installed
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${BENCH_BIN:-$PWD/.bench/bin}
for tool in cosign registry-distribution; do
	[ -x "$bin/$tool" ] || { echo "no $tool: run scripts/peers.sh"; exit 1; }
done
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
mm=$work/mm
${GO:-go} build -o "$mm" ./cmd/mm
export MM_HOME=$work/home MM_KEY_PASSWORD= COSIGN_PASSWORD= SOURCE_DATE_EPOCH=1700000000
"$mm" keys generate >/dev/null
"$mm" assemble builds/p-lite.graph.yaml --target laptop --out "$work/dist" --sign default >/dev/null 2>&1
"$mm" sbom "$work/dist" >"$work/bom.json"
"$mm" sbom "$work/dist" --format cyclonedx1.7 >"$work/bom7.json"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "cyclonedx-python-lib[validation]==11.12.0" spdx-python-model==0.0.6 ntia-conformance-checker==6.0.0
"$work/venv/bin/python" - "$work/bom.json" "$work/bom7.json" <<'PY'
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
for file, version in zip(sys.argv[1:], [SchemaVersion.V1_6, SchemaVersion.V1_7]):
    faults = list(JsonStrictValidator(version).validate_str(open(file).read(), all_errors=True) or [])
    print("CycloneDX's validator:", version.name, len(faults), "faults")
    if faults:
        sys.exit(1)
PY
python3 - "$work" <<'PY'
import glob, json, re, sys
work = sys.argv[1]
bill = json.load(open(f"{work}/bom.json"))
files, modules = [], {}
def walk(c):
    if c["type"] == "file":
        files.append(c["hashes"][0]["content"])
    elif c["type"] != "data" or c.get("purl"):
        modules[c["name"]] = c["hashes"][0]["content"]
    for one in c.get("components", []):
        walk(one)
for c in bill["components"]:
    walk(c)
manifests = [m for m in (json.load(open(f)) for f in glob.glob(f"{work}/dist/blobs/sha256/*") if open(f, "rb").read(1) == b"{") if len(m.get("layers", [])) > 1]
layers = sorted(l["digest"][7:] for m in manifests for l in m["layers"])
lock = open("builds/p-lite.lock.yaml").read()
names = set(re.findall(r"^\s*-? ?name: (\S+)", lock, re.M))
print("the bill has", len(files), "of", len(layers), "layers and", len(modules), "of", len(names), "modules of the lock")
if sorted(files) != layers or set(modules) != names or not all(d in lock for d in modules.values()):
    sys.exit("the bill differs from the manifest or the lock")
PY
"$mm" sbom "$work/dist" --format spdx3 --supplier Team >"$work/spdx.json"
"$work/venv/bin/python" - "$work/spdx.json" <<'PY'
import sys
from spdx_python_model import v3_0_1
objects = v3_0_1.SHACLObjectSet()
with open(sys.argv[1], "rb") as f:
    v3_0_1.JSONLDDeserializer().read(f, objects)
missing = objects.link()
print("spdx-python-model:", len(list(objects.foreach())), "objects,", len(missing), "dangling references")
sys.exit(bool(missing))
PY
"$work/venv/bin/ntia-checker" "$work/spdx.json" -s spdx3 -c ntia >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
grep -i "conformant" "$work/out" | head -1
# Provenances of a run of GitHub Actions and of this machine, by in-toto's own types.
mkdir "$work/judge"
cp scripts/provenance.go.txt "$work/judge/main.go"
(cd "$work/judge" && printf 'module judge\n\ngo 1.26.0\n' >go.mod && export GOFLAGS=-mod=mod && go get github.com/in-toto/attestation@v1.2.0 2>/dev/null && go mod tidy 2>/dev/null && go build -o judge .)
MM_PROVENANCES=$work/provenances ${GO:-go} test -count=1 -run 'TestProvenance$' ./builds/bom >/dev/null
"$work/judge/judge" "$work"/provenances/*.json
echo '{"foo":1}' >"$work/foo.json"
if "$work/judge/judge" "$work/foo.json" 2>/dev/null; then echo "in-toto's types take anything"; exit 1; fi
"$mm" attest "$work/dist" --type sbom >/dev/null
"$mm" attest "$work/dist" --type spdx >/dev/null
"$mm" attest "$work/dist" --type provenance >/dev/null
"$mm" eval suite "$work/dist" eval/suite/testdata/tasks/last.yaml --out "$work/results" >/dev/null 2>&1
"$mm" attest "$work/dist" --eval "$work/results" >/dev/null
mkdir "$work/own" "$work/other"
printf 'version: 0.1\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: "127.0.0.1:5078"}\n' "$work/other" >"$work/other.yml"
"$mm" registry serve --addr 127.0.0.1:5077 --layout "$work/own" >"$work/own.log" 2>&1 &
pids+=($!)
"$bin/registry-distribution" serve "$work/other.yml" >"$work/other.log" 2>&1 &
pids+=($!)
sleep 2
digest=$("$mm" inspect "$work/dist" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["digest"])')
verify() { timeout 30 "$bin/cosign" verify-attestation --key "$MM_HOME/keys/mm.pub" --type "$1" --insecure-ignore-tlog=true --allow-http-registry "$2" >"$work/out" 2>&1; }
for port in 5077 5078; do
	ref=127.0.0.1:$port/team/p-lite
	"$mm" push "$work/dist" "$ref" >/dev/null 2>&1
	for type in cyclonedx slsaprovenance1 spdxjson https://in-toto.io/attestation/test-result/v0.1; do
		verify $type "$ref@$digest" || { echo "cosign refuses $type at $ref"; cat "$work/out"; exit 1; }
		echo "cosign verifies mm's $type at $ref"
	done
	if verify vuln "$ref@$digest"; then echo "cosign verifies evidence that is not attached"; exit 1; fi
	if [ -x "$bin/oras" ]; then
		"$bin/oras" discover --plain-http --format json "$ref@$digest" >"$work/referrers.json"
		python3 - "$work/referrers.json" "$ref" <<'PY'
import json, sys
found = sorted(r["annotations"]["dev.sigstore.bundle.predicateType"] for r in json.load(open(sys.argv[1]))["referrers"])
want = ["https://cyclonedx.org/bom", "https://in-toto.io/attestation/test-result/v0.1", "https://sigstore.dev/cosign/sign/v1", "https://slsa.dev/provenance/v1", "https://spdx.dev/Document"]
print("oras discovers", len(found), "of", len(want), "bundles at", sys.argv[2])
sys.exit(found != want)
PY
	else
		echo "skipped: oras ($ref): go install oras.land/oras/cmd/oras@v1.3.0 to $bin"
	fi
done
if [ -x "$bin/syft" ]; then
	export SYFT_CHECK_FOR_APP_UPDATE=false
	"$bin/syft" convert "$work/bom.json" --quiet --output syft-json="$work/syft-cyclonedx.json"
	"$bin/syft" convert "$work/spdx.json" --quiet --output syft-json="$work/syft-spdx.json"
	"$mm" pull "oci:$work/dist:p-lite:0.1.0" --out "$work/files" >/dev/null 2>&1
	"$bin/syft" scan "dir:$work/files" --quiet --output syft-json="$work/syft-files.json"
	python3 - "$work" <<'PY'
import json, pathlib, re, sys
work = pathlib.Path(sys.argv[1])
lock = open("builds/p-lite.lock.yaml").read()
modules = dict(re.findall(r"^\s*-? ?name: (\S+)\s+version: (\S+)", lock, re.M))
models = {c["name"] for c in json.load(open(work / "bom.json"))["components"] if c["type"] == "machine-learning-model"}
for form, want in [("cyclonedx", {n: modules[n] for n in models}), ("spdx", modules)]:
    found = {a["name"]: a["version"] for a in json.load(open(work / f"syft-{form}.json"))["artifacts"]}
    missing = {n: v for n, v in want.items() if found.get(n) != v}
    print("syft reads", len(want) - len(missing), "of", len(want), "modules of the bill in", form)
    if missing or not want:
        sys.exit(f"missing: {missing}")
weights = {str(f.relative_to(work / "files")) for f in (work / "files").rglob("*.gguf")}
found = {l["path"].lstrip("/") for a in json.load(open(work / "syft-files.json"))["artifacts"] for l in a["locations"]}
print("syft finds", len(weights & found), "of", len(weights), "files of GGUF among those of the build")
sys.exit(weights - found != set())
PY
else
	echo "skipped: syft: go install github.com/anchore/syft/cmd/syft@v1.57.1 to $bin"
fi
cd "$work"
ref=127.0.0.1:5077/team/p-lite
echo '{"foo":1}' >foo.json
"$bin/cosign" signing-config create --out sc.json >/dev/null 2>&1
"$bin/cosign" generate-key-pair </dev/null >/dev/null 2>&1
cosign() { timeout 30 "$bin/cosign" "$@" --key cosign.key -y --signing-config sc.json --allow-http-registry "$ref@$digest" </dev/null >out 2>&1 || { cat out; exit 1; }; }
cosign sign
cosign attest --type cyclonedx --predicate bom.json
cosign attest --type slsaprovenance1 --predicate foo.json
"$mm" verify "$ref:0.1.0-laptop" --key cosign.pub --require sbom >/dev/null
echo "mm verifies cosign's cyclonedx"
if "$mm" verify "$ref:0.1.0-laptop" --key cosign.pub --require provenance 2>out; then
	echo "mm verifies a provenance without contents"
	exit 1
fi
grep -q MM0618 out
echo "mm refuses cosign's provenance without contents"
cd "$OLDPWD"
PATH=$bin:$PATH ${GO:-go} test -count=1 -v -run 'TestScripts/gates$' ./cmd/mm >"$work/gates" 2>&1 || { tail -30 "$work/gates"; exit 1; }
grep -q 'exec cosign verify-attestation .*--policy above.rego' "$work/gates" || { echo "the policies of cosign were not asked"; exit 1; }
echo "mm's refusals of promotions agree with cosign's policies"
PATH=$bin:$PATH ${GO:-go} test -count=1 -v -run 'TestScripts/provenance$' ./cmd/mm >"$work/provenance" 2>&1 || { tail -30 "$work/provenance"; exit 1; }
grep -q 'exec cosign attest .*--predicate generator.json' "$work/provenance" || { echo "cosign attested no provenance"; exit 1; }
echo "mm accepts provenances of GitHub, SLSA's generator and BuildKit by cosign, and refuses one about another digest"

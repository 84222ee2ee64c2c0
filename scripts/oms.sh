#!/bin/sh
# Compares signatures over folders with PyPI model-signing, both ways.
#
#   scripts/oms.sh     MM is the program (default: bin/mm); needs python3 and openssl
set -eu

mm=${MM:-$PWD/bin/mm}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
python=$dir/venv/bin/python
"$python" -m pip install --quiet model-signing==1.1.1 pyOpenSSL==26.4.0
export MM_HOME="$dir/home" MM_KEY_PASSWORD=
mkdir -p "$dir/m/a b" "$dir/m/a" "$dir/m/a-b"
for f in "a b/x" a/x a-b/x z ü; do echo "$f" >"$dir/m/$f"; done

"$mm" keys generate >/dev/null
"$mm" sign --oms "$dir/m"
"$python" -m model_signing verify key "$dir/m" --signature "$dir/m/model.sig" --public_key "$dir/home/keys/mm.pub"
subject() { "$python" -c 'import base64, json, sys; print(json.loads(base64.b64decode(json.load(open(sys.argv[1]))["dsseEnvelope"]["payload"]))["subject"][0]["digest"]["sha256"])' "$1"; }
own=$(subject "$dir/m/model.sig")

openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out "$dir/k.pem"
openssl ec -in "$dir/k.pem" -pubout -out "$dir/k.pub" 2>/dev/null
"$python" -m model_signing sign key "$dir/m" --signature "$dir/m/model.sig" --private_key "$dir/k.pem"
"$mm" verify --oms "$dir/m" --key "$dir/k.pub"
[ "$(subject "$dir/m/model.sig")" = "$own" ] || { echo "the digests of the folder differ"; exit 1; }
echo "both state the digest $own"

# The files of an artifact, signed by the digests of its manifest.
"$mm" assemble builds/m-lite.graph.yaml --target laptop --out "$dir/dist" --sign default >/dev/null 2>&1
"$mm" sign --oms "$dir/dist" --target laptop --signature "$dir/dist.sig"
"$mm" pull "oci:$dir/dist:m-lite:0.1.0" --out "$dir/files" >/dev/null 2>&1
"$python" -m model_signing verify key "$dir/files" --signature "$dir/dist.sig" --public_key "$dir/home/keys/mm.pub"
echo changed >"$dir/m/z"
if "$mm" verify --oms "$dir/m" --key "$dir/k.pub" 2>/dev/null; then
	echo "a changed file was verified"
	exit 1
fi

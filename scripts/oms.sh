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

# Certificates: a root, an authority below it, and certificates of the key.
certificate() { # NAME KEY ISSUER USAGE: writes NAME.pem by ISSUER
	openssl req -new -key "$dir/$2" -subj "/CN=$1" -out "$dir/request" 2>/dev/null
	printf '%s\n' "$4" >"$dir/extensions"
	openssl x509 -req -in "$dir/request" -CA "$dir/$3.pem" -CAkey "$dir/$3.key" -CAcreateserial -days 2 -extfile "$dir/extensions" -out "$dir/$1.pem" 2>/dev/null
}
cp "$dir/k.pem" "$dir/release.key"
for name in root middle other; do openssl ecparam -name prime256v1 -genkey -noout -out "$dir/$name.key"; done
for name in root other; do
	openssl req -x509 -new -key "$dir/$name.key" -subj "/CN=$name" -days 2 -out "$dir/$name.pem" -addext keyUsage=critical,keyCertSign
done
authority=$(printf 'basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign')
certificate middle middle.key root "$authority"
certificate release release.key middle keyUsage=critical,digitalSignature
certificate encipher release.key middle keyUsage=critical,keyEncipherment
cat "$dir/release.pem" "$dir/middle.pem" >"$dir/chain.pem"
"$mm" sign --oms "$dir/m" --key "$dir/release.key" --certificate-chain "$dir/chain.pem"
"$python" -m model_signing verify certificate "$dir/m" --signature "$dir/m/model.sig" --certificate_chain "$dir/root.pem"
if "$python" -m model_signing verify certificate "$dir/m" --signature "$dir/m/model.sig" --certificate_chain "$dir/other.pem" >/dev/null 2>&1; then
	echo "model-signing accepts another root"
	exit 1
fi
refuses() { # TEXT ARG...: mm verify names the reason
	text=$1
	shift
	if "$mm" verify --oms "$dir/m" "$@" 2>"$dir/err" || ! grep -q "$text" "$dir/err"; then
		cat "$dir/err"
		echo "mm does not refuse by: $text"
		exit 1
	fi
	echo "mm refuses: $text"
}
theirs() { # CERTIFICATE CHAIN...: model-signing signs
	leaf=$1
	shift
	for one in "$@"; do set -- "$@" --certificate_chain "$dir/$one.pem"; shift; done
	"$python" -m model_signing sign certificate "$dir/m" --signature "$dir/m/model.sig" --private_key "$dir/release.key" --signing_certificate "$dir/$leaf.pem" "$@" >/dev/null
}
theirs release middle
"$mm" verify --oms "$dir/m" --ca-roots "$dir/root.pem" --certificate-identity CN=release
[ "$(subject "$dir/m/model.sig")" = "$own" ] || { echo "the digests of the folder differ"; exit 1; }
refuses "leads to none of 1 trusted roots" --ca-roots "$dir/other.pem"
refuses "want roots of certificates" --key "$dir/k.pub"
theirs release root middle
refuses "chain out of order" --ca-roots "$dir/root.pem"
theirs encipher middle
refuses "key usage without digital signature" --ca-roots "$dir/root.pem"
theirs release middle
cp "$dir/m/z" "$dir/z"
echo changed >"$dir/m/z"
refuses "z: sha256: got" --ca-roots "$dir/root.pem"
cp "$dir/z" "$dir/m/z"
"$python" -m model_signing sign key "$dir/m" --signature "$dir/m/model.sig" --private_key "$dir/k.pem" >/dev/null

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

#!/bin/bash
# Runs the GitLab jobs that mm ci init writes with gitlab-ci-local, every one with the real
# mm: build, publish, and the promotion of p-lite through staging and candidate to prod.
# prod must fail without an evaluation and pass with one.
#
#   scripts/gitlab.sh [DIR]     DIR keeps packages and work (default: .native/gitlab)
#
# Needs node, npm, rsync, git, Go.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:-.native/gitlab}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
[ -d "$dir/node_modules/gitlab-ci-local" ] || npm install --silent --no-audit --no-fund --prefix "$dir" gitlab-ci-local@4.61.0
real=$(command -v "${GO:-go}")
rm -rf "$dir/repo" "$dir/own" "$dir/home" "$dir/go" "$dir/fake"
mkdir -p "$dir/repo" "$dir/fake" "$dir/go/bin"
if [ -n "${MM:-}" ]; then cp "$MM" "$dir/mm"; else "$real" build -o "$dir/mm" ./cmd/mm; fi

# The jobs install a released mm with Go; here go install copies this one.
cat >"$dir/fake/go" <<END
#!/bin/sh
case "\$1" in
install) cp "$dir/mm" "$dir/go/bin/mm" ;;
env) echo "$dir/go" ;;
*) exec "$real" "\$@" ;;
esac
END
chmod +x "$dir/fake/go"
export PATH="$dir/fake:$PATH" MM_HOME="$dir/home" MM_KEY_PASSWORD=
mm=$dir/mm
host=127.0.0.1:5079
"$mm" keys generate --out "$dir/release" --no-trust >/dev/null 2>&1 || "$mm" keys generate >/dev/null
[ -f "$dir/release.key" ] || cp "$MM_HOME/keys/mm.key" "$dir/release.key"
[ -f "$dir/release.pub" ] || cp "$MM_HOME/keys/mm.pub" "$dir/release.pub"
MM_REGISTRY_PASSWORD=secret "$mm" registry serve --addr $host --layout "$dir/own" --user tester >"$dir/registry.log" 2>&1 &
served=$!
trap 'kill $served' EXIT

# A repository with the graph of p-lite, its modules and a trust file with channels.
git archive HEAD builds catalog mm.yaml | tar -x -C "$dir/repo"
cd "$dir/repo"
cp "$dir/release.pub" release.pub
"$mm" trust add release.pub --name release --match '**' >/dev/null
{
	cat "$MM_HOME/trust.yaml"
	cat <<'END'
channels:
  - {name: staging, match: '**', keys: [release], evidence: [{type: sbom, keys: [release]}]}
  - {name: candidate, match: '**', keys: [release], from: staging, evidence: [{type: provenance, keys: [release]}]}
  - {name: prod, match: '**', keys: [release], from: candidate, evidence: [{type: eval, keys: [release]}]}
END
} >trust.yaml
common=(builds/p-lite.graph.yaml --provider gitlab --registry $host/team/p-lite --mm-version v0.3.0)
"$mm" ci init build "${common[@]}" --public-key release.pub
"$mm" ci init promotion "${common[@]}" --trust trust.yaml
cat >.gitlab-ci.yml <<'END'
stages: [build, deploy]
include:
  - local: mm-build.gitlab-ci.yml
  - local: mm-promotion.gitlab-ci.yml
END
cat >.gitlab-ci-local-variables.yml <<END
MM_PRIVATE_KEY: $dir/release.key
MM_USERNAME: tester
MM_TOKEN: secret
END
printf '.mm-home\n.gitlab-ci-local\ndist\nresults-*\n' >.gitignore
git init -q -b main . && git add -A
git -c user.name=t -c user.email=t@example.com commit -qm first
git remote add origin git@example.com:team/p-lite.git
run() { "$dir/node_modules/.bin/gitlab-ci-local" --force-shell-executor --no-artifacts-to-source "$@"; }
pass() { run "$@" >"$dir/$1.log" 2>&1 && echo "PASS  $1" || { tail -30 "$dir/$1.log"; echo "FAIL  $1"; exit 1; }; }
run --list
pass mm-build
pass mm-publish
pass mm-staging
pass mm-candidate
if run mm-prod >"$dir/refused.log" 2>&1; then echo "FAIL  mm-prod passes without an evaluation"; exit 1; fi
grep -q 'no evidence https://in-toto.io/attestation/test-result' "$dir/refused.log"
echo "PASS  mm-prod is refused without an evaluation"

# The evaluation of both targets, signed and pushed.
printf '%s' secret | "$mm" login $host --user tester --password-stdin --plaintext >/dev/null 2>&1
"$mm" pull $host/team/p-lite:0.1.0 >/dev/null
for target in laptop workstation; do
	"$mm" eval suite $host/team/p-lite:0.1.0 "$OLDPWD/eval/suite/testdata/tasks/colors.yaml" --limit 8 --target $target --out "$dir/results-$target" >/dev/null
	"$mm" attest $host/team/p-lite:0.1.0 --eval "$dir/results-$target" --key "$dir/release.key" >/dev/null
done
"$mm" push $host/team/p-lite:0.1.0 $host/team/p-lite:0.1.0 >/dev/null
pass mm-prod
"$mm" promote $host/team/p-lite:0.1.0 --to prod --history --trust trust.yaml

# The jobs that sign as the identity of the job; there is no authority here that would certify it.
"$mm" ci init build builds/p-lite.graph.yaml --provider gitlab --registry $host/team/p-lite --mm-version v0.3.0 --force --keyless --signing-config ci/signing_config.json --trusted-root ci/trusted_root.json --trust trust.yaml
grep -q 'SIGSTORE_ID_TOKEN' mm-build.gitlab-ci.yml
run --list

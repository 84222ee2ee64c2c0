#!/usr/bin/env bash
# Judge P-Lite as a container image and as files of servers by the software that
# reads them. A judge that is absent is named and left out.
#
#   MM_PYTHON=…    a Python with kserve-storage and oras, kserve (--no-deps), kubernetes-validate,
#                  tritonclient, nvidia-pytriton and onnxruntime, each as it is there
#   COSIGN=…       cosign (.bench/bin/cosign)
#   MM=…           mm (default: it is built)
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD python=${MM_PYTHON:-python3} cosign=${COSIGN:-$PWD/.bench/bin/cosign}
work=$(mktemp -d)
pids=()
finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
has() { "$python" -c "import $1" 2>/dev/null || { echo "skipped: $2 is absent"; return 1; }; }
export CGO_ENABLED=0 MM_HOME=$work/home MM_KEY_PASSWORD=
mm=${MM:-$work/mm}
[ -n "${MM:-}" ] || go build -o "$mm" ./cmd/mm
"$mm" keys generate >/dev/null
"$mm" assemble builds/p-lite.graph.yaml --sign default >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cd "$work"
"$mm" registry serve --addr 127.0.0.1:0 --layout registry >serve.out 2>&1 &
pids+=($!)
for _ in $(seq 50); do grep -q http serve.out && break; sleep 0.1; done
host=$(grep -o '127\.0\.0\.1:[0-9]*' serve.out | head -1)

"$mm" push p-lite:0.1.0 "$host/images/p-lite" --as-image --target laptop --key default 2>/dev/null
"$mm" push p-lite:0.1.0 "$host/team/p-lite" >/dev/null 2>&1
"$mm" verify "$host/images/p-lite:0.1.0"
"$mm" pull "$host/images/p-lite:0.1.0" --out image >/dev/null 2>&1
"$mm" pull "$host/team/p-lite:0.1.0" --target laptop --out files >/dev/null 2>&1
diff -r image files
echo "mm: the image and the artifact hold the same files"
if [ -x "$cosign" ]; then
  "$cosign" verify --key home/keys/mm.pub --insecure-ignore-tlog=true "$host/images/p-lite:0.1.0" >/dev/null 2>cosign.log || { cat cosign.log; exit 1; }
  echo "cosign: the image is signed"
else
  echo "skipped: cosign is absent"
fi

"$mm" export server "$host/images/p-lite:0.1.0" --kind kserve --out kserve 2>/dev/null >&2
"$mm" export server "$host/images/p-lite:0.1.0" --kind k8s --server registry.example/server:1 --out k8s 2>/dev/null >&2
"$mm" export server "$host/team/p-lite:0.1.0-laptop" --kind compose --server registry.example/app:1 --out compose 2>/dev/null >&2
"$mm" export server p-lite:0.1.0 --kind triton --target laptop --out triton 2>/dev/null >&2
"$mm" export server p-lite:0.1.0 --kind ovms --target laptop --out ovms 2>/dev/null >&2
if has kserve_storage kserve-storage; then
  "$python" "$root/scripts/servers.py" kserve kserve/inferenceservice.yaml downloaded files 2>kserve.log || { tail -5 kserve.log; exit 1; }
fi
if has yaml pyyaml; then
  "$python" "$root/scripts/servers.py" attributes kserve/inferenceservice.yaml
fi
if has kubernetes_validate kubernetes-validate; then
  for version in 1.33 1.36 1.37; do
    "$python" -m kubernetes_validate --strict -k "$version" k8s/deployment.yaml 2>/dev/null || "$(dirname "$python")/kubernetes-validate" --strict -k "$version" k8s/deployment.yaml
  done
fi
if has tritonclient.grpc tritonclient; then
  "$python" "$root/scripts/servers.py" triton triton
fi
if has pytriton nvidia-pytriton && has onnxruntime onnxruntime; then
  at=$("$python" -c 'import importlib.util as u, os; print(os.path.dirname(u.find_spec("pytriton").origin))')
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  cp -r "$at/tritonserver/backends" backends
  cp "$at/tritonserver/python_backend_stubs/$version/triton_python_backend_stub" backends/python/
  chmod +x backends/python/triton_python_backend_stub
  cp -r triton stub
  rm -rf stub/audio stub/image # its ensembles want a GPU
  "$python" "$root/scripts/servers.py" stub stub
  libraries=$at/../nvidia_pytriton.libs:$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("LIBDIR"))')
  begun=$(date +%s%N)
  LD_LIBRARY_PATH=$libraries "$at/tritonserver/bin/tritonserver" --model-repository="$work/stub" --backend-directory="$work/backends" \
    --exit-on-error=true --http-port=18765 --allow-grpc=false --allow-metrics=false >triton.log 2>&1 &
  pids+=($!)
  for _ in $(seq 100); do curl -sf 127.0.0.1:18765/v2/health/ready && break; sleep 0.1; done
  echo "tritonserver: ready after $((($(date +%s%N) - begun) / 1000000)) ms"
  timeout 100 "$python" "$root/scripts/servers.py" infer stub 127.0.0.1:18765 || { grep -m 5 -i error triton.log; exit 1; }
fi

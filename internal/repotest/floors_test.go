package repotest_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// floors is the house of docs/ARCHITECTURE.md: a package may import only
// packages of a lower floor. Tests may import what they like.
var floors = map[string]int{
	"internal/spell": -1, "internal/sniff": -1,

	"abi": 0, "internal/diag": 0, "internal/fsx": 0, "internal/bytesize": 0, "internal/spdx": 0, "internal/testfiles": 0, "internal/plot": 0, "core/cpu": 0, "core/htp/htptest": 3, "core/htp/fit": 3, "core/htp/blob": 2, "core/htp": 0, "core/mmap": 0, "core/pool": 0, "core/npy": 0, "core/preprocess/codec": 0, "internal/fsx/fsxtest": 1, "internal/audit": 1, "internal/jinjatest": 1, "schemas": 1, "core/tensor": 1, "onnx": 1, "core/chat/jinja": 1, "tools/measure": 1, "core/preprocess": 1, "modules": 2, "core/quant": 2, "train/nn": 2, "core/gguf": 2, "core/safetensors": 2, "core/chat": 2, "train/optim": 2, "core/grammar/automaton": 0, "core/grammar/schema": 2,

	"lab/device/evidence": 0, "lab/device/lane": 0, "lab/device/adb": 1, "lab/device/ssh": 1, "lab/device/protocol": 1, "lab/device": 5, "lab/device/samples": 8, "lab/device/phonetest": 9,

	"builds": 3, "registry/artifact": 1, "registry/disk": 1, "registry/cas": 2, "registry/names": 2, "registry": 3, "core/tokenizer": 3, "train/llm": 3, "core/quant/panel": 3, "core/gguf/arch": 3, "onnx/admit": 3, "onnx/facts": 3, "onnx/weights": 3, "onnx/qdq": 3, "onnx/onnxtest": 4, "onnx/engine/kernel": 3,

	"skills/sandbox": 3, "skills/sandbox/builtin": 4, "skills/sandbox/process": 4, "skills/sandbox/starlark": 4, "skills/sandbox/wasm": 4, "skills/sandbox/python": 5, "skills/sandbox/mcpclient": 4, "skills/sandbox/oci": 4, "skills/skilltest": 4, "skills": 4,
	"skills/algebra": 5, "skills/guard": 5, "skills/glyph": 5, "skills/chart": 6, "skills/formula": 6, "skills/template": 3, "skills/standard": 7,
	"registry/sign": 4, "registry/remote": 4, "registry/server": 4, "registry/modelpack": 4, "modules/seed": 4, "train/dataset": 4, "train/dataset/fonts": 0, "train/dataset/synth": 4, "train/dataset/scene": 4, "train/dataset/sound": 4, "core/hf": 4, "core/llama2c": 4, "train/net": 4, "core/gguf/window": 4,
	"core/grammar": 4, "core/infer/sample": 3, "core/infer/adapter": 3, "core/quant/calibrated": 4,
	"onnx/engine/arith": 4, "onnx/engine/conv": 4, "onnx/engine/move": 4, "onnx/engine/product": 4,

	"modules/qnnfile": 4, "modules/inspect": 5, "builds/resolve": 5, "runtimes": 5, "core/infer": 4, "onnx/engine/image": 5, "onnx/engine/layers": 5, "train/net/onnxfile": 5, "train/dataset/qa": 5, "train/net/nettest": 5,

	"train": 6, "modules/convert": 6, "core/infer/score": 6, "onnx/engine/op": 6, "assemble/export": 6, "runtimes/talk": 6, "runtimes/corellm": 6, "runtimes/runtimetest": 6, "runtimes/modality": 6,
	"runtimes/worker/wire": 6, "runtimes/qnn/ask": 6, "runtimes/step": 6,

	"onnx/engine": 7, "onnx/engine/op/optest": 7, "assemble": 7, "assemble/export/npu": 8, "runtimes/part": 7, "tools/libllama": 7, "runtimes/worker": 7, "core/infer/calibrate": 7,

	"workspace/home": 2, "workspace/trust": 5, "workspace/loose": 7, "workspace": 8, "runtimes/native": 8, "assemble/quantize": 8, "onnx/engine/drift": 8, "onnx/engine/freeze": 8, "train/modal": 8, "train/decode": 8, "runtimes/coreonnx": 8, "runtimes/media": 8,
	"lab/records": 1, "lab/chain": 1, "lab/judge": 4, "lab/telemetry": 0, "lab/backends": 4, "lab/experiment": 3,

	"tools/libllama/driver": 8, "tools/libllama/overhead": 8, "tools/libllama/bench": 8, "tools/libllama/precision": 8, "tools/libllama/quality": 8,

	"modules/modelfile": 9, "modules/pack": 9, "runtimes/llamacpp": 9, "runtimes/onnxrt": 9, "runtimes/runner": 9, "runtimes/native/nativetest": 9,
	"cmd/mm-native/dynlib": 8, "cmd/mm-native/ortlib": 9, "runtimes/qnn": 9,

	"eval": 10, "eval/demo": 11, "serve/mcp": 10, "tools/release": 10, "cmd/mm-native/llamalib": 10, "cmd/mm-native/qnnlib": 10,
	"assemble/compile": 10, "lab/attempt": 11,

	"cmd/mm": 12, "cmd/mm-native": 12, "tools/ortbench": 11, "tools/latency": 10, "tools/recite": 10,
}

// thirdParty says which packages may import a module from outside. Modules
// that are not listed may be imported by nobody.
var thirdParty = map[string][]string{
	"github.com/BobuSumisu/aho-corasick":       {"skills/guard"},
	"github.com/Masterminds/semver/v3":         {"abi", "builds/resolve", "workspace", "runtimes/native", "cmd/mm"},
	"github.com/ebitengine/purego":             {"tools/libllama/driver", "cmd/mm-native/dynlib", "cmd/mm-native/llamalib", "cmd/mm-native/ortlib", "cmd/mm-native/qnnlib"},
	"github.com/gofrs/flock":                   {"internal/fsx"},
	"github.com/google/flatbuffers":            {"core/htp/htptest"},
	"github.com/hajimehoshi/go-mp3":            {"core/preprocess/codec"},
	"github.com/jfreymuth/vorbis":              {"core/preprocess/codec"},
	"github.com/mattn/go-isatty":               {"cmd/mm"},
	"github.com/mewkiz/flac":                   {"core/preprocess/codec"},
	"github.com/modelcontextprotocol/go-sdk":   {"serve/mcp", "skills/sandbox/mcpclient"},
	"github.com/opencontainers/go-digest":      {"registry", "registry/artifact", "registry/cas", "registry/names", "registry/remote", "registry/server", "registry/sign", "registry/modelpack", "builds/resolve", "assemble", "assemble/export", "workspace", "cmd/mm", "tools/release"},
	"github.com/opencontainers/image-spec":     {"registry", "registry/artifact", "registry/cas", "registry/disk", "registry/names", "registry/remote", "registry/server", "registry/sign", "registry/modelpack", "builds/resolve", "assemble", "assemble/export", "workspace", "workspace/loose", "workspace/trust", "cmd/mm", "skills/sandbox/oci", "tools/release"},
	"github.com/santhosh-tekuri/jsonschema/v5": {"schemas", "core/grammar/schema"},
	"github.com/sigstore/sigstore":             {"registry/sign"},
	"github.com/tetratelabs/wazero":            {"skills/sandbox/wasm", "skills/sandbox/python"},
	"github.com/urfave/cli/v2":                 {"cmd/mm"},
	"github.com/vbauerster/mpb/v8":             {"cmd/mm"},
	"go.starlark.net":                          {"skills/sandbox/starlark"},
	"github.com/pkg/sftp":                      {"lab/device/ssh"},
	"golang.org/x/crypto":                      {"lab/device/ssh", "registry/server", "registry/sign", "cmd/mm", "tools/release"},
	"golang.org/x/image":                       {"train/dataset/scene", "core/preprocess", "internal/testfiles", "skills/glyph"},
	"golang.org/x/sync":                        {"registry", "registry/remote", "registry/server", "registry/sign"},
	"golang.org/x/sys":                         {"internal/fsx", "core/mmap", "core/cpu", "core/pool", "core/quant/panel", "tools/libllama/bench", "cmd/mm-native", "cmd/mm-native/dynlib", "cmd/mm-native/llamalib", "cmd/mm-native/ortlib", "runtimes/worker", "registry", "skills/sandbox/process", "skills/sandbox/wasm", "skills/skilltest"},
	"golang.org/x/term":                        {"cmd/mm"},
	"golang.org/x/text":                        {"core/tokenizer", "registry/artifact", "internal/diag"},
	"gonum.org/v1/gonum":                       {"train/dataset/sound", "core/preprocess"},
	"gopkg.in/yaml.v3":                         {"schemas"},
	"oras.land/oras-go/v2":                     {"registry", "registry/artifact", "registry/cas", "registry/disk", "registry/names", "registry/remote", "registry/server", "registry/sign", "registry/modelpack", "builds/resolve", "assemble", "assemble/export", "workspace", "workspace/trust", "cmd/mm"},
}

const module = "mm-abi.org/mm/"

type pkg struct {
	ImportPath string
	Imports    []string
	Doc        string
	Dir        string
	Standard   bool
}

// list returns the packages of the module. The slice is shared by all tests.
func list(t *testing.T) []pkg {
	t.Helper()
	all, err := packages()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return all
}

var packages = sync.OnceValues(func() ([]pkg, error) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Doc,Dir,Standard", "mm-abi.org/mm/...").Output()
	if err != nil {
		return nil, err
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
})

func TestFloors(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		seen[name] = true
		floor, ok := floors[name]
		if !ok {
			if name != "internal/repotest" {
				t.Errorf("%s has no floor", name)
			}
			continue
		}
		for _, imp := range p.Imports {
			below, mine := strings.CutPrefix(imp, module)
			if !mine {
				continue
			}
			if other, ok := floors[below]; !ok || other >= floor {
				t.Errorf("%s (floor %d) imports %s (floor %d)", name, floor, below, other)
			}
			if numeric(name) && !numeric(below) && below != "internal/fsx" {
				t.Errorf("%s imports %s, which is not numeric", name, below)
			}
		}
	}
	for name := range floors {
		if !seen[name] {
			t.Errorf("%s has a floor and does not exist", name)
		}
	}
}

// numeric reports whether a package belongs to a room that holds numbers alone:
// core, onnx and train import each other and internal/fsx.
func numeric(name string) bool {
	room, _, _ := strings.Cut(name, "/")
	return room == "core" || room == "onnx" || room == "train"
}

func TestThirdParty(t *testing.T) {
	used := map[string]bool{}
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, module) || !strings.Contains(strings.Split(imp, "/")[0], ".") {
				continue
			}
			mod := moduleOf(imp)
			if mod == "" {
				t.Errorf("%s imports %s, which no rule allows; a new dependency needs a paragraph in docs/RATIONALE.md", name, imp)
				continue
			}
			used[mod] = true
			if !slices.Contains(thirdParty[mod], name) {
				t.Errorf("%s imports %s; only %v may", name, imp, thirdParty[mod])
			}
		}
	}
	for mod := range thirdParty {
		if !used[mod] {
			t.Errorf("%s is allowed and nobody imports it", mod)
		}
	}
}

// mm is a static program: what loads shared libraries is linked into mm-native
// alone.
func TestStatic(t *testing.T) {
	deps := func(program string) string {
		out, err := exec.Command("go", "list", "-deps", module+program).Output()
		if err != nil {
			t.Fatalf("go list %s: %v", program, err)
		}
		return string(out)
	}
	const loader = "github.com/ebitengine/purego"
	if strings.Contains(deps("cmd/mm"), loader) {
		t.Errorf("mm links %s, which makes it a dynamic program", loader)
	}
	if !strings.Contains(deps("cmd/mm-native"), loader) {
		t.Error("mm-native does not load libraries: the rule is blind")
	}
}

func moduleOf(imp string) string {
	for mod := range thirdParty {
		if imp == mod || strings.HasPrefix(imp, mod+"/") {
			return mod
		}
	}
	return ""
}

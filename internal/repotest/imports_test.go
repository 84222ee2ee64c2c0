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

// thirdParty lists the packages that may import each third-party module. A module
// that is not listed may not be imported.
var thirdParty = map[string][]string{
	"github.com/BobuSumisu/aho-corasick":     {"skills/standard"},
	"github.com/CycloneDX/cyclonedx-go":      {"builds/bom"},
	"github.com/Masterminds/semver/v3":       {"abi", "builds/resolve", "workspace", "runtimes/native", "cmd/mm"},
	"github.com/digitorus/pkcs7":             {"registry/sigstore"},
	"github.com/digitorus/timestamp":         {"registry/sigstore", "registry/sigstore/sigstoretest"},
	"github.com/ebitengine/purego":           {"tools/libllama/driver", "cmd/mm-native/dynlib", "cmd/mm-native/llamalib", "cmd/mm-native/ortlib", "cmd/mm-native/qnnlib"},
	"github.com/gofrs/flock":                 {"internal/fsx"},
	"github.com/google/flatbuffers":          {"assemble/export/executorch", "assemble/export/tflite", "onnx/htp/htptest"},
	"github.com/hajimehoshi/go-mp3":          {"core/preprocess/codec"},
	"github.com/jfreymuth/vorbis":            {"core/preprocess/codec"},
	"github.com/klauspost/compress":          {"registry", "lab/corpus"},
	"github.com/expr-lang/expr":              {"lab/corpus"},
	"github.com/parquet-go/parquet-go":       {"lab/corpus"},
	"github.com/mattn/go-isatty":             {"cmd/mm", "cmd/console"},
	"github.com/mewkiz/flac":                 {"core/preprocess/codec"},
	"github.com/minio/minio-go/v7":           {"registry/bucket"},
	"github.com/modelcontextprotocol/go-sdk": {"serve/mcp", "skills/sandbox/mcpclient"},
	"github.com/nats-io/nats-server/v2":      {"lab/farm/broker"},
	"github.com/nats-io/nats.go":             {"lab/farm"},
	"github.com/nats-io/nkeys":               {"lab/farm"},
	"github.com/opencontainers/go-digest":    {"registry", "registry/artifact", "registry/cas", "registry/remote", "registry/server", "registry/sign", "registry/modelpack", "registry/registrytest", "builds/resolve", "assemble", "assemble/export", "workspace", "workspace/trust", "cmd/console", "tools/release"},
	"github.com/opencontainers/image-spec":   {"registry", "registry/artifact", "registry/cas", "registry/remote", "registry/server", "registry/sign", "registry/modelpack", "registry/registrytest", "builds/resolve", "assemble", "assemble/export", "workspace", "workspace/loose", "workspace/trust", "cmd/console", "skills/sandbox/oci", "lab/farm", "tools/release"},
	"github.com/sigstore/protobuf-specs":     {"registry/sigstore"},
	"github.com/sigstore/sigstore":           {"registry/sign"},
	"github.com/tetratelabs/wazero":          {"skills/sandbox/wasm", "skills/sandbox/python"},
	"github.com/transparency-dev/merkle":     {"registry/sigstore", "registry/sigstore/sigstoretest"},
	"github.com/urfave/cli/v2":               {"cmd/mm", "cmd/console"},
	"github.com/vbauerster/mpb/v8":           {"cmd/console"},
	"go.starlark.net":                        {"skills/sandbox/starlark"},
	"github.com/pkg/sftp":                    {"lab/device/ssh"},
	"golang.org/x/crypto":                    {"lab/device/ssh", "registry/server", "registry/sign", "registry/sigstore", "cmd/mm", "tools/release"},
	"golang.org/x/mod":                       {"registry/sigstore"},
	"golang.org/x/image":                     {"train/dataset/scene", "core/preprocess", "internal/testfiles", "skills/figure"},
	"golang.org/x/sync":                      {"registry", "registry/bucket", "registry/remote", "registry/server", "registry/sign"},
	"golang.org/x/sys":                       {"internal/fsx", "core/mmap", "core/cpu", "core/pool", "core/quant/panel", "tools/libllama/bench", "cmd/mm-native", "cmd/mm-native/dynlib", "cmd/mm-native/llamalib", "cmd/mm-native/ortlib", "runtimes/worker", "registry", "skills/sandbox/process", "skills/sandbox/wasm", "skills/skilltest"},
	"golang.org/x/term":                      {"cmd/mm", "cmd/console"},
	"github.com/rivo/uniseg":                 {"core/tokenizer"},
	"golang.org/x/text":                      {"core/tokenizer", "core/chat/jinja", "registry/artifact", "internal/diag", "runtimes/speech"},
	"gonum.org/v1/gonum":                     {"train/dataset/sound", "core/preprocess", "lab/study"},
	"google.golang.org/protobuf":             {"assemble/export/coreml", "core/tokenizer", "lab/track", "registry/sigstore"},
	"gopkg.in/yaml.v3":                       {"schemas"},
	"oras.land/oras-go/v2":                   {"registry", "registry/artifact", "registry/cas", "registry/hub", "registry/remote", "registry/server", "registry/sign", "registry/modelpack", "builds/resolve", "assemble", "assemble/export", "workspace", "workspace/trust", "cmd/mm"},
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

// Only mm-native links the loader of shared libraries: mm is a static program. The
// validator that judges mm's own in tests compiles metaschemas when a program starts.
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
	if strings.Contains(deps("cmd/mm"), "github.com/santhosh-tekuri/jsonschema") {
		t.Error("mm links the validator of the tests")
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

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/server"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// npuParts are the modules of p-lite that a chart goes through before the core.
var npuParts = []string{"vision-enc", "vision-proj"}

// question is one about a picture, which a path names.
type question struct{ picture, text string }

// ask has a build answer, its parts on the backends that are named.
func (c question) ask(t *testing.T, ref string, backends ...string) runner.Report {
	t.Helper()
	args := []string{"run", ref, "--prompt", c.text, "--image", c.picture, "--max-tokens", "4", "--temperature", "0", "--trace", "--json"}
	for _, b := range backends {
		args = append(args, "--backend", b)
	}
	stdout, stderr, code := mm(t, args...)
	var got runner.Report
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitOK {
		t.Fatalf("mm %v: exit %d: %s%v", args, code, stderr, err)
	}
	return got
}

// npuHome is a new home with Qualcomm's libraries installed.
func npuHome(t *testing.T, libs string) {
	t.Helper()
	t.Setenv("MM_HOME", filepath.Join(t.TempDir(), "home"))
	must(t, "runtime", "install", "qnn", "--accept-license", "--from", libs)
}

// A build with contexts for an NPU goes the whole way: compiled, signed, pushed
// to a registry, refused by a home that does not know the key, pulled by one that
// does, verified, and asked about charts. In emulation its contexts give the
// words that the engine onnx gives. The contexts then go to an emulated phone
// (TestNPU/device), so that they are compiled once.
func TestNPU(t *testing.T) {
	libs := os.Getenv("MM_QNN_LIB")
	if libs == "" {
		t.Skip("skipped: MM_QNN_LIB names no folder with Qualcomm's libraries")
	}
	runtimetest.Program(t)
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MM_KEY_PASSWORD", "")
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	npuHome(t, libs)
	t.Chdir(t.TempDir())
	key := strings.Fields(must(t, "keys", "generate", "--unencrypted"))[1]
	must(t, "assemble", filepath.Join(repo, "builds", "p-lite.graph.yaml"), "--target", "phone-npu", "--export", "gguf=int8",
		"--export", "onnx="+strings.Join(npuParts, ","), "--export", "qnn="+strings.Join(npuParts, ",")+"@sm8750", "--sign", "default", "--out", "dist")
	dist, err := filepath.Abs(filepath.Join("dist", "phone-npu"))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("registry", func(t *testing.T) { npuRegistry(t, repo, dist, key, libs) })
	t.Run("device", func(t *testing.T) { npuDevice(t, repo, dist, libs) })
}

// npuRegistry sends the build to a registry and has another home run it.
func npuRegistry(t *testing.T, repo, dist, key, libs string) {
	store, err := registry.Open(t.TempDir(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h, err := server.New(store, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(h)
	t.Cleanup(func() { web.Close(); store.Close() })
	ref := strings.TrimPrefix(web.URL, "http://") + "/p-lite:0.1.0"
	must(t, "push", "p-lite:0.1.0", strings.TrimSuffix(ref, ":0.1.0"))

	npuHome(t, libs)
	t.Chdir(t.TempDir()) // where there is nothing of the repository
	if _, stderr, code := mm(t, "pull", ref); code != diag.ExitRefused {
		t.Fatalf("a home that trusts nobody: exit %d: %s", code, stderr)
	}
	must(t, "trust", "add", key, "--name", "maker")
	must(t, "pull", ref)
	t.Logf("%s", must(t, "verify", ref))
	for i, c := range []question{
		{filepath.Join(repo, "catalog", "vision-proj", "chart.png"), "what is the highest bar?"},
		{filepath.Join(repo, "catalog", "vision-proj", "chart.png"), "what is the lowest bar?"},
	} {
		want, got := c.ask(t, ref), c.ask(t, ref, "vision-enc=qnn", "vision-proj=qnn")
		t.Logf("%s onnx:%q, qnn (emulated):%q", c.text, want.Text, got.Text)
		if got.Text != want.Text || got.Text == "" {
			t.Errorf("%s\n-onnx: %q\n+qnn:  %q", c.text, want.Text, got.Text)
		}
		if i == 0 { // what the picture comes to is known from then on
			npuSteps(t, dist, want, got)
		}
		for _, b := range got.Backends[1:] {
			if b.Engine != "qnn (emulated)" || !b.Simulated {
				t.Errorf("%s ran on %s, simulated %v", b.Part, b.Engine, b.Simulated)
			}
		}
	}
}

// npuSteps looks whether each part ran where it was to: on the engine onnx, and
// in emulation on the very contexts that were compiled.
func npuSteps(t *testing.T, dist string, want, got runner.Report) {
	t.Helper()
	emulated := 0
	for _, s := range want.Trace {
		if s.Simulated || s.Backend == "qnn" {
			t.Errorf("%s ran on %s without being asked to", s.Part, s.Backend)
		}
	}
	for _, s := range got.Trace {
		if !slices.Contains(npuParts, s.Part) {
			continue
		}
		emulated++
		sum, c := npuContext(t, dist, s.Part)
		if s.Backend != "qnn (emulated)" || !s.Simulated || s.Facts["digest"] != sum || s.Facts["chip"] != "SM8750 (69, v79)" || s.Facts["sdk"] != c.Build {
			t.Errorf("%s: %+v, want the context %s", s.Part, s.Step, sum)
		}
	}
	if emulated != len(npuParts) {
		t.Errorf("%d steps in emulation, want %d", emulated, len(npuParts))
	}
}

// npuContext is the digest of a part's context and what it says of itself.
func npuContext(t *testing.T, dist, part string) (string, *htp.Context) {
	t.Helper()
	data, err := os.ReadFile(npuFile(t, dist, part))
	if err != nil {
		t.Fatal(err)
	}
	c, err := htp.ReadContext(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(data)), c
}

// npuFile is where a part's context lies in the build.
func npuFile(t *testing.T, dist, part string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dist, part, "*.sm8750.bin"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s has the contexts %q, %v", part, found, err)
	}
	return found[0]
}

package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/runtimes/encdec"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// loopCase is an input of an encoder-decoder and the output of transformers
// (scripts/encdec.py).
type loopCase struct {
	Text, Sound, Language string
	Limit                 int
	IDs                   []int32
	Words                 string
}

// args returns the input and the options of a case.
func (c loopCase) args(dir string) []string {
	out := []string{"--max-tokens", strconv.Itoa(c.Limit), "--format", "json"}
	if c.Language != "" {
		out = append(out, "--language", c.Language)
	}
	if c.Sound != "" {
		return append(out, "--audio", filepath.Join(dir, c.Sound))
	}
	return append(out, c.Text)
}

// loopFolders returns the folders of encoder-decoders, or those of MM_ENCDEC.
func loopFolders(t *testing.T) []string {
	t.Helper()
	root := "testdata/encdec"
	if v := os.Getenv("MM_ENCDEC"); v != "" {
		root = v
	}
	files, err := filepath.Glob(filepath.Join(root, "*", "cases.json"))
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for i := range files {
		files[i] = filepath.Dir(files[i])
	}
	return files
}

func loopCases(t *testing.T, dir string) (cases []loopCase) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// TestEncDec compares the greedy ids of encoder-decoders with those of transformers:
// of folders as they are and of the modules that are imported from them.
func TestEncDec(t *testing.T) {
	t.Setenv("MM_HOME", t.TempDir())
	for _, dir := range loopFolders(t) {
		name := filepath.Base(dir)
		module := filepath.Join(t.TempDir(), "m")
		must(t, "module", "import", "hf", dir, "--version", "1.0.0", "--license", "MIT", "--dir", module, "--name", "m")
		for _, folder := range []string{dir, module} {
			for i, c := range loopCases(t, dir) {
				var got encdec.Report
				if err := json.Unmarshal([]byte(must(t, append([]string{"run", folder}, c.args(dir)...)...)), &got); err != nil {
					t.Fatal(err)
				}
				var ids []int32
				for _, s := range got.Segments {
					ids = append(ids, s.IDs...)
				}
				if !slices.Equal(ids, c.IDs) || c.Words != "" && strings.TrimSpace(got.Text) != c.Words {
					t.Errorf("%s, case %d:\ngot  %v %q\nwant %v %q", name, i, ids, got.Text, c.IDs, c.Words)
				}
			}
		}
	}
}

// TestEncDecOnONNXRuntime compares the greedy ids of the same models, with encoder and
// decoder in ONNX Runtime, with those of transformers.
func TestEncDecOnONNXRuntime(t *testing.T) {
	home, err := runtimetest.Home(t, native.ONNXRuntime)()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MM_HOME", home)
	for _, dir := range loopFolders(t) {
		name, module := filepath.Base(dir), filepath.Join(t.TempDir(), "m")
		must(t, "module", "import", "hf", dir, "--version", "1.0.0", "--license", "MIT", "--dir", module, "--name", "m")
		for i, c := range loopCases(t, dir) {
			for _, backend := range []string{"onnxruntime", "m=onnxruntime"}[:1+min(i, 1)] {
				var got encdec.Report
				if err := json.Unmarshal([]byte(must(t, append([]string{"run", module, "--backend", backend}, c.args(dir)...)...)), &got); err != nil {
					t.Fatal(err)
				}
				var ids []int32
				for _, s := range got.Segments {
					ids = append(ids, s.IDs...)
				}
				if got.Backend != "onnxruntime" || !slices.Equal(ids, c.IDs) {
					t.Errorf("%s, case %d, --backend %s: %s gives\n%v, want\n%v", name, i, backend, got.Backend, ids, c.IDs)
				}
			}
		}
	}
}

// TestHostileEncDec runs damaged folders of encoder-decoders: each is refused with a
// reason, or runs, within bounds of memory and time. MM_HOSTILE sets how many.
func TestHostileEncDec(t *testing.T) {
	n := 40
	if v, err := strconv.Atoi(os.Getenv("MM_HOSTILE")); err == nil {
		n = v
	}
	t.Setenv("MM_HOME", t.TempDir())
	families := loopFolders(t)
	counts := map[int]int{}
	for i := range n {
		rng := rand.New(rand.NewPCG(uint64(i), 2))
		from := families[i%len(families)]
		dir := filepath.Join(t.TempDir(), "m")
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		names := []string{"config.json", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "preprocessor_config.json"}
		what := damageOne(t, dir, names, rng)
		cases := loopCases(t, from)
		args := cases[rng.IntN(len(cases))].args(dir)
		args[1] = "4"
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		_, stderr, code := mm(t, append([]string{"run", dir, "--timeout", "20s"}, args...)...)
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		counts[code]++
		if code != exitOK && strings.TrimSpace(stderr) == "" || strings.Contains(stderr, "panic") || strings.Contains(stderr, "runtime error") {
			t.Errorf("%d, %s of %s: exit %d, %q", i, what, from, code, stderr)
		}
		if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 2048 || took > 30*time.Second {
			t.Errorf("%d, %s of %s: %d MiB allocated in %v: %s", i, what, from, mib, took, stderr)
		}
	}
	t.Logf("%d damaged models: exit codes %v", n, counts)
}

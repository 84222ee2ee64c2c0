package main

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// prompted is a prompt with pictures or sounds and the ids that transformers continues it
// with: a case of scripts/strangers.py.
type prompted struct {
	Pictures  []string `json:"pictures"`
	Sounds    []string `json:"sounds"`
	Prompt    string   `json:"prompt"`
	Positions int      `json:"positions"`
	IDs       []int32  `json:"ids"`
	Margin    float64  `json:"margin"` // least difference of the two best logits
}

// TestVisionFolders runs folders of vision language models as they are, and their
// modules as a graph that rounds nothing, and compares the greedy ids with those of transformers.
func TestVisionFolders(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: converts a folder of every family")
	}
	root := cmp.Or(os.Getenv("MM_STRANGERS"), filepath.Join("testdata", "vision"))
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := filepath.Glob(filepath.Join(root, "*", "cases.json"))
	if err != nil || len(lists) < 4 {
		t.Fatalf("%s holds %d families, want at least 4: %v", root, len(lists), err)
	}
	t.Setenv("MM_HOME", t.TempDir())
	for _, list := range lists {
		folder := filepath.Dir(list)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			var cases []prompted
			data, err := os.ReadFile(list)
			if err == nil {
				err = json.Unmarshal(data, &cases)
			}
			if err != nil || len(cases) == 0 {
				t.Fatal(len(cases), err)
			}
			project := filepath.Join(t.TempDir(), "project")
			must(t, "module", "import", "hf", folder, "--version", "1.0.0", "--license", "MIT", "--dir", project, "--name", "stranger")
			graph := exact(t, filepath.Join(project, "build.graph.yaml"))
			equal, alone := 0, 0
			for _, c := range cases {
				if continues(t, graph, folder, c) {
					equal++
				}
				if c.Margin > rounding && continues(t, folder, folder, c) {
					alone++
				}
			}
			t.Logf("%d of %d prompts: %d greedy ids equal; %d of the folder as it is", equal, len(cases), len(cases[0].IDs), alone)
			mmproj := filepath.Join(folder, "stranger-mmproj.gguf")
			if _, err := os.Stat(mmproj); err == nil {
				paired(t, filepath.Join(project, "modules", "stranger-core", "stranger-core.gguf"), mmproj, cases)
			}
		})
	}
}

// paired runs a language model in GGUF with the mmproj file that llama.cpp's converter
// wrote of the same folder: named, in its folder, and as modules.
func paired(t *testing.T, core, mmproj string, cases []prompted) {
	t.Helper()
	folder, together := filepath.Dir(mmproj), t.TempDir()
	for from, to := range map[string]string{core: "text.gguf", mmproj: "mmproj-text.gguf"} {
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(together, to), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	project := filepath.Join(t.TempDir(), "pair")
	must(t, "module", "import", "gguf", core, "--mmproj", mmproj, "--version", "1.0.0", "--license", "MIT", "--dir", project, "--name", "pair")
	equal := 0
	for _, c := range cases {
		if c.Margin < rounding {
			continue
		}
		if continues(t, core, folder, c, "--mmproj", mmproj) {
			equal++
		}
		continues(t, filepath.Join(together, "text.gguf"), folder, c)
		continues(t, filepath.Join(project, "build.graph.yaml"), folder, c)
	}
	t.Logf("%d prompts of the pair equal", equal)
}

// rounding is the largest difference of logits that the 16 bits of keys and values
// of a folder's model make here.
const rounding = 5e-3

// exact makes a graph store its core, keys and values in 32 bits.
func exact(t *testing.T, graph string) string {
	t.Helper()
	data, err := os.ReadFile(graph)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(data), "{quant: fp16}", "{quant: fp32, kv: fp32}", 1)
	if text == string(data) {
		t.Fatalf("no 16 bits in %s", data)
	}
	if err := os.WriteFile(graph, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return graph
}

// continues asks a model and compares its answer.
func continues(t *testing.T, model, folder string, c prompted, more ...string) bool {
	t.Helper()
	args := []string{"run", model, "--json", "--temperature", "0", "--max-tokens", strconv.Itoa(len(c.IDs))}
	args = append(args, more...)
	for _, p := range c.Pictures {
		args = append(args, "--image", filepath.Join(folder, p))
	}
	for _, p := range c.Sounds {
		args = append(args, "--audio", filepath.Join(folder, p))
	}
	var got struct {
		Tokens  []int32 `json:"tokens"`
		Stop    string  `json:"stop"`
		Timings struct {
			Prompt int `json:"prompt_tokens"`
		} `json:"timings"`
	}
	if err := json.Unmarshal([]byte(must(t, append(args, c.Prompt)...)), &got); err != nil {
		t.Fatal(err)
	}
	want := c.IDs
	if got.Stop == "end" { // transformers ignored the end
		want = want[:min(len(got.Tokens), len(want))]
	}
	if got.Timings.Prompt != c.Positions || !slices.Equal(got.Tokens, want) {
		t.Errorf("%v%v: got %d positions and ids %v, want %d and %v (margin %.1e)", c.Pictures, c.Sounds, got.Timings.Prompt, got.Tokens, c.Positions, want, c.Margin)
		return false
	}
	return true
}

// TestValidateSenses: a projector that asks for more than the core has is reported
// before it runs.
func TestValidateSenses(t *testing.T) {
	t.Setenv("MM_HOME", t.TempDir())
	dir := t.TempDir()
	project := filepath.Join(dir, "grid")
	must(t, "module", "import", "hf", "testdata/vision/qwen3_vl", "--version", "1.0.0", "--license", "MIT", "--dir", project, "--name", "grid")
	other := filepath.Join(dir, "line")
	must(t, "module", "import", "hf", "testdata/vision/pixtral", "--version", "1.0.0", "--license", "MIT", "--dir", other, "--name", "line")
	if err := os.Rename(filepath.Join(other, "modules", "line-core"), filepath.Join(project, "modules", "line-core")); err != nil {
		t.Fatal(err)
	}
	graph := filepath.Join(project, "build.graph.yaml")
	must(t, "validate", graph)
	data, err := os.ReadFile(graph)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want string }{
		{"ref: grid-core@1.0.0", "ref: line-core@1.0.0", "MM1341"},
		{"ref: grid-core@1.0.0", "backend: llamacpp, ref: grid-core@1.0.0", "MM1342"},
	} {
		changed := strings.Replace(string(data), c.from, c.to, 1)
		if err := os.WriteFile(graph, []byte(changed), 0o600); err != nil || changed == string(data) {
			t.Fatal(err)
		}
		stdout, stderr, code := mm(t, "validate", graph)
		if n := strings.Count(stdout+stderr, c.want); code == exitOK || n == 0 || c.want == "MM1341" && n != 2 {
			t.Errorf("%s: exit %d, %s%s", c.to, code, stdout, stderr)
		}
	}
}

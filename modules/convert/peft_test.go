package convert

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/infer/adapter"
	"mm-abi.org/mm/modules"
)

// peftCore converts the core of testdata/peft, written by
// scripts/peft-adapters.py, to a module.
func peftCore(t *testing.T) string {
	t.Helper()
	dir, err := HuggingFace(t.Context(), "testdata/peft", Options{Dir: filepath.Join(t.TempDir(), "core"), Name: "core", Version: "2.1.0", License: "MIT"})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// distance runs tokens through the core with an adapter and returns the largest
// distance of its logits from PEFT's.
func distance(t *testing.T, core, path, golden string) float64 {
	t.Helper()
	var want struct {
		Tokens []int32
		Logits []float64
	}
	raw, err := os.ReadFile(filepath.Join(golden, "logits.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	m, err := infer.Load(core, infer.Options{Threads: 1, Adapters: []infer.AdapterOptions{{Path: path}}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession(infer.SessionOptions{KV: "f32"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Feed(t.Context(), want.Tokens); err != nil {
		t.Fatal(err)
	}
	worst := 0.0
	for i, v := range s.Logits() {
		worst = max(worst, math.Abs(float64(v)-want.Logits[i]))
	}
	return worst
}

// A PEFT folder becomes a module with which the core's logits are PEFT's, and
// the module a PEFT folder again.
func TestPEFT(t *testing.T) {
	core := peftCore(t)
	for name, want := range map[string]struct {
		method string
		rank   int
		alpha  float64
	}{"rslora": {"lora", 4, 12}, "patterns": {"lora", 4, 8}, "dora": {"dora", 3, 6}} {
		golden := filepath.Join("testdata/peft", name)
		dir, err := PEFT(t.Context(), golden, Adapted{Core: core}, Options{Dir: filepath.Join(t.TempDir(), name), Name: name, Version: "0.1.0", License: "MIT"})
		if err != nil {
			t.Fatal(err)
		}
		m, list := modules.Load(dir)
		if list.Failed() || m.Type != abi.Adapter || m.Method != want.method || m.Rank != want.rank || m.Alpha != want.alpha || m.Base.String() != "core@^2" {
			t.Errorf("%s: %+v, %v", name, m, list)
		}
		file := filepath.Join(core, "core.gguf")
		if got := distance(t, file, filepath.Join(dir, name+".gguf"), golden); got > 2e-5 {
			t.Errorf("%s: logits differ by %v", name, got)
		}
		back := filepath.Join(t.TempDir(), "back")
		if err := ExportPEFT(dir, Adapted{Core: file}, "", back); err != nil {
			t.Fatal(err)
		}
		if got := distance(t, file, back, golden); got > 2e-5 {
			t.Errorf("%s exported: logits differ by %v", name, got)
		}
		if err := ExportPEFT(dir, Adapted{Core: file}, "", back); err == nil || !strings.Contains(err.Error(), "already contains") {
			t.Errorf("a second export: %v", err)
		}
	}
}

// Adapters that do not fit, and cores that are not cores, are refused.
func TestPEFTRefused(t *testing.T) {
	core := peftCore(t)
	other := filepath.Join(t.TempDir(), "other")
	m, err := HuggingFace(t.Context(), "testdata/peft", Options{Dir: other, Name: "other", Version: "1.0.0", License: "MIT"})
	if err != nil {
		t.Fatal(err)
	}
	copyOf := func(edit func(dir string)) string {
		dir := t.TempDir()
		for _, f := range []string{adapter.ConfigFile, adapter.WeightsFile} {
			b, err := os.ReadFile(filepath.Join("testdata/peft/patterns", f))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, f), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		edit(dir)
		return dir
	}
	damaged := copyOf(func(dir string) { // the copy of the head is the first tensor
		path := filepath.Join(dir, adapter.WeightsFile)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		head := b[8+binary.LittleEndian.Uint64(b):][:4*264*8]
		for i := 3; i < len(head); i += 4 {
			head[i] ^= 0x80
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	})
	name := Options{Name: "x", Version: "0.1.0", License: "MIT"}
	for _, c := range []struct {
		folder string
		of     Adapted
		opt    Options
		want   string
	}{
		{"testdata/peft/dora", Adapted{}, name, "missing core"},
		{"testdata/peft/dora", Adapted{Core: filepath.Join(core, "core.gguf")}, name, "missing base"},
		{"testdata/peft/dora", Adapted{Core: core}, Options{Version: "0.1.0"}, "missing name"},
		{"testdata/peft/dora", Adapted{Core: t.TempDir()}, name, "module.yaml"},
		{"testdata/peft", Adapted{Core: m}, name, "adapter_config.json"},
		{damaged, Adapted{Core: core}, name, "output.weight of the adapter is not the core's"},
	} {
		c.opt.Dir = filepath.Join(t.TempDir(), "out")
		if _, err := PEFT(t.Context(), c.folder, c.of, c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.folder, err, c.want)
		}
		if _, err := os.Stat(c.opt.Dir); err == nil {
			t.Errorf("%s: a folder remains", c.want)
		}
	}
	if err := ExportPEFT(core, Adapted{Core: core}, "", filepath.Join(t.TempDir(), "out")); err == nil || !strings.Contains(err.Error(), "want an adapter") {
		t.Errorf("a core exported as an adapter: %v", err)
	}
	// The engine reads a PEFT folder as such, but cannot compare the head.
	if _, err := infer.Load(filepath.Join(core, "core.gguf"), infer.Options{Adapters: []infer.AdapterOptions{{Path: "testdata/peft/patterns"}}}); err == nil || !strings.Contains(err.Error(), "copy of the head") {
		t.Errorf("a copy of the head: %v", err)
	}
}

// TestPEFTOrder: rows of adapters are reordered as the core's are.
func TestPEFTOrder(t *testing.T) {
	for name, want := range map[string]bool{"llama": true, "glm4": false, "command-r": false, "cohere2": false, "ernie4_5": false} {
		c := core{shape: arch.Shape{Arch: name, Heads: 2, KVHeads: 1, HeadDim: 4}}
		if got := c.model().Interleaved; got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

package engines_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/assemble/quantize"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// Architectures that the core does not run are run by the library.
func TestForeignArchitectures(t *testing.T) {
	engine := engines.LlamaCPP{Home: runtimetest.Home(t, native.LlamaCPP)}
	dir := t.TempDir()
	if out, err := exec.Command(testfiles.Python(t, "gguf"), filepath.Join("testdata", "foreign.py"), dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"deepseek", "orion", "bloom"} {
		b := llamaBundle(filepath.Join(dir, name+".gguf"))
		if _, err := (engines.Core{}).Open(t.Context(), b, runtimes.Limits{}); err == nil {
			t.Errorf("%s: the core runs it: choose another architecture", name)
		}
		ids, logits := llamaSay(t, engine, b, runtimes.Generation{MaxTokens: 8})
		if len(ids) == 0 || len(logits) != 260 || slices.Max(logits) == slices.Min(logits) {
			t.Errorf("%s: got tokens %v and %d logits", name, ids, len(logits))
		}
		m, err := engine.Open(t.Context(), b, runtimes.Limits{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.(runtimes.Embedder).Embed([]int32{1}); err == nil {
			t.Errorf("%s: vectors of an architecture with unknown scale are used", name)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The library reads pieces that mm writes as it reads the whole file.
func TestPieces(t *testing.T) {
	engine := engines.LlamaCPP{Home: runtimetest.Home(t, native.LlamaCPP)}
	recipe, err := quant.ParseRecipe("Q8_0")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	from := filepath.Join(testfiles.Root(t), "catalog", "core-llm", "core-llm.gguf")
	var ids [2][]int32
	for i, split := range []quantize.Split{{}, {Pieces: 3}} {
		_, files, err := quantize.Rewrite(t.Context(), from, filepath.Join(dir, "m.gguf"), quantize.Options{Recipe: recipe, Split: split}, true)
		if err != nil {
			t.Fatal(err)
		}
		ids[i], _ = llamaSay(t, engine, llamaBundle(files[0].Path), runtimes.Generation{MaxTokens: 16})
	}
	if !slices.Equal(ids[0], ids[1]) {
		t.Errorf("the whole: %v, in pieces: %v", ids[0], ids[1])
	}
}

// Encoders and files whose parts disagree are refused before the library reads them.
func TestForeignRefused(t *testing.T) {
	file := func(t *testing.T, kvs []gguf.KV, tensors ...string) string {
		all := append([]gguf.KV{{Key: gguf.KeyArchitecture, Value: "other"}, {Key: gguf.KeyTokens, Value: []string{"a", "b", "c"}}}, kvs...)
		var sources []gguf.Source
		for _, name := range tensors {
			sources = append(sources, gguf.Source{Name: name, Type: tensor.F32, Dims: []int{8, 3}, Data: make(gguf.Bytes, 96)})
		}
		var b bytes.Buffer
		if _, err := gguf.Write(&b, all, sources); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	width := func(n uint32) gguf.KV { return gguf.KV{Key: "other.embedding_length", Value: n} }
	for name, c := range map[string]struct {
		path string
		want string
	}{
		"not causal": {file(t, []gguf.KV{width(8), {Key: "other.attention.causal", Value: false}}, "token_embd.weight"), "has an encoder"},
		"encoder":    {file(t, []gguf.KV{width(8)}, "token_embd.weight", "enc.blk.0.attn_q.weight"), "has an encoder"},
		"width":      {file(t, []gguf.KV{width(16)}, "token_embd.weight"), "got dimensions [8 3], want [16 3]"},
		"no width":   {file(t, nil, "token_embd.weight"), "embedding_length"},
		"no table":   {file(t, []gguf.KV{width(8)}, "output.weight"), "token_embd.weight"},
		"id":         {file(t, []gguf.KV{width(8), {Key: gguf.KeyEOS, Value: uint32(3)}}, "token_embd.weight"), "out of range of 3 tokens"},
	} {
		_, err := (engines.LlamaCPP{}).Open(t.Context(), llamaBundle(c.path), runtimes.Limits{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

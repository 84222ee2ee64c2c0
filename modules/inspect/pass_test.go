package inspect_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/inspect"
	"mm-abi.org/mm/modules/seed"
)

// TestPass: the chat template is rendered, weights must be finite, and one pass
// is computed.
func TestPass(t *testing.T) {
	template := func(text string) func([]gguf.KV) []gguf.KV {
		return func(kvs []gguf.KV) []gguf.KV { return append(kvs, gguf.KV{Key: gguf.KeyChatTemplate, Value: text}) }
	}
	for _, c := range []struct {
		name   string
		change func([]gguf.KV) []gguf.KV
		spoil  func([]byte)
		want   string
	}{
		{name: "good"},
		{name: "date", change: template("{{ strftime_now('%-d %B %Y') }}{{ messages[0]['content'] }}")},
		{name: "refusal of the template", change: template("{{ raise_exception('no turn of a user') }}")},
		{name: "syntax", change: template("{% if %}"), want: "chat template: "},
		{name: "function", change: template("{{ fetch('x') }}"), want: "chat template: "},
		{name: "NaN", spoil: func(data []byte) { copy(data, "\xff\xff\xff\xff") }, want: ": element 0 is NaN"},
	} {
		dir := seeded(t, seed.Options{Type: abi.Core, Name: "core-llm", Version: "1.0.0"})
		m, list := modules.Load(dir)
		if m == nil {
			t.Fatal(list)
		}
		file := filepath.Join(dir, m.Entry(abi.GGUF))
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if c.change != nil {
			rewrite(t, file, c.change)
		}
		after, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if c.spoil != nil {
			f, err := gguf.Parse(after)
			if err != nil {
				t.Fatal(err)
			}
			c.spoil(f.Tensors[len(f.Tensors)-1].Data)
			if err := os.WriteFile(file, after, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		manifest, err := os.ReadFile(filepath.Join(dir, modules.FileName))
		if err != nil {
			t.Fatal(err)
		}
		manifest = bytes.ReplaceAll(manifest, fmt.Appendf(nil, "%x", sha256.Sum256(before)), fmt.Appendf(nil, "%x", sha256.Sum256(after)))
		manifest = bytes.ReplaceAll(manifest, fmt.Appendf(nil, "size: %d", len(before)), fmt.Appendf(nil, "size: %d", len(after)))
		if err := os.WriteFile(filepath.Join(dir, modules.FileName), manifest, 0o600); err != nil {
			t.Fatal(err)
		}
		list = inspect.Pass(t.Context(), dir)
		if text := fmt.Sprint(list.Err()); list.Failed() != (c.want != "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: got %v, want %q", c.name, text, c.want)
		}
	}
	if !math.IsNaN(float64(math.Float32frombits(math.MaxUint32))) {
		t.Error("the spoiled element is not NaN")
	}
}

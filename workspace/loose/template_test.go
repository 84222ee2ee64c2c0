package loose_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/workspace/loose"
)

// A chat template that cannot be parsed is among the reasons why a model does not run.
func TestInspectTemplate(t *testing.T) {
	for template, want := range map[string]bool{"{% if %}": true, "{{ messages }}": false, "": false} {
		var b bytes.Buffer
		if _, err := gguf.Write(&b, []gguf.KV{{Key: gguf.KeyArchitecture, Value: "llama"}, {Key: gguf.KeyChatTemplate, Value: template}}, nil); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		v, err := loose.Inspect(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(v.Refusals, func(s string) bool { return strings.Contains(s, "chat template") }); got != want || v.Runs {
			t.Errorf("%q: %q", template, v.Refusals)
		}
	}
}

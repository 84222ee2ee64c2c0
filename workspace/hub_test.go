package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/registry/hub"
)

// The token comes from the environment, or from the file that the hub's tools write.
func TestHubToken(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HF_HOME", dir)
	t.Setenv("HF_TOKEN_PATH", "")
	if got, err := hubToken(); got != "" || err != nil {
		t.Errorf("no file: got %q, %v", got, err)
	}
	write := func(n int) {
		if err := os.WriteFile(filepath.Join(dir, "token"), []byte(strings.Repeat("x", n)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(maxToken)
	if got, err := hubToken(); len(got) != maxToken || err != nil {
		t.Errorf("a token at the limit: %d bytes, %v", len(got), err)
	}
	write(maxToken + 1)
	if _, err := hubToken(); err == nil {
		t.Error("a token beyond the limit is read")
	}
}

// The command runs the fetched model.
func TestRunFetched(t *testing.T) {
	for files, want := range map[string]string{
		"README.md m-Q4_0.gguf mmproj-F16.gguf": "mm run d/m-Q4_0.gguf",
		"config.json model.safetensors":         "mm run d",
		"README.md":                             "",
	} {
		var list []hub.Entry
		for f := range strings.SplitSeq(files, " ") {
			list = append(list, hub.Entry{Path: f})
		}
		if got := filepath.ToSlash(runFetched("d", list)); got != want {
			t.Errorf("%s: got %q, want %q", files, got, want)
		}
	}
}

// A card at the limit is read, a larger one is refused.
func TestMaxCard(t *testing.T) {
	for n, ok := range map[int64]bool{MaxCard: true, MaxCard + 1: false} {
		if err := checkCard(n); (err == nil) != ok {
			t.Errorf("a card of %d bytes: %v", n, err)
		}
	}
}

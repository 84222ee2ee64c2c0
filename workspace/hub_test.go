package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry/artifact"
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

// A card has the hub's spelling of the license.
func TestFrontMatter(t *testing.T) {
	for license, want := range map[string]string{
		"Apache-2.0":               "license: apache-2.0\n",
		"MIT AND Apache-2.0":       "license: other\nlicense_name: \"MIT AND Apache-2.0\"\n",
		"LicenseRef-scancode-rail": "license: other\nlicense_name: \"LicenseRef-scancode-rail\"\n",
	} {
		p := artifact.Part{Artifact: &artifact.Artifact{Annotations: map[string]string{ocispec.AnnotationLicenses: license, abi.AnnotationTarget: "laptop"}}}
		if got := string(frontMatter(p)); !strings.HasPrefix(got, "---\n"+want) || !strings.HasSuffix(got, "\n---\n") {
			t.Errorf("%s: got %q", license, got)
		}
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

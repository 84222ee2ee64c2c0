package hub_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/registry/hub"
	"mm-abi.org/mm/registry/registrytest"
)

// The hub's own client reads what mm publishes, and mm reads files that it publishes.
func TestHuggingFaceHub(t *testing.T) {
	python := testfiles.Python(t, "huggingface_hub")
	d := registrytest.NewHub(t)
	d.Token = "hf_secret"
	c := client(t, d, "hf_secret")
	if _, err := c.Push(t.Context(), ref(t, "hf://me/small"), files(contents()), hub.PushOptions{}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(python, filepath.Join(testfiles.Root(t), "scripts", "hub.py"), dir)
	cmd.Env = append(os.Environ(), "HF_ENDPOINT="+d.URL, "HF_HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("huggingface_hub: %s", out)
	if !strings.Contains(string(out), " apache-2.0 ") {
		t.Errorf("the card: %s", out)
	}
	got := read(t, dir)
	for name := range got {
		if strings.HasPrefix(name, ".cache/") {
			delete(got, name)
		}
	}
	if diff := cmp.Diff(contents(), got); diff != "" {
		t.Error(diff)
	}
	back := t.TempDir()
	if _, err := c.Pull(t.Context(), ref(t, "hf://me/again"), back, hub.PullOptions{Include: []string{"*", "*/*"}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(contents(), read(t, back)); diff != "" {
		t.Error(diff)
	}
}

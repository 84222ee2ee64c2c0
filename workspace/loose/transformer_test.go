package loose

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The state of a folder has the files of the folders in it: a conversion reads them.
func TestFolderState(t *testing.T) {
	dir := t.TempDir()
	names := []string{"config.json", "1_Pooling/config.json", "onnx/encoder_model.onnx", "onnx/decoder_model.onnx_data"}
	for _, name := range append(names, "onnx/notes.pdf", "onnx/deeper/config.json") {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, _, err := folderState(dir, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if d := cmp.Diff(names, slices.Sorted(maps.Keys(files))); d != "" {
		t.Error(d)
	}
}

func TestMaxFolder(t *testing.T) {
	for more, want := range []bool{true, false} {
		names := append([]string{"ignored.bin"}, slices.Repeat([]string{"w.safetensors"}, maxFolder+more)...)
		if got, err := inputNames(names); (err == nil) != want || want && len(got) != maxFolder {
			t.Errorf("maxFolder+%d: %d names, %v", more, len(got), err)
		}
	}
}

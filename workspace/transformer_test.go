package workspace_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/workspace"
)

// transformer writes a new model whose files are old enough to be recognized
// by their times.
func (w *world) transformer(dir string, seed uint64) {
	w.Helper()
	if err := testfiles.Transformer(dir, seed); err != nil {
		w.Fatal(err)
	}
}

// converted runs the folder and returns the engine's bytes, and whether they
// were converted now.
func (w *world) converted(dir string) (data string, now bool) {
	w.Helper()
	w.printed = nil
	b, err := w.open(workspace.Options{}).Runnable(w.Context(), dir, workspace.RunOptions{})
	if err != nil {
		w.Fatal(err)
	}
	path, err := b.Files.Path(b.Assembly.Core.Files.Entry(abi.GGUF))
	if err != nil {
		w.Fatal(err)
	}
	bytes, err := os.ReadFile(path)
	if err != nil {
		w.Fatal(err)
	}
	return string(bytes), slices.ContainsFunc(w.printed, func(s string) bool { return strings.Contains(s, "converted") })
}

// A folder is converted once, and again when any of its bytes are others.
func TestTransformer(t *testing.T) {
	w := newWorld(t)
	w.transformer("models/one", 1)
	first, now := w.converted("models/one")
	if !now || !strings.HasPrefix(first, "GGUF") {
		t.Fatalf("converted %v: %.4q", now, first)
	}
	if again, now := w.converted("models/one"); now || again != first {
		t.Errorf("the second run: converted %v, the same %v", now, again == first)
	}

	// Other bytes of the same size at the same time of modification.
	weights := "models/one/model.safetensors"
	info, err := os.Stat(weights)
	if err != nil {
		t.Fatal(err)
	}
	w.transformer("models/one", 2)
	if err := os.Chtimes(weights, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	other, now := w.converted("models/one")
	if !now || other == first {
		t.Errorf("other weights: converted %v, the old model %v", now, other == first)
	}

	// The same bytes elsewhere, and a link to them, are the same model.
	w.transformer("copy", 2)
	if got, now := w.converted("copy"); now || got != other {
		t.Errorf("a copy: converted %v, the same %v", now, got == other)
	}
	if err := os.Symlink("copy", "link"); err == nil {
		if _, now := w.converted("link"); now {
			t.Error("a link was converted again")
		}
	}

	// A conversion that the disk spoilt is made again.
	files, err := filepath.Glob(filepath.Join(w.home, "cache", "converted", "*.gguf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		if err := os.Truncate(f, 1000); err != nil {
			t.Fatal(err)
		}
	}
	if got, now := w.converted("models/one"); !now || got != other {
		t.Errorf("a spoilt conversion: converted %v, the same %v", now, got == other)
	}
}

// Files that changed long enough ago are not hashed again, and a change is
// still noticed; the former conversion is removed.
func TestTransformerKnown(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("skipped: the system tells no time of change")
	}
	w := newWorld(t)
	began := time.Now()
	w.transformer("model", 1)
	w.converted("model")
	fresh := time.Since(began) < time.Second // on a busy machine they may be old already
	first, err := filepath.Glob(filepath.Join(w.home, "cache", "converted", "*.gguf"))
	if err != nil || len(first) != 1 {
		t.Fatalf("%v, %v", first, err)
	}
	record := filepath.Join(w.home, "folders.json")
	if _, err := os.Stat(record); err == nil && fresh {
		t.Error("files that were written just now are known by their times")
	}
	time.Sleep(2100 * time.Millisecond)
	w.converted("model")
	before, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	// A record with a wrong digest is trusted: nothing was hashed.
	w.write(record, strings.Replace(string(before), `"digest": "`, `"digest": "00`, 1))
	if _, now := w.converted("model"); !now {
		t.Error("the folder was hashed although it is known")
	}
	w.write(record, string(before))
	if err := os.Chtimes("model/config.json", time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, now := w.converted("model"); now {
		t.Error("converted again for a time")
	}

	// Other weights are noticed when they are old, too, and the old conversion
	// is removed.
	w.transformer("model", 2)
	time.Sleep(2100 * time.Millisecond)
	if _, now := w.converted("model"); !now {
		t.Error("other weights are not seen")
	}
	if _, err := os.Stat(first[0]); err == nil {
		t.Error("the conversion of what the folder was is kept")
	}
	w.write(record, "no JSON")
	if _, now := w.converted("model"); now {
		t.Error("converted again for a spoilt record")
	}
}

// Two concurrent runs convert once and leave nothing else.
func TestTransformerTwice(t *testing.T) {
	w := newWorld(t)
	w.transformer("model", 1)
	var wait sync.WaitGroup
	var converted atomic.Int32
	for range 4 {
		ws, err := workspace.Open(workspace.Options{Home: w.home, Say: func(s string) {
			if strings.Contains(s, "converted") {
				converted.Add(1)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		wait.Go(func() {
			if _, err := ws.Runnable(t.Context(), "model", workspace.RunOptions{}); err != nil {
				t.Error(err)
			}
			if err := ws.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := converted.Load(); n != 1 {
		t.Errorf("converted %d times", n)
	}
	left, err := os.ReadDir(filepath.Join(w.home, "cache", "converted"))
	if err != nil || len(left) != 1 || filepath.Ext(left[0].Name()) != ".gguf" {
		t.Errorf("%v, %v", left, err)
	}
	if left, _ := os.ReadDir(filepath.Join(w.home, "scratch")); len(left) > 0 {
		t.Errorf("scratch holds %v", left)
	}
}

// A folder that cannot become a model is refused, and nothing is kept.
func TestTransformerFaults(t *testing.T) {
	w := newWorld(t)
	for name, spoil := range map[string]func(dir string) error{
		"no weights":   func(dir string) error { return os.Remove(filepath.Join(dir, "model.safetensors")) },
		"no tokenizer": func(dir string) error { return os.Remove(filepath.Join(dir, "tokenizer.json")) },
		"cut":          func(dir string) error { return os.Truncate(filepath.Join(dir, "model.safetensors"), 5000) },
		"another machine's": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"architectures": ["MambaForCausalLM"]}`), 0o644)
		},
	} {
		w.transformer(name, 1)
		if err := spoil(name); err != nil {
			t.Fatal(err)
		}
		_, err := w.open(workspace.Options{}).Runnable(t.Context(), name, workspace.RunOptions{})
		if code(err) != string(diag.NotRunnable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(w.home, "cache", "converted", "*")); len(left) > 0 {
		t.Errorf("kept %v", left)
	}
}

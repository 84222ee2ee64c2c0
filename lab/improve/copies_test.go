package improve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/train"
)

// memory keeps copies in memory.
type memory struct {
	files map[string]string
	fails string // a name that cannot be saved
}

func (m *memory) Fetch(_ context.Context, name, path string) error {
	text, ok := m.files[name]
	if !ok {
		return fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
}

func (m *memory) Save(_ context.Context, name, path string) error {
	text, err := os.ReadFile(path)
	if name == m.fails {
		err = errors.New("no connection")
	}
	if err == nil {
		m.files[name] = string(text)
	}
	return err
}

// A run continues in another folder from the copies of its rounds, with the same
// result, also without one of the last copies; copies of another run are refused.
func TestCopies(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	spec, store := small(STaR), &memory{files: map[string]string{}, fails: "round-0/model.gguf"}
	var warned []string
	begin := func(dir string, resume bool) (Summary, error) {
		return Run(t.Context(), spec, Options{Dir: dir, From: ".", Resume: resume, Copies: store, Warn: func(err error) { warned = append(warned, err.Error()) }})
	}
	first := filepath.Join(t.TempDir(), "first")
	want, err := begin(first, false)
	if err != nil || !slices.Equal(warned, []string{"no connection", "no connection"}) {
		t.Fatalf("%v, warnings %q", err, warned)
	}
	if got := slices.Sorted(maps.Keys(store.files)); !slices.Equal(got, []string{"round-0/learned.txt", specFile}) {
		t.Fatalf("copies %q", got)
	}
	store.fails = ""
	if _, err := begin(first, true); err != nil || len(warned) > 2 || len(store.files) != 1+2*len(roundFiles) {
		t.Fatalf("%v, warnings %q, copies %q", err, warned, slices.Sorted(maps.Keys(store.files)))
	}
	all := maps.Clone(store.files)
	for _, missing := range []string{"", "round-1/model.gguf"} {
		delete(store.files, missing)
		dir := filepath.Join(t.TempDir(), "moved")
		got, err := begin(dir, true)
		if d := cmp.Diff(want.Rounds, got.Rounds); err != nil || d != "" {
			t.Errorf("without %q: %v %s", missing, err, d)
		}
		if d := cmp.Diff(all, store.files); d != "" {
			t.Errorf("without %q: copies differ: %s", missing, d)
		}
		if _, err := os.Stat(filepath.Join(dir, "round-1", trainFolder)); (err == nil) != (missing != "") {
			t.Errorf("without %q: trained again: %t", missing, err == nil)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if _, err := begin(empty, false); !errors.Is(err, train.ErrHeld) || !strings.Contains(err.Error(), "place of the copies") {
		t.Errorf("a place with a run: %v", err)
	}
	spec.Seed++
	if _, err := begin(empty, true); !errors.Is(err, ErrOther) {
		t.Errorf("another spec: %v", err)
	}
	if list, err := os.ReadDir(empty); err != nil || len(list) > 0 {
		t.Errorf("a refused run wrote %v, %v", list, err)
	}
}

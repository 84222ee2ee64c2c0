package export_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/builds/resolve"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/modelpack"
)

func open(t *testing.T, dir string) *registry.Store {
	t.Helper()
	s, err := registry.Open(dir, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

// What an exporter wrote is a blob of the store, readable by everybody, and
// nothing is left of a file that could not be written.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	out := export.Sink{Store: open(t, filepath.Join(dir, "store")), Cache: filepath.Join(dir, "cache")}
	l, err := out.Write(t.Context(), "a/b", text("weights"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(out.Store.BlobPath(l.Descriptor))
	info, statErr := os.Stat(out.Store.BlobPath(l.Descriptor))
	if err != nil || statErr != nil || string(data) != "weights" || info.Mode().Perm() != 0o444 {
		t.Errorf("%q, %v, %v, %v", data, info, err, statErr)
	}
	if l.Path != "a/b" || l.Descriptor.MediaType != abi.MediaWeight || l.Descriptor.Size != 7 {
		t.Errorf("%+v", l)
	}
	stop := errors.New("stop")
	if _, err := out.Write(t.Context(), "a", func(io.Writer) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
	if entries, err := os.ReadDir(out.Cache); err != nil || len(entries) != 0 {
		t.Errorf("left over: %v, %v", entries, err)
	}
	out.Cache = ""
	if _, err := out.Write(t.Context(), "a", text("without a cache")); err != nil {
		t.Error(err)
	}
}

// A result is recalled by its key while its blobs are sound, and in no other
// case.
func TestRecall(t *testing.T) {
	dir := t.TempDir()
	out := export.Sink{Store: open(t, filepath.Join(dir, "store")), Cache: filepath.Join(dir, "cache")}
	var layers []artifact.Layer
	for _, s := range []string{"entry", "beside"} {
		l, err := out.Write(t.Context(), s, text(s))
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, l)
	}
	recalls := func(key string, want bool) {
		t.Helper()
		got, notes, ok := out.Recall(t.Context(), key)
		if ok != want {
			t.Fatalf("%s: recalled %v, want %v", key, ok, want)
		}
		if d := cmp.Diff(layers, got); want && (d != "" || len(notes) != 1 || notes[0] != "a note") {
			t.Errorf("%s %v", d, notes)
		}
	}
	recalls("k", false)
	out.Remember("k", layers, []string{"a note"})
	recalls("k", true)
	recalls("other", false)
	entries, err := filepath.Glob(filepath.Join(out.Cache, "export", "*"))
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	sound, err := os.ReadFile(entries[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "{}", `{"files":[]}`, `{"files":[{"path":"a","digest":"sha256:x","size":1}]}`, string(sound[:len(sound)/2])} {
		if err := os.WriteFile(entries[0], []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		recalls("k", false)
	}
	if err := os.WriteFile(entries[0], sound, 0o644); err != nil {
		t.Fatal(err)
	}
	recalls("k", true)
	blob := out.Store.BlobPath(layers[1].Descriptor)
	if err := errors.Join(os.Remove(blob), os.WriteFile(blob, []byte("besidE"), 0o444)); err != nil {
		t.Fatal(err)
	}
	recalls("k", false)
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	recalls("k", false)
	out.Cache = ""
	out.Remember("k", layers, nil)
	recalls("k", false)
}

// The files of a resolved module are found by their paths in it.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	if err := seed.Write(filepath.Join(dir, "enc"), seed.Options{Type: abi.Encoder, Name: "enc", DEnc: 8}); err != nil {
		t.Fatal(err)
	}
	store := open(t, filepath.Join(dir, "store"))
	manifest, list := modules.Load(filepath.Join(dir, "enc"))
	if manifest == nil {
		t.Fatal(list)
	}
	artifact, desc, err := modelpack.Pack(context.Background(), store, manifest)
	if err != nil {
		t.Fatal(err)
	}
	m := &resolve.Module{Manifest: manifest, Artifact: artifact, Descriptor: desc}
	out := export.Sink{Store: store}
	locate := export.Files(store, m)
	file, size, ok := locate("enc.onnx")
	want, err := os.ReadFile(filepath.Join(dir, "enc", "enc.onnx"))
	if got, readErr := os.ReadFile(file); !ok || err != nil || readErr != nil || string(got) != string(want) || size != int64(len(want)) {
		t.Errorf("%s, %d, %v, %v, %v", file, size, ok, err, readErr)
	}
	if _, _, ok := locate("none"); ok {
		t.Error("found what is not there")
	}
	f, l, err := out.Open(t.Context(), m, "enc.onnx")
	if err != nil || l.Path != "enc.onnx" || l.Descriptor.MediaType != abi.MediaWeight {
		t.Fatal(l, err)
	}
	f.Close()
	if _, _, err := out.Open(t.Context(), m, "none"); err == nil {
		t.Error("opened what is not there")
	}
}

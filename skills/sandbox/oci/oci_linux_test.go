//go:build amd64 || arm64

package oci

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/process"
	"mm-abi.org/mm/skills/skilltest"
)

// TestMain runs the tests, mm as the parent of a guest, or a guest, which acts
// by its argument.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == process.Command {
		process.Inner()
	}
	if len(os.Args) == 2 && strings.HasSuffix(os.Args[0], "/"+skilltest.NativeName) && skilltest.ActNative(os.Args[1]) {
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// blobs is a store.
type blobs map[string][]byte

func (b blobs) add(data []byte, mediaType string) ocispec.Descriptor {
	sum := sha256.Sum256(data)
	b[hex.EncodeToString(sum[:])] = data
	return ocispec.Descriptor{MediaType: mediaType, Digest: godigest.FromBytes(data), Size: int64(len(data))}
}

func (b blobs) open(_ context.Context, sha string) (io.ReadCloser, error) {
	data, ok := b[sha]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

func (b blobs) document(t testing.TB, v any, mediaType string) ocispec.Descriptor {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b.add(data, mediaType)
}

// entry is an entry of a layer; the default kind is a file.
type entry struct {
	name string
	kind byte
	text string // content, or the target of a link
	mode int64
}

func layer(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: cmp.Or(e.kind, tar.TypeReg), Mode: cmp.Or(e.mode, 0o644)}
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(e.text))
		} else {
			h.Linkname = e.text
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			io.WriteString(w, e.text)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func compress(t testing.TB, data []byte) []byte {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	w.Write(data)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// image adds an image of compressed tar layers and returns its reference.
func (b blobs) image(t testing.TB, change func(*ocispec.Image, *ocispec.Manifest), layers ...[]byte) string {
	t.Helper()
	c := ocispec.Image{Platform: ocispec.Platform{OS: "linux", Architecture: runtime.GOARCH}}
	c.Config = ocispec.ImageConfig{Entrypoint: []string{"/" + skilltest.NativeName}}
	m := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest}
	for _, l := range layers {
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, godigest.FromBytes(l))
		m.Layers = append(m.Layers, b.add(compress(t, l), ocispec.MediaTypeImageLayerGzip))
	}
	if change != nil {
		change(&c, &m)
	}
	m.Config = b.document(t, c, cmp.Or(m.Config.MediaType, ocispec.MediaTypeImageConfig))
	return "example.org/tool:1@" + b.document(t, m, ocispec.MediaTypeImageManifest).Digest.String()
}

var needs = modules.Allow{Clock: true, Random: true}

func program(ref, act string) sandbox.Program {
	return sandbox.Program{
		Name: "tool", Ref: ref, Args: []string{act}, Allow: needs,
		Limits: modules.Effective{MemBytes: 256 << 20, TimeoutMS: 60_000, OutputBytes: 64 << 10},
	}
}

func executor(t testing.TB, b blobs) *Executor {
	t.Helper()
	return New(Options{Dir: filepath.Join(t.TempDir(), "images"), Blob: b.open, Programs: process.New()})
}

// open returns an executor and an image whose program is every guest, and
// skips the test on a machine that cannot run native programs.
func open(t testing.TB) (*Executor, string) {
	t.Helper()
	code := skilltest.NativeSelf(t)
	b := blobs{}
	ref := b.image(t, nil, layer(t, entry{name: skilltest.NativeName, text: string(code), mode: 0o755}))
	e := executor(t, b)
	g, err := e.Prepare(t.Context(), program(ref, skilltest.Echo))
	if sandbox.KindOf(err) == sandbox.Refused && strings.Contains(err.Error(), "this machine") {
		t.Skip("skipped: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	g.Close()
	return e, ref
}

func TestSuite(t *testing.T) {
	e, ref := open(t)
	s := skilltest.Suite{Executor: e, Programs: map[string]sandbox.Program{}, Needs: needs}
	for _, act := range []string{skilltest.Echo, skilltest.Loop, skilltest.Hungry, skilltest.Flood, skilltest.Trap, skilltest.Exit, skilltest.World, skilltest.Read} {
		s.Programs[act] = program(ref, act)
	}
	s.Run(t)
}

func TestCorpus(t *testing.T) {
	e, ref := open(t)
	dir, err := os.MkdirTemp("", "mm-corpus")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "file"), []byte(skilltest.Secret), 0o644)); err != nil {
		t.Fatal(err)
	}
	var list []skilltest.Hostile
	for _, h := range skilltest.Natives() {
		item := skilltest.Hostile{Name: h.Name, Program: program(ref, h.Name), Ends: h.Ends}
		if h.Ends == nil {
			item.Ends, item.Answer = []sandbox.Kind{""}, `"no"`
		}
		list = append(list, item)
	}
	skilltest.Corpus(t, e, needs, list)
}

func TestWarm(t *testing.T) {
	e, ref := open(t)
	skilltest.Warm(t, e, program(ref, skilltest.Echo), "oci")
}

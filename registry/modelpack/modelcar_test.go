package modelpack

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/memory"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry/artifact"
)

// carSource is a digest of an artifact.
const carSource = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// stored returns an artifact whose files, MODULE=PATH, hold their paths.
func stored(t testing.TB, files ...string) (*memory.Store, *artifact.Artifact) {
	t.Helper()
	m := memory.New()
	a := &artifact.Artifact{Name: "build", Version: "1.2.3", Annotations: map[string]string{
		abi.AnnotationKind: abi.KindAssembly, abi.AnnotationABI: "mm-abi-1.0", ocispec.AnnotationLicenses: "MIT"}}
	for _, f := range files {
		module, path, _ := strings.Cut(f, "=")
		desc := content.NewDescriptorFromBytes(abi.MediaWeight, []byte(path))
		if err := m.Push(t.Context(), desc, strings.NewReader(path)); err != nil {
			t.Fatal(err)
		}
		l := artifact.Layer{Path: path, Descriptor: desc}
		if module != "" {
			l.Annotations = map[string]string{abi.AnnotationComponent: module}
		}
		a.Layers = append(a.Layers, l)
	}
	return m, a
}

// members lists the members of a layer.
func members(t *testing.T, m *memory.Store, desc ocispec.Descriptor) (list []string) {
	t.Helper()
	data, err := content.FetchAll(t.Context(), m, desc)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%c %s %o %d:%d %d %s", h.Typeflag, h.Name, h.Mode, h.Uid, h.Gid, h.ModTime.Unix(), text))
	}
}

func TestPack(t *testing.T) {
	m, a := stored(t, "core=core/b.gguf", "core=core/a.yaml", "enc=enc/x/y.onnx", "=assembly.json")
	desc, err := PackCar(t.Context(), m, m, a, CarOptions{Name: "served", Source: carSource})
	if err != nil {
		t.Fatal(err)
	}
	got, err := artifact.Read(t.Context(), m, desc)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{abi.AnnotationName: "served", abi.AnnotationVersion: "1.2.3", abi.AnnotationModelPack: carSource, ocispec.AnnotationLicenses: "MIT"}
	if d := cmp.Diff(want, got.Annotations); d != "" {
		t.Error(d)
	}
	if id := got.Identity(); id.Name != "served" || id.Version != "1.2.3" || id.Kind != "" || got.Foreign == "" {
		t.Errorf("got %+v, %q", id, got.Foreign)
	}
	var list []string
	for _, l := range got.Layers {
		if l.Descriptor.MediaType != ocispec.MediaTypeImageLayer || l.Packing != "tar" || l.Root != artifact.ImageRoot {
			t.Errorf("%+v", l)
		}
		list = append(append(list, l.Path), members(t, m, l.Descriptor)...)
	}
	if d := cmp.Diff([]string{
		"core.tar", "5 models/ 755 0:0 0 ", "5 models/core/ 755 0:0 0 ", "0 models/core/a.yaml 644 0:0 0 core/a.yaml", "0 models/core/b.gguf 644 0:0 0 core/b.gguf",
		"enc.tar", "5 models/ 755 0:0 0 ", "5 models/enc/ 755 0:0 0 ", "5 models/enc/x/ 755 0:0 0 ", "0 models/enc/x/y.onnx 644 0:0 0 enc/x/y.onnx",
		"build.tar", "5 models/ 755 0:0 0 ", "0 models/assembly.json 644 0:0 0 assembly.json",
	}, list); d != "" {
		t.Error(d)
	}
}

// A module has the same layer in every build, whatever the order of the files.
func TestPackDeterministic(t *testing.T) {
	m, a := stored(t, "core=core/b.gguf", "core=core/a.yaml", "enc=enc/y.onnx")
	one, err := PackCar(t.Context(), m, m, a, CarOptions{Source: carSource})
	if err != nil {
		t.Fatal(err)
	}
	other, b := stored(t, "router=router/r.yaml", "core=core/a.yaml", "core=core/b.gguf", "enc=enc/y.onnx")
	two, err := PackCar(t.Context(), other, other, b, CarOptions{Source: carSource})
	if err != nil {
		t.Fatal(err)
	}
	first, err := artifact.Read(t.Context(), m, one)
	if err != nil {
		t.Fatal(err)
	}
	second, err := artifact.Read(t.Context(), other, two)
	if err != nil {
		t.Fatal(err)
	}
	for i := range first.Layers {
		if d := cmp.Diff(first.Layers[i], second.Layers[i]); d != "" {
			t.Error(d)
		}
	}
	b.Layers = append(b.Layers[1:], b.Layers[0])
	if again, err := PackCar(t.Context(), other, other, b, CarOptions{Source: carSource}); err != nil || again.Digest != two.Digest {
		t.Errorf("got %s, %v, want %s", again.Digest, err, two.Digest)
	}
	if arm, err := PackCar(t.Context(), other, other, b, CarOptions{Source: carSource, Platform: ocispec.Platform{OS: "darwin", Architecture: "arm64"}}); err != nil || arm.Digest == two.Digest {
		t.Errorf("got %s, %v, want another image", arm.Digest, err)
	}
}

func TestPackLimits(t *testing.T) {
	for _, n := range []int{maxLayers, maxLayers + 1} {
		var files []string
		for i := range n {
			files = append(files, fmt.Sprintf("m%d=m%d/f", i, i))
		}
		m, a := stored(t, files...)
		if _, err := PackCar(t.Context(), m, m, a, CarOptions{Source: carSource}); errors.Is(err, ErrLayers) != (n > maxLayers) {
			t.Errorf("%d modules: %v", n, err)
		}
	}
}

// A file that is not the content of its digest is refused.
func TestPackCorrupt(t *testing.T) {
	m, a := stored(t, "core=a", "core=b")
	for _, bytes := range []string{"x", "", "aa"} {
		if _, err := PackCar(t.Context(), flipped{m, bytes}, m, a, CarOptions{Source: carSource}); !errors.Is(err, artifact.ErrCorrupt) {
			t.Errorf("%q: %v", bytes, err)
		}
	}
	missing, _ := stored(t, "core=a")
	if _, err := PackCar(t.Context(), missing, m, a, CarOptions{Source: carSource}); err == nil {
		t.Error("a missing file is accepted")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := PackCar(ctx, m, m, a, CarOptions{Source: carSource}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// flipped returns other bytes for every blob.
type flipped struct {
	*memory.Store
	bytes string
}

// Fetch implements content.Fetcher.
func (f flipped) Fetch(context.Context, ocispec.Descriptor) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(f.bytes)), nil
}

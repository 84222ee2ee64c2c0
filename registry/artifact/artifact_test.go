package artifact

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/memory"

	"mm-abi.org/mm/abi"
)

// full returns an artifact that uses every field, with its content.
func full() (Artifact, map[digest.Digest][]byte) {
	blobs := map[digest.Digest][]byte{}
	layer := func(path, media, role, format string) Layer {
		data := []byte("content of " + path)
		blobs[digest.FromBytes(data)] = data
		desc := described(data)
		desc.MediaType = media
		return Layer{Path: path, Descriptor: desc, Annotations: map[string]string{
			abi.AnnotationComponent: "sample", abi.AnnotationRole: role, abi.AnnotationFormat: format,
			abi.AnnotationVersion: "1.2.3", abi.AnnotationQuant: "int4"}}
	}
	created := time.Unix(1700000000, 0).UTC()
	return Artifact{
		Name: "p-lite", Version: "1.2.3",
		Config: ModelConfig{
			Descriptor: ModelDescriptor{CreatedAt: &created, Licenses: []string{"Apache-2.0"}, Family: "mm"},
			Config: ModelParams{Format: "gguf", Architecture: "transformer", Quantization: "int4",
				Capabilities: &ModelCapabilities{InputTypes: []string{"text", "image"}, OutputTypes: []string{"text"}}},
		},
		Annotations: map[string]string{abi.AnnotationKind: abi.KindAssembly, abi.AnnotationABI: "mm-abi-1.0", abi.AnnotationTarget: "laptop"},
		Layers: []Layer{
			layer("vision/enc.onnx", abi.MediaWeight, "encoder", "onnx"),
			layer("README.md", abi.MediaDoc, abi.RoleDoc, "md"),
			layer("core/core-llm.gguf", abi.MediaWeight, "core", "gguf"),
			layer("assembly.json", abi.MediaWeightConfig, abi.RoleAssembly, "json"),
		},
	}, blobs
}

// TestPackRoundTrip packs in every order of layers, expects one digest, and
// reads the artifact back.
func TestPackRoundTrip(t *testing.T) {
	a, blobs := full()
	var want ocispec.Descriptor
	for i := range 4 {
		m := memory.New()
		for d, data := range blobs {
			if err := m.Push(ctx, ocispec.Descriptor{MediaType: "x/y", Digest: d, Size: int64(len(data))}, bytes.NewReader(data)); err != nil {
				t.Fatal(err)
			}
		}
		a.Layers = append(a.Layers[1:], a.Layers[0])
		desc, err := Pack(ctx, m, a)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && desc.Digest != want.Digest {
			t.Errorf("order %d: got %s, want %s", i, desc.Digest, want.Digest)
		}
		want = desc
		got, err := Read(ctx, m, desc)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Pack(ctx, m, *got); err != nil || again.Digest != desc.Digest {
			t.Errorf("read and packed again: %s, %v", again.Digest, err)
		}
		var paths []string
		for _, l := range got.Layers {
			paths = append(paths, l.Path)
		}
		if diff := cmp.Diff([]string{"core/core-llm.gguf", "README.md", "assembly.json", "vision/enc.onnx"}, paths); diff != "" {
			t.Error(diff)
		}
		if got.Name != a.Name || got.Version != a.Version || !got.Config.Descriptor.CreatedAt.Equal(*a.Config.Descriptor.CreatedAt) {
			t.Errorf("got %+v", got)
		}
		first, _ := full()
		if diff := cmp.Diff(first.Layers[2].Annotations, got.Layers[0].Annotations); diff != "" {
			t.Error(diff)
		}
	}
	// The digest is part of the format: changing it changes every lock file.
	const golden = "sha256:7fef35ea4e4a735e684c3bf05faa1a056d45faf0fd0912df29584de6b13ac30a"
	if want.Digest != golden {
		t.Errorf("the manifest's digest is %s, was %s", want.Digest, golden)
	}
}

func TestPackRefuses(t *testing.T) {
	for name, edit := range map[string]func(*Artifact){
		"no name":          func(a *Artifact) { a.Name = "" },
		"no layers":        func(a *Artifact) { a.Layers = nil },
		"bad path":         func(a *Artifact) { a.Layers[0].Path = "../x" },
		"one path twice":   func(a *Artifact) { a.Layers[0].Path = a.Layers[1].Path },
		"no media type":    func(a *Artifact) { a.Layers[0].Descriptor.MediaType = "" },
		"another name":     func(a *Artifact) { a.Annotations[abi.AnnotationName] = "other" },
		"another version":  func(a *Artifact) { a.Annotations[abi.AnnotationVersion] = "9" },
		"own title":        func(a *Artifact) { a.Layers[0].Annotations[ocispec.AnnotationTitle] = "x" },
		"manifest as file": func(a *Artifact) { a.Layers[0].Descriptor.MediaType = ocispec.MediaTypeImageManifest },
	} {
		a, _ := full()
		edit(&a)
		if _, err := Pack(ctx, memory.New(), a); err == nil {
			t.Errorf("%s: packed", name)
		}
	}
}

func TestPackIndex(t *testing.T) {
	m := memory.New()
	a, _ := full()
	desc, err := Pack(ctx, m, a)
	if err != nil {
		t.Fatal(err)
	}
	entries := []IndexEntry{
		{Descriptor: Plain(desc), Target: "laptop", Platform: &ocispec.Platform{OS: "linux", Architecture: "amd64"}},
		{Descriptor: Plain(desc), Target: "server"},
	}
	idx, err := PackIndex(ctx, m, entries, map[string]string{abi.AnnotationName: "p-lite"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadIndex(ctx, m, idx)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Index{Annotations: map[string]string{abi.AnnotationName: "p-lite"}, Entries: entries}, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "LAPTOP", "../escaped", "a/b", "..", ".", "a b", "a\x00", strings.Repeat("a", 65)} {
		entries[1].Target = bad
		if _, err := PackIndex(ctx, m, entries, nil); err == nil {
			t.Errorf("target %q accepted", bad)
		}
	}
	entries[1].Target = "laptop"
	if _, err := PackIndex(ctx, m, entries, nil); err == nil {
		t.Error("one target twice")
	}
	if _, err := PackIndex(ctx, m, []IndexEntry{{Descriptor: idx, Target: "deep"}}, nil); err == nil {
		t.Error("an index within an index")
	}
}

func TestCheckPath(t *testing.T) {
	for _, p := range []string{"a", "a/b.c", "core-llm.gguf", "é/日本.txt", "a b", "a~", "a-b", "a/b~1", "..a", "a..b", strings.Repeat("a", 255)} {
		if err := CheckPath(p); err != nil {
			t.Errorf("%q: %v", p, err)
		}
	}
	for _, p := range []string{
		"", ".", "..", "../x", "a/../b", "a/..", "/etc/x", "//x", "a//b", "./a", "a/", `a\b`, `\\host\x`, `C:\x`, "C:x", "c:/x",
		"a\x00b", "a\nb", "\x7f", "a\u202eb", "a\u200bb", "a\ufffd", "con", "NUL", "aux.txt", "a/Com1.gguf", "a.", "a /b", "a<b", "a|b", "a?", "a*", `a"b`,
		strings.Repeat("a", 256), "~", "~/.ssh/id", "a/~", "~root", "-rf", "a/-x",
	} {
		if err := CheckPath(p); err == nil {
			t.Errorf("%q is accepted", p)
		}
	}
}

// TestPathsCollide: paths that one file system or another holds for the same.
func TestPathsCollide(t *testing.T) {
	for _, pair := range [][2]string{
		{"a", "a"}, {"a", "A"}, {"a/b", "A/B"}, {"é", "e\u0301"}, {"straße", "STRASSE"}, {"ﬁ", "fi"}, {"K", "\u212a"},
		{"a", "a/b"}, {"A", "a/b"}, {"a/b/c", "A/B"},
	} {
		for _, p := range [][2]string{pair, {pair[1], pair[0]}} {
			var s PathSet
			if err := s.Add(p[0]); err != nil {
				t.Fatalf("%q: %v", p[0], err)
			}
			if err := s.Add(p[1]); err == nil {
				t.Errorf("%q accepted with %q", p[1], p[0])
			}
		}
	}
	var s PathSet
	for _, p := range []string{"a/b", "a/c", "ab", "b/a"} {
		if err := s.Add(p); err != nil {
			t.Error(err)
		}
	}
}

// hostile is a manifest of which every field can be made wrong.
type hostile struct {
	t *testing.T
	m *memory.Store
}

func (h hostile) push(mediaType string, data []byte) ocispec.Descriptor {
	desc := described(data)
	desc.MediaType = mediaType
	h.m.Push(ctx, desc, bytes.NewReader(data))
	return desc
}

// TestReadRefuses edits a good manifest or config in one place.
func TestReadRefuses(t *testing.T) {
	h := hostile{t, memory.New()}
	a, _ := full()
	desc, err := Pack(ctx, h.m, a)
	if err != nil {
		t.Fatal(err)
	}
	data, err := fetchSmall(ctx, h.m, desc)
	if err != nil {
		t.Fatal(err)
	}
	var good ocispec.Manifest
	if err := json.Unmarshal(data, &good); err != nil {
		t.Fatal(err)
	}
	config, err := fetchSmall(ctx, h.m, good.Config)
	if err != nil {
		t.Fatal(err)
	}
	title := func(i int, path string) func(*ocispec.Manifest) {
		return func(m *ocispec.Manifest) {
			m.Layers[i].Annotations[ocispec.AnnotationTitle] = path
			m.Layers[i].Annotations[abi.AnnotationFilepath] = path
		}
	}
	swapConfig := func(old, new string) func(*ocispec.Manifest) {
		return func(m *ocispec.Manifest) {
			edited := strings.Replace(string(config), old, new, 1)
			if edited == string(config) {
				t.Fatalf("%q is not in %s", old, config)
			}
			m.Config = h.push(abi.MediaModelConfig, []byte(edited))
		}
	}
	for name, edit := range map[string]func(*ocispec.Manifest){
		"absolute path":  title(0, "/etc/passwd"),
		"path upwards":   title(1, "../x"),
		"path up inside": title(1, "a/../../x"),
		"backslash":      title(2, `a\b`),
		"drive":          title(2, "C:x"),
		"nul":            title(2, "a\x00"),
		"long path":      title(2, strings.Repeat("a", 256)),
		"one path twice": title(0, "README.md"),
		"case collision": title(0, "readme.MD"),
		"file as folder": title(0, "README.md/x"),
		"two paths":      func(m *ocispec.Manifest) { m.Layers[0].Annotations[ocispec.AnnotationTitle] = "other" },
		"no path":        func(m *ocispec.Manifest) { m.Layers[0].Annotations = nil },
		"sha512":         func(m *ocispec.Manifest) { m.Layers[0].Digest = digest.SHA512.FromString("x") },
		"upper-case digest": func(m *ocispec.Manifest) {
			m.Layers[0].Digest = digest.Digest("sha256:" + strings.ToUpper(m.Layers[0].Digest.Encoded()))
		},
		"short digest":      func(m *ocispec.Manifest) { m.Layers[0].Digest = m.Layers[0].Digest[:60] },
		"unknown algorithm": func(m *ocispec.Manifest) { m.Layers[0].Digest = "md5:d41d8cd98f00b204e9800998ecf8427e" },
		"negative size":     func(m *ocispec.Manifest) { m.Layers[0].Size = -1 },
		"impossible size":   func(m *ocispec.Manifest) { m.Layers[0].Size = 1 << 60 },
		"sizes that overflow": func(m *ocispec.Manifest) {
			for i := range m.Layers {
				m.Layers[i].Size = 1<<50 - 1
			}
		},
		"embedded data":       func(m *ocispec.Manifest) { m.Layers[0].Data = []byte("other") },
		"embedded data, size": func(m *ocispec.Manifest) { m.Layers[0].Data = []byte("content of core/core-llm.ggu") },
		"tar layer":           func(m *ocispec.Manifest) { m.Layers[0].MediaType = "application/vnd.cncf.model.weight.v1.tar" },
		"no media type":       func(m *ocispec.Manifest) { m.Layers[0].MediaType = "" },
		"no layers":           func(m *ocispec.Manifest) { m.Layers = nil },
		"too many layers": func(m *ocispec.Manifest) {
			l := m.Layers[0]
			m.Layers = nil
			for i := range MaxLayers + 1 {
				l.Annotations = map[string]string{ocispec.AnnotationTitle: fmt.Sprint(i)}
				m.Layers = append(m.Layers, l)
			}
		},
		"other artifact type": func(m *ocispec.Manifest) { m.ArtifactType = "x/y" },
		"other config type":   func(m *ocispec.Manifest) { m.Config.MediaType = ocispec.MediaTypeImageConfig },
		"other media type":    func(m *ocispec.Manifest) { m.MediaType = ocispec.MediaTypeImageIndex },
		"schema version 1":    func(m *ocispec.Manifest) { m.SchemaVersion = 1 },
		"config size":         func(m *ocispec.Manifest) { m.Config.Size++ },
		"config missing":      func(m *ocispec.Manifest) { m.Config.Digest = digest.FromString("none") },
		"config too large":    func(m *ocispec.Manifest) { m.Config.Size = MaxManifestBytes + 1 },
		"config data":         func(m *ocispec.Manifest) { m.Config.Data = []byte("{}") },
		"config key twice":    swapConfig(`"name":`, `"name":"x","name":`),
		"config key in case":  swapConfig(`"name":`, `"Name":`),
		"config name":         swapConfig(`"name":"p-lite"`, `"name":"other"`),
		"config version":      swapConfig(`"version":"1.2.3"`, `"version":"1.2.4"`),
		"config not JSON":     swapConfig(`{`, ``),
		"config trailing":     swapConfig(`}}}`, `}}} {}`),
		"config deep":         swapConfig(`{`, `{"x":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`,`),
		"config other digest": swapConfig(`"diffIds":["sha256:`, `"diffIds":["sha256:`+strings.Repeat("0", 64)+`","sha256:`),
		"config other type":   swapConfig(`"type":"layers"`, `"type":"x"`),
	} {
		m := good
		m.Layers = slices.Clone(good.Layers)
		for i := range m.Layers {
			anno := map[string]string{}
			for k, v := range m.Layers[i].Annotations {
				anno[k] = v
			}
			m.Layers[i].Annotations = anno
		}
		edit(&m)
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Read(ctx, h.m, h.push(ocispec.MediaTypeImageManifest, raw))
		if err == nil {
			t.Errorf("%s: read as %+v", name, got)
		} else if len(err.Error()) > 2000 {
			t.Errorf("%s: message of %d bytes", name, len(err.Error()))
		}
	}
	for name, swap := range map[string][2]string{
		"key twice":       {`"schemaVersion":2`, `"schemaVersion":2,"schemaVersion":2`},
		"key in case":     {`"layers":`, `"Layers":`},
		"key in case too": {`"layers":`, `"Layers":[],"layers":`},
		"not UTF-8":       {`"README.md"`, "\"READ\xff.md\""},
		"size as text":    {`"size":`, `"size":"1","x":`},
		"size as float":   {`"size":`, `"size":1.5,"x":`},
		"trailing":        {`"schemaVersion":2`, `"schemaVersion":2}{"x":1`},
		"deep":            {`{`, `{"x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `,`},
	} {
		raw := strings.Replace(string(data), swap[0], swap[1], 1)
		if raw == string(data) {
			t.Fatalf("%s: missing %q", name, swap[0])
		}
		if _, err := Read(ctx, h.m, h.push(ocispec.MediaTypeImageManifest, []byte(raw))); err == nil {
			t.Errorf("%s: read", name)
		}
	}
	// Fields of a later spec must still be readable, and foreign URLs, which
	// are dropped.
	raw := strings.Replace(string(data), `"layers":[{`, `"later":{"Layers":1,"x":[1]},"layers":[{"urls":["http://127.0.0.1:1/x"],`, 1)
	got, err := Read(ctx, h.m, h.push(ocispec.MediaTypeImageManifest, []byte(strings.Replace(raw, `"Layers":1,`, "", 1))))
	if err != nil || got.Layers[0].Descriptor.URLs != nil {
		t.Errorf("with URLs: %v", err)
	}
}

// TestKeptNames: files of artifacts do not steer git or mm.
func TestKeptNames(t *testing.T) {
	for _, p := range []string{".git/hooks/post-checkout", ".GIT/config", "a/.git/config", "git~1/config", ".mm/index.lock", "x/.Mm/y", ".mm-checkout/0", ".git", ".gi\u017f/x", ".hg/hgrc", "a/.svn/x", ".ssh/authorized_keys", ".vscode/tasks.json", ".Idea/x", ".gnupg/x", ".bzr/x"} {
		if err := CheckPath(p); err == nil && p != ".gi\u017f/x" {
			t.Errorf("%q accepted", p)
		}
	}
	for _, p := range []string{".gitignore", "a.git", "git/x", ".mmx", "mm/x"} {
		if err := CheckPath(p); err != nil {
			t.Error(err)
		}
	}
}

// ctx is the tests' context.
var ctx = context.Background()

func described(data []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: "x/y", Digest: digest.FromBytes(data), Size: int64(len(data))}
}

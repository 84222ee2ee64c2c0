package assemble_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/assemble/quantize"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/resolve"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
)

// kit is a folder of seeded modules, a graph and an empty store.
type kit struct {
	t     *testing.T
	dir   string
	store *registry.Store
	opt   assemble.Options
}

// graph names one module of each kind.
const graph = `name: kit
core:
  llm: {ref: core-llm@^3, kv_dtype: fp8}
  draft: {ref: draft@^1, tokens: 3}
  adapters: [{ref: tuned@^1}]
modalities:
  - enc: {ref: enc@^1}
    proj: {ref: proj@^1}
decoders: [{ref: dec@^1}]
skills: [{ref: tool@^1}]
runtime:
  router: {ref: router@^1}
  sandbox: {ref: box@^1}
`

const whole = graph + `exports:
  laptop:
    gguf: {quant: int8}
    onnx: [enc, proj, dec]
  phone:
    gguf: {quant: Q4_0, kv: int8}
`

// seeded makes the modules once; each kit has a copy.
var seeded = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "mm-assemble-*")
	if err != nil {
		return "", err
	}
	for _, o := range []seed.Options{
		{Type: abi.Core, Name: "core-llm", Version: "3.1.0", DModel: 32},
		{Type: abi.DraftCore, Name: "draft", DModel: 16},
		{Type: abi.Adapter, Name: "tuned", DModel: 32},
		{Type: abi.Encoder, Name: "enc", DEnc: 8},
		{Type: abi.Projector, Name: "proj", DEnc: 8, DModel: 32, TCap: 4},
		{Type: abi.Decoder, Name: "dec", DModel: 32},
		{Type: abi.Router, Name: "router"}, {Type: abi.Sandbox, Name: "box"},
	} {
		if o.Version == "" {
			o.Version = "1.0.0"
		}
		if err := seed.Write(filepath.Join(dir, o.Name), o); err != nil {
			return "", err
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := testfiles.InMemory(m)
	if dir, err := seeded(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

func newKit(t *testing.T) *kit {
	t.Helper()
	k := &kit{t: t, dir: t.TempDir()}
	dir, err := seeded()
	if err == nil {
		err = os.CopyFS(k.path("modules"), os.DirFS(dir))
	}
	if err != nil {
		t.Fatal(err)
	}
	k.write("modules/tool/LICENSE", "MIT License\n\nCopyright (c) 2026 A. Author\n")
	k.write("modules/tool/NOTICE", "Made with care.\n")
	k.write("modules/tool/module.yaml", "name: tool\nversion: 1.0.0\ntype: skill\nabi: mm-abi-1.0\nlicense: MIT\ninputs: [{name: q, type: str}]\noutputs: [{name: r, type: json}]\n"+
		"runtime:\n  starlark: tool.star\n  allow: {network: [example.org]}\n  limits: {timeout_ms: 9000}\n")
	k.write("modules/tool/tool.star", "def run(q): return q\n")
	k.external()
	if k.store, err = registry.Open(k.path("store"), registry.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.store.Close() })
	k.opt = assemble.Options{
		Graph: k.path("kit.graph.yaml"), Store: k.store, Cache: k.path("cache"), Resolver: folders{k.path("modules"), k.store},
		Exporters: []assemble.Exporter{quantize.Exporter{}, export.NewVerbatim(abi.ONNX), export.NewVerbatim(abi.Safetensors)},
	}
	k.write("kit.graph.yaml", whole)
	return k
}

func (k *kit) path(parts ...string) string {
	return filepath.Join(append([]string{k.dir}, parts...)...)
}

func (k *kit) write(name, text string) {
	k.t.Helper()
	if err := os.MkdirAll(filepath.Dir(k.path(name)), 0o755); err != nil {
		k.t.Fatal(err)
	}
	if err := os.WriteFile(k.path(name), []byte(text), 0o644); err != nil {
		k.t.Fatal(err)
	}
}

// edit replaces text in a file; the text must be there.
func (k *kit) edit(name, old, with string) {
	k.t.Helper()
	data, err := os.ReadFile(k.path(name))
	if err != nil || !strings.Contains(string(data), old) {
		k.t.Fatalf("%s has no %q: %v\n%s", name, old, err, data)
	}
	k.write(name, strings.Replace(string(data), old, with, 1))
}

// external moves one tensor of the encoder out into enc.data, which the
// manifest lists among its files only.
func (k *kit) external() {
	k.t.Helper()
	path := k.path("modules", "enc", "enc.onnx")
	data, err := os.ReadFile(path)
	if err != nil {
		k.t.Fatal(err)
	}
	m, err := onnx.Parse(data)
	if err != nil {
		k.t.Fatal(err)
	}
	i := slices.IndexFunc(m.Graph.Initializers, func(t onnx.Tensor) bool { return len(t.Raw) > 256 })
	tensor := &m.Graph.Initializers[i]
	raw := slices.Clone(tensor.Raw)
	tensor.Raw = nil
	tensor.External = &onnx.External{Entries: []onnx.Entry{{Key: "location", Value: "enc.data"}, {Key: "offset", Value: "0"}, {Key: "length", Value: fmt.Sprint(len(raw))}}}
	var out bytes.Buffer
	if _, err := onnx.Write(&out, m); err != nil {
		k.t.Fatal(err)
	}
	k.write("modules/enc/enc.onnx", out.String())
	k.write("modules/enc/enc.data", string(raw))
	entry := func(path string, b []byte) string {
		return fmt.Sprintf("  - {path: %s, sha256: %s, size: %d}\n", path, digest.FromBytes(b).Encoded(), len(b))
	}
	text, err := os.ReadFile(k.path("modules", "enc", "module.yaml"))
	if err != nil {
		k.t.Fatal(err)
	}
	k.write("modules/enc/module.yaml", string(text)+"files:\n"+entry("enc.onnx", out.Bytes())+entry("enc.data", raw))
}

// assemble runs with the options modified by change.
func (k *kit) assemble(change func(*assemble.Options)) (*assemble.Result, error) {
	k.t.Helper()
	opt := k.opt
	if change != nil {
		change(&opt)
	}
	return assemble.Assemble(context.Background(), opt)
}

func (k *kit) must(change func(*assemble.Options)) *assemble.Result {
	k.t.Helper()
	r, err := k.assemble(change)
	if err != nil {
		k.t.Fatal(faults(err))
	}
	return r
}

// faults is an error with all of its diagnostics.
func faults(err error) string {
	if list, ok := diag.From(err); ok {
		var b strings.Builder
		_ = list.Text(&b)
		return b.String()
	}
	return fmt.Sprint(err)
}

// artifact reads the build's output for one target.
func (k *kit) artifact(r *assemble.Result, target string) (*artifact.Artifact, *builds.Assembly) {
	k.t.Helper()
	ctx := context.Background()
	for _, t := range r.Targets {
		if t.Target != target {
			continue
		}
		desc, err := k.store.Resolve(ctx, t.Digest)
		if err != nil {
			k.t.Fatal(err)
		}
		a, err := artifact.Read(ctx, k.store, desc)
		if err != nil {
			k.t.Fatal(err)
		}
		for _, l := range a.Layers {
			if l.Path != builds.AssemblyFile {
				continue
			}
			data, err := os.ReadFile(k.store.BlobPath(l.Descriptor))
			if err != nil {
				k.t.Fatal(err)
			}
			assembly, err := builds.ParseAssembly(data)
			if err != nil {
				k.t.Fatal(err)
			}
			return a, assembly
		}
	}
	k.t.Fatalf("no target %s in %+v", target, r.Targets)
	return nil, nil
}

// weights are the paths of an artifact's layers that hold weights or code.
func weights(a *artifact.Artifact) []string {
	var out []string
	for _, l := range a.Layers {
		if m := l.Descriptor.MediaType; m == abi.MediaWeight || m == abi.MediaCode {
			out = append(out, l.Path)
		}
	}
	return out
}

// folders resolves references from module folders alone.
type folders struct {
	dir   string
	store *registry.Store
}

func (f folders) Resolve(ctx context.Context, g *builds.Graph) (map[string]*resolve.Module, *builds.Lock, error) {
	return resolve.Resolve(ctx, g, resolve.Options{Sources: []resolve.Source{&resolve.Folder{Dir: f.dir, Store: f.store}}})
}

// broken is a resolver, and a signer, that fails.
type broken struct{ err error }

func (b broken) Resolve(context.Context, *builds.Graph) (map[string]*resolve.Module, *builds.Lock, error) {
	return nil, nil, b.err
}

func (b broken) Sign(context.Context, *registry.Store, ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	return nil, b.err
}

// seal is a signer that leaves a manifest which refers to what it signs.
type seal struct{ asked *[]digest.Digest }

func (s seal) Sign(ctx context.Context, store *registry.Store, subject ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	*s.asked = append(*s.asked, subject.Digest)
	empty, err := store.AddBytes(ctx, "application/vnd.oci.empty.v1+json", []byte("{}"))
	if err != nil {
		return nil, err
	}
	bare := ocispec.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size}
	data, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: "application/x.seal",
		Config: empty, Layers: []ocispec.Descriptor{empty}, Subject: &bare,
	})
	if err != nil {
		return nil, err
	}
	desc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(data), Size: int64(len(data))}
	return []ocispec.Descriptor{desc}, store.Push(ctx, desc, bytes.NewReader(data))
}

// boxed is an exporter of a format of several files with precisions of its
// own, such as the ones to come have.
type boxed struct {
	fail  error    // of Export
	paths []string // that Export claims; nil: its own
}

func (boxed) Format() abi.Format { return "boxed" }

func (boxed) Check(m *modules.Manifest, e builds.Export) diag.List {
	var list diag.List
	if e.Precision != "palette4" {
		list.Add(diag.QuantUnknown, diag.Pos{}, fmt.Sprintf("%s as %q; boxed knows palette4", m.ID(), e.Precision), "")
	}
	return list
}

func (b boxed) Export(ctx context.Context, m *resolve.Module, e builds.Export, out export.Sink) ([]artifact.Layer, []string, error) {
	if b.fail != nil {
		return nil, nil, b.fail
	}
	paths := b.paths
	if paths == nil {
		paths = []string{"m.box/model", "m.box/data/weights", "m.box/info.json"}
	}
	key := "boxed 1 " + m.Descriptor.Digest.String() + e.Precision
	if layers, notes, ok := out.Recall(ctx, key); ok {
		return layers, append(notes, "recalled"), nil
	}
	var layers []artifact.Layer
	for _, path := range paths {
		l, err := out.Write(ctx, path, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s of %s as %s, options %s", path, m.Manifest.ID(), e.Precision, e.Options)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		layers = append(layers, l)
	}
	out.Remember(key, layers, nil)
	return layers, []string{"one tensor stays as it was"}, nil
}

var errBroken = errors.New("broken on purpose")

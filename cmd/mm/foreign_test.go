package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/server"
	"mm-abi.org/mm/registry/sign"
)

// press packs artifacts as other tools do, into the store of a registry.
type press struct {
	*testing.T
	store *registry.Store
	host  string
	key   *sign.PrivateKey
}

func newPress(t *testing.T) *press {
	t.Helper()
	t.Setenv("MM_HOME", filepath.Join(t.TempDir(), "home"))
	t.Setenv("MM_KEY_PASSWORD", "")
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Chdir(t.TempDir())
	s, err := registry.Open(t.TempDir(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	h, err := server.New(s, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	private, public, err := sign.Generate(sign.Ed25519, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &press{T: t, store: s, host: strings.TrimPrefix(srv.URL, "http://")}
	if p.key, err = sign.LoadPrivate(private, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("theirs.pub", public, 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "trust", "add", "theirs.pub", "--name", "theirs", "--match", p.host+"/**")
	return p
}

// put stores a blob and returns its descriptor, with annotations as KEY, VALUE, ….
func (p *press) put(mediaType string, data []byte, notes ...string) ocispec.Descriptor {
	p.Helper()
	d, err := p.store.AddBytes(p.Context(), mediaType, data)
	if err != nil {
		p.Fatal(err)
	}
	for i := 0; i+1 < len(notes); i += 2 {
		if d.Annotations == nil {
			d.Annotations = map[string]string{}
		}
		d.Annotations[notes[i]] = notes[i+1]
	}
	return d
}

func (p *press) json(mediaType string, doc any) ocispec.Descriptor {
	p.Helper()
	data, err := json.Marshal(doc)
	if err != nil {
		p.Fatal(err)
	}
	return p.put(mediaType, data)
}

// manifest stores a manifest.
func (p *press) manifest(artifactType string, config ocispec.Descriptor, layers ...ocispec.Descriptor) ocispec.Descriptor {
	p.Helper()
	media := ocispec.MediaTypeImageManifest
	if strings.HasPrefix(layers[0].MediaType, "application/vnd.ollama") {
		media = "application/vnd.docker.distribution.manifest.v2+json"
	}
	return p.json(media, ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: media, ArtifactType: artifactType, Config: config, Layers: layers})
}

// release signs and tags an artifact, and returns its reference.
func (p *press) release(name string, desc ocispec.Descriptor) string {
	p.Helper()
	if _, err := sign.Sign(p.Context(), p.store, desc, p.key, sign.Options{}); err != nil {
		p.Fatal(err)
	}
	if err := p.store.Tag(p.Context(), desc, "team/"+name+":latest"); err != nil {
		p.Fatal(err)
	}
	return p.host + "/team/" + name + ":latest"
}

// tarOf archives files, given as NAME, DATA, ….
func (p *press) tarOf(compression string, files ...string) []byte {
	p.Helper()
	var raw, out bytes.Buffer
	w := tar.NewWriter(&raw)
	for i := 0; i+1 < len(files); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: files[i], Size: int64(len(files[i+1])), Mode: 0o644, Typeflag: tar.TypeReg}); err != nil {
			p.Fatal(err)
		}
		if _, err := w.Write([]byte(files[i+1])); err != nil {
			p.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		p.Fatal(err)
	}
	switch compression {
	case "gzip":
		z := gzip.NewWriter(&out)
		z.Write(raw.Bytes())
		z.Close()
	case "zstd":
		z, err := zstd.NewWriter(&out)
		if err != nil {
			p.Fatal(err)
		}
		z.Write(raw.Bytes())
		z.Close()
	default:
		return raw.Bytes()
	}
	return out.Bytes()
}

const (
	cncf       = "application/vnd.cncf.model."
	kit        = "application/vnd.kitops.modelkit."
	docker     = "application/vnd.docker.ai."
	ollamaType = "application/vnd.ollama.image."
	titled     = ocispec.AnnotationTitle
	inPath     = "org.cncf.model.filepath"
)

// kits returns one model in the form of each tool.
func (p *press) kits(model string) map[string]ocispec.Descriptor {
	pack := p.json(cncf+"config.v1+json", map[string]any{"descriptor": map[string]any{}, "modelfs": map[string]any{"type": "layers", "diffIds": []string{}}})
	kitfile := p.json(kit+"config.v1+json", map[string]any{"manifestVersion": "1.0.0", "package": map[string]any{"name": "Tiny Model"}})
	runner := p.json(docker+"model.config.v0.1+json", map[string]any{"config": map[string]any{"format": "gguf"}})
	container := p.json("application/vnd.docker.container.image.v1+json", map[string]any{"model_format": "gguf", "os": "linux"})
	empty := p.put(ocispec.MediaTypeEmptyJSON, []byte("{}"))
	const packed = "application/vnd.cncf.model.manifest.v1+json"
	gguf := []byte(model)
	license := p.put(docker+"license", []byte("MIT"))
	plain := p.manifest("application/vnd.acme.model", empty, p.put(ocispec.MediaTypeImageLayer, gguf, titled, "tiny.gguf"), p.put("text/plain", []byte("hello"), titled, "README.md"))
	attestation := p.manifest("", p.json(ocispec.MediaTypeImageConfig, map[string]any{}), p.put("application/vnd.in-toto+json", []byte("{}")))
	attestation.Platform = &ocispec.Platform{OS: "unknown", Architecture: "unknown"}
	plain.Platform = &ocispec.Platform{OS: "linux", Architecture: runtime.GOARCH}
	other := p.manifest("", empty, p.put("x/y", []byte("other"), titled, "other.bin"))
	other.Platform = &ocispec.Platform{OS: "plan9", Architecture: "mips"}
	index := p.json(ocispec.MediaTypeImageIndex, ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{attestation, other, plain}})
	return map[string]ocispec.Descriptor{
		"modelpack-raw":  p.manifest(packed, pack, p.put(cncf+"weight.v1.gguf", gguf)),
		"modelpack-tar":  p.manifest(packed, pack, p.put(cncf+"weight.v1.tar", p.tarOf("", "tiny.gguf", model), inPath, "tiny.gguf"), p.put(cncf+"doc.v1.tar", p.tarOf("", "README.md", "hi"), inPath, "README.md")),
		"modelpack-gzip": p.manifest(packed, pack, p.put(cncf+"weight.v1.tar+gzip", p.tarOf("gzip", "./tiny.gguf", model), inPath, "tiny.gguf")),
		"modelpack-zstd": p.manifest(packed, pack, p.put(cncf+"weight.v1.tar+zstd", p.tarOf("zstd", "sub/tiny.gguf", model), inPath, "sub")),
		"kitops":         p.manifest(kit+"manifest.v1+json", kitfile, p.put(kit+"model.v1.tar+gzip", p.tarOf("gzip", "models/tiny.gguf", model)), p.put(kit+"code.v1.tar", p.tarOf("", "run.py", "pass"))),
		"kitops-tar":     p.manifest("", kitfile, p.put(kit+"model.v1.tar", p.tarOf("", "tiny.gguf", model))),
		"runner":         p.manifest("", runner, p.put(docker+"gguf.v3", gguf), license, license),
		"runner-more":    p.manifest("", runner, p.put(docker+"gguf.v3", gguf), p.put(docker+"mmproj", []byte("GGUFmmproj")), p.put(docker+"chat.template.jinja", []byte("{% for m in messages %}{{ m.content }}{% endfor %}")), license),
		"ollama":         p.manifest("", container, p.put(ollamaType+"model", gguf), p.put(ollamaType+"template", []byte("{{ .Prompt }}")), p.put(ollamaType+"params", []byte(`{"stop":["x"]}`)), p.put(ollamaType+"license", []byte("MIT")), p.put(ollamaType+"projector", []byte("GGUFclip"))),
		"oras":           plain,
		"oras-folder":    p.manifest("", empty, p.put(ocispec.MediaTypeImageLayerGzip, p.tarOf("gzip", "m/tiny.gguf", model), titled, "m", "io.deis.oras.content.unpack", "true")),
		"index":          index,
	}
}

// Every tool's artifact of one model is pulled, verified, inspected, and runs as its
// file does.
func TestForeignTools(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(testfiles.Root(t), "catalog/core-llm/core-llm.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	p := newPress(t)
	if err := os.WriteFile("tiny.gguf", data, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"Once upon a time", "-n", "8", "--raw", "--quiet"}
	want := must(t, append([]string{"run", "tiny.gguf"}, args...)...)
	for name, desc := range p.kits(string(data)) {
		t.Run(name, func(t *testing.T) {
			ref := p.release(name, desc)
			if out := must(t, "inspect", "--remote", ref); !strings.Contains(out, "format: ") || !strings.Contains(out, "signatures: 1") {
				t.Errorf("inspect: %s", out)
			}
			must(t, "verify", ref)
			_, out, _ := mm(t, "pull", ref, "--out", name)
			_, next, _ := strings.Cut(out, "next: mm run ")
			file := strings.TrimSpace(next)
			if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("pull: %q, %v", out, err)
			}
			must(t, "verify", ref, "--layout", filepath.Join(os.Getenv("MM_HOME"), "store"))
			if got := must(t, append([]string{"run", ref}, args...)...); got != want {
				t.Errorf("run: %q, want %q", got, want)
			}
		})
	}
}

// The layers that a run leaves aside, and the template that it takes, are named.
func TestForeignTemplate(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(testfiles.Root(t), "catalog/core-llm/core-llm.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	p := newPress(t)
	kits := p.kits(string(data))
	for name, want := range map[string][]string{
		"ollama":        {"template.gotmpl (a template of Ollama's, not Jinja", "params.json", "mmproj.gguf"},
		"runner-more":   {"mmproj.gguf (a projector"},
		"modelpack-tar": {"unpacked for this run"},
	} {
		_, stderr, code := mm(t, "run", p.release(name, kits[name]), "hi", "-n", "2")
		for _, w := range want {
			if code != exitOK || !strings.Contains(stderr, w) {
				t.Errorf("%s: exit %d, %q, want %q", name, code, stderr, w)
			}
		}
	}
	// Without roles or markers in the layer's template, a turn is the bare words.
	prompt := must(t, "run", p.host+"/team/runner-more:latest", "Once upon a time", "-n", "8", "--quiet")
	if raw := must(t, "run", p.host+"/team/runner-more:latest", "Once upon a time", "-n", "8", "--quiet", "--raw"); prompt != raw {
		t.Errorf("%q with the template, %q raw", prompt, raw)
	}
}

// Artifacts that cannot run are refused by name, other kinds of artifacts with exit 1.
func TestForeignRefused(t *testing.T) {
	p := newPress(t)
	kits := p.kits("GGUF")
	config := p.json(ocispec.MediaTypeImageConfig, map[string]any{})
	runner := p.json(docker+"model.config.v0.1+json", map[string]any{})
	container := p.json("application/vnd.docker.container.image.v1+json", map[string]any{})
	empty := p.put(ocispec.MediaTypeEmptyJSON, []byte("{}"))
	model := p.put(ollamaType+"model", []byte("GGUF"))
	index := func(of ...ocispec.Descriptor) ocispec.Descriptor {
		return p.json(ocispec.MediaTypeImageIndex, ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: of})
	}
	image := p.manifest("", config, p.put(ocispec.MediaTypeImageLayerGzip, []byte("rootfs")))
	for name, c := range map[string]struct {
		desc ocispec.Descriptor
		code int
		want string
	}{
		"image":      {image, diag.ExitFailure, `not a model artifact that mm knows: got media type "application/vnd.oci.image.config.v1+json"`},
		"images":     {index(image), diag.ExitFailure, "not a model artifact that mm knows"},
		"nested":     {index(index(image)), diag.ExitFailure, "an index within an index"},
		"helm":       {p.manifest("", p.json("application/vnd.cncf.helm.config.v1+json", 1), p.put("application/vnd.cncf.helm.chart.content.v1.tar+gzip", []byte("x"))), diag.ExitFailure, `got media type "application/vnd.cncf.helm.config.v1+json"`},
		"new-runner": {p.manifest("", runner, p.put(docker+"tensor.v9", []byte("x"))), diag.ExitFailure, `got media type "application/vnd.docker.ai.tensor.v9" in Docker Model Runner`},
		"tensors":    {p.manifest("", container, model, p.put(ollamaType+"tensor; name=x", []byte("x"))), diag.ExitFailure, "application/vnd.ollama.image.tensor"},
		"adapter":    {p.manifest("", container, model, p.put(ollamaType+"adapter", []byte("GGUF"))), diag.ExitFailure, "adapter.gguf, which mm run does not apply"},
		"duplicate":  {p.manifest("", empty, p.put("x/y", []byte("a"), titled, "a.gguf"), p.put("x/y", []byte("b"), titled, "A.gguf")), diag.ExitRefused, "collides"},
		"escape":     {p.manifest("", empty, p.put("x/y", []byte("a"), titled, "../a.gguf")), diag.ExitRefused, "has the name"},
		"documents":  {p.manifest("", empty, p.put("x/y", []byte("a"), titled, "a.txt")), diag.ExitFailure, "0 GGUF files"},
		"evil-tar":   {p.manifest("", empty, p.put("x/y+gzip", p.tarOf("gzip", "../a", "x"), titled, "a", "io.deis.oras.content.unpack", "true")), diag.ExitRefused, "archive refused"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := mm(t, "run", p.release(name, c.desc), "hi")
			if code != c.code || !strings.Contains(stderr, c.want) {
				t.Errorf("exit %d, want %d: %s%s, want %q", code, c.code, stdout, stderr, c.want)
			}
		})
	}
	// An artifact without a signature, with another name than expected, and of a
	// missing platform.
	if err := p.store.Tag(p.Context(), kits["kitops"], "team/unsigned:latest"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"pull", p.host + "/team/unsigned:latest"}, diag.ExitRefused, "MM0601"},
		{[]string{"pull", p.release("runner", kits["runner"]), "--expect", "other"}, diag.ExitRefused, "MM0615"},
		{[]string{"pull", p.release("index", kits["index"]), "--target", "none"}, diag.ExitInvalid, "plan9-mips"},
	} {
		if stdout, stderr, code := mm(t, c.args...); code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit %d, want %d: %s%s, want %q", c.args, code, c.code, stdout, stderr, c.want)
		}
	}
}

// A folder of transformers in archives is unpacked, and its next command named.
func TestForeignFolder(t *testing.T) {
	p := newPress(t)
	kitfile := p.json(kit+"config.v1+json", map[string]any{})
	ref := p.release("folder", p.manifest("", kitfile,
		p.put(kit+"model.v1.tar+gzip", p.tarOf("gzip", "m/model.safetensors", "weights")),
		p.put(kit+"modelpart.v1.tar+gzip", p.tarOf("gzip", "m/config.json", "{}", "m/tokenizer.json", "{}"))))
	_, out, _ := mm(t, "pull", ref, "--out", "here")
	if want := "next: mm run here/m, or mm module import hf here/m"; !strings.Contains(filepath.ToSlash(out), want) {
		t.Errorf("%q, want %q", out, want)
	}
	var names []string
	entries, err := os.ReadDir("here/m")
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if err != nil || !slices.Equal(names, []string{"config.json", "model.safetensors", "tokenizer.json"}) {
		t.Errorf("%v, %v", names, err)
	}
	if _, stderr, code := mm(t, "run", ref, "hi"); code == exitOK || !strings.Contains(stderr, "config.json") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

// An ONNX file of oras is a function.
func TestForeignFunction(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(testfiles.Root(t), "catalog/vision-proj/vision_proj.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	p := newPress(t)
	if err := os.WriteFile("proj.onnx", data, 0o600); err != nil {
		t.Fatal(err)
	}
	empty := p.put(ocispec.MediaTypeEmptyJSON, []byte("{}"))
	ref := p.release("function", p.manifest("", empty, p.put("x/onnx", data, titled, "proj.onnx")))
	ask := []string{"--input", "none=none.npy"}
	_, want, code := mm(t, append([]string{"run", "proj.onnx"}, ask...)...)
	_, got, again := mm(t, append([]string{"run", ref}, ask...)...)
	const hint = "it takes patch_tokens [64, 96] fp32"
	if code == exitOK || again != code || !strings.Contains(want, hint) || !strings.Contains(got, hint) {
		t.Errorf("exit %d, %s by reference; exit %d, %s by path", again, got, code, want)
	}
}

// A model in pieces, as Docker Model Runner pushes it without names and oras with them,
// runs as the model in one file does.
func TestForeignPieces(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(testfiles.Root(t), "catalog/core-llm/core-llm.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	var tensors []gguf.Source
	for _, x := range f.Tensors {
		tensors = append(tensors, gguf.Source{Name: x.Name, Type: x.Type, Dims: x.Dims, Data: gguf.Bytes(x.Data)})
	}
	outputs, err := gguf.Split(f.KVs, tensors, int64(len(data))/3)
	if err != nil || len(outputs) < 3 {
		t.Fatalf("%d pieces, %v", len(outputs), err)
	}
	p := newPress(t)
	if err := os.WriteFile("tiny.gguf", data, 0o600); err != nil {
		t.Fatal(err)
	}
	var runner, files []ocispec.Descriptor
	for i, o := range outputs {
		var piece bytes.Buffer
		if _, err := gguf.Write(&piece, o.KVs, o.Tensors); err != nil {
			t.Fatal(err)
		}
		runner = append(runner, p.put(docker+"gguf.v3", piece.Bytes()))
		files = append(files, p.put(ocispec.MediaTypeImageLayer, piece.Bytes(), titled, gguf.PieceName("sub/tiny", i, len(outputs))))
	}
	args := []string{"Once upon a time", "-n", "8", "--raw", "--quiet"}
	want := must(t, append([]string{"run", "tiny.gguf"}, args...)...)
	config := p.json(docker+"model.config.v0.1+json", map[string]any{"config": map[string]any{"format": "gguf"}})
	for name, desc := range map[string]ocispec.Descriptor{
		"runner": p.manifest("", config, runner...),
		"oras":   p.manifest("application/vnd.acme.model", p.put(ocispec.MediaTypeEmptyJSON, []byte("{}")), files...),
	} {
		ref := p.release(name, desc)
		if got := must(t, append([]string{"run", ref}, args...)...); got != want {
			t.Errorf("%s: run: %q, want %q", name, got, want)
		}
		_, out, _ := mm(t, "pull", ref, "--out", name)
		_, file, _ := strings.Cut(out, "next: mm run ")
		if got := must(t, append([]string{"run", strings.TrimSpace(file)}, args...)...); got != want {
			t.Errorf("%s: %q: %q, want %q", name, out, got, want)
		}
	}
}

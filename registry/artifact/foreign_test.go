package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/memory"

	"mm-abi.org/mm/abi"
)

// theirs stores a manifest of another tool: layers are MEDIATYPE, or MEDIATYPE=PATH.
func theirs(t testing.TB, m *memory.Store, artifactType, config string, layers ...string) ocispec.Descriptor {
	t.Helper()
	doc := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: artifactType}
	var err error
	if doc.Config, err = pushJSON(ctx, m, config, "", map[string]any{"descriptor": map[string]string{"name": "stated", "version": "1.2.3"}}); err != nil {
		t.Fatal(err)
	}
	for i, l := range layers {
		media, path, named := strings.Cut(l, "=")
		d := described(fmt.Appendf(nil, "%d", i))
		if d.MediaType = media; named {
			d.Annotations = map[string]string{ocispec.AnnotationTitle: path, abi.AnnotationRole: string(abi.Core)}
			delete(d.Annotations, "")
		}
		doc.Layers = append(doc.Layers, d)
	}
	d, err := pushJSON(ctx, m, doc.MediaType, "", doc)
	if err != nil {
		t.Fatal(err)
	}
	d.ArtifactType = ""
	return d
}

// The files of each tool's artifact, with roles and packings; annotations of
// mm's are dropped.
func TestForeignForms(t *testing.T) {
	const packed, config = "application/vnd.cncf.model.manifest.v1+json", "application/vnd.cncf.model.config.v1+json"
	const weight = "application/vnd.cncf.model.weight.v1."
	for name, c := range map[string]struct {
		artifactType, config string
		layers               []string
		form, want           string
	}{
		"raw":             {packed, config, []string{weight + "raw=a.gguf"}, "", "a.gguf::"},
		"untyped":         {"", config, []string{weight + "raw=a.gguf"}, "ModelPack", "a.gguf:weights:"},
		"tars":            {packed, config, []string{weight + "tar=a.gguf", weight + "tar+gzip=a.gguf", weight + "tar+zstd=b/"}, "ModelPack", "a.gguf:weights:tar a.gguf:weights:tar+gzip b:weights:tar+zstd"},
		"here":            {packed, config, []string{weight + "tar=."}, "ModelPack", "weight.tar:weights:tar"},
		"mixed":           {packed, config, []string{weight + "raw=a.gguf", "application/vnd.cncf.model.weight.config.v1.tar=c"}, "ModelPack", "a.gguf:weights: c:config:tar"},
		"gguf":            {packed, config, []string{weight + "gguf"}, "ModelPack", "model.gguf:weights:"},
		"cnai":            {"application/vnd.cnai.model.manifest.v1+json", "application/vnd.cnai.model.config.v1+json", []string{"application/vnd.cnai.model.weight.v1.tar=a"}, "ModelPack", "a:weights:tar"},
		"kit":             {"", prefixKit + "config.v1+json", []string{prefixKit + "model.v1.tar+gzip", prefixKit + "code.v1.tar", prefixKit + "code.v1.tar", prefixKit + "docs.v1.raw+gzip=README.md"}, "KitOps ModelKit", "model.tar:weights:tar+gzip code.tar:other:tar code-2.tar:other:tar README.md:other:gzip"},
		"runner":          {"", prefixDocker + "model.config.v0.1+json", []string{prefixDocker + "gguf.v3", prefixDocker + "license", prefixDocker + "license", prefixDocker + "mmproj", prefixDocker + "chat.template.jinja"}, "Docker Model Runner", "model.gguf:weights: LICENSE:license: LICENSE-2:license: mmproj.gguf:mmproj: chat_template.jinja:template:"},
		"runner, pieces":  {"", prefixDocker + "model.config.v0.1+json", []string{prefixDocker + "gguf.v3", prefixDocker + "gguf.v3"}, "Docker Model Runner", "model-00001-of-00002.gguf:weights: model-00002-of-00002.gguf:weights:"},
		"runner, folder":  {"", prefixDocker + "model.config.v0.2+json", []string{prefixDocker + "safetensors=sub/a.safetensors", prefixDocker + "model.file=sub/config.json", prefixDocker + "vllm.config.tar"}, "Docker Model Runner", "sub/a.safetensors:weights: sub/config.json:config: config.tar:config:tar"},
		"ollama":          {"", mediaDockerConfig, []string{prefixOllama + "model", prefixOllama + "template", prefixOllama + "params", prefixOllama + "system", prefixOllama + "projector"}, "Ollama", "model.gguf:weights: template.gotmpl:go-template: params.json:params: system.txt:params: mmproj.gguf:mmproj:"},
		"oras":            {"application/vnd.acme", ocispec.MediaTypeEmptyJSON, []string{ocispec.MediaTypeImageLayer + "=a.gguf", "text/plain=d/README.md"}, "files", "a.gguf:: d/README.md::"},
		"oras, unknown":   {"", "application/vnd.unknown.config.v1+json", []string{ocispec.MediaTypeImageLayerGzip + "=a.gguf"}, "files", "a.gguf::"},
		"image":           {"", ocispec.MediaTypeImageConfig, []string{ocispec.MediaTypeImageLayerGzip + "=a"}, "!", ""},
		"container":       {"", mediaDockerConfig, []string{"application/vnd.docker.image.rootfs.diff.tar.gzip"}, "!", ""},
		"untitled":        {"application/vnd.acme", ocispec.MediaTypeEmptyJSON, []string{"x/y"}, "!", ""},
		"no layers":       {"application/vnd.acme", ocispec.MediaTypeEmptyJSON, nil, "!", ""},
		"unknown in kit":  {"", prefixKit + "config.v1+json", []string{prefixKit + "soul.v1.tar"}, "!", ""},
		"unknown, runner": {"", prefixDocker + "model.config.v0.1+json", []string{prefixDocker + "tensor"}, "!", ""},
		"unknown, ollama": {"", mediaDockerConfig, []string{prefixOllama + "model", prefixOllama + "tensor; name=x"}, "!", ""},
		"unknown, packed": {packed, config, []string{"application/vnd.cncf.model.soul.v1.tar"}, "!", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := memory.New()
			a, err := Read(ctx, m, theirs(t, m, c.artifactType, c.config, c.layers...))
			if c.form == "!" {
				if !errors.Is(err, ErrForeign) || errors.Is(err, ErrManifest) {
					t.Errorf("%+v, %v", a, err)
				}
				return
			}
			if name == "raw" {
				if err == nil { // its config lists no layers: mm's own form is checked strictly
					t.Error("read")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range a.Layers {
				got = append(got, fmt.Sprintf("%s:%s:%s", l.Path, l.Role, l.Packing))
				if l.CoreModel() || l.Annotations[abi.AnnotationRole] != "" {
					t.Errorf("%s claims a role of mm's: %v", l.Path, l.Annotations)
				}
			}
			if s := strings.Join(got, " "); a.Foreign != c.form || s != c.want {
				t.Errorf("%s %q, want %s %q", a.Foreign, s, c.form, c.want)
			}
			if id := a.Identity(); id.Kind != "" || (id.Name != "") != (c.config == config) {
				t.Errorf("%+v", id)
			}
		})
	}
}

// Another tool's layers are held against the same limits and against each other.
func TestForeignRefused(t *testing.T) {
	for name, layers := range map[string][]string{
		"twice":    {"x/y=a", "x/y=a"},
		"case":     {"x/y=a", "x/y=A"},
		"parent":   {"x/y=../a"},
		"absolute": {"x/y=/a"},
		"git":      {"x/y=.git/config"},
		"type":     {"=a"},
		"manifest": {ocispec.MediaTypeImageManifest + "=a"},
	} {
		m := memory.New()
		if a, err := Read(ctx, m, theirs(t, m, "", ocispec.MediaTypeEmptyJSON, layers...)); !errors.Is(err, ErrManifest) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	for n, ok := range map[int]bool{MaxLayers: true, MaxLayers + 1: false} {
		var layers []string
		for i := range n {
			layers = append(layers, fmt.Sprintf("x/y=%d", i))
		}
		m := memory.New()
		if _, err := Read(ctx, m, theirs(t, m, "", ocispec.MediaTypeEmptyJSON, layers...)); (err == nil) != ok {
			t.Errorf("%d layers: %v", n, err)
		}
	}
}

// Entries of another tool's index are named and chosen by platform; attestations and
// images are left out.
func TestForeignIndex(t *testing.T) {
	m := memory.New()
	at := func(os, arch, variant string) ocispec.Descriptor {
		d := theirs(t, m, "", ocispec.MediaTypeEmptyJSON, "x/y=m"+strings.ReplaceAll(os, "/", "")+arch+variant)
		if os != "" {
			d.Platform = &ocispec.Platform{OS: os, Architecture: arch, Variant: variant}
		}
		return d
	}
	image := theirs(t, m, "", ocispec.MediaTypeImageConfig, "x/y")
	attestation := at("unknown", "unknown", "")
	marked := at("linux", "amd64", "")
	marked.Annotations = map[string]string{"vnd.docker.reference.type": "attestation-manifest"}
	for name, c := range map[string]struct {
		entries          []ocispec.Descriptor
		targets          string
		pick, pickOnPlan string
	}{
		"attested":    {[]ocispec.Descriptor{at("linux", "amd64", ""), attestation, marked}, "linux-amd64", "linux-amd64", "linux-amd64"},
		"several":     {[]ocispec.Descriptor{attestation, at("linux", "arm64", "v8"), at("linux", "amd64", ""), at("darwin", "amd64", "")}, "linux-arm64-v8 linux-amd64 darwin-amd64", "darwin-amd64", ""},
		"linux":       {[]ocispec.Descriptor{at("linux", "amd64", ""), at("linux", "arm64", "")}, "linux-amd64 linux-arm64", "linux-amd64", ""},
		"none":        {[]ocispec.Descriptor{at("linux", "s390x", ""), at("linux", "arm64", "")}, "linux-s390x linux-arm64", "", ""},
		"free":        {[]ocispec.Descriptor{at("linux", "s390x", ""), at("", "", "")}, "linux-s390x 2", "2", "2"},
		"two free":    {[]ocispec.Descriptor{at("", "", ""), at("", "", "")}, "1 2", "", ""},
		"beside":      {[]ocispec.Descriptor{image, at("", "", "")}, "2", "2", "2"},
		"one twice":   {[]ocispec.Descriptor{at("linux", "amd64", ""), at("linux", "amd64", "")}, "linux-amd64 2", "linux-amd64", ""},
		"odd name":    {[]ocispec.Descriptor{at("../x", "amd64", "")}, "1", "1", "1"},
		"only images": {[]ocispec.Descriptor{image}, "!", "", ""},
		"attestation": {[]ocispec.Descriptor{attestation}, "!", "", ""},
	} {
		desc, err := pushJSON(ctx, m, ocispec.MediaTypeImageIndex, "", ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, Manifests: c.entries})
		if err != nil {
			t.Fatal(err)
		}
		tree, err := ReadTree(ctx, m, desc)
		if c.targets == "!" {
			if !errors.Is(err, ErrForeign) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, p := range tree.Parts {
			got = append(got, p.Target)
		}
		if !slices.Equal(got, strings.Fields(c.targets)) || tree.Pick("darwin", "amd64") != c.pick || tree.Pick("plan9", "mips") != c.pickOnPlan {
			t.Errorf("%s: %v, %q, %q", name, got, tree.Pick("darwin", "amd64"), tree.Pick("plan9", "mips"))
		}
	}
	one := at("linux", "amd64", "")
	for n, ok := range map[int]bool{MaxTargets: true, MaxTargets + 1: false} {
		if _, err := platforms(slices.Repeat([]ocispec.Descriptor{one}, n)); (err == nil) != ok {
			t.Errorf("%d targets: %v", n, err)
		}
	}
}

// A manifest with an annotation of mm's is mm's own, whatever its media types.
func TestForeignClaim(t *testing.T) {
	m := memory.New()
	data, err := fetchSmall(ctx, m, theirs(t, m, "", prefixKit+"config.v1+json", prefixKit+"model.v1.tar"))
	if err != nil {
		t.Fatal(err)
	}
	var doc ocispec.Manifest
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	doc.Annotations = map[string]string{abi.AnnotationKind: abi.KindModule}
	desc, err := pushJSON(ctx, m, ocispec.MediaTypeImageManifest, "", doc)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := Read(ctx, m, desc); !errors.Is(err, ErrForeign) {
		t.Errorf("%+v, %v", a, err)
	}
}

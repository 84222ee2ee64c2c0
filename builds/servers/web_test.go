package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
)

// catalogFiles are the modules of the repository.
type catalogFiles string

func (c catalogFiles) Path(name string) (string, error) {
	return filepath.Join(string(c), filepath.FromSlash(name)), nil
}
func (c catalogFiles) Open(name string) (*os.File, error) {
	return os.Open(filepath.Join(string(c), name))
}
func (c catalogFiles) Dir(context.Context, ...string) (string, error) { return string(c), nil }

// catalogBuild returns a build of functions of the catalog.
func catalogBuild(t *testing.T) *builds.Build {
	t.Helper()
	root := filepath.Join(testfiles.Root(t), "catalog")
	b := &builds.Build{Files: catalogFiles(root), Manifests: map[string]*modules.Manifest{}}
	part := func(name, file string) builds.Part {
		m, list := modules.Load(filepath.Join(root, name))
		if err := list.Err(); err != nil {
			t.Fatal(err)
		}
		b.Manifests[name] = m
		return builds.Part{Name: name, Version: m.Version, Type: m.Type, Modality: m.Modality, Manifest: name + "/module.yaml", Files: builds.Formats{"onnx": {name + "/" + file}}}
	}
	b.Assembly = &builds.Assembly{
		Name: "see", Version: "1.0.0", License: "Apache-2.0",
		Modalities: []builds.ModalityPart{
			{Modality: abi.Image, Encoder: part("vision-enc", "vision_enc.onnx"), Projector: part("vision-proj", "vision_proj.onnx")},
			{Modality: abi.Audio, Encoder: part("audio-enc", "audio_enc.onnx"), Projector: part("audio-proj", "audio_proj.onnx")},
		},
		Decoders: []builds.DecoderPart{{Part: part("tts-dec", "tts_dec.onnx")}},
	}
	return b
}

// A page has the files of the build, a description of them, and the digest of each.
func TestWeb(t *testing.T) {
	b := catalogBuild(t)
	runtime := WebRuntime{Package: "onnxruntime-web@1.0.0", Integrity: "sha512-x", License: "MIT", Files: map[string][]byte{"ort.wasm.min.mjs": []byte("export {}")}}
	dir := filepath.Join(t.TempDir(), "page")
	files, err := Web(t.Context(), b, runtime)
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(t.Context(), dir, files, b.Files); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(sums)), "\n") {
		digest, name, _ := strings.Cut(line, "  ")
		_, got, err := fsx.Digest(filepath.Join(dir, name))
		if err != nil || got != "sha256:"+digest {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, digest)
		}
		digests[name] = digest
	}
	if len(digests) != len(files)-1 {
		t.Errorf("got %d digests of %d files", len(digests), len(files))
	}
	var doc page
	data, err := os.ReadFile(filepath.Join(dir, "functions.json"))
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range doc.Functions {
		if f.Model.SHA256 != digests[f.Model.Path] || f.Golden == nil || f.Golden.Outputs[f.Outputs[0].Name].SHA256 != digests["golden/"+f.Name+"/"+f.Outputs[0].Name+".npy"] {
			t.Errorf("%s: digests differ from SHA256SUMS: %+v", f.Name, f)
		}
		got[f.Name] = fmt.Sprint(f.Inputs[0].Type, f.Inputs[0].Dims, f.Inputs[0].Kinds, f.Rate)
	}
	want := map[string]string{
		"vision-enc": "float32[N 128 128 3] [picture] 0", "vision-proj": "float32[N 64 96] [] 0", "audio-enc": "float32[N 300 64] [] 0",
		"audio-proj": "float32[N 16 128] [] 0", "tts-dec": "float16[1 24 256] [] 16000",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	again, err := Web(t.Context(), b, runtime)
	if err != nil || !cmp.Equal(files, again) {
		t.Errorf("a second export differs, or %v", err)
	}
	for _, e := range []string{"index.html", "page.js", "prepare.js", "tensor.js", "page.css"} {
		if text, err := os.ReadFile(filepath.Join(dir, e)); err != nil || len(text) == 0 {
			t.Errorf("%s: %v", e, err)
		}
	}
}

func TestWebRefuses(t *testing.T) {
	b := catalogBuild(t)
	b.Assembly.Modalities = b.Assembly.Modalities[:1]
	b.Assembly.Decoders = nil
	b.Assembly.Modalities[0].Encoder.Files = builds.Formats{"tflite": {"vision-enc/x.tflite"}}
	if _, err := Web(t.Context(), b, WebRuntime{}); err == nil || !strings.Contains(err.Error(), "MM0531") || !strings.Contains(err.Error(), "vision-enc: got no ONNX file") {
		t.Errorf("a function without a file: %v", err)
	}
	b.Assembly.Modalities = nil
	if _, err := Web(t.Context(), b, WebRuntime{}); err == nil || !strings.Contains(err.Error(), "got no function") {
		t.Errorf("no function: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Web(ended, catalogBuild(t), WebRuntime{}); err == nil {
		t.Error("a canceled export has files")
	}
	w := web{}
	w.port("f", onnx.TensorValue("x", onnx.BFLOAT16, 1))
	if err := w.list.Err(); err == nil || !strings.Contains(err.Error(), "port x has an element type") {
		t.Errorf("a type that the runtime has not: %v", err)
	}
}

// The page prepares pictures and sounds as the manifest asks, or has a note.
func TestPrepared(t *testing.T) {
	encoder := func(modality abi.Modality) *webFunction {
		return &webFunction{Type: string(abi.Encoder), Modality: string(modality)}
	}
	dims := []any{"N", int64(3), int64(8), int64(8)}
	for name, c := range map[string]struct {
		f    *webFunction
		dims []any
		spec *preprocess.Spec
		want string
		note string
	}{
		"picture":          {encoder(abi.Image), dims, nil, "[picture]", "resizes"},
		"no channels":      {encoder(abi.Image), []any{"N", int64(5), int64(8), int64(8)}, nil, "[]", ""},
		"tokens":           {encoder(abi.Image), []any{int64(5), int64(3)}, nil, "[]", ""},
		"of a projector":   {&webFunction{Type: string(abi.Projector), Modality: string(abi.Image)}, dims, nil, "[]", ""},
		"resized":          {encoder(abi.Image), dims, &preprocess.Spec{Picture: preprocess.Picture{Resize: []int{8, 8}}}, "[picture]", "resizes"},
		"cropped":          {encoder(abi.Image), dims, &preprocess.Spec{Picture: preprocess.Picture{Crop: []int{8, 8}}}, "[]", "does not prepare"},
		"shortest edge":    {encoder(abi.Image), dims, &preprocess.Spec{Picture: preprocess.Picture{ShortestEdge: 8}}, "[]", "does not prepare"},
		"samples":          {encoder(abi.Audio), []any{"N", "T"}, &preprocess.Spec{Sound: preprocess.Sound{SampleRate: 16000, Chunk: 512}}, "[sound]", ""},
		"mel frames":       {encoder(abi.Audio), []any{"N", "T"}, &preprocess.Spec{Sound: preprocess.Sound{SampleRate: 16000, NMels: 80}}, "[]", "does not prepare"},
		"samples before":   {encoder(abi.Audio), []any{"N", "T"}, &preprocess.Spec{Sound: preprocess.Sound{SampleRate: 16000, Context: 64}}, "[]", "does not prepare"},
		"normalized sound": {encoder(abi.Audio), []any{"N", "T"}, &preprocess.Spec{Sound: preprocess.Sound{SampleRate: 16000, Normalize: true}}, "[]", "does not prepare"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &modules.Manifest{}
			if c.spec != nil {
				m.Preprocess = modules.Preprocess{"x": *c.spec}
			}
			p := webPort{Name: "x", Dims: c.dims}
			prepared(&p, c.f, m)
			if got := fmt.Sprint(p.Kinds); got != c.want || !strings.Contains(p.Note, c.note) || (p.Note == "") != (c.note == "") || (p.Prepare != nil) != (c.spec != nil && p.Kinds != nil) {
				t.Errorf("got %s, %q, %v; want %s, %q", got, p.Note, p.Prepare, c.want, c.note)
			}
			none := webPort{Name: "x", Dims: c.dims}
			if prepared(&none, c.f, nil); none.Kinds != nil {
				t.Errorf("without a manifest: %v", none.Kinds)
			}
		})
	}
}

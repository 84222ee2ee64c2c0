package servers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
)

//go:embed web
var pages embed.FS

// WebRuntime is ONNX Runtime Web: its package, and its files by the names that the page
// loads.
type WebRuntime struct {
	Package, Integrity, License string
	Files                       map[string][]byte
}

// page is functions.json.
type page struct {
	Name        string        `json:"name"`
	Version     string        `json:"version"`
	Description string        `json:"description,omitempty"`
	License     string        `json:"license,omitempty"`
	Runtime     string        `json:"runtime"`
	Integrity   string        `json:"integrity"`
	Functions   []webFunction `json:"functions"`
}

type webFunction struct {
	Name        string     `json:"name"`
	Version     string     `json:"version"`
	Type        string     `json:"type"`
	Modality    string     `json:"modality,omitempty"`
	Description string     `json:"description,omitempty"`
	License     string     `json:"license,omitempty"`
	Rate        int64      `json:"rate,omitempty"` // of the sound of a decoder, Hz
	Model       webFile    `json:"model"`
	Data        []webFile  `json:"data,omitempty"` // external data of the model
	Inputs      []webPort  `json:"inputs"`
	Outputs     []webPort  `json:"outputs"`
	Golden      *webGolden `json:"golden,omitempty"`
}

// webPort is an input or an output. A dimension is a number, or the name of an open one.
type webPort struct {
	Name    string           `json:"name"`
	Type    string           `json:"type"`
	Dims    []any            `json:"dims"`
	Kinds   []string         `json:"kinds,omitempty"` // files that the page prepares: picture, sound
	Note    string           `json:"note,omitempty"`
	Prepare *preprocess.Spec `json:"prepare,omitempty"`
}

type webFile struct {
	Path   string `json:"path"`
	Name   string `json:"name,omitempty"` // in the model
	SHA256 string `json:"sha256"`
}

type webGolden struct {
	Inputs  map[string]webFile `json:"inputs"`
	Outputs map[string]webFile `json:"outputs"`
}

// Web returns the files of a static page that runs the ONNX functions of a build in a
// browser: the page, the runtime, the models, their golden tensors, a description and
// the digests of all of them.
func Web(ctx context.Context, b *builds.Build, runtime WebRuntime) ([]File, error) {
	w := web{b: b, files: map[string]File{}, digests: map[string]string{}}
	doc := page{Name: b.Assembly.Name, Version: b.Assembly.Version, Description: b.Assembly.Description, License: b.Assembly.License, Runtime: runtime.Package, Integrity: runtime.Integrity, Functions: []webFunction{}}
	for _, p := range b.Assembly.Functions() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f, err := w.function(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		doc.Functions = append(doc.Functions, f)
	}
	if len(doc.Functions) == 0 && !w.list.Failed() {
		fault(&w.list, b.Assembly.Name+": got no function, want an encoder, projector or decoder", "the core is served by mm serve, or by engines for GGUF")
	}
	if w.list.Failed() {
		return nil, w.list.Err()
	}
	text, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return nil, err
	}
	w.text("functions.json", append(text, '\n'))
	w.text("README.md", fmt.Appendf(nil, webReadme, doc.Name, doc.Runtime))
	w.text("ort/LICENSE.txt", []byte(runtime.License))
	for name, data := range runtime.Files {
		w.text("ort/"+name, data)
	}
	names, err := pages.ReadDir("web")
	for _, e := range names {
		data, errRead := pages.ReadFile("web/" + e.Name())
		err = errors.Join(err, errRead)
		w.text(e.Name(), data)
	}
	if err != nil {
		return nil, err
	}
	return w.sums(), nil
}

const webReadme = `# %s

A static page that runs the functions of the build in a browser with %s.
It needs a server, because browsers do not load modules from files:

    python3 -m http.server --bind 127.0.0.1 8000

Open http://127.0.0.1:8000/. Inputs stay in the browser. SHA256SUMS has the digest of each
file; "mm sign --oms FOLDER" signs the folder.
`

// web collects the files of a page.
type web struct {
	b       *builds.Build
	files   map[string]File   // by path
	digests map[string]string // of the copied files, by path
	list    diag.List
}

func (w *web) text(name string, text []byte) { w.files[name] = File{Path: name, Text: text} }

// copied adds a file of the build and returns its path and digest.
func (w *web) copied(to, from, name string) (webFile, error) {
	f, err := w.b.Files.Open(from)
	if err != nil {
		return webFile{}, err
	}
	defer f.Close()
	_, digest, err := fsx.DigestOf(f)
	digest = strings.TrimPrefix(digest, "sha256:")
	w.files[to], w.digests[to] = File{Path: to, From: from}, digest
	return webFile{Path: to, Name: name, SHA256: digest}, err
}

// function describes a part and adds its files.
func (w *web) function(p builds.Part) (f webFunction, err error) {
	paths := p.Files[string(abi.ONNX)]
	if len(paths) == 0 {
		fault(&w.list, p.Name+": got no ONNX file in this target, want one", "export it as onnx: in the graph")
		return f, nil
	}
	manifest := w.b.Manifests[p.Name]
	f = webFunction{Name: p.Name, Version: p.Version, Type: string(p.Type), Modality: string(p.Modality), Inputs: []webPort{}, Outputs: []webPort{}}
	if manifest != nil {
		f.Description, f.License = manifest.Description, manifest.License
		f.Rate, _ = manifest.Params.Int("sample_rate")
	}
	if err := w.ports(&f, paths[0], manifest); err != nil {
		return f, err
	}
	for i, from := range paths {
		name := strings.TrimPrefix(from, path.Dir(paths[0])+"/")
		to := path.Join("models", p.Name, name)
		if i == 0 {
			to, name = path.Join("models", p.Name, "model.onnx"), ""
		}
		file, err := w.copied(to, from, name)
		if err != nil {
			return f, err
		}
		if i == 0 {
			f.Model = file
		} else {
			f.Data = append(f.Data, file)
		}
	}
	f.Golden, err = w.golden(p, f, manifest)
	return f, err
}

// ports reads the inputs and outputs of a model.
func (w *web) ports(f *webFunction, file string, manifest *modules.Manifest) error {
	local, err := w.b.Files.Path(file)
	if err != nil {
		return err
	}
	m, err := onnx.Open(local)
	if err != nil {
		return err
	}
	defer m.Close()
	for _, v := range m.Inputs() {
		port := w.port(f.Name, v)
		prepared(&port, f, manifest)
		f.Inputs = append(f.Inputs, port)
	}
	for _, v := range m.Graph.Outputs {
		f.Outputs = append(f.Outputs, w.port(f.Name, v))
	}
	return nil
}

// webTypes are the element types of ONNX Runtime Web.
var webTypes = []string{"float32", "float16", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "string"}

func (w *web) port(function string, v onnx.Value) webPort {
	p := webPort{Name: strings.Clone(v.Name), Type: v.Type.DType.String(), Dims: []any{}}
	switch {
	case v.Type.Kind != onnx.TensorKind || !slices.Contains(webTypes, p.Type):
		fault(&w.list, fmt.Sprintf("%s: port %s has an element type that ONNX Runtime Web has not", function, p.Name), "convert the model to 32-bit or 16-bit floats or to integers")
	case !v.Type.Ranked:
		fault(&w.list, fmt.Sprintf("%s: port %s has an unknown number of dimensions", function, p.Name), "export the model with shapes")
	}
	for i, d := range v.Type.Dims {
		switch {
		case d.Param != "":
			p.Dims = append(p.Dims, strings.Clone(d.Param))
		case d.Value <= 0:
			p.Dims = append(p.Dims, fmt.Sprintf("d%d", i))
		default:
			p.Dims = append(p.Dims, d.Value)
		}
	}
	return p
}

// prepared sets which files the page converts to an input, or why it converts none.
func prepared(p *webPort, f *webFunction, m *modules.Manifest) {
	if m == nil {
		return
	}
	spec, has := m.Preprocess[p.Name]
	picture := !has && f.Type == string(abi.Encoder) && f.Modality == string(abi.Image) && pictureDims(p.Dims)
	switch {
	case picture, has && !spec.IsSound() && plainPicture(spec):
		p.Kinds, p.Note = []string{"picture"}, "A browser resizes pictures a little differently than mm."
	case has && spec.IsSound() && plainSound(spec):
		p.Kinds = []string{"sound"}
	case has:
		p.Note = "The page does not prepare this input as the manifest asks; mm does. Choose a file of NumPy."
		return
	default:
		return
	}
	if has {
		p.Prepare = &spec
	}
}

// pictureDims reports whether dimensions are those of a picture of one or three channels.
func pictureDims(dims []any) bool {
	n := len(dims)
	channels := func(i int) bool { return dims[i] == int64(3) || dims[i] == int64(1) }
	return (n == 3 || n == 4) && (channels(n-1) || channels(n-3))
}

// plainPicture reports whether the page can prepare a picture.
func plainPicture(s preprocess.Spec) bool {
	return s.ShortestEdge == 0 && s.Height == 0 && s.MultipleOf == 0 && s.MinWidth == 0 && s.Crop == nil && s.Frames == 0 && s.Tiles == nil && s.Fit == nil
}

// plainSound reports whether the page can prepare a sound: samples without mel frames.
func plainSound(s preprocess.Spec) bool {
	return s.NMels == 0 && s.Context == 0 && !s.Normalize && s.Span == nil
}

// golden adds the golden tensors of a function; nil if one is absent.
func (w *web) golden(p builds.Part, f webFunction, m *modules.Manifest) (*webGolden, error) {
	if m == nil {
		return nil, nil
	}
	g := &webGolden{map[string]webFile{}, map[string]webFile{}}
	listed := m.Paths()
	add := func(list []webPort, to map[string]webFile) error {
		for _, port := range list {
			name := "golden/" + port.Name + ".npy"
			if !slices.Contains(listed, name) {
				continue
			}
			file, err := w.copied(path.Join("golden", p.Name, port.Name+".npy"), path.Join(path.Dir(p.Manifest), name), "")
			if err != nil {
				return err
			}
			to[port.Name] = file
		}
		return nil
	}
	if err := errors.Join(add(f.Inputs, g.Inputs), add(f.Outputs, g.Outputs)); err != nil {
		return nil, err
	}
	if len(g.Inputs) < len(f.Inputs) || len(g.Outputs) == 0 {
		return nil, nil
	}
	return g, nil
}

// sums returns all files with their digests in SHA256SUMS.
func (w *web) sums() []File {
	var files []File
	for _, f := range w.files {
		files = append(files, f)
	}
	var sums bytes.Buffer
	for _, f := range sorted(files) {
		digest := w.digests[f.Path]
		if f.From == "" {
			digest = fmt.Sprintf("%x", sha256.Sum256(f.Text))
		}
		fmt.Fprintf(&sums, "%s  %s\n", digest, f.Path)
	}
	return append(files, File{Path: "SHA256SUMS", Text: sums.Bytes()})
}

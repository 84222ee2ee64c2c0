package pack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/convert"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/modal"
	"mm-abi.org/mm/train/net"
	"mm-abi.org/mm/train/net/onnxfile"
	"mm-abi.org/mm/train/nn"
	"mm-abi.org/mm/train/preference"
)

// PartOptions describes the module of a part of a training.
type PartOptions struct {
	Dir     string // folder to create; if empty, the name of the module
	Name    string // of the module
	Version string // SemVer
	License string // SPDX expression of the weights
	Config  string // recipe file, copied next to the weights; may be empty
	About   string // file whose text starts the card; may be empty
	Data    string // folder that the recipe's paths are relative to; if empty, the original one
	// With lists files to copy next to the weights under their base names, such as
	// a sound for a golden prompt.
	With []string

	Type     abi.ModuleType // encoder, projector, decoder or adapter
	Modality abi.Modality   // of encoders and projectors; if empty, the only one
	Base     abi.Ref        // the core of an adapter
}

// Part converts the encoder, the projector or the adapters in the checkpoint of a
// training stage to a module and returns its folder. Networks become ONNX with
// golden inputs and outputs; adapters become GGUF.
func Part(ctx context.Context, path string, opt PartOptions) (dir string, err error) {
	if opt.Type == abi.Decoder {
		return decoder(ctx, path, opt)
	}
	if opt.Type == abi.Adapter {
		switch kind, err := train.Kind(path); {
		case err != nil:
			return "", err
		case kind == train.LMKind:
			return adapterOnly(ctx, path, opt, openLM)
		case kind == preference.TaskKind:
			return adapterOnly(ctx, path, opt, openPreference)
		}
	}
	ck, err := modal.OpenCheckpoint(path)
	if err != nil {
		return "", err
	}
	defer ck.Close()
	if dir = opt.Dir; dir == "" {
		dir = opt.Name
	}
	_, _, err = modules.Create(dir, func(d *fsx.Dir) error {
		k := &part{opt: opt, dir: d, ck: ck}
		if err := k.run(ctx); err != nil {
			return err
		}
		return ctx.Err()
	})
	return dir, err
}

// part holds the state of packing a part.
type part struct {
	opt   PartOptions
	dir   *fsx.Dir
	ck    *modal.Checkpoint
	built modal.Built // of its modality
	count int         // weights
	files []modules.File
}

func (k *part) run(ctx context.Context) error {
	var m modules.Manifest
	var err error
	switch k.opt.Type {
	case abi.Encoder, abi.Projector:
		m, err = k.function()
	case abi.Adapter:
		m, err = k.adapter()
	default:
		err = fmt.Errorf("unsupported type %q: a training stage has an encoder, projector, decoder or adapter", k.opt.Type)
	}
	if err != nil {
		return err
	}
	about, err := k.texts()
	if err != nil {
		return err
	}
	return k.finish(ctx, m, k.card(about))
}

// texts copies the recipe, if there is one, and returns the user's text for the
// card.
func (k *part) texts() (about string, err error) {
	if k.opt.Config != "" {
		data, err := fsx.ReadFile(k.opt.Config, schemas.MaxBytes)
		if err != nil {
			return "", err
		}
		if err := k.write("train.yaml", data); err != nil {
			return "", err
		}
	}
	if k.opt.About == "" {
		return "", nil
	}
	text, err := fsx.ReadFile(k.opt.About, maxText)
	return strings.TrimSpace(string(text)) + "\n\n", err
}

// finish writes the card and the manifest.
func (k *part) finish(ctx context.Context, m modules.Manifest, card string) error {
	if err := k.write("README.md", []byte(card)); err != nil {
		return err
	}
	if err := k.copy(ctx); err != nil {
		return err
	}
	m.Name, m.Version, m.License, m.Card, m.Files = k.opt.Name, k.opt.Version, k.opt.License, "README.md", k.files
	m.Description = fmt.Sprintf("%s of %d weights, trained by mm train.", title(string(k.opt.Type)), k.count)
	return convert.WriteManifest(k.dir, m)
}

// copy copies the additional files.
func (k *part) copy(ctx context.Context) error {
	for _, from := range k.opt.With {
		name := filepath.Base(from)
		if name == modules.FileName || slices.ContainsFunc(k.files, func(f modules.File) bool { return f.Path == name }) {
			return fmt.Errorf("duplicate file name %s", name)
		}
		in, err := fsx.OpenRegular(from)
		if err != nil {
			return err
		}
		file, err := convert.WriteFile(k.dir, name, func(w io.Writer) error {
			_, err := io.Copy(w, fsx.Reader{Context: ctx, R: in})
			return err
		})
		if err = errors.Join(err, in.Close()); err != nil {
			return err
		}
		k.files = append(k.files, file)
	}
	return nil
}

// title capitalizes a word.
func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// write writes a file to the folder and records its digest.
func (k *part) write(name string, data []byte) error {
	file, err := convert.WriteFile(k.dir, name, func(w io.Writer) error { _, err := w.Write(data); return err })
	if err == nil {
		k.files = append(k.files, file)
	}
	return err
}

// medium returns the selected modality.
func (k *part) medium() (modal.Medium, error) {
	all := k.ck.Perception.Modalities
	if k.opt.Modality == "" && len(all) == 1 {
		return all[0].Modality, nil
	}
	if k.opt.Modality == "" {
		return "", errors.New("the checkpoint has several modalities: select one")
	}
	return modal.Medium(k.opt.Modality), nil
}

// function writes an encoder or a projector as ONNX.
func (k *part) function() (modules.Manifest, error) {
	var none modules.Manifest
	medium, err := k.medium()
	if err != nil {
		return none, err
	}
	kind := modal.EncoderPart
	if k.opt.Type == abi.Projector {
		kind = modal.ProjectorPart
	}
	n, built, err := k.ck.Network(kind, medium)
	if err != nil {
		return none, err
	}
	k.built = built
	in, out := n.Config().Inputs[0], n.Config().Outputs[0]
	halve(n)
	opt := onnxfile.Options{Name: k.opt.Name, Half: true, Inputs: map[string]onnxfile.Input{}}
	fn := convert.Function{Type: k.opt.Type, Modality: abi.Modality(medium)}
	port := in.Name
	if kind == modal.EncoderPart {
		as := onnxfile.Input{Name: "pcm"}
		if medium == modal.Image {
			as = onnxfile.Input{Name: "image", Layout: layout(built.Preprocess.Layout)}
		}
		port, opt.Inputs[in.Name] = as.Name, as
		fn.Preprocess = modules.Preprocess{port: built.Preprocess}
		if p := built.Preprocess; p.Chunk > 0 {
			fn.Caps = modules.Figures{"window_ms": p.Chunk * 1000 / p.SampleRate} // length of a window
		}
	}
	model, err := onnxfile.Model(n, opt)
	if err != nil {
		return none, err
	}
	if fn.Params, err = params(n, kind, medium); err != nil {
		return none, err
	}
	if kind == modal.ProjectorPart && medium == modal.Image && k.ck.Perception.Recipe.Data.Videos() {
		fn.Params["temporal"] = modules.TemporalHalves // as in training
	}
	m, err := convert.Describe(model, fn)
	if err != nil {
		return none, err
	}
	for _, t := range n.Params().Tensors() {
		k.count += len(t.Data)
	}
	entry := strings.ReplaceAll(k.opt.Name, "-", "_") + ".onnx"
	file, err := convert.WriteFile(k.dir, entry, func(w io.Writer) error { _, err := onnx.Write(w, model); return err })
	if err != nil {
		return none, err
	}
	k.files = append(k.files, file)
	m.Export = map[abi.Format]modules.Export{abi.ONNX: {Path: entry}}
	if err := k.golden(n, in.Name, port, out); err != nil || kind != modal.EncoderPart {
		return m, err
	}
	return m, k.calibration(medium, port)
}

// layout returns the layout of an image in the encoder's input.
func layout(prepared string) onnxfile.Layout {
	if strings.HasSuffix(prepared, "HWC") {
		return onnxfile.Pixels
	}
	return onnxfile.Planes
}

// params returns the params of a projector; an encoder has none.
func params(n *net.Net[float32], kind string, medium modal.Medium) (modules.Figures, error) {
	if kind == modal.EncoderPart {
		return nil, nil
	}
	pass := n.NewPass(nil, 1)
	y := pass.Out(n.Config().Outputs[0])
	if most, ok := abi.DefaultCaps(abi.Modality(medium)); ok && y.Rows > most {
		return nil, fmt.Errorf("too many vectors of the projector: got %d, the limit for %s is %d", y.Rows, medium, most)
	}
	return modules.Figures{"t_cap": y.Rows, "d_model": y.Cols}, nil
}

// golden writes the outputs of the network for numbers from a fixed seed, for the
// module's port of the input in. Other engines must reproduce them.
func (k *part) golden(n *net.Net[float32], in, port, out string) error {
	pass := n.NewPass(nil, 1)
	x := pass.In(in)
	r := nn.NewRandom(1)
	for t := range x.Rows {
		nn.FillNormal(x.Row(t), r, 1)
	}
	pass.Forward(1)
	for _, one := range []struct {
		name string
		m    nn.Matrix[float32]
	}{{"golden/" + port + ".npy", x}, {"golden/" + out + ".npy", pass.Out(out)}} {
		if err := k.array(one.name, one.m); err != nil {
			return err
		}
	}
	return nil
}

// calibrated is the number of calibration examples in an encoder's module.
const calibrated = 4

// calibration writes training examples of the encoder, golden/train-N.npz, from
// which compilers measure ranges. If the data cannot be opened, there are none.
func (k *part) calibration(medium modal.Medium, port string) error {
	inputs, err := k.ck.Inputs(medium, calibrated, k.opt.Data)
	if err != nil {
		return nil
	}
	for i, t := range inputs {
		if t.DType != "" && t.DType != "fp32" {
			return nil
		}
		b, err := npy.EncodeArchive(map[string]*npy.Array{port: {Type: "f4", Shape: t.Shape, Data: t.Data}})
		if err != nil {
			return err
		}
		if err := k.write(fmt.Sprintf("golden/train-%d.npz", i+1), b); err != nil {
			return err
		}
	}
	return nil
}

// array writes a matrix [1, rows, cols] in NumPy's format.
func (k *part) array(name string, m nn.Matrix[float32]) error {
	var data []byte
	for t := range m.Rows {
		for _, v := range m.Row(t) {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
	}
	return k.numbers(name, &npy.Array{Type: "f4", Shape: []int{1, m.Rows, m.Cols}, Data: data})
}

// numbers writes an array in NumPy's format.
func (k *part) numbers(name string, a *npy.Array) error {
	if err := k.dir.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	b, err := npy.Encode(a)
	if err != nil {
		return err
	}
	return k.write(name, b)
}

// adapter writes the low-rank matrices of a stage's core.
func (k *part) adapter() (modules.Manifest, error) {
	if k.opt.Base == (abi.Ref{}) {
		return modules.Manifest{}, errors.New("an adapter requires its core")
	}
	model, err := k.ck.Core(k.opt.Data)
	if err != nil {
		return modules.Manifest{}, err
	}
	return k.lowRank(lowRank{model: model, lora: *k.ck.Perception.Recipe.Core.LoRA})
}

// card describes the training from the checkpoint.
func (k *part) card(about string) string {
	h, r := k.ck.Header, k.ck.Perception.Recipe
	var b strings.Builder
	fmt.Fprintf(&b, "# %s %s\n\nType: %s. Licence: %s.\n\n%s", k.opt.Name, k.opt.Version, k.opt.Type, k.opt.License, about)
	fmt.Fprintf(&b, "%d weights, trained in stage %s.\n\n## Training\n\n| | |\n|---|---|\n| steps | %d |\n| examples seen | %d |\n", k.count, r.Stage, h.Step, k.ck.Perception.Next)
	unit := "token"
	if r.Reads() {
		unit = "sign"
	}
	if h.Best > 0 {
		fmt.Fprintf(&b, "| best held-out loss | %.4f nats a %s |\n", h.Best, unit)
	}
	fmt.Fprintf(&b, "| optimizer | %s |\n| seed | %d |\n", or(r.Optimizer.Name, "adamw"), r.Seed)
	if k.opt.Type != abi.Encoder || r.Stage != modal.Encode {
		fmt.Fprintf(&b, "| core | %s |\n", filepath.Base(r.Core.Base))
		if r.Core.Adapter != "" {
			fmt.Fprintf(&b, "| beside it | %s, frozen |\n", filepath.Base(r.Core.Adapter))
		}
	}
	for _, m := range k.ck.Perception.Modalities {
		if m.ONNX != "" {
			fmt.Fprintf(&b, "| encoder of %s | an ONNX file, sha256 `%s` |\n", m.Modality, m.ONNX)
		}
	}
	if s := r.Data.Scene; s != nil {
		fmt.Fprintf(&b, "| pictures | scenes, %s, seed %d |\n", or(strings.Join(s.Kinds, ", "), "all kinds"), s.Seed)
	}
	if s := r.Data.Sound; s != nil {
		fmt.Fprintf(&b, "| sounds | %s, seed %d |\n", or(strings.Join(s.Kinds, ", "), "all kinds"), s.Seed)
	}
	if n := len(h.Frozen); n > 0 {
		fmt.Fprintf(&b, "| frozen tensors | %d, hashed |\n", n)
	}
	if e := k.ck.Perception.Held; e != nil && len(e.Scores) > 0 {
		heldOut(&b, e.Scores, r.Reads())
	}
	if k.opt.Config != "" {
		b.WriteString(recipeNote)
	}
	return b.String()
}

// heldOut writes a table of accuracies on the held-out split: answers, or the
// readings of an encoder's heads, which have no chance level.
func heldOut(b *strings.Builder, scores []train.Score, reads bool) {
	if reads {
		b.WriteString("\n## Held-out readings\n\nSigns that the heads read right, about examples of the held-out split; the heads are not in the module.\n\n" +
			"| sign | right | 95 % interval | n |\n|---|---|---|---|\n")
	} else {
		b.WriteString("\n## Held-out questions\n\nAnswers exactly right, greedy, about examples of the held-out split.\n\n" +
			"| question | right | 95 % interval | n | chance |\n|---|---|---|---|---|\n")
	}
	for _, s := range scores {
		low, high := s.Interval()
		fmt.Fprintf(b, "| %s | %.1f %% | %.1f–%.1f %% | %d |", s.Kind, 100*s.Accuracy(), 100*low, 100*high, s.N)
		if !reads {
			fmt.Fprintf(b, " %.1f %% |", 100*s.Chance)
		}
		b.WriteByte('\n')
	}
}

// or returns s, or otherwise if s is empty.
func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

package pack

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/convert"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/train/dataset/sound"
	"mm-abi.org/mm/train/decode"
	"mm-abi.org/mm/train/net"
	"mm-abi.org/mm/train/net/onnxfile"
	"mm-abi.org/mm/train/nn"
)

// The names of a decoder's ports, as in the playbook.
const (
	latentsPort = "latent_tokens"
	noisePort   = decode.Noise
)

// decoding holds the state of packing a decoder.
type decoding struct {
	part
	ck   *decode.Checkpoint
	net  *net.Net[float32]
	made net.Port
}

// decoder converts the decoder in the checkpoint at path to a module: an ONNX model
// from the core's states, and for a flow also noise, to an image or a sound. All
// steps are unrolled; matrices have half precision.
func decoder(ctx context.Context, path string, opt PartOptions) (dir string, err error) {
	ck, err := decode.OpenCheckpoint(path)
	if err != nil {
		return "", err
	}
	defer ck.Close()
	if dir = opt.Dir; dir == "" {
		dir = opt.Name
	}
	_, _, err = modules.Create(dir, func(d *fsx.Dir) error {
		k := &decoding{part: part{opt: opt, dir: d}, ck: ck}
		if err := k.run(ctx); err != nil {
			return err
		}
		return ctx.Err()
	})
	return dir, err
}

func (k *decoding) run(ctx context.Context) error {
	var err error
	if k.ck.Decoding.Recipe.Data.Speech != nil {
		k.net, k.made, err = k.ck.Sounding(or(k.opt.Data, k.ck.Dir()))
	} else {
		k.net, k.made, err = k.ck.Network()
	}
	if err != nil {
		return err
	}
	halve(k.net)
	for _, t := range k.net.Params().Tensors() {
		k.count += len(t.Data)
	}
	m, err := k.model()
	if err != nil {
		return err
	}
	if err := k.golden(); err != nil {
		return err
	}
	about, err := k.texts()
	if err != nil {
		return err
	}
	return k.finish(ctx, m, k.card(about))
}

// halve rounds the weights to half precision, so that golden outputs match the
// file.
func halve(n *net.Net[float32]) {
	for _, t := range n.Params().Tensors() {
		half := make([]byte, 2*len(t.Data))
		tensor.ToF16(half, t.Data)
		tensor.FromF16(t.Data, half)
	}
	n.Pack(true)
}

// output returns the port for the modality, and its conversion.
func (k *decoding) output() (string, onnxfile.Output) {
	if k.ck.Decoding.Recipe.Modality == decode.Image {
		return "image", onnxfile.Output{Name: "image", Type: onnx.UINT8, Layout: onnxfile.Pixels, Scale: 127.5, Offset: 127.5}
	}
	return decode.Samples, onnxfile.Output{Name: decode.Samples, Layout: onnxfile.Flat}
}

// model writes the ONNX file and returns its manifest.
func (k *decoding) model() (modules.Manifest, error) {
	r := k.ck.Decoding.Recipe
	_, out := k.output()
	opt := onnxfile.Options{
		Name: k.opt.Name, Batch: 1, Half: true,
		Inputs:  map[string]onnxfile.Input{decode.States: {Name: latentsPort, Type: onnx.FLOAT16}},
		Outputs: map[string]onnxfile.Output{k.net.Config().Outputs[0]: out},
	}
	fn := convert.Function{Type: abi.Decoder, Modality: abi.Modality(r.Modality), Params: modules.Figures{"T_dec": r.Core.States, "d_model": k.ck.Decoding.Width}}
	if r.Data.Speech != nil {
		fn.Params["sample_rate"] = sound.Rate
	}
	if h := k.made.Height; h > 0 && h*h == k.made.Rows {
		fn.Params["size"] = h
	}
	if o := r.Objective; o.Kind == decode.Flow {
		opt.Inputs[decode.Noise] = onnxfile.Input{Name: noisePort}
		opt.Flow = &onnxfile.Flow{State: decode.Noise, Time: decode.Time, Velocity: k.net.Config().Outputs[0], Steps: o.Steps, Sample: o.Predicts == decode.Clean}
		fn.Params["steps"] = o.Steps
	}
	var none modules.Manifest
	model, err := onnxfile.Model(k.net, opt)
	if err != nil {
		return none, err
	}
	m, err := convert.Describe(model, fn)
	if err != nil {
		return none, err
	}
	m.Inputs[0].Shape = abi.Shape{{Name: "T_dec"}, {Name: "d_model"}} // sizes are in params
	entry := strings.ReplaceAll(k.opt.Name, "-", "_") + ".onnx"
	file, err := convert.WriteFile(k.dir, entry, func(w io.Writer) error { _, err := onnx.Write(w, model); return err })
	if err != nil {
		return none, err
	}
	k.files = append(k.files, file)
	m.Export = map[abi.Format]modules.Export{abi.ONNX: {Path: entry}}
	return m, nil
}

// golden writes the outputs for states and noise from a fixed seed. Other engines
// must reproduce them, with a tolerance of one level per byte of an image.
func (k *decoding) golden() error {
	r := k.ck.Decoding.Recipe
	random := nn.NewRandom(1)
	states := make([]float32, r.Core.States*k.ck.Decoding.Width)
	nn.FillNormal(states, random, 1)
	half := make([]byte, 2*len(states))
	tensor.ToF16(half, states)
	tensor.FromF16(states, half)
	if err := k.numbers("golden/"+latentsPort+".npy", &npy.Array{Type: "f2", Shape: []int{1, r.Core.States, k.ck.Decoding.Width}, Data: half}); err != nil {
		return err
	}
	var noise []float32
	if r.Objective.Kind == decode.Flow {
		noise = make([]float32, k.made.Rows*k.made.Cols)
		nn.FillNormal(noise, random, 1)
		if err := k.numbers("golden/"+noisePort+".npy", &npy.Array{Type: "f4", Shape: []int{1, k.made.Rows, k.made.Cols}, Data: bytesOf(noise)}); err != nil {
			return err
		}
	}
	made := r.Make(k.net, states, noise)
	name, out := k.output()
	a := &npy.Array{Type: "f4", Shape: []int{1, len(made)}, Data: bytesOf(made)}
	if out.Type == onnx.UINT8 {
		a = &npy.Array{Type: "u1", Shape: []int{1, k.made.Height, k.made.Rows / k.made.Height, k.made.Cols}, Data: decode.Pixels(made)}
	}
	return k.numbers("golden/"+name+".npy", a)
}

func bytesOf(x []float32) []byte {
	out := make([]byte, 0, 4*len(x))
	for _, v := range x {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}

// card describes the training from the checkpoint.
func (k *decoding) card(about string) string {
	h, r := k.ck.Header, k.ck.Decoding.Recipe
	var b strings.Builder
	fmt.Fprintf(&b, "# %s %s\n\nType: %s. Licence: %s.\n\n%s", k.opt.Name, k.opt.Version, k.opt.Type, k.opt.License, about)
	fmt.Fprintf(&b, "%d weights, trained in stage %s.\n\n## Training\n\n| | |\n|---|---|\n| steps | %d |\n| examples seen | %d |\n", k.count, r.Stage, h.Step, k.ck.Decoding.Next)
	if h.CPU > 0 {
		fmt.Fprintf(&b, "| processor time | %.0f s |\n", h.CPU)
	}
	if h.Best > 0 {
		fmt.Fprintf(&b, "| best held-out loss | %.5f a number |\n", h.Best)
	}
	fmt.Fprintf(&b, "| optimizer | %s |\n| seed | %d |\n| core | %s |\n| its states | the last %d of a prompt |\n", or(r.Optimizer.Name, "adamw"), r.Seed, filepath.Base(r.Core.Base), r.Core.States)
	if o := r.Objective; o.Kind == decode.Flow {
		fmt.Fprintf(&b, "| objective | rectified flow in %d steps, saying the %s, %s |\n", o.Steps, o.Predicts, o.Distance)
	} else {
		fmt.Fprintf(&b, "| objective | regression, %s |\n", o.Distance)
	}
	if s := r.Data.Scene; s != nil {
		fmt.Fprintf(&b, "| pictures | plain scenes, %s, seed %d, %d examples |\n", or(strings.Join(s.Kinds, ", "), "shapes"), s.Seed, s.Examples)
	}
	if s := r.Data.Speech; s != nil {
		fmt.Fprintf(&b, "| sayings | digits, numbers, words, seed %d, %d examples |\n", s.Seed, s.Examples)
	}
	if n := len(h.Frozen); n > 0 {
		fmt.Fprintf(&b, "| frozen tensors | %d, hashed |\n", n)
	}
	if e := k.ck.Decoding.Held; e != nil && len(e.Scores) > 0 {
		b.WriteString("\n## Held-out prompts\n\nWhat was made in answer to prompts of the held-out split, and is what was asked for.\n\n| asked for | right | 95 % interval | n | chance |\n|---|---|---|---|---|\n")
		for _, s := range e.Scores {
			low, high := s.Interval()
			fmt.Fprintf(&b, "| %s | %.1f %% | %.1f–%.1f %% | %d | %.1f %% |\n", s.Kind, 100*s.Accuracy(), 100*low, 100*high, s.N, 100*s.Chance)
		}
	}
	if k.opt.Config != "" {
		b.WriteString(recipeNote)
	}
	return b.String()
}

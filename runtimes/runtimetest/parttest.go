package runtimetest

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
)

// format is the format of the functions' files.
const format = "known"

// Width is the length of a vector.
const Width = 3

// Engine opens functions with known numbers. The zero value is ready.
type Engine struct {
	Called string          // its name
	Cannot []string        // names of parts that it refuses
	Gone   bool            // not available
	Broken error           // the error of Open
	Gate   <-chan struct{} // each Run receives from it; nil: Runs do not wait

	Opens, Runs, Closes atomic.Int64
}

// Name implements [runtimes.Engine].
func (e *Engine) Name() string { return e.Called }

// Probe implements [runtimes.Engine].
func (e *Engine) Probe(context.Context) (runtimes.Info, error) {
	if e.Gone {
		return runtimes.Info{}, &runtimes.Unavailable{What: "backend " + e.Called, Why: "it is gone", Hint: "get it back"}
	}
	return runtimes.Info{Version: "1 of " + e.Called}, nil
}

// Can implements [runtimes.Engine].
func (e *Engine) Can(p builds.Part) error {
	if slices.Contains(e.Cannot, p.Name) {
		return &runtimes.Unavailable{What: p.ID(), Why: e.Called + " does not open it"}
	}
	return nil
}

// Open implements [runtimes.Engine].
func (e *Engine) Open(_ context.Context, b runtimes.Bundle, _ runtimes.Limits) (runtimes.Model, error) {
	if e.Opens.Add(1); e.Broken != nil {
		return nil, e.Broken
	}
	return &function{e: e, m: b.Manifest}, nil
}

type function struct {
	e *Engine
	m *modules.Manifest
}

// Close implements [runtimes.Model].
func (f *function) Close() error {
	f.e.Closes.Add(1)
	return nil
}

// Run implements [runtimes.Function].
func (f *function) Run(ctx context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	if f.e.Gate != nil {
		select {
		case <-f.e.Gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	f.e.Runs.Add(1)
	name := slices.Sorted(maps.Keys(in))[0]
	var out []float32
	switch t := in[name]; {
	case f.m.Type == abi.Projector:
		for _, v := range floats(t.Data) {
			out = append(out, 2*v)
		}
	case t.Type == runtimes.Uint8:
		out = make([]float32, Width)
		for i, v := range t.Data {
			out[i%Width] += float32(v) / float32(len(t.Data)/Width)
		}
	default:
		x := floats(t.Data)
		out = []float32{x[0], x[len(x)-1], float32(len(x))}
	}
	t := runtimes.Tensor{Type: runtimes.Float32, Shape: []int64{int64(len(out) / Width), Width}}
	for _, v := range out {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
	}
	return map[string]runtimes.Tensor{f.m.Outputs[0].Name: t}, nil
}

func floats(data []byte) []float32 {
	out := make([]float32, len(data)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return out
}

// folder contains the files of a build.
type folder string

func (f folder) Path(name string) (string, error) { return filepath.Join(string(f), name), nil }
func (f folder) Open(name string) (*os.File, error) {
	return os.Open(filepath.Join(string(f), name))
}
func (f folder) Dir(context.Context, ...string) (string, error) { return string(f), nil }

// Build returns a build named b of functions without weights, which only [Engine] opens: NAME-enc
// is an encoder, which returns the mean color of an image, or the first and the last sample of a
// sound; NAME-proj is its projector, which doubles its input; NAME-dec is a decoder. The modality
// is NAME up to the first full stop (image.2-enc is a second encoder of images). With core, the
// build has a core of that name.
func Build(t testing.TB, core bool, names ...string) *builds.Build {
	t.Helper()
	dir := t.TempDir()
	b := &builds.Build{Assembly: &builds.Assembly{Name: "b", Target: "laptop"}, Manifests: map[string]*modules.Manifest{}, Files: folder(dir)}
	if core {
		b.Assembly.Core = builds.Part{Name: "core", Version: "1.0.0", Type: abi.Core, Files: builds.Formats{"gguf": {"core.gguf"}}}
	}
	for _, name := range names {
		stem, kind, _ := strings.Cut(name, "-")
		medium, _, _ := strings.Cut(stem, ".")
		m := &modules.Manifest{Name: name, Version: "1.0.0", Modality: abi.Modality(medium), Params: modules.Figures{}, Caps: modules.Figures{}}
		tokens := abi.Port{Name: "tokens", Shape: abi.Shape{{Name: "T_enc"}, {Size: Width}}, DType: abi.FP32}
		p := builds.Part{Name: name, Version: m.Version, Modality: m.Modality, Manifest: name + "/" + modules.FileName, Files: builds.Formats{format: {name + ".known"}}}
		switch kind {
		case "enc":
			m.Type, m.Outputs = abi.Encoder, []abi.Port{tokens}
			m.Inputs = []abi.Port{{Name: "picture", Shape: abi.Shape{{Name: "H"}, {Name: "W"}, {Size: 3}}, DType: abi.UInt8}}
			if m.Modality == abi.Audio {
				m.Inputs = []abi.Port{{Name: "pcm", Shape: abi.Shape{{Name: "S"}}, DType: abi.FP32}}
			}
		case "proj":
			m.Type, m.Inputs = abi.Projector, []abi.Port{tokens}
			m.Outputs = []abi.Port{{Name: "vectors", Shape: abi.Shape{{Name: "T_cap"}, {Size: Width}}, DType: abi.FP32}}
		case "dec":
			m.Type, m.Inputs = abi.Decoder, []abi.Port{{Name: "states", Shape: abi.Shape{{Name: "T_dec"}, {Size: Width}}, DType: abi.FP32}}
			m.Outputs = []abi.Port{{Name: "made", Shape: abi.Shape{{Name: "N"}, {Size: Width}}, DType: abi.FP32}}
		}
		p.Type = m.Type
		b.Manifests[name] = m
		if err := fsx.WriteFile(filepath.Join(dir, name+".known"), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		switch n := len(b.Assembly.Modalities); kind {
		case "enc":
			b.Assembly.Modalities = append(b.Assembly.Modalities, builds.ModalityPart{Modality: m.Modality, Encoder: p, TCap: 4})
		case "proj":
			b.Assembly.Modalities[n-1].Projector = p
		case "dec":
			b.Assembly.Decoders = append(b.Assembly.Decoders, builds.DecoderPart{Part: p})
		default:
			t.Fatal(fmt.Errorf("unknown kind of part: %s", name))
		}
	}
	return b
}

package seed_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/inspect"
	"mm-abi.org/mm/modules/seed"
)

// Every type of module, in every modality, agrees with its own files, is the
// same a second time and another one from another seed.
func TestWrite(t *testing.T) {
	for _, typ := range abi.ModuleTypes() {
		modalities := []abi.Modality{""}
		if typ == abi.Encoder || typ == abi.Projector || typ == abi.Decoder {
			modalities = []abi.Modality{abi.Image, abi.Audio, abi.Video}
		}
		for _, modality := range modalities {
			t.Run(strings.TrimSpace(string(typ)+" "+string(modality)), func(t *testing.T) {
				t.Parallel()
				opt := seed.Options{Type: typ, Name: "some-thing.x", Modality: modality, DModel: 32, DEnc: 8, TCap: 4, Seed: 7}
				write := func(opt seed.Options) string {
					t.Helper()
					dir := filepath.Join(t.TempDir(), "new", "m")
					if err := seed.Write(dir, opt); err != nil {
						t.Fatal(err)
					}
					return dir
				}
				dir := write(opt)
				m, list := inspect.Module(context.Background(), dir)
				if m == nil || len(list) > 0 {
					t.Fatal(list)
				}
				if m.Name != opt.Name || m.Version != "0.1.0" || m.Type != typ || m.License != "Apache-2.0" {
					t.Errorf("%+v", m)
				}
				files := contents(t, dir)
				if d := cmp.Diff(files, contents(t, write(opt))); d != "" {
					t.Error("the same options give other bytes")
				}
				opt.Seed = 8
				other := contents(t, write(opt))
				for _, e := range m.Export {
					if same := other[e.Path] == files[e.Path]; same && typ != abi.Decoder {
						t.Errorf("%s is the same from another seed", e.Path)
					}
				}
				if card := files["README.md"]; len(m.Export) > 0 != strings.Contains(card, "**untrained**") {
					t.Errorf("card:\n%s", card)
				}
			})
		}
	}
}

// contents are a folder's files by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(data)
	}
	return out
}

// Modules of one shape fit each other.
func TestModulesFit(t *testing.T) {
	resolved := builds.Resolved{}
	for _, opt := range []seed.Options{
		{Type: abi.Core, Name: "core-llm", Version: "3.0.0"}, {Type: abi.DraftCore, Name: "draft", DModel: 64}, {Type: abi.Adapter, Name: "tuned"},
		{Type: abi.Encoder, Name: "enc", Modality: abi.Audio}, {Type: abi.Projector, Name: "proj", Modality: abi.Audio}, {Type: abi.Decoder, Name: "dec"},
	} {
		dir := filepath.Join(t.TempDir(), opt.Name)
		if err := seed.Write(dir, opt); err != nil {
			t.Fatal(err)
		}
		m, list := modules.Load(dir)
		if m == nil {
			t.Fatal(list)
		}
		resolved[m.Name] = m
	}
	g, list := builds.Parse("b.graph.yaml", []byte("core: {llm: {ref: core-llm}, draft: {ref: draft}, adapters: [{ref: tuned}]}\nmodalities: [{enc: {ref: enc}, proj: {ref: proj}}]\ndecoders: [{ref: dec}]\n"))
	if g == nil {
		t.Fatal(list)
	}
	if list := g.Check(resolved); len(list) > 0 {
		t.Error(list)
	}
}

// What cannot be is refused by the option's name, without a panic, without
// gigabytes, and nothing is left.
func TestOptions(t *testing.T) {
	for name, tc := range map[string]struct {
		opt    seed.Options
		option string
	}{
		"type":                     {seed.Options{Type: "foo"}, ""},
		"name":                     {seed.Options{Type: abi.Core, Name: "../x"}, ""},
		"version":                  {seed.Options{Type: abi.Core, Version: "1"}, "version"},
		"license":                  {seed.Options{Type: abi.Core, License: "Foo"}, "license"},
		"modality":                 {seed.Options{Type: abi.Encoder, Modality: "smell"}, "modality"},
		"text encoder":             {seed.Options{Type: abi.Encoder, Modality: abi.Text}, "modality"},
		"negative width":           {seed.Options{Type: abi.Projector, DModel: -5}, "d-model"},
		"negative width, core":     {seed.Options{Type: abi.Core, DModel: -8}, "d-model"},
		"negative width, draft":    {seed.Options{Type: abi.DraftCore, DModel: -1}, "d-model"},
		"negative width, decoder":  {seed.Options{Type: abi.Decoder, DModel: -1}, "d-model"},
		"negative width, adapter":  {seed.Options{Type: abi.Adapter, DModel: -1}, "d-model"},
		"negative tokens":          {seed.Options{Type: abi.Encoder, DEnc: -1}, "d-enc"},
		"negative cap":             {seed.Options{Type: abi.Projector, TCap: -1}, "t-cap"},
		"large width":              {seed.Options{Type: abi.Core, DModel: 8200}, "d-model"},
		"huge tokens":              {seed.Options{Type: abi.Encoder, DEnc: 100_000_000}, "d-enc"},
		"huge cap":                 {seed.Options{Type: abi.Projector, TCap: math.MaxInt}, "t-cap"},
		"heads that do not divide": {seed.Options{Type: abi.Core, DModel: 3}, "d-model"},
		"heads of odd size":        {seed.Options{Type: abi.DraftCore, DModel: 12}, "d-model"},
	} {
		if tc.opt.Name == "" {
			tc.opt.Name = "m"
		}
		dir := filepath.Join(t.TempDir(), "m")
		err := seed.Write(dir, tc.opt)
		var wrong *seed.OptionError
		if !errors.As(err, &wrong) || wrong.Option != tc.option {
			t.Errorf("%s: %v", name, err)
		}
		if entries, _ := os.ReadDir(filepath.Dir(dir)); len(entries) != 0 {
			t.Errorf("%s: left %v", name, entries)
		}
	}
}

// A folder that is not empty is left alone; an empty one is filled.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	if err := seed.Write(dir, seed.Options{Type: abi.Router, Name: "r"}); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	if err := seed.Write(dir, seed.Options{Type: abi.Sandbox, Name: "s"}); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("%v", err)
	}
	if d := cmp.Diff(before, contents(t, dir)); d != "" {
		t.Error(d)
	}
}

// A core has any shape, with the biases of its architecture, and the engine loads it.
func TestShape(t *testing.T) {
	s := arch.Shape{
		Arch: "qwen2", Context: 64, Layers: 2, Width: 32, Heads: 4, KVHeads: 2, HeadDim: 8, Hidden: 48, Epsilon: 1e-6,
		Rope: arch.Rope{Dims: 8, Base: 1e6, Halves: true, OriginalContext: 64, ExtFactor: -1},
	}
	dir := filepath.Join(t.TempDir(), "core")
	if err := seed.Write(dir, seed.Options{Type: abi.Core, Name: "core", Shape: &s}); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(filepath.Join(dir, "core.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := arch.Read(f)
	if err != nil || got.Arch != "qwen2" || got.Hidden != 48 || got.KVHeads != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := got.CheckTensors(f.Names()); err != nil {
		t.Error(err)
	}
	if b, ok := f.Tensor("blk.1.attn_k.bias"); !ok || b.Elements() != 16 || bytes.Equal(b.Data, make([]byte, 64)) {
		t.Error("no bias of keys")
	}
	for _, opt := range []seed.Options{{Type: abi.Core, Name: "core", Shape: &arch.Shape{}}, {Type: abi.Encoder, Name: "core", Shape: &s}, {Type: abi.Core, Name: "core", Shape: &s, DModel: 64}} {
		if err := seed.Write(filepath.Join(t.TempDir(), "core"), opt); err == nil || !strings.Contains(err.Error(), "shape") {
			t.Errorf("%+v: %v", opt, err)
		}
	}
}

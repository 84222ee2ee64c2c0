// Package seed creates untrained modules: a folder with module.yaml, a card and
// files of the right shapes, with random weights from a seed.
//
// Such a module can be validated, assembled, shipped and run in place of a trained
// one; its card declares that it is untrained. Equal options give equal bytes on
// every machine: the numbers come from a fixed generator (PCG) and the writers are
// deterministic.
package seed

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/internal/spdx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/schemas"
)

// Options configures Write.
type Options struct {
	Type     abi.ModuleType
	Name     string
	Version  string       // if empty, 0.1.0
	Modality abi.Modality // of an encoder, projector or decoder; if empty, image
	Seed     uint64
	// Shape is that of a core of any architecture; its vocabulary is that of bytes.
	// If nil, the core is a small Llama of width DModel.
	Shape   *arch.Shape
	DModel  int     // width of the core's vectors; if 0, 256
	DEnc    int     // width of an encoder's tokens; if 0, 64
	TCap    int     // of a projector; if 0, the modality's cap
	License string  // SPDX; if empty, Apache-2.0
	Base    abi.Ref // the core of an adapter or draft core; if zero, core-llm@^3
}

// OptionError reports an invalid option of Write.
type OptionError struct {
	Option string // name of the flag, such as "d-model"; empty for type and name
	Detail string // the value and the allowed values
}

// Error describes the option.
func (e *OptionError) Error() string {
	if e.Option == "" {
		return e.Detail
	}
	return e.Option + " " + e.Detail
}

// The limits of sizes. They keep the largest seeded file below a few GiB.
const (
	maxDModel = 8192
	maxDEnc   = 4096
	maxTCap   = 4096
)

func (o Options) filled() (Options, error) {
	if !slices.Contains(abi.ModuleTypes(), o.Type) {
		var known []string
		for _, t := range abi.ModuleTypes() {
			known = append(known, string(t))
		}
		return o, &OptionError{"", fmt.Sprintf("unknown module type %q, want one of %s", o.Type, strings.Join(known, ", "))}
	}
	if !abi.ValidName(o.Name) {
		return o, &OptionError{"", fmt.Sprintf("invalid module name %q, want lower-case letters and digits joined by . - _", o.Name)}
	}
	if o.Version == "" {
		o.Version = "0.1.0"
	}
	if _, err := abi.ParseVersion(o.Version); err != nil {
		return o, &OptionError{"version", err.Error()}
	}
	if o.License != "" {
		if _, err := spdx.Parse(o.License); err != nil {
			return o, &OptionError{"license", fmt.Sprintf("invalid SPDX expression %q: %v", o.License, err)}
		}
	}
	if o.Modality == "" {
		o.Modality = abi.Image
	}
	if _, ok := abi.DefaultCaps(o.Modality); !ok {
		return o, &OptionError{"modality", fmt.Sprintf("is %q, want image, audio or video", o.Modality)}
	}
	if err := o.shaped(); err != nil {
		return o, err
	}
	if o.Shape != nil {
		o.DModel = o.Shape.Width
	} else if err := o.sizes(); err != nil {
		return o, err
	}
	if o.License == "" {
		o.License = "Apache-2.0"
	}
	if o.DModel == 0 {
		o.DModel = 256
	}
	if o.DEnc == 0 {
		o.DEnc = 64
	}
	if o.TCap == 0 {
		o.TCap, _ = abi.DefaultCaps(o.Modality)
	}
	if o.Base == (abi.Ref{}) {
		o.Base = abi.Ref{Name: "core-llm", Constraint: "^3"}
	}
	return o, nil
}

// shaped checks the shape.
func (o Options) shaped() error {
	if o.Shape == nil {
		return nil
	}
	if o.Type != abi.Core || o.DModel != 0 {
		return &OptionError{"shape", "is for a core, in place of --d-model"}
	}
	s := *o.Shape
	s.Vocab = 1
	if err := s.Check(); err != nil {
		return &OptionError{"shape", fmt.Sprintf("is invalid: %v", err)}
	}
	if n := s.Width; n > maxDModel {
		return &OptionError{"shape", fmt.Sprintf("has a width of %d, want 1 to %d", n, maxDModel)}
	}
	return nil
}

// sizes checks the sizes; 0 is the default.
func (o Options) sizes() error {
	for _, v := range []struct {
		option   string
		got, max int
	}{{"d-model", o.DModel, maxDModel}, {"d-enc", o.DEnc, maxDEnc}, {"t-cap", o.TCap, maxTCap}} {
		if v.got < 0 || v.got > v.max {
			return &OptionError{v.option, fmt.Sprintf("is %d, want 1 to %d", v.got, v.max)}
		}
	}
	// Rotary positions rotate the elements of a head in pairs.
	if step := 2 * headsOf(o.DModel); (o.Type == abi.Core || o.Type == abi.DraftCore) && o.DModel%step != 0 {
		return &OptionError{"d-model", fmt.Sprintf("is %d, want a multiple of %d up to %d for a %s", o.DModel, step, maxDModel, o.Type)}
	}
	return nil
}

// file is a file of a new module.
type file struct {
	path  string
	write func(w io.Writer) error
}

// Write creates the module in dir, which must not exist or be empty. Invalid
// options are an *OptionError. If it fails, dir is empty.
func Write(dir string, opt Options) error {
	opt, err := opt.filled()
	if err != nil {
		return err
	}
	m := modules.Manifest{
		Name: opt.Name, Version: opt.Version, Type: opt.Type, ABI: abi.V1_0, License: opt.License,
		Card: "README.md",
	}
	var files []file
	switch opt.Type {
	case abi.Core, abi.DraftCore:
		files = core(&m, opt)
	case abi.Encoder:
		files = encoder(&m, opt)
	case abi.Projector:
		files = projector(&m, opt)
	case abi.Decoder:
		files = decoder(&m, opt)
	case abi.Adapter:
		files = adapter(&m, opt)
	case abi.Skill:
		skill(&m)
	case abi.Router:
		m.ToolCallTokens, m.MaxCalls = []string{abi.ToolCallOpen, abi.ToolCallClose}, 4
	case abi.Sandbox:
		m.Limits, m.Engines = &modules.Limits{CPU: "1", Mem: "64Mi", TimeoutMS: 300, OutputBytes: 65536}, []string{"wasm", "starlark", "builtin"}
	}
	if len(m.Export) > 0 {
		m.Description = fmt.Sprintf(untrained+"%s with weights from seed %d.", m.Type, opt.Seed)
	}
	return write(dir, m, append(files, file{m.Card, card(m, opt)}))
}

// untrained begins the description of a module with random weights.
const untrained = "Untrained "

// Untrained reports whether a module was created by Write and not trained.
func Untrained(m *modules.Manifest) bool { return strings.HasPrefix(m.Description, untrained) }

// write writes the files, module.yaml last.
func write(dir string, m modules.Manifest, files []file) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty", dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, _, err := modules.Create(dir, func(d *fsx.Dir) error {
		for _, f := range files {
			if err := writeFile(d, f); err != nil {
				return fmt.Errorf("writing %s: %w", filepath.Join(dir, f.path), err)
			}
		}
		text, err := schemas.Encode(m)
		if err != nil {
			return err
		}
		return d.WriteFile(modules.FileName, append(text, schemas.EditorComment(schemas.Module)...), 0o644)
	})
	return err
}

func writeFile(d *fsx.Dir, f file) error {
	w, err := d.Create(f.path, 0o644)
	if err != nil {
		return err
	}
	if err := f.write(w); err != nil {
		return errors.Join(err, w.Close(), d.Remove(f.path))
	}
	return errors.Join(w.Sync(), w.Close())
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// card returns the README of an untrained module.
func card(m modules.Manifest, opt Options) func(io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s %s\n\nType: %s. Licence: %s.\n\n", m.Name, m.Version, m.Type, m.License)
	if len(m.Export) == 0 {
		b.WriteString("This module has no weights; module.yaml says all there is.\n")
		return text(b.String())
	}
	command := fmt.Sprintf("mm module new %s %s --version %s --seed %d --d-model %d", m.Type, m.Name, m.Version, opt.Seed, opt.DModel)
	switch m.Type {
	case abi.Encoder, abi.Projector:
		command += fmt.Sprintf(" --modality %s --d-enc %d", opt.Modality, opt.DEnc)
	case abi.Decoder:
		command += " --modality " + string(opt.Modality)
	}
	fmt.Fprintf(&b, "**untrained**: its weights are random numbers from seed %d. It has the shapes of the\n"+
		"module that will stand here and says nothing of value.\n\nMade by\n\n    %s\n", opt.Seed, command)
	return text(b.String())
}

func skill(m *modules.Manifest) {
	m.Inputs = []abi.Port{{Name: "query", Type: "str"}}
	m.Outputs = []abi.Port{{Name: "result", Type: "json"}}
	m.Runtime = &modules.Runtime{Builtin: m.Name, Limits: &modules.Limits{CPU: "1", Mem: "32Mi", TimeoutMS: 200}}
}

// normal returns n normally distributed numbers with standard deviation std. Each
// name has its own stream, so that the size of a tensor does not affect others.
func normal(seed uint64, name string, n int, std float64) []float32 {
	h := uint64(14695981039346656037) // FNV-1a, 64 bit
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	rng := rand.New(rand.NewPCG(seed, h))
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(rng.NormFloat64() * std)
	}
	return out
}

// glorot returns the standard deviation for a matrix from in to out (Glorot and
// Bengio 2010).
func glorot(in, out int) float64 { return math.Sqrt(2 / float64(in+out)) }

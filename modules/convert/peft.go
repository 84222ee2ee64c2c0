package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/infer/adapter"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
)

// Adapted names the core of an adapter.
type Adapted struct {
	Core string  // a GGUF file or the folder of a core's module
	Base abi.Ref // of the adapter's module; if empty, that of the core's module
}

// IsPEFT reports whether a folder holds a PEFT adapter.
func IsPEFT(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, adapter.ConfigFile))
	return err == nil
}

// core is the file of a core.
type core struct {
	*gguf.File
	shape arch.Shape
	name  string
	base  abi.Ref
}

// open maps the core.
func (a Adapted) open() (*core, error) {
	if a.Core == "" {
		return nil, errors.New("missing core: a GGUF file or the folder of a core's module")
	}
	c, path := &core{base: a.Base, name: filepath.Base(a.Core)}, a.Core
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		m, list := modules.Load(path)
		if m == nil || list.Failed() {
			return nil, list.Err()
		}
		if m.Type != abi.Core || m.Entry(abi.GGUF) == "" {
			return nil, fmt.Errorf("module %s is a %s, want a core with GGUF", m.ID(), m.Type)
		}
		if c.name = m.Name; c.base == (abi.Ref{}) {
			major, _, _ := strings.Cut(m.Version, ".")
			var err error
			if c.base, err = abi.ParseModuleRef(m.Name + "@^" + major); err != nil {
				return nil, err
			}
		}
		path = filepath.Join(path, filepath.FromSlash(m.Entry(abi.GGUF)))
	}
	var err error
	if c.File, err = gguf.Open(path); err != nil {
		return nil, err
	}
	if c.shape, err = infer.CheckFile(c.File); err != nil {
		return nil, errors.Join(fmt.Errorf("core %s: %w", path, err), c.Close())
	}
	return c, nil
}

// model describes the core to readers of adapters.
func (c *core) model() adapter.Model {
	s := c.shape
	return adapter.Model{Arch: s.Arch, Heads: s.Heads, KVHeads: s.KVHeads, HeadDim: s.HeadDim, Interleaved: s.Reordered(), Same: c.same}
}

// distant is the distance of a copy of a matrix from the core's, relative to its
// norm, that quantization does not explain.
const distant = 0.2

// same reports a copy of a matrix that is not the core's.
func (c *core) same(name string, rows, cols int, data []float32) error {
	t, ok := c.Tensor(name)
	if !ok {
		t, ok = c.Tensor(arch.TokenEmbedding)
	}
	if !ok || len(t.Dims) != 2 || t.Dims[0] != cols || t.Dims[1] != rows || !quant.CanDequantize(t.Type) {
		return fmt.Errorf("matrix %s of the adapter is not the core's: got %d × %d, want %v", name, cols, rows, t.Dims)
	}
	row, size := make([]float32, cols), t.Type.RowBytes(cols)
	var off, norm float64
	for n := range rows {
		quant.Dequantize(row, t.Data[n*size:(n+1)*size], t.Type)
		for i, v := range data[n*cols : (n+1)*cols] {
			off += float64(v-row[i]) * float64(v-row[i])
			norm += float64(v) * float64(v)
		}
	}
	if !(off <= distant*distant*norm) {
		return fmt.Errorf("matrix %s of the adapter is not the core's: it differs by %.2g of its norm", name, math.Sqrt(off/norm))
	}
	return nil
}

// check compares the changes with the matrices of the core.
func (c *core) check(a adapter.Adapter) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(a)) {
		change := a[name]
		t, ok := c.Tensor(name)
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("adapter changes %s, which the core does not have", name))
		case len(t.Dims) != 2 || t.Dims[0] != change.In || t.Dims[1] != change.Out:
			errs = append(errs, fmt.Errorf("matrix %s: shape mismatch: adapter has %d × %d, core %v", name, change.In, change.Out, t.Dims))
		}
	}
	return errors.Join(errs...)
}

// PEFT converts a PEFT folder to an adapter's module and returns its folder.
func PEFT(ctx context.Context, folder string, of Adapted, opt Options) (string, error) {
	c, err := of.open()
	if err != nil {
		return "", err
	}
	defer c.Close()
	if c.base == (abi.Ref{}) {
		return "", errors.New("missing base: the reference of the core's module, such as core-llm@^3")
	}
	a, err := adapter.Open(folder, c.model())
	if err != nil {
		return "", err
	}
	if err := c.check(a); err != nil {
		return "", fmt.Errorf("%s does not fit %s: %w", folder, of.Core, err)
	}
	if opt.Name == "" {
		return "", errors.New("missing name of the module")
	}
	dir := opt.Dir
	if dir == "" {
		dir = opt.Name
	}
	_, _, err = modules.Create(dir, func(d *fsx.Dir) error {
		file, err := WriteFile(d, opt.Name+".gguf", func(w io.Writer) error {
			return a.WriteGGUF(fsx.Writer{Context: ctx, W: w}, c.shape.Arch, []gguf.KV{{Key: gguf.KeyName, Value: opt.Name}, {Key: gguf.KeyLicense, Value: opt.License}})
		})
		if err != nil {
			return err
		}
		return WriteManifest(d, adapterManifest(a, c, file, opt))
	})
	if err != nil {
		return "", fmt.Errorf("creating module %s: %w", opt.Name, err)
	}
	return dir, nil
}

// adapterManifest describes the module of an adapter.
func adapterManifest(a adapter.Adapter, c *core, file modules.File, opt Options) modules.Manifest {
	rank, alpha, dora := a.Shape()
	m := modules.Manifest{
		Name: opt.Name, Version: opt.Version, Type: abi.Adapter, ABI: abi.V1_1, License: opt.License,
		Description: fmt.Sprintf("Adapter of %d matrices for %s, from a PEFT folder.", len(a), c.name),
		Export:      map[abi.Format]modules.Export{abi.GGUF: {Path: file.Path}}, Files: []modules.File{file},
	}
	m.Base, m.Method, m.Rank, m.Alpha, m.Targets = c.base, "lora", rank, float64(alpha), a.Targets()
	m.Tokens = &abi.TokenContract{DModel: c.shape.Width}
	if dora {
		m.Method = "dora"
	}
	return m
}

// ExportPEFT writes the adapter at path, a GGUF file or the folder of an
// adapter's module, as a PEFT folder. base names the model for PEFT.
func ExportPEFT(path string, of Adapted, base, dir string) error {
	c, err := of.open()
	if err != nil {
		return err
	}
	defer c.Close()
	if info, err := os.Stat(path); err == nil && info.IsDir() && !IsPEFT(path) {
		m, list := modules.Load(path)
		if m == nil || list.Failed() {
			return list.Err()
		}
		if m.Type != abi.Adapter || m.Entry(abi.GGUF) == "" {
			return fmt.Errorf("module %s is a %s, want an adapter with GGUF", m.ID(), m.Type)
		}
		path = filepath.Join(path, filepath.FromSlash(m.Entry(abi.GGUF)))
	}
	a, err := adapter.Open(path, c.model())
	if err != nil {
		return err
	}
	if err := c.check(a); err != nil {
		return fmt.Errorf("%s does not fit %s: %w", path, of.Core, err)
	}
	if base == "" {
		base = c.name
	}
	p, err := a.ToPEFT(c.model(), c.shape.Layers, base)
	if err != nil {
		return err
	}
	if IsPEFT(dir) {
		return fmt.Errorf("%s already contains an adapter", dir)
	}
	d, err := fsx.Create(dir, 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	_, err = WriteFile(d, adapter.WeightsFile, p.WriteWeights)
	if err == nil {
		err = d.WriteFile(adapter.ConfigFile, p.Config, 0o644)
	}
	return errors.Join(err, d.Close())
}

package infer

import (
	"errors"
	"fmt"
	"strings"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/quant/panel"
)

// CheckFile reports why the engine cannot run a model file, without reading its
// weights: the architecture and its keys, the name, dimensions and type of
// every tensor. It returns the shape, and all errors joined. An accepted file
// loads unless the numbers themselves are invalid.
func CheckFile(f *gguf.File) (arch.Shape, error) {
	cfg, err := arch.Read(f)
	if err != nil {
		return cfg, err
	}
	if err := cfg.CheckTensors(f.Names()); err != nil {
		return cfg, err
	}
	has := func(name string) bool { _, ok := f.Tensor(name); return ok }
	var faults []error
	check := func(want []arch.Tensor) {
		for _, w := range want {
			if t, ok := f.Tensor(w.Name); ok && len(faults) < maxFaults {
				if err := runnable(t, w, !has(arch.Output)); err != nil {
					faults = append(faults, err)
				}
			}
		}
	}
	check(cfg.Globals())
	for i := range cfg.Layers {
		check(cfg.Layer(i, has))
	}
	return cfg, errors.Join(faults...)
}

// maxFaults limits the length of a message.
const maxFaults = 16

// runnable checks that the engine supports a tensor. The embedding is read row
// by row and, if it is also the output, multiplied.
func runnable(t gguf.Tensor, want arch.Tensor, tied bool) error {
	if err := want.Fits(t.Dims); err != nil {
		return err
	}
	name := t.Type.String()
	matrix := len(want.Dims) > 1 && !strings.HasSuffix(t.Name, "_norm.weight") && t.Name != arch.Positions
	if t.Name == arch.TokenEmbedding {
		if !quant.CanDequantize(t.Type) {
			return fmt.Errorf("tensor %s: unsupported type %s", t.Name, name)
		}
		matrix = tied
	}
	switch {
	case matrix && !panel.Supported(t.Type):
		return fmt.Errorf("tensor %s: unsupported weight type %s", t.Name, name)
	case !matrix && !quant.CanDequantize(t.Type):
		return fmt.Errorf("tensor %s: got type %s, want plain numbers", t.Name, name)
	case want.Dims[0]%t.Type.BlockSize() != 0:
		return fmt.Errorf("tensor %s: row length %d is not a multiple of the block of %s", t.Name, want.Dims[0], name)
	}
	return nil
}

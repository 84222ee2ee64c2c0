package modal

import (
	"fmt"
	"path/filepath"
	"slices"

	"mm-abi.org/mm/core/infer/adapter"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/net"
	"mm-abi.org/mm/train/net/onnxfile"
)

// begin takes over the tensors of n that a file has by the same name and shape: a
// checkpoint, whose names begin with prefix, or the ONNX file of a module that was
// exported of one.
func begin(n *net.Net[float32], prefix, path string) error {
	if filepath.Ext(path) == ".onnx" {
		return onnxfile.ReadFile(n, path)
	}
	c, err := OpenCheckpoint(path)
	if err != nil {
		return err
	}
	defer c.Close()
	read := 0
	for _, w := range n.Params().Tensors() {
		if shape, ok := c.Shape(prefix + w.Name); ok && slices.Equal(shape, w.Shape) {
			if err := c.Read(prefix+w.Name, w.Data, w.Shape); err != nil {
				return err
			}
			read++
		}
	}
	if read == 0 {
		return fmt.Errorf("checkpoint %s: no tensor of it has a name and a shape of the network's", path)
	}
	return nil
}

// beginAdapter takes over a low-rank adapter as the adapters of m, which must
// have its rank, its scale and its matrices.
func beginAdapter(m *llm.Model[float32], lora llm.LoRA, path string) error {
	cfg := m.Config
	changes, err := adapter.Open(path, adapter.Model{Heads: cfg.Heads, KVHeads: cfg.KVHeads, HeadDim: cfg.HeadDim, Interleaved: cfg.Rope == llm.RopePairs})
	if err != nil {
		return err
	}
	alpha := lora.Alpha
	if alpha == 0 {
		alpha = float64(lora.Rank)
	}
	all := m.Adapters()
	if len(all) != 2*len(changes) {
		return fmt.Errorf("%s changes %d matrices, lora %d", path, len(changes), len(all)/2)
	}
	for _, t := range all {
		base, low := loraName(t.Name)
		c, ok := changes[base]
		if !ok {
			return fmt.Errorf("%s does not change %s", path, base)
		}
		if c.Magnitude != nil || c.Scale != float32(alpha/float64(lora.Rank)) {
			return fmt.Errorf("%s scales its changes by %v, lora by %v", path, c.Scale, alpha/float64(lora.Rank))
		}
		data, rows, cols := c.A, c.Rank, c.In
		if low == ".lora_b" {
			data, rows, cols = c.B, c.Out, c.Rank
		}
		if !slices.Equal(t.Shape, []int{rows, cols}) {
			return fmt.Errorf("%s has %s as %d × %d, lora as %v", path, t.Name, rows, cols, t.Shape)
		}
		copy(t.Data, data)
	}
	m.Stale()
	return nil
}

// loraName is the matrix that an adapter's tensor stands beside, and which of its
// two it is.
func loraName(name string) (base, low string) {
	low = filepath.Ext(name)
	return name[:len(name)-len(low)], low
}

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

// begin initializes the tensors of n from those of the same name and shape in a
// file: a checkpoint, whose names have the prefix, or the ONNX file of a
// module.
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
		return fmt.Errorf("checkpoint %s: no tensor has a name and shape of the network", path)
	}
	return nil
}

// beginAdapter initializes the adapters of m from a low-rank adapter, which
// must have the same rank, scale and matrices.
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
		return fmt.Errorf("%s: adapter has %d matrices, want %d", path, len(changes), len(all)/2)
	}
	for _, t := range all {
		base, low := loraName(t.Name)
		c, ok := changes[base]
		if !ok {
			return fmt.Errorf("%s: missing matrix %s", path, base)
		}
		if c.Magnitude != nil || c.Scale != float32(alpha/float64(lora.Rank)) {
			return fmt.Errorf("%s: adapter scale %v, want %v", path, c.Scale, alpha/float64(lora.Rank))
		}
		data, rows, cols := c.A, c.Rank, c.In
		if low == ".lora_b" {
			data, rows, cols = c.B, c.Out, c.Rank
		}
		if !slices.Equal(t.Shape, []int{rows, cols}) {
			return fmt.Errorf("%s: tensor %s: shape mismatch: got [%d %d], want %v", path, t.Name, rows, cols, t.Shape)
		}
		copy(t.Data, data)
	}
	m.Stale()
	return nil
}

// loraName splits the name of an adapter's tensor into its matrix and suffix.
func loraName(name string) (base, low string) {
	low = filepath.Ext(name)
	return name[:len(name)-len(low)], low
}

package seed

import (
	"fmt"
	"io"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/modules"
)

// adapterRank is the rank of a seeded adapter.
const adapterRank = 4

// adapter describes LoRA matrices for the query projections of a seeded core, as
// GGUF with llama.cpp's names. B is zero, as before training, so the adapter has no
// effect.
func adapter(m *modules.Manifest, opt Options) []file {
	path := opt.Name + ".gguf"
	m.Base, m.Method, m.Rank, m.Alpha, m.Targets = opt.Base, "lora", adapterRank, adapterRank, []string{"attn_q"}
	m.Tokens = &abi.TokenContract{DModel: opt.DModel}
	m.Export = map[abi.Format]modules.Export{abi.GGUF: {Path: path}}
	return []file{{path, func(w io.Writer) error {
		kvs := []gguf.KV{
			{Key: gguf.KeyArchitecture, Value: "llama"}, {Key: "general.type", Value: "adapter"}, {Key: gguf.KeyName, Value: opt.Name},
			{Key: "adapter.type", Value: "lora"}, {Key: "adapter.lora.alpha", Value: float32(adapterRank)},
		}
		var list []gguf.Source
		for l := range seededLayers {
			name := fmt.Sprintf("blk.%d.attn_q.weight", l)
			a := make([]byte, 4*opt.DModel*adapterRank)
			putFloats(a, normal(opt.Seed, name, opt.DModel*adapterRank, glorot(opt.DModel, adapterRank)))
			list = append(list,
				gguf.Source{Name: name + ".lora_a", Type: tensor.F32, Dims: []int{opt.DModel, adapterRank}, Data: gguf.Bytes(a)},
				gguf.Source{Name: name + ".lora_b", Type: tensor.F32, Dims: []int{adapterRank, opt.DModel}, Data: gguf.Bytes(make([]byte, 4*opt.DModel*adapterRank))})
		}
		_, err := gguf.Write(w, kvs, list)
		return err
	}}}
}

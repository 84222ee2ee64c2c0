package adapter

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/core/tensor"
)

// Shape returns the rank and alpha that most matrices have, and whether any has
// a magnitude (DoRA).
func (a Adapter) Shape() (rank int, alpha float32, dora bool) {
	votes := map[int]int{}
	for _, c := range a {
		votes[c.Rank]++
		dora = dora || c.Magnitude != nil
	}
	for _, r := range slices.Sorted(maps.Keys(votes)) {
		if votes[r] > votes[rank] {
			rank = r
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if c := a[name]; c.Rank == rank {
			return rank, c.Scale * float32(rank), dora
		}
	}
	return rank, 0, dora
}

// Targets lists the adapted matrices by the part of their name between block
// and ".weight", such as attn_q.
func (a Adapter) Targets() []string {
	set := map[string]bool{}
	for name := range a {
		_, part := split(name)
		set[part] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// split returns the block of a matrix, -1 outside the blocks, and its part.
func split(name string) (layer int, part string) {
	name = strings.TrimSuffix(name, ".weight")
	if rest, ok := strings.CutPrefix(name, "blk."); ok {
		if n, part, ok := strings.Cut(rest, "."); ok {
			if layer, err := strconv.Atoi(n); err == nil {
				return layer, part
			}
		}
	}
	return -1, name
}

// scaled returns B for a file in which all matrices have this alpha: scales
// that differ are multiplied into B.
func (c Change) scaled(alpha float32) []float32 {
	factor := c.Scale * float32(c.Rank) / alpha
	if factor == 1 {
		return c.B
	}
	b := slices.Clone(c.B)
	tensor.ScaleBy(b, factor)
	return b
}

// positive returns an alpha that a file can have. An adapter whose scale is 0
// has no effect.
func positive(alpha float32) (float32, error) {
	if !(alpha > 0) {
		return 0, fmt.Errorf("adapter has alpha %v, want above 0", alpha)
	}
	return alpha, nil
}

// WriteGGUF writes the adapter in llama.cpp's format for models of an
// architecture. kvs are appended to the metadata.
func (a Adapter) WriteGGUF(w io.Writer, arch string, kvs []gguf.KV) error {
	_, alpha, _ := a.Shape()
	alpha, err := positive(alpha)
	if err != nil {
		return err
	}
	meta := []gguf.KV{{Key: gguf.KeyArchitecture, Value: arch}, {Key: "general.type", Value: "adapter"},
		{Key: "adapter.type", Value: "lora"}, {Key: "adapter.lora.alpha", Value: alpha}}
	var all []gguf.Source
	add := func(name string, v []float32, dims ...int) {
		all = append(all, gguf.Source{Name: name, Type: tensor.F32, Dims: dims, Data: gguf.Bytes(bytesOf(v))})
	}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		c := a[name]
		add(name+suffixA, c.A, c.In, c.Rank)
		add(name+suffixB, c.scaled(alpha), c.Rank, c.Out)
		if c.Magnitude != nil {
			add(name+suffixMagnitude, c.Magnitude, c.Out)
		}
	}
	_, err = gguf.Write(w, append(meta, kvs...), all)
	return err
}

func bytesOf(v []float32) []byte {
	b := make([]byte, 4*len(v))
	quant.Quantize(b, v, tensor.F32)
	return b
}

// peftParts maps GGUF's names to modules of transformers.
var peftParts = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for hf, part := range ggufParts {
		group := "mlp"
		if len(hf) == 1 {
			group = "self_attn"
		}
		all[part] = group + "." + hf + "_proj"
	}
	return all
})

// module returns the module of transformers' models that holds a matrix.
func module(name string) (string, error) {
	if name == "output.weight" {
		return "lm_head", nil
	}
	layer, part := split(name)
	p, ok := peftParts()[part]
	if layer < 0 || !ok {
		return "", fmt.Errorf("matrix %s has no place in a PEFT adapter", name)
	}
	return fmt.Sprintf("model.layers.%d.%s", layer, p), nil
}

// PEFT is an adapter as the two files of a PEFT folder.
type PEFT struct {
	Config  []byte // adapter_config.json
	tensors []safetensors.Source
}

// WriteWeights writes adapter_model.safetensors.
func (p PEFT) WriteWeights(w io.Writer) error {
	_, err := safetensors.Write(w, map[string]string{"format": "pt"}, p.tensors)
	return err
}

// ToPEFT converts the adapter of a model m of so many layers to PEFT's names,
// order of rows and settings. base names the model in the configuration.
func (a Adapter) ToPEFT(m Model, layers int, base string) (PEFT, error) {
	var p PEFT
	rank, alpha, dora := a.Shape()
	alpha, err := positive(alpha)
	if err != nil {
		return p, err
	}
	ranks := map[string]int{}
	places := map[string][]string{} // modules by their last name
	for _, name := range slices.Sorted(maps.Keys(a)) {
		c := a[name]
		if (c.Magnitude != nil) != dora {
			return p, fmt.Errorf("matrix %s: PEFT has magnitudes (DoRA) for all matrices or for none", name)
		}
		place, err := module(name)
		if err != nil {
			return p, err
		}
		short := place[strings.LastIndexByte(place, '.')+1:]
		places[short] = append(places[short], place)
		if c.Rank != rank {
			ranks["^"+regexp.QuoteMeta(place)+"$"] = c.Rank
		}
		if err := p.add("base_model.model."+place, name, c, alpha*float32(c.Rank)/float32(rank), m); err != nil {
			return p, err
		}
	}
	p.Config, err = json.MarshalIndent(map[string]any{
		"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": base, "inference_mode": true, "bias": "none", "fan_in_fan_out": false,
		"r": rank, "lora_alpha": number(alpha), "lora_dropout": 0.0, "use_dora": dora, "use_rslora": false, "rank_pattern": ranks, "alpha_pattern": alphas(ranks, alpha, rank),
		"modules_to_save": nil, "init_lora_weights": true, "target_modules": targets(places, layers),
	}, "", "  ")
	p.Config = append(p.Config, '\n')
	return p, err
}

// alphas returns the alphas that keep the scale of matrices of another rank.
func alphas(ranks map[string]int, alpha float32, rank int) map[string]any {
	out := map[string]any{}
	for place, r := range ranks {
		out[place] = number(alpha * float32(r) / float32(rank))
	}
	return out
}

// number returns a whole number as such: PEFT's type of lora_alpha.
func number(v float32) any {
	if n := int(v); float32(n) == v {
		return n
	}
	return float64(v)
}

// targets returns the names by which PEFT finds modules: the last part of the
// name if all layers have it, otherwise the whole.
func targets(places map[string][]string, layers int) []string {
	var out []string
	for _, short := range slices.Sorted(maps.Keys(places)) {
		if short == "lm_head" || len(places[short]) == layers {
			out = append(out, short)
		} else {
			out = append(out, places[short]...)
		}
	}
	return out
}

// add appends the tensors of a change at a place.
func (p *PEFT) add(place, name string, c Change, alpha float32, m Model) error {
	b, magnitude := c.scaled(alpha), c.Magnitude
	if m.Interleaved {
		for part, heads := range map[string]int{"attn_q": m.Heads, "attn_k": m.KVHeads} {
			if _, is := split(name); is != part {
				continue
			}
			if c.Out != heads*m.HeadDim {
				return fmt.Errorf("matrix %s has %d rows, want %d heads of %d", name, c.Out, heads, m.HeadDim)
			}
			b = halve(b, heads, m.HeadDim)
			if magnitude != nil {
				magnitude = halve(magnitude, heads, m.HeadDim)
			}
		}
	}
	add := func(suffix string, v []float32, shape ...int) {
		p.tensors = append(p.tensors, safetensors.Source{Name: place + suffix, DType: safetensors.F32, Shape: shape, Data: safetensors.Bytes(bytesOf(v))})
	}
	add(".lora_A.weight", c.A, c.Rank, c.In)
	add(".lora_B.weight", b, c.Out, c.Rank)
	if magnitude != nil {
		add(".lora_magnitude_vector", magnitude, c.Out)
	}
	return nil
}

// halve is the inverse of interleave.
func halve(v []float32, heads, dim int) []float32 {
	width := len(v) / (heads * dim)
	out := make([]float32, len(v))
	for h := range heads {
		for i := range dim {
			to := h*dim + i%2*dim/2 + i/2
			copy(out[to*width:(to+1)*width], v[(h*dim+i)*width:(h*dim+i+1)*width])
		}
	}
	return out
}

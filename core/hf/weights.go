package hf

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/core/tensor"
)

// names are a family's tensor names.
type names struct {
	layer string            // prefix of a layer's names, with its number
	of    map[string]string // by GGUF name without layer and ".weight"
	// base is an optional prefix of every name.
	base string
	// columns lists the matrices stored transposed.
	columns map[string]bool
	// mixed lists the matrices whose rows are, for each key head in turn, its
	// queries, the key and the value.
	mixed map[string]bool
	// halves lists the matrices that are one half of another's rows.
	halves map[string]half
	// order lists the matrices ordered by the heads of a delta rule.
	order map[string]headOrder
	// quarters lists the parts of a matrix of queries, values and keys, in four runs of
	// heads; the numbers are their places in a run.
	quarters map[string]int
	// lead lists how many first rows are left out.
	lead map[string]int
	// heads lists the matrices of each head, stored with others as rows of one.
	heads map[string]bool
}

// half selects the first or the second half of rows, or every second row.
type half struct{ second, turns bool }

func llamaNames(other map[string]string) names {
	of := map[string]string{
		arch.TokenEmbedding: "model.embed_tokens.weight", arch.OutputNorm: "model.norm", arch.Output: "lm_head.weight",
		"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
		"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_qkv": "self_attn.qkv_proj",
		"attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
		"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
	}
	maps.Copy(of, other)
	return names{layer: "model.layers.%d.", of: of}
}

func gpt2Names() names {
	return names{
		layer: "transformer.h.%d.", base: "transformer.",
		of: map[string]string{
			arch.TokenEmbedding: "transformer.wte.weight", arch.Positions: "transformer.wpe.weight", arch.OutputNorm: "transformer.ln_f", arch.Output: "lm_head.weight",
			"attn_norm": "ln_1", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_norm": "ln_2", "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj",
		},
		columns: set("attn_qkv", "attn_output", "ffn_up", "ffn_down"),
	}
}

func neoxNames() names {
	return names{
		layer: "gpt_neox.layers.%d.",
		of: map[string]string{
			arch.TokenEmbedding: "gpt_neox.embed_in.weight", arch.OutputNorm: "gpt_neox.final_layer_norm", arch.Output: "embed_out.weight",
			"attn_norm": "input_layernorm", "attn_qkv": "attention.query_key_value", "attn_output": "attention.dense",
			"ffn_norm": "post_attention_layernorm", "ffn_up": "mlp.dense_h_to_4h", "ffn_down": "mlp.dense_4h_to_h",
		},
		mixed: set("attn_qkv"),
	}
}

// extra is a tensor from the configuration.
type extra struct {
	name   string
	values []float32
}

// weights indexes the tensors of all files of a model by name.
type weights struct {
	all      map[string]safetensors.Tensor
	used     map[string]bool
	lost     map[string]string // tensors of the index that no file holds
	base     string
	settings []safetensors.Tensor // read into metadata
	dropped  string               // output that is the embedding once more
}

// newWeights indexes the tensors. A tensor may be in several files if its bytes
// are equal.
func newWeights(s shards, base string) (*weights, error) {
	w := &weights{all: map[string]safetensors.Tensor{}, used: map[string]bool{}, lost: s.lost, base: base}
	from := map[string]string{}
	for i, f := range s.files {
		for _, t := range f.Tensors {
			if old, ok := w.all[t.Name]; ok && !same(old, t) {
				return nil, fmt.Errorf("duplicate tensor %s with different values in %s and %s", t.Name, from[t.Name], s.names[i])
			}
			w.all[t.Name], from[t.Name] = t, s.names[i]
		}
	}
	return w, nil
}

// same reports whether two tensors have the same type, shape and bytes.
func same(a, b safetensors.Tensor) bool {
	return a.DType == b.DType && slices.Equal(a.Shape, b.Shape) && bytes.Equal(a.Data, b.Data)
}

// find returns a tensor, whose name may lack the family's base.
func (w *weights) find(name string) (safetensors.Tensor, bool) {
	t, ok := w.all[name]
	if !ok && w.base != "" {
		t, ok = w.all[strings.TrimPrefix(name, w.base)]
	}
	return t, ok
}

// move renames a tensor to the name, or drops it if the name is empty.
func (w *weights) move(t safetensors.Tensor, name string) {
	delete(w.all, t.Name)
	if name != "" {
		t.Name = name
		w.all[name] = t
	}
}

// sources finds the source of every tensor of the shape; an unused tensor is an
// error.
func (w *weights) sources(s arch.Shape, f family, extras []extra) ([]gguf.Source, error) {
	b := &builder{weights: w, shape: s, family: f}
	for _, t := range s.Globals() {
		b.add("", -1, t)
	}
	for _, e := range extras {
		b.out = append(b.out, gguf.Source{Name: e.name, Type: tensor.F32, Dims: []int{len(e.values)}, Data: values(e.values)})
	}
	for i := range s.Layers {
		if b.failed() {
			break
		}
		for _, t := range s.Layer(i, nil) {
			b.add(fmt.Sprintf(f.names.layer, i), i, t)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.lost)) {
		b.fail("missing tensor %s in %s, which %s lists for it", name, w.lost[name], indexFile)
	}
	for _, name := range slices.Sorted(maps.Keys(w.all)) {
		if !w.used[name] && !buffer(name) && !(f.further && beyond(name, s.Layers)) {
			b.fail("unexpected tensor %s for architecture %s: ignoring it would change the result", name, s.Arch)
		}
	}
	return b.out, b.err()
}

// buffer reports computed tensors that older versions saved.
func buffer(name string) bool {
	for _, suffix := range []string{".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias", ".attn.causal_mask"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// beyond reports tensors of layers after the last.
func beyond(name string, layers int) bool {
	var n int
	_, err := fmt.Sscanf(name, "model.layers.%d.", &n)
	return err == nil && n >= layers || strings.HasPrefix(name, "mtp.")
}

// builder converts GGUF's tensors to sources.
type builder struct {
	config
	*weights
	shape  arch.Shape
	family family
	out    []gguf.Source
}

func (b *builder) failed() bool { return len(b.errs) >= maxFaults }

// add finds the source of t in the layer with the given prefix.
func (b *builder) add(prefix string, layer int, t arch.Tensor) {
	part, suffix := t.Part(), ""
	name, ok := b.family.names.of[part]
	if !ok {
		for _, s := range []string{".weight", ".bias"} {
			if stem, cut := strings.CutSuffix(part, s); cut {
				part, suffix = stem, s
			}
		}
		if name, ok = b.family.names.of[part]; !ok {
			if !t.Optional {
				b.fail("tensor %s has no counterpart in %s", t.Name, b.shape.Arch)
			}
			return
		}
	}
	name = prefix + name + suffix
	src := source{part: part, dims: t.Dims}
	stacked := strings.Contains(name, "%d")
	n := 1
	if stacked {
		n = t.Dims[len(t.Dims)-1]
	}
	if stem := strings.TrimSuffix(part, ".weight"); stem != part || suffix == ".weight" {
		if s, ok := b.blocksOf(name, stem, t); ok {
			b.out = append(b.out, s)
			return
		}
	}
	experts := !stacked && ofExperts(part)
	for i := range n {
		one := name
		if stacked {
			one = fmt.Sprintf(name, i)
		}
		st, found := b.find(one)
		if !found {
			if !t.Optional {
				b.fail("missing tensor %s", one)
			}
			return
		}
		b.used[st.Name] = true
		if len(st.Shape) == len(t.Dims)+1 && st.Shape[0] == 1 {
			st.Shape = st.Shape[1:]
		}
		if b.family.names.heads[part] {
			if err := src.heads(st, b.shape); err != nil {
				b.errs = append(b.errs, err)
				return
			}
		} else if !experts {
			src.parts = append(src.parts, st)
		} else if err := src.divide(st, t.Dims[len(t.Dims)-1]); err != nil {
			b.errs = append(b.errs, err)
			return
		}
	}
	if err := b.arrange(&src, t); err != nil {
		b.errs = append(b.errs, err)
		return
	}
	b.out = append(b.out, gguf.Source{Name: t.Name, Type: src.to, Dims: t.Dims, Data: &src})
}

// ofExperts reports whether a part has a matrix, or a bias, of each expert.
func ofExperts(part string) bool {
	return strings.Contains(part, "_exps") && part != arch.ExpertScales
}

// alike reports whether two shapes differ only in sides of 1, or in the groups of
// a norm.
func alike(got, want []int) bool {
	long := func(dims []int) []int {
		return slices.DeleteFunc(slices.Clone(dims), func(d int) bool { return d == 1 })
	}
	a, b := long(got), long(want)
	return slices.Equal(a, b) || len(a) == 1 && len(b) == 2 && len(want) == 2 && a[0] == b[0]*b[1]
}

// arrange sets how the parts form the tensor.
func (b *builder) arrange(src *source, t arch.Tensor) error {
	want := slices.Clone(t.Dims)
	slices.Reverse(want) // outermost first
	if len(src.parts) > 1 || len(want) == 3 || ofExperts(src.part) {
		want = want[1:]
	}
	src.rows, src.cols, src.step, src.width = want[0], 1, 1, want[0]
	if len(want) == 2 {
		src.cols = want[1]
	}
	if h, ok := b.family.names.halves[strings.TrimSuffix(strings.TrimSuffix(src.part, ".weight"), ".bias")]; ok {
		src.take(h)
		want[0] *= 2
	}
	if o := b.family.names.order[src.part]; o != 0 {
		want[0] = src.byHeads(o, b.shape.Mixer, b.shape.Width)
	}
	if at, ok := b.family.names.quarters[src.part]; ok {
		n := max(want[0]/4, 1)
		src.order = func(i int) int { return i/n*3*n + at*n + i%n }
		want[0] *= 3
	}
	if n := b.family.names.lead[src.part]; n > 0 {
		src.order, src.cut = func(i int) int { return i + n }, true
		want[0] += n
	}
	if src.part == perLayer {
		src.few(want)
	}
	if src.transpose = b.family.names.columns[src.part] && len(want) == 2; src.transpose {
		slices.Reverse(want)
	}
	for i, p := range src.parts {
		if alike(p.Shape, want) {
			p.Shape = want
			src.parts[i] = p
		}
		if !slices.Equal(p.Shape, want) {
			return fmt.Errorf("shape mismatch for tensor %s: got %v, want %v", p.Name, p.Shape, want)
		}
		typ, ok := p.DType.Type()
		if !ok || typ != tensor.F32 && typ != tensor.F16 && typ != tensor.BF16 {
			return fmt.Errorf("tensor %s: unsupported type %s, want F32, F16 or BF16", p.Name, p.DType)
		}
		if typ0, _ := src.parts[0].DType.Type(); typ != typ0 {
			return fmt.Errorf("type mismatch of fused tensors %s and %s: %s and %s", src.parts[0].Name, p.Name, src.parts[0].DType, p.DType)
		}
		src.from = typ
	}
	src.to = src.from
	norm := strings.HasSuffix(src.part, "_norm")
	if quant.Single(t.Name, len(t.Dims)) {
		src.to = tensor.F32
	}
	if norm && b.family.plus && !strings.HasSuffix(t.Name, ".bias") && src.part != "ssm_norm" {
		src.plus = 1
	}
	src.logs = src.part == "ssm_a"
	s := b.shape
	switch {
	case b.family.names.mixed[src.part]:
		per := s.Heads / s.KVHeads
		src.order = func(i int) int { // part, head, dimension → key head, part, dimension
			head, d := i/s.HeadDim, i%s.HeadDim
			switch at := head - s.Heads; {
			case at < 0:
				return (head/per*(per+2)+head%per)*s.HeadDim + d
			case at < s.KVHeads:
				return (at*(per+2)+per)*s.HeadDim + d
			default:
				return ((at-s.KVHeads)*(per+2)+per+1)*s.HeadDim + d
			}
		}
	case s.Reordered() && !b.family.pairs && (src.part == "attn_q" || src.part == "attn_k"):
		turned := s.HeadDim
		if b.family.part {
			turned = s.Rope.Dims // of a head, the first ones
		}
		src.order = func(i int) int { // pairs of neighbors were halves
			head, d := i/s.HeadDim, i%s.HeadDim
			if d >= turned {
				return i
			}
			return head*s.HeadDim + d%2*(turned/2) + d/2
		}
	}
	return nil
}

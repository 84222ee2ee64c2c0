package quant

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/core/tensor"
)

// Recipe selects the storage type of each tensor of a decoder. The recipes are
// those of llama.cpp with the same name (src/llama-quant.cpp of 0.5), without
// its rules for 70B models.
type Recipe struct {
	// Name is the name in llama.cpp, such as "Q4_K_M".
	Name string
	// FileType is the general.file_type (llama_ftype) of the file.
	FileType uint32

	matrix tensor.Type // of matrices without an exception
	output tensor.Type // of the output head, tied or not
	better []exception // the first match applies
	// small: the results of attention are stored in Q5_K among 8 experts.
	small bool
	// falcon replaces better, except for values; nil: as it is.
	falcon []exception
}

// exception selects another type for important matrices.
type exception struct {
	part   part
	layers func(layer int, m Model) bool
	to     tensor.Type
}

// part is a kind of matrices; others have none.
type part string

const (
	values part = "attn_v"
	keys   part = "attn_k"
	mixing part = "attn_output"
	down   part = "ffn_down"
)

// partOf returns the kind of a name without its layer.
func partOf(name string) part {
	switch {
	case name == "attn_v.weight", name == "attn_qkv.weight", name == "attn_kv_b.weight":
		return values
	case name == "attn_k.weight":
		return keys
	case name == "attn_output.weight":
		return mixing
	case strings.HasPrefix(name, "ffn_down"): // of experts as well
		return down
	}
	return ""
}

// recipes in order of decreasing size.
var recipes = []Recipe{
	{"F32", 0, tensor.F32, tensor.F32, nil, false, nil},
	{"F16", 1, tensor.F16, tensor.F16, nil, false, nil},
	{"BF16", 32, tensor.BF16, tensor.BF16, nil, false, nil},
	{"Q8_0", 7, tensor.Q8_0, tensor.Q8_0, nil, false, nil},
	{"Q6_K", 18, tensor.Q6_K, tensor.Q6_K, nil, false, nil},
	{"Q5_1", 9, tensor.Q5_1, tensor.Q6_K, nil, false, nil},
	{"Q5_K_M", 17, tensor.Q5_K, tensor.Q6_K, []exception{{values, spreadOut, tensor.Q6_K}, {down, spreadOut, tensor.Q6_K}}, false, nil},
	{"Q5_K_S", 16, tensor.Q5_K, tensor.Q6_K, nil, false, nil},
	{"Q5_0", 8, tensor.Q5_0, tensor.Q6_K, []exception{{down, withImportance(firstPart(8)), tensor.Q5_1}}, false, nil},
	{"Q4_1", 3, tensor.Q4_1, tensor.Q6_K, nil, false, nil},
	{"Q4_K_M", 15, tensor.Q4_K, tensor.Q6_K, []exception{{values, spreadOut, tensor.Q6_K}, {down, spreadOut, tensor.Q6_K}}, true, []exception{{down, firstPart(16), tensor.Q6_K}, {down, spreadOut, tensor.Q5_K}}},
	{"Q4_K_S", 14, tensor.Q4_K, tensor.Q6_K, []exception{{values, below(4), tensor.Q5_K}, {down, firstPart(8), tensor.Q5_K}}, true, []exception{}},
	{"IQ4_NL", 25, tensor.IQ4_NL, tensor.Q6_K, []exception{{values, grouped, tensor.Q5_K}, {down, withoutImportance(firstPart(8)), tensor.Q5_K}}, true, nil},
	{"IQ4_XS", 30, tensor.IQ4_XS, tensor.Q6_K, []exception{{values, grouped, tensor.Q5_K}, {down, withoutImportance(firstPart(8)), tensor.Q5_K}}, true, nil},
	{"Q4_0", 2, tensor.Q4_0, tensor.Q6_K, []exception{{down, withImportance(firstPart(8)), tensor.Q4_1}}, false, nil},
	{"Q3_K_L", 13, tensor.Q3_K, tensor.Q6_K, []exception{{values, all, tensor.Q5_K}, {down, all, tensor.Q5_K}, {mixing, all, tensor.Q5_K}}, false, []exception{{down, all, tensor.Q4_K}, {mixing, all, tensor.Q4_K}}},
	{"Q3_K_M", 12, tensor.Q3_K, tensor.Q6_K, []exception{
		{values, below(2), tensor.Q5_K}, {values, all, tensor.Q4_K},
		{down, firstPart(16), tensor.Q5_K}, {down, all, tensor.Q4_K}, {mixing, all, tensor.Q4_K},
	}, true, []exception{{down, firstPart(16), tensor.Q5_K}, {down, spreadOut, tensor.Q4_K}}},
	{"Q3_K_S", 11, tensor.Q3_K, tensor.Q6_K, nil, true, nil},
	{"Q2_K", 10, tensor.Q2_K, tensor.Q6_K, []exception{
		{values, grouped, tensor.Q4_K}, {values, all, tensor.Q3_K}, {down, all, tensor.Q3_K}, {mixing, all, tensor.Q3_K},
	}, true, []exception{{down, all, tensor.Q3_K}}},
}

// RecipeNames returns the names that ParseRecipe accepts, in order of
// decreasing size.
func RecipeNames() []string {
	names := make([]string, len(recipes))
	for i, r := range recipes {
		names[i] = r.Name
	}
	return names
}

// ParseRecipe returns the recipe with the given name.
func ParseRecipe(name string) (Recipe, error) {
	for _, r := range recipes {
		if r.Name == name {
			return r, nil
		}
	}
	return Recipe{}, fmt.Errorf("unknown quantization %q: want one of %s", name, strings.Join(RecipeNames(), ", "))
}

// Model describes the properties of a model that recipes depend on.
type Model struct {
	// Layers is the number of blocks, blk.0 to blk.(Layers-1).
	Layers int
	// Tied: token_embd.weight is also the output head.
	Tied bool
	// Group is the number of query heads that share a head of keys and values;
	// 0 means 1.
	Group int
	// Importance: there is an importance matrix.
	Importance bool
	// Attends marks the layers with a matrix of values, alone or with others; nil: all.
	Attends []bool
	// Experts is the number of experts that layers choose from.
	Experts int
	// Falcon: the architecture is falcon, whose recipes differ.
	Falcon bool
}

// attention returns the number of layers with values before a layer, and of all of
// them.
func (m Model) attention(layer int) (before, count int) {
	if m.Attends == nil {
		return layer, m.Layers
	}
	for i, yes := range m.Attends {
		if yes {
			count++
			if i < layer {
				before++
			}
		}
	}
	return before, count
}

// single lists the matrices, by parts of their names, that are F32 in any file:
// they are small, and llama.cpp's operators for convolutions take nothing else.
var single = []string{"_norm.weight", "ffn_gate_inp", "position_embd.", "token_types.", "ssm_conv1d", "shortconv.conv.", "altup_correct_coef", "altup_predict_coef"}

// kept lists the matrices, by parts of their names, that no recipe quantizes.
var kept = []string{"altup", "laurel", "per_layer_model_proj"}

// Single reports whether the named tensor, if it has rank dimensions other than
// 1, is F32 in any file, as llama.cpp's converter and quantizer have it.
func Single(name string, rank int) bool {
	return rank < 2 || !strings.HasSuffix(name, ".weight") ||
		slices.ContainsFunc(single, func(part string) bool { return strings.Contains(name, part) })
}

// rank returns the number of dimensions without the sides of 1 at the end.
func rank(dims []int) int {
	n := len(dims)
	for n > 1 && dims[n-1] == 1 {
		n--
	}
	return n
}

// Type returns the type for the named tensor, whose dimensions are dims, the
// contiguous one first. Vectors stay F32: norms and biases are small and
// important.
func (r Recipe) Type(name string, dims []int, m Model) tensor.Type {
	if Single(name, rank(dims)) || slices.ContainsFunc(kept, func(part string) bool { return strings.Contains(name, part) }) {
		return tensor.F32
	}
	layer, rest := split(name)
	if name == "output.weight" || (name == "token_embd.weight" || name == "per_layer_token_embd.weight") && m.Tied {
		if m.Falcon && r.quantizes() {
			return fit(tensor.Q8_0, dims[0])
		}
		return fit(r.output, dims[0])
	}
	if !r.quantizes() {
		return r.matrix
	}
	return fit(r.block(partOf(rest), layer, m), dims[0])
}

// quantizes reports whether matrices are stored in blocks.
func (r Recipe) quantizes() bool { return r.matrix.BlockSize() > 1 }

// block returns the type of a matrix of a layer.
func (r Recipe) block(p part, layer int, m Model) tensor.Type {
	if m.Experts == 8 {
		switch {
		case p == values, p == keys:
			return tensor.Q8_0
		case p == mixing && !m.Falcon && r.small:
			return tensor.Q5_K
		case p == mixing && !m.Falcon:
			return r.matrix
		}
	}
	better := r.better
	if m.Falcon && r.falcon != nil && p != values {
		better = r.falcon
	}
	index := m
	if p == values {
		layer, index.Layers = m.attention(layer)
	}
	for _, e := range better {
		if e.part == p && e.layers(layer, index) {
			return e.to
		}
	}
	return r.matrix
}

// split splits "blk.3.attn_v.weight"; layer is -1 for tensors outside the
// blocks.
func split(name string) (layer int, part string) {
	rest, ok := strings.CutPrefix(name, "blk.")
	if !ok {
		return -1, name
	}
	number, part, _ := strings.Cut(rest, ".")
	layer, err := strconv.Atoi(number)
	if err != nil {
		return -1, name
	}
	return layer, part
}

// spreadOut selects the first and the last eighth of the layers and every third
// between them.
func spreadOut(layer int, m Model) bool {
	eighth := m.Layers / 8
	return layer < eighth || layer >= 7*m.Layers/8 || (layer-eighth)%3 == 2
}

func all(int, Model) bool { return true }

// grouped selects models with few value heads that serve many query heads.
func grouped(_ int, m Model) bool { return m.Group >= 4 }

// withImportance selects layers if there is an importance matrix.
func withImportance(layers func(int, Model) bool) func(int, Model) bool {
	return func(layer int, m Model) bool { return m.Importance && layers(layer, m) }
}

// withoutImportance selects layers if there is no importance matrix.
func withoutImportance(layers func(int, Model) bool) func(int, Model) bool {
	return func(layer int, m Model) bool { return !m.Importance && layers(layer, m) }
}

// below selects the first n layers.
func below(n int) func(int, Model) bool {
	return func(layer int, _ Model) bool { return layer < n }
}

// firstPart selects the first of n parts of the layers.
func firstPart(n int) func(int, Model) bool {
	return func(layer int, m Model) bool { return layer < m.Layers/n }
}

// fit returns t if its block size divides a row of n elements. Otherwise it
// returns the type with blocks of 32 that llama.cpp substitutes, slightly
// larger and at least as exact. F16 fits every row.
func fit(t tensor.Type, n int) tensor.Type {
	if n%t.BlockSize() == 0 {
		return t
	}
	switch t {
	case tensor.Q2_K, tensor.Q3_K:
		t = tensor.Q4_0
	case tensor.IQ4_XS:
		t = tensor.IQ4_NL
	case tensor.Q4_K:
		t = tensor.Q5_0
	case tensor.Q5_K:
		t = tensor.Q5_1
	case tensor.Q6_K:
		t = tensor.Q8_0
	}
	if n%t.BlockSize() == 0 {
		return t
	}
	return tensor.F16
}

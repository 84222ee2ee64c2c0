package quant

import (
	"fmt"
	"strconv"
	"strings"

	"mm-abi.org/mm/core/tensor"
)

// Recipe says which type each tensor of a dense decoder is stored in. The
// recipes are llama.cpp's of the same name (src/llama-quant.cpp of 0.5), those
// for 70B models and for experts apart.
type Recipe struct {
	// Name is how llama.cpp calls it, such as "Q4_K_M".
	Name string
	// FileType is general.file_type (llama_ftype) of the file.
	FileType uint32

	matrix tensor.Type // of matrices in general
	output tensor.Type // of the output head, tied or not
	better []exception // the first that applies
}

// exception gives matrices that matter more another type.
type exception struct {
	part   string // of the tensor's name
	layers func(layer int, m Model) bool
	to     tensor.Type
}

const (
	values = "attn_v.weight"
	mixing = "attn_output.weight"
	down   = "ffn_down.weight"
)

// recipes in the order of falling size.
var recipes = []Recipe{
	{"F32", 0, tensor.F32, tensor.F32, nil},
	{"F16", 1, tensor.F16, tensor.F16, nil},
	{"BF16", 32, tensor.BF16, tensor.BF16, nil},
	{"Q8_0", 7, tensor.Q8_0, tensor.Q8_0, nil},
	{"Q6_K", 18, tensor.Q6_K, tensor.Q6_K, nil},
	{"Q5_1", 9, tensor.Q5_1, tensor.Q6_K, nil},
	{"Q5_K_M", 17, tensor.Q5_K, tensor.Q6_K, []exception{{values, spreadOut, tensor.Q6_K}, {down, spreadOut, tensor.Q6_K}}},
	{"Q5_K_S", 16, tensor.Q5_K, tensor.Q6_K, nil},
	{"Q5_0", 8, tensor.Q5_0, tensor.Q6_K, []exception{{down, known(firstPart(8)), tensor.Q5_1}}},
	{"Q4_1", 3, tensor.Q4_1, tensor.Q6_K, nil},
	{"Q4_K_M", 15, tensor.Q4_K, tensor.Q6_K, []exception{{values, spreadOut, tensor.Q6_K}, {down, spreadOut, tensor.Q6_K}}},
	{"Q4_K_S", 14, tensor.Q4_K, tensor.Q6_K, []exception{{values, below(4), tensor.Q5_K}, {down, firstPart(8), tensor.Q5_K}}},
	{"IQ4_NL", 25, tensor.IQ4_NL, tensor.Q6_K, []exception{{values, grouped, tensor.Q5_K}, {down, unknown(firstPart(8)), tensor.Q5_K}}},
	{"IQ4_XS", 30, tensor.IQ4_XS, tensor.Q6_K, []exception{{values, grouped, tensor.Q5_K}, {down, unknown(firstPart(8)), tensor.Q5_K}}},
	{"Q4_0", 2, tensor.Q4_0, tensor.Q6_K, []exception{{down, known(firstPart(8)), tensor.Q4_1}}},
	{"Q3_K_L", 13, tensor.Q3_K, tensor.Q6_K, []exception{{values, all, tensor.Q5_K}, {down, all, tensor.Q5_K}, {mixing, all, tensor.Q5_K}}},
	{"Q3_K_M", 12, tensor.Q3_K, tensor.Q6_K, []exception{
		{values, below(2), tensor.Q5_K}, {values, all, tensor.Q4_K},
		{down, firstPart(16), tensor.Q5_K}, {down, all, tensor.Q4_K}, {mixing, all, tensor.Q4_K},
	}},
	{"Q3_K_S", 11, tensor.Q3_K, tensor.Q6_K, nil},
	{"Q2_K", 10, tensor.Q2_K, tensor.Q6_K, []exception{
		{values, grouped, tensor.Q4_K}, {values, all, tensor.Q3_K}, {down, all, tensor.Q3_K}, {mixing, all, tensor.Q3_K},
	}},
}

// RecipeNames are the names that ParseRecipe knows, in the order of falling
// size.
func RecipeNames() []string {
	names := make([]string, len(recipes))
	for i, r := range recipes {
		names[i] = r.Name
	}
	return names
}

// ParseRecipe finds a recipe by name.
func ParseRecipe(name string) (Recipe, error) {
	for _, r := range recipes {
		if r.Name == name {
			return r, nil
		}
	}
	return Recipe{}, fmt.Errorf("unknown quantisation %q: known are %s", name, strings.Join(RecipeNames(), ", "))
}

// Model is what a recipe needs to know of the whole.
type Model struct {
	// Layers is the number of blocks, blk.0 to blk.(Layers-1).
	Layers int
	// Tied says that token_embd.weight is the output head as well.
	Tied bool
	// Group is how many query heads share a head of keys and values; 0 means 1.
	Group int
	// Importance says that there is an importance matrix.
	Importance bool
}

// Type is the type for the tensor of this name whose dimensions are dims, the
// contiguous one first. Vectors stay F32: norms and biases are small and
// matter.
func (r Recipe) Type(name string, dims []int, m Model) tensor.Type {
	if len(dims) < 2 || !strings.HasSuffix(name, ".weight") {
		return tensor.F32
	}
	t := r.matrix
	layer, part := split(name)
	if name == "output.weight" || name == "token_embd.weight" && m.Tied {
		return fit(r.output, dims[0])
	}
	for _, e := range r.better {
		if e.part == part && e.layers(layer, m) {
			t = e.to
			break
		}
	}
	return fit(t, dims[0])
}

// split takes "blk.3.attn_v.weight" apart; layer is -1 for tensors outside
// the blocks.
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

// spreadOut chooses the first and the last eighth of the layers and every
// third between them.
func spreadOut(layer int, m Model) bool {
	eighth := m.Layers / 8
	return layer < eighth || layer >= 7*m.Layers/8 || (layer-eighth)%3 == 2
}

func all(int, Model) bool { return true }

// grouped chooses models whose values are few and serve many heads.
func grouped(_ int, m Model) bool { return m.Group >= 4 }

// known chooses where there is an importance matrix.
func known(layers func(int, Model) bool) func(int, Model) bool {
	return func(layer int, m Model) bool { return m.Importance && layers(layer, m) }
}

// unknown chooses where there is none.
func unknown(layers func(int, Model) bool) func(int, Model) bool {
	return func(layer int, m Model) bool { return !m.Importance && layers(layer, m) }
}

// below chooses the first n layers.
func below(n int) func(int, Model) bool {
	return func(layer int, _ Model) bool { return layer < n }
}

// firstPart chooses the first one of n parts of the layers.
func firstPart(n int) func(int, Model) bool {
	return func(layer int, m Model) bool { return layer < m.Layers/n }
}

// fit is t where a row of n elements is a whole number of its blocks, and else
// the type with blocks of 32 that llama.cpp takes in its place: a little
// larger, and at least as exact. F16 fits every row.
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

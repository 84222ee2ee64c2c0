package quant

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/core/tensor"
)

// Recipe says which type each tensor of a model of architecture llama or
// qwen2 is stored in. The recipes are llama.cpp's of the same name
// (src/llama-quant.cpp), with one difference: a row that is no multiple of
// 256 falls back to Q4_0 instead of Q4_K, where llama.cpp takes Q5_0.
type Recipe struct {
	// Name is how llama.cpp calls it, such as "Q4_K_M".
	Name string
	// FileType is general.file_type (llama_ftype) of the file.
	FileType uint32

	matrix tensor.Type // of matrices in general
	output tensor.Type // of the output head, tied or not
	more   tensor.Type // of attn_v and ffn_down in the layers that get more bits
}

// recipes in the order of falling size.
var recipes = []Recipe{
	{"F32", 0, tensor.F32, tensor.F32, tensor.F32},
	{"F16", 1, tensor.F16, tensor.F16, tensor.F16},
	{"BF16", 32, tensor.BF16, tensor.BF16, tensor.BF16},
	{"Q8_0", 7, tensor.Q8_0, tensor.Q8_0, tensor.Q8_0},
	{"Q6_K", 18, tensor.Q6_K, tensor.Q6_K, tensor.Q6_K},
	{"Q4_K_M", 15, tensor.Q4_K, tensor.Q6_K, tensor.Q6_K},
	{"Q4_0", 2, tensor.Q4_0, tensor.Q6_K, tensor.Q4_0},
}

// ParseRecipe finds a recipe by name.
func ParseRecipe(name string) (Recipe, error) {
	names := make([]string, len(recipes))
	for i, r := range recipes {
		if r.Name == name {
			return r, nil
		}
		names[i] = r.Name
	}
	return Recipe{}, fmt.Errorf("unknown quantisation %q: known are %s", name, strings.Join(names, ", "))
}

// Model is what a recipe needs to know of the whole.
type Model struct {
	// Layers is the number of blocks, blk.0 to blk.(Layers-1).
	Layers int
	// Tied says that token_embd.weight is the output head as well.
	Tied bool
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
	switch {
	case name == "output.weight", name == "token_embd.weight" && m.Tied:
		t = r.output
	case slices.Contains([]string{"attn_v.weight", "ffn_down.weight"}, part) && moreBits(layer, m.Layers):
		t = r.more
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

// moreBits chooses the first and the last eighth of the layers and every
// third between them.
func moreBits(layer, layers int) bool {
	eighth := layers / 8
	return layer < eighth || layer >= 7*layers/8 || (layer-eighth)%3 == 2
}

// fit is t where a row of n elements is a whole number of its blocks, and
// else the nearest type that is.
func fit(t tensor.Type, n int) tensor.Type {
	if n%t.BlockSize() == 0 {
		return t
	}
	switch t {
	case tensor.Q4_K:
		t = tensor.Q4_0
	case tensor.Q6_K:
		t = tensor.Q8_0
	}
	if n%t.BlockSize() == 0 {
		return t
	}
	return tensor.F16
}

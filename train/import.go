package train

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/nn"
)

// baseModel reads the initial weights of a run from a checkpoint, with its
// adapters merged, or a GGUF file, and the possible digests of its tokenizer,
// none if the file has no tokenizer.
func baseModel(path string) (m *llm.Model[float32], vocabularies []string, err error) {
	if isGGUF(path) {
		if m, err = ImportGGUF(path); err != nil {
			return nil, nil, err
		}
		tok, err := ReadTokenizer(path)
		if errors.Is(err, tokenizer.ErrNoVocabulary) {
			return m, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
		return m, []string{dataset.TokenizerDigest(tok)}, nil
	}
	base, err := OpenLM(path)
	if err != nil {
		return nil, nil, err
	}
	defer base.Close()
	if m, err = base.Model(); err != nil {
		return nil, nil, err
	}
	if m.IsStored() {
		return nil, nil, fmt.Errorf("checkpoint %s: %w", path, errStored)
	}
	m.Merge()
	tok, err := base.Tokenizer()
	if err != nil || tok == nil {
		return m, nil, err
	}
	// At the start of the run, and as read back from the file.
	return m, []string{base.LM.Tokenizer, dataset.TokenizerDigest(tok)}, nil
}

// OpenBase reads a language model as the base of another task from a
// checkpoint, with its adapters merged, or a GGUF file, and its tokenizer,
// which is required.
func OpenBase(path string) (*llm.Model[float32], *tokenizer.Tokenizer, error) {
	m, _, err := baseModel(path)
	if err != nil {
		return nil, nil, err
	}
	if isGGUF(path) {
		tok, err := ReadTokenizer(path)
		return m, tok, err
	}
	ck, err := OpenLM(path)
	if err != nil {
		return nil, nil, err
	}
	defer ck.Close()
	tok, err := ck.Tokenizer()
	if err == nil && tok == nil {
		err = fmt.Errorf("checkpoint %s: missing tokenizer", path)
	}
	return m, tok, err
}

// isGGUF reports whether a file can be read and begins with the GGUF magic.
func isGGUF(path string) bool {
	f, err := fsx.OpenRegular(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [4]byte
	_, err = io.ReadFull(f, magic[:])
	return err == nil && string(magic[:]) == "GGUF"
}

// ImportGGUF reads a GGUF file as a model to train, the inverse of ExportGGUF.
// Quantized weights are dequantized. It supports the architectures llama and
// qwen3 without scaled rotation, biases or other tensors.
func ImportGGUF(path string) (*llm.Model[float32], error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("importing GGUF: %w", err)
	}
	defer f.Close()
	m, err := importModel(f)
	if err != nil {
		return nil, fmt.Errorf("importing %s: %w", path, err)
	}
	return m, nil
}

func importModel(f *gguf.File) (*llm.Model[float32], error) {
	shape, err := modelShape(f)
	if err != nil {
		return nil, err
	}
	m, err := llm.New[float32](shape)
	if err != nil {
		return nil, err
	}
	for _, t := range m.Tensors() {
		if err := readWeights(f, t); err != nil {
			return nil, err
		}
	}
	m.Stale()
	return m, nil
}

// modelShape returns the shape of the model in a file, which has exactly its
// weights.
func modelShape(f *gguf.File) (llm.Config, error) {
	var none llm.Config
	c, err := infer.ReadConfig(f)
	if err != nil {
		return none, err
	}
	switch {
	case c.Arch != "llama" && c.Arch != "qwen3":
		return none, fmt.Errorf("unsupported architecture %q", c.Arch)
	case c.Rope.Scaling != "" && c.Rope.Scaling != "none", c.Rope.Factor != 0 && c.Rope.Factor != 1, c.Rope.Dims != c.HeadDim:
		return none, fmt.Errorf("unsupported rotation of %d dimensions, scaling %q: want unscaled rotation of all %d", c.Rope.Dims, c.Rope.Scaling, c.HeadDim)
	case !c.Plain():
		return none, fmt.Errorf("unsupported %s with windows, experts, scales or another activation", c.Arch)
	}
	_, untied := f.Tensor("output.weight")
	shape := llm.Config{
		Vocab: c.Vocab, Dim: c.Width, Layers: c.Layers, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim,
		Hidden: c.Hidden, Context: c.Context, Rope: llm.RopePairs, RopeBase: decimal(c.Rope.Base), NormEps: decimal(c.Epsilon),
		QKNorm: c.Arch == "qwen3", Tied: !untied,
	}
	if c.Rope.Halves {
		shape.Rope = llm.RopeHalf
	}
	if err := shape.Validate(); err != nil {
		return none, err
	}
	// Check the size of the file before allocating the model.
	have := 0
	for _, t := range f.Tensors {
		have += t.Elements()
	}
	if shape.Parameters() != have {
		return none, fmt.Errorf("file has %d weights, want %d", have, shape.Parameters())
	}
	return shape, nil
}

// readWeights fills t from the file's tensor of its name.
func readWeights(f *gguf.File, t *nn.Tensor[float32]) error {
	src, ok := f.Tensor(t.Name)
	if !ok {
		return fmt.Errorf("missing tensor %q", t.Name)
	}
	n := len(t.Shape)
	fits := len(src.Dims) >= n
	for i, d := range src.Dims {
		if i < n {
			fits = fits && t.Shape[n-1-i] == d
		} else {
			fits = fits && d == 1
		}
	}
	if !fits || !quant.CanDequantize(src.Type) {
		return fmt.Errorf("tensor %q: got %s %v, want weights %v", t.Name, src.Type, src.Dims, t.Shape)
	}
	b := make([]byte, src.Size)
	if _, err := io.ReadFull(f.Section(src), b); err != nil {
		return fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	quant.Dequantize(t.Data, b, src.Type)
	return nil
}

// decimal returns the shortest decimal that rounds to a float32: 1e-6 instead
// of its binary neighbor.
func decimal(v float32) float64 {
	d, _ := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', -1, 32), 64)
	return d
}

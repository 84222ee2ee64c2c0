package train

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/nn"
)

// stored is a matrix in the form of a GGUF file, such as quantized. It
// implements [nn.Rows].
type stored struct {
	typ  tensor.Type
	size int // bytes of a row
	data []byte
}

// Row implements [nn.Rows].
func (s stored) Row(dst []float32, n int) {
	quant.Dequantize(dst, s.data[n*s.size:(n+1)*s.size], s.typ)
}

// OpenQuantized reads a GGUF file as the base of low-rank adapters and its
// tokenizer. The matrices stay as they are in the file, quantized and frozen
// (QLoRA: Dettmers et al., arXiv 2305.14314); products read them block by block.
func OpenQuantized(path string) (*llm.Model[float32], *tokenizer.Tokenizer, error) {
	if !isGGUF(path) {
		return nil, nil, fmt.Errorf("base %s: lora.quantized requires a GGUF file", path)
	}
	f, err := gguf.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("importing GGUF: %w", err)
	}
	defer f.Close()
	shape, err := modelShape(f)
	if err != nil {
		return nil, nil, fmt.Errorf("importing %s: %w", path, err)
	}
	m, err := llm.NewStored(shape, func(name string) (nn.Rows, error) { return readStored(f, name) })
	if err != nil {
		return nil, nil, fmt.Errorf("importing %s: %w", path, err)
	}
	for _, t := range m.Tensors() {
		if t.Stored != nil {
			s := t.Stored.(stored)
			if s.size != s.typ.RowBytes(t.Shape[1]) || len(s.data) != t.Shape[0]*s.size {
				return nil, nil, fmt.Errorf("importing %s: tensor %s: size mismatch: got %d bytes of %v, want [%d %d]", path, t.Name, len(s.data), s.typ, t.Shape[0], t.Shape[1])
			}
			continue
		}
		if err := readWeights(f, t); err != nil {
			return nil, nil, fmt.Errorf("importing %s: %w", path, err)
		}
	}
	tok, err := ReadTokenizer(path)
	if errors.Is(err, tokenizer.ErrNoVocabulary) {
		err = nil
	}
	return m, tok, err
}

// readStored copies a matrix from a file.
func readStored(f *gguf.File, name string) (nn.Rows, error) {
	t, ok := f.Tensor(name)
	if !ok {
		return nil, fmt.Errorf("missing tensor %q", name)
	}
	if len(t.Dims) != 2 || !quant.CanDequantize(t.Type) {
		return nil, fmt.Errorf("tensor %q: got %v %v, want a matrix of weights", name, t.Type, t.Dims)
	}
	s := stored{typ: t.Type, size: t.Type.RowBytes(t.Dims[0]), data: make([]byte, t.Size)}
	_, err := io.ReadFull(f.Section(t), s.data)
	return s, err
}

// OpenAdapted reads the base of low-rank adapters: with lora.Quantized, as
// [OpenQuantized] does, otherwise as [OpenBase].
func OpenAdapted(path string, lora *llm.LoRA) (*llm.Model[float32], *tokenizer.Tokenizer, error) {
	if lora == nil || !lora.Quantized {
		return OpenBase(path)
	}
	m, tok, err := OpenQuantized(path)
	if err == nil && tok == nil {
		err = fmt.Errorf("base %s: missing tokenizer", path)
	}
	return m, tok, err
}

// ReadInto reads tensors, all but those of a quantized base, which must be those
// that the run sealed.
func (c *Checkpoint) ReadInto(tensors []*nn.Tensor[float32]) error {
	for _, w := range tensors {
		if w.Stored == nil {
			if err := c.Read(w.Name, w.Data, w.Shape); err != nil {
				return err
			}
			continue
		}
		if d := tensorDigest(w); hex.EncodeToString(d[:]) != c.Header.Frozen[w.Name] {
			return fmt.Errorf("frozen tensor %s: digest mismatch: the base is another file", w.Name)
		}
	}
	return nil
}

// Digest returns the SHA-256 of tensors, names and data, in hex.
func Digest(tensors []*nn.Tensor[float32]) string {
	h := sha256.New()
	for _, t := range tensors {
		fmt.Fprintf(h, "%s %x\n", t.Name, tensorDigest(t))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// errStored reports a checkpoint whose base is quantized.
var errStored = errors.New("base is quantized: pack the adapter alone (mm module pack --part adapter)")

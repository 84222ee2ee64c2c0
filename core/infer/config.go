package infer

import (
	"errors"
	"fmt"
	"math"

	"mm-abi.org/mm/core/gguf"
)

// Config is the shape of a model: a decoder of the Llama family, with the
// letters used in this package.
type Config struct {
	// Arch is GGUF's name of the architecture: "llama", "qwen2" or "qwen3".
	Arch string
	// Context is the number of positions the model was trained for.
	Context int

	Layers  int // L
	Width   int // C, d_model
	Heads   int // H
	KVHeads int // G, heads of keys and values; H/G query heads share one
	HeadDim int // D
	Hidden  int // F, width of the SwiGLU layer
	Vocab   int // V

	// Epsilon is added to the mean square in RMSNorm.
	Epsilon float32
	Rope    Rope
}

// The limits of what is loaded, far above the models of this family.
const (
	maxLayers = gguf.MaxBlocks
	maxWidth  = 1 << 16
	maxHidden = 1 << 18
	maxVocab  = 1 << 21
	maxHeads  = 1 << 12
	maxDim    = 1 << 10
	maxCtx    = 1 << 24
)

// architectures tells what each does differently.
var architectures = map[string]struct {
	halves bool // rotates x[i] with x[i+D/2] instead of x[2i] with x[2i+1]
}{
	"llama": {halves: false},
	"qwen2": {halves: true},
	"qwen3": {halves: true},
}

func checkArch(arch string) error {
	if _, ok := architectures[arch]; !ok {
		return fmt.Errorf("architecture %q is not supported: known are llama, qwen2, qwen3", arch)
	}
	return nil
}

// Check reports what makes the shape impossible, all of it at once.
func (c Config) Check() error {
	faults := []error{checkArch(c.Arch)}
	limit := func(name string, v, most int) {
		if v < 1 || v > most {
			faults = append(faults, fmt.Errorf("%s is %d, not 1 to %d", name, v, most))
		}
	}
	limit("the context length", c.Context, maxCtx)
	limit("the number of layers", c.Layers, maxLayers)
	limit("the embedding length", c.Width, maxWidth)
	limit("the number of heads", c.Heads, maxHeads)
	limit("the number of key/value heads", c.KVHeads, maxHeads)
	limit("the head size", c.HeadDim, maxDim)
	limit("the feed forward length", c.Hidden, maxHidden)
	limit("the vocabulary size", c.Vocab, maxVocab)
	limit("the number of heads times their size", c.Heads*c.HeadDim, maxHidden)
	if c.KVHeads > 0 && c.Heads%c.KVHeads != 0 {
		faults = append(faults, fmt.Errorf("%d heads cannot share %d key/value heads", c.Heads, c.KVHeads))
	}
	if !(c.Epsilon >= 0) || math.IsInf(float64(c.Epsilon), 0) {
		faults = append(faults, fmt.Errorf("the norm's epsilon is %v", c.Epsilon))
	}
	if c.HeadDim > 0 && c.HeadDim <= maxDim {
		faults = append(faults, c.Rope.check(c.HeadDim))
	}
	return errors.Join(faults...)
}

// ReadConfig takes the shape of a model from GGUF metadata and checks it.
// Counts that may differ from layer to layer must be the same in all.
func ReadConfig(f *gguf.File) (Config, error) {
	arch, err := gguf.Get[string](f, gguf.KeyArchitecture)
	if err != nil {
		return Config{}, err
	}
	if err := checkArch(arch); err != nil {
		return Config{}, err
	}
	r := reader{f: f, arch: arch}
	c := Config{
		Arch:    arch,
		Context: r.count(gguf.KeyContextLength),
		Layers:  r.count(gguf.KeyBlockCount),
		Width:   r.count(gguf.KeyEmbeddingLength),
		Epsilon: r.float(gguf.KeyRMSEpsilon, float32(math.NaN())),
	}
	if r.err == nil && (c.Layers < 1 || c.Layers > maxLayers) {
		r.fail(fmt.Errorf("the number of layers is %d, not 1 to %d", c.Layers, maxLayers))
	}
	if r.err != nil {
		return Config{}, r.err
	}
	c.Heads = r.perLayer(gguf.KeyHeadCount, c.Layers, -1)
	c.Hidden = r.perLayer(gguf.KeyFeedForward, c.Layers, -1)
	c.KVHeads = r.perLayer(gguf.KeyHeadCountKV, c.Layers, c.Heads)
	c.HeadDim = r.headDim(c.Width, c.Heads)
	c.Vocab = r.vocabulary()
	c.Rope = r.rope(c)
	if r.err != nil {
		return Config{}, r.err
	}
	return c, c.Check()
}

// reader takes metadata and keeps the first error.
type reader struct {
	f    *gguf.File
	arch string
	err  error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// count reads a u32 that must be there.
func (r *reader) count(key gguf.ArchKey) int {
	v, err := gguf.Get[uint32](r.f, key.In(r.arch))
	if err != nil {
		r.fail(err)
	}
	return int(v)
}

func (r *reader) countOr(key gguf.ArchKey, absent int) int {
	if !r.f.Has(key.In(r.arch)) {
		return absent
	}
	return r.count(key)
}

// float reads an f32; absent is what it is when the key is not there, NaN
// when it must be.
func (r *reader) float(key gguf.ArchKey, absent float32) float32 {
	v, err := gguf.GetOr(r.f, key.In(r.arch), absent)
	if err != nil {
		r.fail(err)
	} else if v != v {
		r.fail(fmt.Errorf("gguf: %s is missing or no number", key.In(r.arch)))
	}
	return v
}

// perLayer reads a count that may be given once or for each layer; absent is
// what it is when the key is not there, negative when it must be.
func (r *reader) perLayer(key gguf.ArchKey, layers, absent int) int {
	if absent >= 0 && !r.f.Has(key.In(r.arch)) {
		return absent
	}
	all, err := r.f.PerLayer(key.In(r.arch), layers)
	if err != nil {
		r.fail(err)
		return 0
	}
	for i, v := range all {
		if v != all[0] {
			r.fail(fmt.Errorf("key %s is %d in layer 0 and %d in layer %d: layers of different shape are not supported", key.In(r.arch), all[0], v, i))
		}
	}
	return int(all[0])
}

// headDim is the size of a head, for which keys and values must agree.
func (r *reader) headDim(width, heads int) int {
	dim := 0
	if heads > 0 {
		dim = width / heads
	}
	k, v := r.countOr(gguf.KeyKeyLength, dim), r.countOr(gguf.KeyValueLength, dim)
	if k != v {
		r.fail(fmt.Errorf("keys of %d and values of %d dimensions are not supported", k, v))
	}
	return k
}

// vocabulary is the number of tokens: the rows of the embedding.
func (r *reader) vocabulary() int {
	if t, ok := r.f.Tensor(tokenEmbedding); ok && len(t.Dims) == 2 {
		return t.Dims[1]
	}
	return r.count(gguf.KeyVocabSize)
}

func (r *reader) rope(c Config) Rope {
	scaling, err := gguf.GetOr(r.f, gguf.KeyRopeScaling.In(r.arch), "")
	if err != nil {
		r.fail(err)
	}
	const scaleLinear gguf.ArchKey = "rope.scale_linear" // the factor's older name
	factor := r.float(gguf.KeyRopeFactor, 0)
	if factor == 0 {
		factor = r.float(scaleLinear, 0)
	}
	return Rope{
		Dims:            r.countOr(gguf.KeyRopeDims, c.HeadDim),
		Base:            r.float(gguf.KeyRopeBase, 10000),
		Halves:          architectures[c.Arch].halves,
		Scaling:         scaling,
		Factor:          factor,
		OriginalContext: r.countOr(gguf.KeyRopeOriginal, c.Context),
		AttentionFactor: r.float(gguf.KeyRopeAttention, 0),
		ExtFactor:       r.float(gguf.KeyRopeExtFactor, -1),
		BetaFast:        r.float(gguf.KeyRopeBetaFast, 0),
		BetaSlow:        r.float(gguf.KeyRopeBetaSlow, 0),
	}
}

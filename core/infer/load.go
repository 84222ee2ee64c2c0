package infer

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"sync"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/infer/adapter"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/quant/pack"
	"mm-abi.org/mm/core/tensor"
)

// Options is how a model is loaded.
type Options struct {
	// Threads is how many threads compute; 0 means [pool.Default].
	Threads int
	// Adapters change the model, one after the other.
	Adapters []AdapterOptions
	// MergeAdapters adds the adapters to the weights, which become float32
	// where they are changed: exact, and as quick to compute as without, but
	// large. Otherwise the changes stand beside the weights.
	MergeAdapters bool
}

// AdapterOptions is an adapter to be applied.
type AdapterOptions struct {
	// Path of a GGUF file or of a PEFT folder.
	Path string
	// Scale is its strength; 0 means 1.
	Scale float32
}

// Model is the weights of a decoder, ready to compute. It may be used by many
// sessions at a time; their computations take turns.
type Model struct {
	cfg  Config
	file *gguf.File // nil unless loaded from one

	embedding  embedding
	layers     []layer
	outputNorm []float32 // C
	output     linear    // C → V

	ropeShort, ropeLong []float32 // D/2 divisors of RoPE's frequencies, or none

	mu      sync.Mutex // held while computing
	threads *pool.Pool
	work    work
	closed  bool

	pace pace // of the model as a draft

	fingerprint   [sha256.Size]byte
	fingerprinted bool
}

// ErrClosed says that a model was used after its Close.
var ErrClosed = errors.New("the model is closed")

// layer is one block of the decoder.
type layer struct {
	attentionNorm []float32 // C
	query         linear    // C → H·D
	key, value    linear    // C → G·D
	queryNorm     []float32 // D, or none
	keyNorm       []float32 // D, or none
	attentionOut  linear    // H·D → C

	hiddenNorm []float32 // C
	gate, up   linear    // C → F
	down       linear    // F → C
}

// linear is y = x·Wᵀ + bias, with the changes of adapters.
type linear struct {
	weight  *pack.Matrix
	bias    []float32 // N, or none
	changes []change
}

// embedding is the rows of token vectors, V × C.
type embedding struct {
	typ  tensor.Type
	data []byte
}

// row writes the vector of a token.
func (e embedding) row(dst []float32, token int32) {
	n := e.typ.RowBytes(len(dst))
	quant.Dequantize(dst, e.data[int(token)*n:(int(token)+1)*n], e.typ)
}

// Tensors is where weights come from, by GGUF's names: a *[gguf.File] or
// [Memory].
type Tensors interface {
	Tensor(name string) (gguf.Tensor, bool)
}

// Memory is a set of float32 tensors by GGUF's names, such as a checkpoint
// that is being trained.
type Memory map[string]Array

// Array is a tensor in memory.
type Array struct {
	Dims []int // the contiguous dimension first
	Data []float32
}

// Tensor gives a copy of a tensor as GGUF has it.
func (m Memory) Tensor(name string) (gguf.Tensor, bool) {
	a, ok := m[name]
	if !ok {
		return gguf.Tensor{}, false
	}
	data := make([]byte, 4*len(a.Data))
	quant.Quantize(data, a.Data, tensor.F32)
	return gguf.Tensor{Name: name, Type: tensor.F32, Dims: a.Dims, Size: int64(len(data)), Data: data}, true
}

// Load maps the GGUF file at path, checks its shape, and packs its weights.
func Load(path string, opt Options) (*Model, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("loading a model: %w", err)
	}
	cfg, err := ReadConfig(f)
	if err == nil {
		var m *Model
		if m, err = New(cfg, f, opt); err == nil {
			m.file = f
			return m, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("loading %s: %w", path, err), f.Close())
}

// New makes a model of the given shape out of tensors. Each tensor is held
// against the shape before it is used; one of another size is an error that
// names it and both sizes. The data of the token embedding is kept, the rest
// is copied.
func New(cfg Config, tensors Tensors, opt Options) (*Model, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	adapters, err := openAdapters(cfg, opt.Adapters)
	if err != nil {
		return nil, err
	}
	m := &Model{cfg: cfg, threads: pool.New(opt.Threads)}
	l := loader{tensors: tensors, threads: m.threads, adapters: adapters, merge: opt.MergeAdapters}
	m.load(&l)
	l.checkAdapters()
	if l.err != nil {
		m.threads.Close()
		return nil, l.err
	}
	m.work.init(m)
	return m, nil
}

// Names of tensors outside the layers.
const (
	tokenEmbedding = "token_embd.weight"
	outputWeight   = "output.weight"
	outputNorm     = "output_norm.weight"
	ropeFreqs      = "rope_freqs.weight"
	ropeShort      = "rope_factors_short.weight"
	ropeLong       = "rope_factors_long.weight"
)

func (m *Model) load(l *loader) {
	c := m.cfg
	e := l.find(tokenEmbedding, c.Width, c.Vocab)
	if l.err == nil && !quant.CanDequantize(e.Type) {
		l.fail(fmt.Errorf("tensor %s has type %v, which cannot be read", tokenEmbedding, e.Type))
	}
	if l.err == nil && len(e.Data) != c.Vocab*e.Type.RowBytes(c.Width) {
		l.fail(fmt.Errorf("tensor %s has %d bytes of data", tokenEmbedding, len(e.Data)))
	}
	m.embedding = embedding{e.Type, e.Data}
	m.outputNorm = l.vector(outputNorm, c.Width, true)
	if _, untied := l.tensors.Tensor(outputWeight); untied {
		m.output = l.linear("output", c.Width, c.Vocab)
	} else {
		m.output = l.linear("token_embd", c.Width, c.Vocab)
	}
	m.layers = make([]layer, c.Layers)
	for i := range m.layers {
		m.layers[i].load(l, fmt.Sprintf("blk.%d.", i), c)
	}
	if c.Rope.Scaling == "longrope" {
		m.ropeShort = l.divisors(ropeShort, c.Rope.Dims/2)
		m.ropeLong = l.divisors(ropeLong, c.Rope.Dims/2)
	} else {
		m.ropeShort = l.divisors(ropeFreqs, c.Rope.Dims/2)
		m.ropeLong = m.ropeShort
	}
}

func (y *layer) load(l *loader, prefix string, c Config) {
	queries, keys := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	y.attentionNorm = l.vector(prefix+"attn_norm.weight", c.Width, true)
	// Weights lie in memory in the order they are loaded: that of their use.
	y.key = l.linear(prefix+"attn_k", c.Width, keys)
	y.value = l.linear(prefix+"attn_v", c.Width, keys)
	y.query = l.linear(prefix+"attn_q", c.Width, queries)
	y.queryNorm = l.vector(prefix+"attn_q_norm.weight", c.HeadDim, false)
	y.keyNorm = l.vector(prefix+"attn_k_norm.weight", c.HeadDim, false)
	y.attentionOut = l.linear(prefix+"attn_output", queries, c.Width)
	y.hiddenNorm = l.vector(prefix+"ffn_norm.weight", c.Width, true)
	y.gate = l.linear(prefix+"ffn_gate", c.Width, c.Hidden)
	y.up = l.linear(prefix+"ffn_up", c.Width, c.Hidden)
	y.down = l.linear(prefix+"ffn_down", c.Hidden, c.Width)
}

// loader takes tensors and keeps the first error.
type loader struct {
	tensors Tensors
	threads *pool.Pool
	arena   pack.Arena

	adapters []adapter.Adapter
	merge    bool
	err      error
}

func (l *loader) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// find gives a tensor that must have the given dimensions.
func (l *loader) find(name string, dims ...int) gguf.Tensor {
	t, ok := l.tensors.Tensor(name)
	if l.err != nil {
		return gguf.Tensor{}
	}
	if !ok {
		l.fail(fmt.Errorf("tensor %s is missing", name))
		return gguf.Tensor{}
	}
	have := t.Dims
	for len(have) > len(dims) && have[len(have)-1] == 1 {
		have = have[:len(have)-1] // trailing ones say nothing
	}
	if !equal(have, dims) {
		l.fail(fmt.Errorf("tensor %s has the shape %v, the configuration wants %v", name, t.Dims, dims))
		return gguf.Tensor{}
	}
	return t
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// linear loads a matrix, its bias, if there is one, and its changes.
func (l *loader) linear(name string, in, out int) linear {
	y := linear{bias: l.vector(name+".bias", out, false)}
	name += ".weight"
	t := l.find(name, in, out)
	if l.err != nil {
		return y
	}
	var err error
	if y.changes, err = l.changes(name, t); err != nil {
		l.fail(err)
		return y
	}
	if l.merge && len(y.changes) > 0 {
		t = merged(t, y.changes)
		y.changes = nil
	}
	if y.weight, err = pack.New(t.Type, out, in, t.Data, l.threads, &l.arena); err != nil {
		l.fail(fmt.Errorf("tensor %s: %w", name, err))
	}
	return y
}

// vector loads n numbers as float32; nil when the tensor is not there and
// need not be.
func (l *loader) vector(name string, n int, needed bool) []float32 {
	if _, ok := l.tensors.Tensor(name); !ok && !needed {
		return nil
	}
	t := l.find(name, n)
	if l.err != nil {
		return nil
	}
	if t.Type.BlockSize() == 0 || n%t.Type.BlockSize() != 0 || !quant.CanDequantize(t.Type) || len(t.Data) != t.Type.RowBytes(n) {
		l.fail(fmt.Errorf("tensor %s has type %v, not one of plain numbers", name, t.Type))
		return nil
	}
	v := make([]float32, n)
	quant.Dequantize(v, t.Data, t.Type)
	return v
}

// divisors loads what RoPE's frequencies are divided by.
func (l *loader) divisors(name string, n int) []float32 {
	v := l.vector(name, n, false)
	for i, x := range v {
		if !(x > 0) || math.IsInf(float64(x), 0) {
			l.fail(fmt.Errorf("tensor %s holds %v at %d: frequencies can be divided by positive numbers only", name, x, i))
			return nil
		}
	}
	return v
}

// Config is the shape of the model.
func (m *Model) Config() Config { return m.cfg }

// Embed gives the vectors that tokens are read as, n × C for n tokens: fed by
// [Session.FeedVectors] they are what the tokens are.
func (m *Model) Embed(tokens []int32) ([]float32, error) {
	m.mu.Lock() // the embedding lies in the file, which Close unmaps
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	c := m.cfg.Width
	out := make([]float32, len(tokens)*c)
	for i, t := range tokens {
		if t < 0 || int(t) >= m.cfg.Vocab {
			return nil, fmt.Errorf("token %d is not one of the %d of the vocabulary", t, m.cfg.Vocab)
		}
		m.embedding.row(out[i*c:(i+1)*c], t)
	}
	return out, nil
}

// File is the GGUF file the model was loaded from, for its other metadata; nil
// when it was not. It is open until Close.
func (m *Model) File() *gguf.File { return m.file }

// Threads is how many threads compute.
func (m *Model) Threads() int { return m.threads.Threads() }

// WeightBytes is the memory that is read for each token that is generated.
func (m *Model) WeightBytes() int {
	n := m.output.weight.Bytes()
	for i := range m.layers {
		y := &m.layers[i]
		for _, w := range []linear{y.query, y.key, y.value, y.attentionOut, y.gate, y.up, y.down} {
			n += w.weight.Bytes()
		}
	}
	return n
}

// Close stops the threads and unmaps the file. Sessions must not be used
// afterwards; a second Close does nothing.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	m.threads.Close()
	if m.file != nil {
		return m.file.Close()
	}
	return nil
}

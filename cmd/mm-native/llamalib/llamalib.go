// Package llamalib drives llama.cpp's shared library: GGUF language models.
//
// [Open] loads the libraries of a folder, refuses unknown structures (abi.go), and returns an
// engine. Each sequence of a model has a context of the library; their computations take
// turns. Tokens are sampled by core/infer/sample from the library's logits, as in mm's own
// engine.
package llamalib

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/ebitengine/purego"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/cmd/mm-native/dynlib"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/runtimes"
)

// library holds the bound functions.
type library struct {
	loadAll        func(dir string)
	backendInit    func()
	logSet         func(callback, data uintptr)
	defaultModel   func() modelParams
	loadFile       func(path string, p modelParams) uintptr
	freeModel      func(model uintptr)
	defaultContext func() contextParams
	initContext    func(model uintptr, p contextParams) uintptr
	freeContext    func(ctx uintptr)
	getVocab       func(model uintptr) uintptr
	vocabTokens    func(vocab uintptr) int32
	embeddingInput func(model uintptr) int32
	trained        func(model uintptr) int32
	batchInit      func(n, embd, seqs int32) batch
	batchFree      func(b batch)
	decode         func(ctx uintptr, b batch) int32
	logitsAt       func(ctx uintptr, i int32) uintptr
	stateAt        func(ctx uintptr, i int32) uintptr
	embeddingWidth func(model uintptr) int32
	getMemory      func(ctx uintptr) uintptr
	memoryRemove   func(mem uintptr, seq, from, to int32) bool
	attach         func(ctx, pool, poolBatch uintptr)
	adapterInit    func(model uintptr, path string) uintptr
	setAdapters    func(ctx uintptr, adapters *uintptr, n uintptr, scales *float32) int32
	setAbort       func(ctx, callback uintptr, data *uint32)
	flagged        uintptr // a C function of the address of a flag; returns non-zero if it is set

	poolParams func(p *byte, threads int32)
	newPool    func(p *byte) uintptr
	freePool   func(pool uintptr)
}

// Engine is llama.cpp.
type Engine struct {
	lib     *library
	version string
}

// Open loads the libraries of a folder. They print their errors on stderr.
func Open(dir string) (*Engine, error) {
	base, err := dynlib.Open(dir, "libggml-base.so*", "libggml-base.dylib", "ggml-base.dll")
	if err != nil {
		return nil, err
	}
	ggml, err := dynlib.Open(dir, "libggml.so*", "libggml.v*.so*", "libggml.dylib", "libggml.v*.dylib", "ggml.dll")
	if err != nil {
		return nil, err
	}
	llama, err := dynlib.Open(dir, "libllama.so*", "libllama.v*.so*", "libllama.dylib", "libllama.v*.dylib", "llama.dll")
	if err != nil {
		return nil, err
	}
	var version func() string
	if err := llama.Bind(map[string]any{"llama_version": &version}); err != nil {
		return nil, fmt.Errorf("%w: llama.cpp is older than 0.5", err)
	}
	e := &Engine{lib: &library{}, version: version()}
	if err := check(llama, e.version); err != nil {
		return nil, err
	}
	if err := e.lib.bind(base, ggml, llama); err != nil {
		return nil, err
	}
	const levelError = 4
	e.lib.logSet(purego.NewCallback(func(level int32, text, _ uintptr) uintptr {
		if level == levelError {
			fmt.Fprint(os.Stderr, dynlib.String(text))
		}
		return 0
	}), 0)
	if e.lib.flagged, err = flagFunction(llama); err != nil {
		return nil, err
	}
	e.lib.loadAll(dir)
	e.lib.backendInit()
	return e, e.lib.bindPool(base, ggml)
}

func (l *library) bind(base, ggml, llama *dynlib.Library) error {
	return errors.Join(
		ggml.Bind(map[string]any{"ggml_backend_load_all_from_path": &l.loadAll}),
		base.Bind(map[string]any{"ggml_threadpool_params_init": &l.poolParams}),
		llama.Bind(map[string]any{
			"llama_backend_init": &l.backendInit, "llama_log_set": &l.logSet,
			"llama_model_default_params": &l.defaultModel, "llama_model_load_from_file": &l.loadFile, "llama_model_free": &l.freeModel,
			"llama_context_default_params": &l.defaultContext, "llama_init_from_model": &l.initContext, "llama_free": &l.freeContext,
			"llama_model_get_vocab": &l.getVocab, "llama_vocab_n_tokens": &l.vocabTokens, "llama_model_n_embd_inp": &l.embeddingInput, "llama_model_n_embd_out": &l.embeddingWidth,
			"llama_model_n_ctx_train": &l.trained, "llama_batch_init": &l.batchInit, "llama_batch_free": &l.batchFree,
			"llama_decode": &l.decode, "llama_get_logits_ith": &l.logitsAt, "llama_get_embeddings_ith": &l.stateAt, "llama_get_memory": &l.getMemory,
			"llama_memory_seq_rm": &l.memoryRemove, "llama_attach_threadpool": &l.attach,
			"llama_adapter_lora_init": &l.adapterInit, "llama_set_adapters_lora": &l.setAdapters,
			"llama_set_abort_callback": &l.setAbort,
		}))
}

// bindPool binds the thread pool functions of the backend chosen for this processor.
func (l *library) bindPool(base, ggml *dynlib.Library) error {
	var byName func(name string) uintptr
	var address func(reg uintptr, name string) uintptr
	if err := errors.Join(ggml.Bind(map[string]any{"ggml_backend_reg_by_name": &byName}), base.Bind(map[string]any{"ggml_backend_reg_get_proc_address": &address})); err != nil {
		return err
	}
	reg := byName("CPU")
	if reg == 0 {
		return errors.New("llama.cpp found no backend for this processor")
	}
	create, release := address(reg, "ggml_threadpool_new"), address(reg, "ggml_threadpool_free")
	if create == 0 || release == 0 {
		return errors.New("llama.cpp's processor backend has no thread pool")
	}
	purego.RegisterFunc(&l.newPool, create)
	purego.RegisterFunc(&l.freePool, release)
	return nil
}

// Name returns "llamacpp".
func (*Engine) Name() string { return "llamacpp" }

// Probe returns the library's version.
func (e *Engine) Probe(context.Context) (runtimes.Info, error) {
	return runtimes.Info{Version: e.version, Devices: []string{"cpu"}, Formats: []string{string(abi.GGUF)}, License: "MIT"}, nil
}

// Can requires a GGUF file.
func (*Engine) Can(p builds.Part) error {
	if p.Files.Entry(abi.GGUF) == "" {
		return &runtimes.Unavailable{What: p.ID(), Why: "llama.cpp reads GGUF"}
	}
	return nil
}

// ggmlType returns the library's number of a KV cache type.
func ggmlType(t abi.DType) (uint32, error) {
	switch t {
	case abi.FP32:
		return 0, nil
	case "", abi.FP16, abi.BF16:
		return 1, nil
	case abi.Int8, abi.FP8:
		return 8, nil
	}
	return 0, fmt.Errorf("unsupported type of KV cache: %s", t)
}

// Open loads a model and its adapters.
func (e *Engine) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	path, err := b.Entry(abi.GGUF)
	if err != nil {
		return nil, err
	}
	kv, err := ggmlType(b.KV)
	if err := errors.Join(err, l.Check(), ctx.Err()); err != nil {
		return nil, err
	}
	m := &model{lib: e.lib, kv: kv, limit: l.Time, threads: l.Threads}
	if m.threads == 0 {
		m.threads = pool.Default()
	}
	m.threads = min(m.threads, runtime.NumCPU())
	params := e.lib.defaultModel()
	params.useExtraBufts = params.useExtraBufts && ExtraBuffers(path)
	if m.handle = e.lib.loadFile(path, params); m.handle == 0 {
		return nil, fmt.Errorf("llama.cpp refused %s", path)
	}
	for _, a := range b.Adapters {
		path, err := a.Entry(abi.GGUF)
		if err != nil {
			return nil, errors.Join(err, m.Close())
		}
		h := e.lib.adapterInit(m.handle, path)
		if h == 0 {
			return nil, errors.Join(fmt.Errorf("llama.cpp refused the adapter %s", path), m.Close())
		}
		m.adapters, m.scales = append(m.adapters, h), append(m.scales, float32(a.Scale))
	}
	m.shape = runtimes.Shape{
		Vocab: int(e.lib.vocabTokens(e.lib.getVocab(m.handle))), Width: int(e.lib.embeddingInput(m.handle)), Context: int(e.lib.trained(m.handle)),
	}
	if n := b.Tokens.MaxSeq; n > 0 {
		m.shape.Context = min(m.shape.Context, n)
	}
	if m.threads > 1 { // without a pool the library starts threads for each token
		params := make([]byte, 4096)
		e.lib.poolParams(&params[0], int32(m.threads))
		m.pool = e.lib.newPool(&params[0])
	}
	return m, nil
}

// model holds loaded weights.
type model struct {
	lib      *library
	kv       uint32
	threads  int
	limit    time.Duration
	shape    runtimes.Shape
	adapters []uintptr // freed with the model
	scales   []float32

	mu     sync.Mutex // held while computing
	handle uintptr    // 0: closed
	pool   uintptr
	open   map[*sequence]bool
}

// Shape returns the size of the model.
func (m *model) Shape() runtimes.Shape { return m.shape }

// Close frees the model and its sequences' contexts.
func (m *model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := range m.open {
		s.free()
	}
	if m.handle != 0 {
		m.lib.freeModel(m.handle)
	}
	if m.pool != 0 {
		m.lib.freePool(m.pool)
	}
	m.handle, m.pool, m.open = 0, 0, nil
	return nil
}

// NewSequence returns an empty sequence with a context of the library.
func (m *model) NewSequence(_ context.Context, opt runtimes.SequenceOptions) (runtimes.Sequence, error) {
	n := opt.Context
	if n == 0 {
		n = m.shape.Context
	}
	if n < 1 || n > m.shape.Context {
		return nil, fmt.Errorf("context of %d positions, the model has %d", n, m.shape.Context)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.handle == 0 {
		return nil, fmt.Errorf("the model is %w", runtimes.ErrClosed)
	}
	if out := int(m.lib.embeddingWidth(m.handle)); opt.Hidden && out != m.shape.Width {
		return nil, &runtimes.Unavailable{What: "the core's states", Why: fmt.Sprintf("llama.cpp provides width %d, the model has width %d", out, m.shape.Width), Hint: "--backend core provides them"}
	}
	p := m.lib.defaultContext()
	p.ctx, p.batch, p.ubatch = uint32(n), chunk, chunk
	p.threads, p.threadsBatch = int32(m.threads), int32(m.threads)
	p.typeK, p.typeV = m.kv, m.kv
	if opt.Hidden {
		p.embeddings, p.pooling = true, 0 // a state for each position, after the last norm
	}
	if m.kv == 0 {
		p.flash = 0 // it rounds 32-bit keys and values to 16
	}
	h := m.lib.initContext(m.handle, p)
	if h == 0 {
		return nil, fmt.Errorf("llama.cpp failed to create a context of %d positions", n)
	}
	s := &sequence{m: m, handle: h, context: n, stop: new(uint32), hidden: opt.Hidden}
	m.lib.setAbort(h, m.lib.flagged, s.stop)
	if m.pool != 0 {
		m.lib.attach(h, m.pool, m.pool)
	}
	if m.open == nil {
		m.open = make(map[*sequence]bool)
	}
	m.open[s] = true
	if k := len(m.adapters); k > 0 && m.lib.setAdapters(h, &m.adapters[0], uintptr(k), &m.scales[0]) != 0 {
		s.free()
		return nil, errors.New("llama.cpp did not apply the adapters")
	}
	return s, nil
}

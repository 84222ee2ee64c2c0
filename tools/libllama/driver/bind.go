//go:build linux && amd64

//lint:file-ignore U1000 the structs mirror llama.h field by field

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"unsafe"

	"github.com/ebitengine/purego"

	"mm-abi.org/mm/cmd/mm-native/llamalib"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/tools/libllama"
)

// The structures of llama.h, version 0.5.

type modelParams struct {
	devices, overrides               uintptr
	gpuLayers, splitMode, loadMode   int32
	lazyMode, mainGPU                int32
	_                                int32
	tensorSplit                      uintptr
	progress, progressData, override uintptr
	vocabOnly, checkTensors          bool
	useExtraBufts, noHost, noAlloc   bool
	loadMTP                          bool
	_                                [2]byte
}

type contextParams struct {
	ctx, batch, ubatch, seqMax        uint32
	rsSeq, outputsMax, outputsPerSeq  uint32
	threads, threadsBatch             int32
	ctxType, ropeScaling, pooling     int32
	attention, flash                  int32
	ropeBase, ropeScale               float32
	yarnExt, yarnAttn, yarnF, yarnS   float32
	yarnOrig                          uint32
	defrag                            float32
	cbEval, cbEvalData                uintptr
	typeK, typeV                      uint32
	abort, abortData                  uintptr
	embeddings, offloadKQV, noPerf    bool
	opOffload, swaFull, kvUnified     bool
	_                                 [2]byte
	samplers, samplersN, contextOther uintptr
}

type quantizeParams struct {
	threads, ftype, output, embedding      int32
	requantize, quantizeOutput, onlyCopy   bool
	pure, keepSplit, dryRun                bool
	_                                      [2]byte
	imatrix, overrides, tensorTypes, prune uintptr
	maxBuffer                              uintptr
}

type batch struct {
	tokens int32
	_      int32
	token  uintptr
	embd   uintptr
	pos    uintptr
	seqN   uintptr
	seqID  uintptr
	logits uintptr
}

// library holds the called functions.
type library struct {
	defaultModel   func() modelParams
	loadFile       func(path string, p modelParams) uintptr
	freeModel      func(model uintptr)
	defaultContext func() contextParams
	initContext    func(model uintptr, p contextParams) uintptr
	freeContext    func(ctx uintptr)
	getVocab       func(model uintptr) uintptr
	vocabTokens    func(vocab uintptr) int32
	embeddingInput func(model uintptr) int32
	batchOne       func(tokens *int32, n int32) batch
	batchInit      func(n, embd, seqs int32) batch
	batchFree      func(b batch)
	decode         func(ctx uintptr, b batch) int32
	logitsAt       func(ctx uintptr, i int32) uintptr
	getMemory      func(ctx uintptr) uintptr
	memoryClear    func(mem uintptr, data bool)
	synchronize    func(ctx uintptr)
	attach         func(ctx, pool, poolBatch uintptr)
	logSet         func(callback, data uintptr)
	adapterInit    func(model uintptr, path string) uintptr
	defaultQuant   func() quantizeParams
	quantizeFile   func(in, out string, p *quantizeParams) uint32
	setAdapters    func(ctx uintptr, adapters *uintptr, n uintptr, scales *float32) int32

	poolParams    func(p *byte, threads int32)
	newPool       func(p *byte) uintptr
	freePool      func(pool uintptr)
	quantizeChunk func(typ uint32, src *float32, dst *byte, start, rows, perRow int64, matrix uintptr) uintptr
	base          uintptr
}

// open loads the libraries of a folder and binds the functions.
func open(dir string) (*library, error) {
	if unsafe.Sizeof(modelParams{}) != 80 || unsafe.Sizeof(contextParams{}) != 160 || unsafe.Sizeof(batch{}) != 56 || unsafe.Sizeof(quantizeParams{}) != 64 {
		return nil, errors.New("struct size mismatch with llama.cpp")
	}
	load := func(pattern string) (uintptr, error) {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) != 1 {
			return 0, fmt.Errorf("%s: got %d files %s, want 1", dir, len(found), pattern)
		}
		return purego.Dlopen(found[0], purego.RTLD_NOW|purego.RTLD_GLOBAL)
	}
	base, err := load("libggml-base.so*")
	if err != nil {
		return nil, err
	}
	ggml, err := load("libggml.*so*")
	if err != nil {
		return nil, err
	}
	llama, err := load("libllama.*so*")
	if err != nil {
		return nil, err
	}
	l := &library{base: base}
	var loadAll func(dir string)
	purego.RegisterLibFunc(&loadAll, ggml, "ggml_backend_load_all_from_path")
	for name, f := range map[string]any{
		"llama_model_default_params": &l.defaultModel, "llama_model_load_from_file": &l.loadFile, "llama_model_free": &l.freeModel,
		"llama_context_default_params": &l.defaultContext, "llama_init_from_model": &l.initContext, "llama_free": &l.freeContext,
		"llama_model_get_vocab": &l.getVocab, "llama_vocab_n_tokens": &l.vocabTokens, "llama_model_n_embd_inp": &l.embeddingInput,
		"llama_batch_get_one": &l.batchOne, "llama_batch_init": &l.batchInit, "llama_batch_free": &l.batchFree,
		"llama_decode": &l.decode, "llama_get_logits_ith": &l.logitsAt, "llama_get_memory": &l.getMemory,
		"llama_memory_clear": &l.memoryClear, "llama_synchronize": &l.synchronize, "llama_attach_threadpool": &l.attach,
		"llama_log_set": &l.logSet, "llama_adapter_lora_init": &l.adapterInit, "llama_set_adapters_lora": &l.setAdapters,
		"llama_model_quantize_default_params": &l.defaultQuant, "llama_model_quantize": &l.quantizeFile,
	} {
		purego.RegisterLibFunc(f, llama, name)
	}
	purego.RegisterLibFunc(&l.poolParams, base, "ggml_threadpool_params_init")
	purego.RegisterLibFunc(&l.quantizeChunk, base, "ggml_quantize_chunk")
	const levelError = 4
	l.logSet(purego.NewCallback(func(level int32, text, data uintptr) uintptr {
		if level == levelError {
			fmt.Fprint(os.Stderr, "llama.cpp: ", goString(text))
		}
		return 0
	}), 0)
	loadAll(dir)
	return l, l.bindPool(ggml, base)
}

// bindPool binds the functions of the thread pool, which are in the CPU backend that was
// chosen.
func (l *library) bindPool(ggml, base uintptr) error {
	var byName func(name string) uintptr
	var address func(reg uintptr, name string) uintptr
	purego.RegisterLibFunc(&byName, ggml, "ggml_backend_reg_by_name")
	purego.RegisterLibFunc(&address, base, "ggml_backend_reg_get_proc_address")
	reg := byName("CPU")
	if reg == 0 {
		return errors.New("no CPU backend was loaded")
	}
	create, release := address(reg, "ggml_threadpool_new"), address(reg, "ggml_threadpool_free")
	if create == 0 || release == 0 {
		return errors.New("the CPU backend has no thread pool")
	}
	purego.RegisterFunc(&l.newPool, create)
	purego.RegisterFunc(&l.freePool, release)
	return nil
}

func (l *library) loadModel(path string) (uintptr, error) {
	p := l.defaultModel()
	p.useExtraBufts = p.useExtraBufts && llamalib.ExtraBuffers(path)
	m := l.loadFile(path, p)
	if m == 0 {
		return 0, fmt.Errorf("%s refused", path)
	}
	return m, nil
}

func (l *library) newContext(model uintptr, r libllama.Request) (uintptr, error) {
	p := l.defaultContext()
	p.ctx, p.batch = uint32(r.Context), uint32(r.Context)
	p.threads, p.threadsBatch = int32(r.Threads), int32(r.Threads)
	p.typeK, p.typeV = r.KV, r.KV
	ctx := l.initContext(model, p)
	if ctx == 0 {
		return 0, errors.New("context creation failed")
	}
	return ctx, nil
}

// attachPool gives a context a persistent thread pool with the defaults of llama.cpp's
// programs.
func (l *library) attachPool(ctx uintptr, threads int) uintptr {
	params := make([]byte, 1024)
	l.poolParams(&params[0], int32(threads))
	pool := l.newPool(&params[0])
	l.attach(ctx, pool, pool)
	return pool
}

func (l *library) decodeTokens(ctx uintptr, tokens []int32) error {
	if r := l.decode(ctx, l.batchOne(&tokens[0], int32(len(tokens)))); r != 0 {
		return fmt.Errorf("llama_decode returned %d", r)
	}
	return nil
}

// convert quantizes a file.
func (l *library) convert(r libllama.Request) error {
	p := l.defaultQuant()
	p.threads, p.ftype, p.requantize, p.pure = int32(r.Threads), int32(r.Type), true, r.Pure
	if len(r.Means) > 0 {
		// name, data, size; an entry without a name ends the list.
		list := make([]uintptr, 0, 3*len(r.Means)+3)
		var pins runtime.Pinner
		defer pins.Unpin()
		for name, means := range r.Means {
			text := append([]byte(name), 0)
			pins.Pin(&text[0])
			pins.Pin(&means[0])
			list = append(list, uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(&means[0])), uintptr(len(means)))
		}
		list = append(list, 0, 0, 0)
		pins.Pin(&list[0])
		p.imatrix = uintptr(unsafe.Pointer(&list[0]))
	}
	if code := l.quantizeFile(r.Path, r.Out, &p); code != 0 {
		return fmt.Errorf("llama_model_quantize returned %d", code)
	}
	return nil
}

// decodeAll decodes tokens from position 0, with the logits of each.
func (l *library) decodeAll(ctx uintptr, tokens []int32) error {
	b := l.batchInit(int32(len(tokens)), 0, 1)
	defer l.batchFree(b)
	copy(unsafe.Slice((*int32)(pointer(b.token)), len(tokens)), tokens)
	return l.decodeBatch(ctx, b, len(tokens), 0, true)
}

func (l *library) decodeVectors(ctx uintptr, v []float32, width int, pos int32) error {
	n := len(v) / width
	b := l.batchInit(int32(n), int32(width), 1)
	defer l.batchFree(b)
	copy(unsafe.Slice((*float32)(pointer(b.embd)), len(v)), v)
	return l.decodeBatch(ctx, b, n, pos, false)
}

// decodeBatch decodes the n positions of b from position pos, and keeps the logits of all
// or of the last.
func (l *library) decodeBatch(ctx uintptr, b batch, n int, pos int32, all bool) error {
	b.tokens = int32(n)
	positions := unsafe.Slice((*int32)(pointer(b.pos)), n)
	counts := unsafe.Slice((*int32)(pointer(b.seqN)), n)
	ids := unsafe.Slice((*uintptr)(pointer(b.seqID)), n)
	wanted := unsafe.Slice((*int8)(pointer(b.logits)), n)
	for i := range n {
		positions[i], counts[i], wanted[i] = pos+int32(i), 1, 0
		if all {
			wanted[i] = 1
		}
		*(*int32)(pointer(ids[i])) = 0
	}
	wanted[n-1] = 1
	if r := l.decode(ctx, b); r != 0 {
		return fmt.Errorf("llama_decode returned %d", r)
	}
	return nil
}

// logits copies the logits of the last position.
func (l *library) logits(ctx uintptr, vocab int) []float32 {
	return slices.Clone(l.logitsOf(ctx, -1, vocab))
}

// logitsOf returns the logits of a position of the last batch, valid until the next one.
func (l *library) logitsOf(ctx uintptr, i int32, vocab int) []float32 {
	return unsafe.Slice((*float32)(pointer(l.logitsAt(ctx, i))), vocab)
}

func (l *library) quantize(typ uint32, row []float32) ([]byte, error) {
	t := tensor.Type(typ)
	if !t.Known() || len(row) == 0 || len(row)%t.BlockSize() != 0 {
		return nil, fmt.Errorf("%d elements is not a multiple of the block of %v", len(row), t)
	}
	dst := make([]byte, t.RowBytes(len(row)))
	if n := l.quantizeChunk(typ, &row[0], &dst[0], 0, 1, int64(len(row)), 0); int(n) != len(dst) {
		return nil, fmt.Errorf("got %d bytes, want %d", n, len(dst))
	}
	return dst, nil
}

func (l *library) dequantize(typ uint32, blocks []byte, n int) ([]float32, error) {
	names := map[tensor.Type]string{
		tensor.Q4_0: "q4_0", tensor.Q4_1: "q4_1", tensor.Q5_0: "q5_0", tensor.Q5_1: "q5_1", tensor.Q8_0: "q8_0",
		tensor.IQ4_NL: "iq4_nl", tensor.IQ4_XS: "iq4_xs", tensor.MXFP4: "mxfp4", tensor.Q2_K: "q2_K", tensor.Q3_K: "q3_K",
		tensor.Q4_K: "q4_K", tensor.Q5_K: "q5_K", tensor.Q6_K: "q6_K", tensor.Q8_K: "q8_K",
	}
	t := tensor.Type(typ)
	name, ok := names[t]
	if !ok || n <= 0 || n%t.BlockSize() != 0 || len(blocks) != t.RowBytes(n) {
		return nil, fmt.Errorf("%d bytes do not match %d elements of %v", len(blocks), n, t)
	}
	var f func(src *byte, dst *float32, n int64)
	purego.RegisterLibFunc(&f, l.base, "dequantize_row_"+name)
	out := make([]float32, n)
	f(&blocks[0], &out[0], int64(n))
	return out, nil
}

// goString copies a C string.
func goString(address uintptr) string {
	n := 0
	for *(*byte)(pointer(address + uintptr(n))) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(pointer(address)), n))
}

// pointer converts an address of C memory. The indirection satisfies vet.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

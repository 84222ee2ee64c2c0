// Command driver runs llama.cpp's shared library for package tools/libllama. Its argument
// is the folder of the libraries. Requests and replies are gobs on standard input and
// output.
package main

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"mm-abi.org/mm/tools/libllama"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: driver FOLDER")
		os.Exit(2)
	}
	if err := serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		os.Exit(1)
	}
}

func serve(dir string) error {
	lib, err := open(dir)
	if err != nil {
		return err
	}
	e := &engine{lib: lib}
	dec, enc := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	for {
		var r libllama.Request
		if err := dec.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		reply, err := e.do(r)
		if err != nil {
			reply.Err = err.Error()
		}
		if err := enc.Encode(reply); err != nil {
			return err
		}
	}
}

// engine is a loaded model with a context.
type engine struct {
	lib   *library
	model uintptr
	ctx   uintptr
	pool  uintptr
	vocab int
	width int
	pos   int32
}

func (e *engine) do(r libllama.Request) (libllama.Reply, error) {
	if e.ctx == 0 {
		switch r.Op {
		case "feed", "vectors", "prefill", "decode", "loss", "clear", "adapter":
			return libllama.Reply{}, errors.New("no model loaded")
		}
	}
	switch r.Op {
	case "load":
		return libllama.Reply{}, e.load(r)
	case "free":
		e.free()
		return libllama.Reply{}, nil
	case "clear":
		e.clear()
		return libllama.Reply{}, nil
	case "adapter":
		return libllama.Reply{}, e.adapter(r.Path, r.Scale)
	case "feed":
		return e.feed(r.Tokens)
	case "loss":
		return e.loss(r.Tokens, r.Next)
	case "convert":
		return libllama.Reply{}, e.lib.convert(r)
	case "vectors":
		return e.vectors(r.Vectors)
	case "prefill":
		return e.timed(func() error {
			e.clear()
			tokens := make([]int32, r.Count)
			for i := range tokens {
				tokens[i] = int32((i*7919 + 13) % e.vocab)
			}
			return e.lib.decodeTokens(e.ctx, tokens)
		})
	case "decode":
		return e.timed(func() error {
			for i := range r.Count {
				if err := e.lib.decodeTokens(e.ctx, []int32{int32((i*7919 + 13) % e.vocab)}); err != nil {
					return err
				}
			}
			return nil
		})
	case "quantize":
		blocks, err := e.lib.quantize(r.Type, r.Rows)
		return libllama.Reply{Blocks: blocks}, err
	case "dequantize":
		rows, err := e.lib.dequantize(r.Type, r.Blocks, r.Elems)
		return libllama.Reply{Rows: rows}, err
	}
	return libllama.Reply{}, fmt.Errorf("unknown request %q", r.Op)
}

func (e *engine) load(r libllama.Request) error {
	e.free()
	var err error
	if e.model, err = e.lib.loadModel(r.Path); err != nil {
		return err
	}
	if e.ctx, err = e.lib.newContext(e.model, r); err != nil {
		return err
	}
	// Without a thread pool the library starts threads for each token.
	if r.Threads > 1 {
		e.pool = e.lib.attachPool(e.ctx, r.Threads)
	}
	e.vocab = int(e.lib.vocabTokens(e.lib.getVocab(e.model)))
	e.width = int(e.lib.embeddingInput(e.model))
	return nil
}

func (e *engine) free() {
	if e.ctx != 0 {
		e.lib.freeContext(e.ctx)
	}
	if e.pool != 0 {
		e.lib.freePool(e.pool)
	}
	if e.model != 0 {
		e.lib.freeModel(e.model)
	}
	*e = engine{lib: e.lib}
}

func (e *engine) clear() {
	e.lib.memoryClear(e.lib.getMemory(e.ctx), true)
	e.pos = 0
}

func (e *engine) adapter(path string, scale float32) error {
	a := e.lib.adapterInit(e.model, path)
	if a == 0 {
		return errors.New("adapter refused")
	}
	if e.lib.setAdapters(e.ctx, &a, 1, &scale) != 0 {
		return errors.New("adapter not applied")
	}
	return nil
}

// feed decodes tokens one by one and returns the logits after each.
func (e *engine) feed(tokens []int32) (libllama.Reply, error) {
	var reply libllama.Reply
	for _, t := range tokens {
		if err := e.lib.decodeTokens(e.ctx, []int32{t}); err != nil {
			return reply, err
		}
		e.pos++
		reply.Logits = append(reply.Logits, e.lib.logits(e.ctx, e.vocab))
	}
	return reply, nil
}

func (e *engine) vectors(v []float32) (libllama.Reply, error) {
	if len(v) == 0 || len(v)%e.width != 0 {
		return libllama.Reply{}, fmt.Errorf("%d numbers is not a multiple of the width %d", len(v), e.width)
	}
	if err := e.lib.decodeVectors(e.ctx, v, e.width, e.pos); err != nil {
		return libllama.Reply{}, err
	}
	e.pos += int32(len(v) / e.width)
	return libllama.Reply{Logits: [][]float32{e.lib.logits(e.ctx, e.vocab)}}, nil
}

// loss decodes tokens in one batch, in an empty context, and returns the sum of -ln p of
// their successors.
func (e *engine) loss(tokens []int32, next int32) (libllama.Reply, error) {
	e.clear()
	if len(tokens) == 0 || next < 0 || int(next) >= e.vocab {
		return libllama.Reply{}, fmt.Errorf("bad text: %d tokens and next token %d", len(tokens), next)
	}
	if err := e.lib.decodeAll(e.ctx, tokens); err != nil {
		return libllama.Reply{}, err
	}
	e.pos = int32(len(tokens))
	var reply libllama.Reply
	for i := range tokens {
		follows := next
		if i+1 < len(tokens) {
			follows = tokens[i+1]
		}
		logits := e.lib.logitsOf(e.ctx, int32(i), e.vocab)
		most, sum := float64(slices.Max(logits)), 0.0
		for _, v := range logits {
			sum += math.Exp(float64(v) - most)
		}
		reply.Loss -= float64(logits[follows]) - most - math.Log(sum)
	}
	return reply, nil
}

// timed measures f.
func (e *engine) timed(f func() error) (libllama.Reply, error) {
	wall, cpu := time.Now(), libllama.CPUTime()
	err := f()
	e.lib.synchronize(e.ctx)
	return libllama.Reply{Wall: time.Since(wall), CPU: libllama.CPUTime() - cpu}, err
}

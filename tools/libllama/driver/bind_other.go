//go:build !(linux && amd64)

package main

import (
	"errors"

	"mm-abi.org/mm/tools/libllama"
)

// library is only implemented on linux/amd64, where libraries are published.
type library struct{}

var errPlatform = errors.New("the driver supports linux/amd64 only")

func open(string) (*library, error)                                     { return nil, errPlatform }
func (*library) loadModel(string) (uintptr, error)                      { return 0, errPlatform }
func (*library) newContext(uintptr, libllama.Request) (uintptr, error)  { return 0, errPlatform }
func (*library) attachPool(uintptr, int) uintptr                        { return 0 }
func (*library) decodeTokens(uintptr, []int32) error                    { return errPlatform }
func (*library) decodeVectors(uintptr, []float32, int, int32) error     { return errPlatform }
func (*library) decodeAll(uintptr, []int32) error                       { return errPlatform }
func (*library) convert(libllama.Request) error                         { return errPlatform }
func (*library) logits(uintptr, int) []float32                          { return nil }
func (*library) logitsOf(uintptr, int32, int) []float32                 { return nil }
func (*library) quantize(uint32, []float32) ([]byte, error)             { return nil, errPlatform }
func (*library) dequantize(uint32, []byte, int) ([]float32, error)      { return nil, errPlatform }
func (*library) vocabTokens(uintptr) int32                              { return 0 }
func (*library) getVocab(uintptr) uintptr                               { return 0 }
func (*library) embeddingInput(uintptr) int32                           { return 0 }
func (*library) freeContext(uintptr)                                    {}
func (*library) freePool(uintptr)                                       {}
func (*library) freeModel(uintptr)                                      {}
func (*library) getMemory(uintptr) uintptr                              { return 0 }
func (*library) memoryClear(uintptr, bool)                              {}
func (*library) synchronize(uintptr)                                    {}
func (*library) adapterInit(uintptr, string) uintptr                    { return 0 }
func (*library) setAdapters(uintptr, *uintptr, uintptr, *float32) int32 { return 1 }

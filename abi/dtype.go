package abi

import "slices"

// DType is the element type of a port, of weights or of the KV cache, as in manifests and
// graphs.
type DType string

// The element types.
const (
	FP32  DType = "fp32"
	FP16  DType = "fp16"
	BF16  DType = "bf16"
	FP8   DType = "fp8"
	Int64 DType = "int64"
	Int32 DType = "int32"
	Int16 DType = "int16"
	Int8  DType = "int8"
	UInt8 DType = "uint8"
	Int4  DType = "int4"
	Bool  DType = "bool"
)

// KVDTypes returns the types that a graph may request for the KV cache. fp8 is a request by
// size: a backend without 8-bit floats stores int8 with scales and reports that.
func KVDTypes() []DType { return []DType{FP32, FP16, BF16, FP8, Int8} }

// Precisions returns the weight precisions that every exporter supports. Exporters may
// support more, under the names of their format (Q6_K, w8a8).
func Precisions() []string {
	return []string{string(FP32), string(FP16), string(BF16), string(Int8), string(Int4)}
}

// KnownKV reports whether d may be the type of a KV cache.
func (d DType) KnownKV() bool { return slices.Contains(KVDTypes(), d) }

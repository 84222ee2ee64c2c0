package abi

import "slices"

// DType is the element type of a port, or the storage type of weights or of
// the KV cache, as manifests and graphs spell it.
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

// KVDTypes lists what a graph may ask of the KV cache. fp8 is a request by
// size: a backend without an 8-bit float stores int8 with scales and says so.
func KVDTypes() []DType { return []DType{FP32, FP16, BF16, FP8, Int8} }

// Precisions lists the weight precisions that every exporter understands. An
// exporter may know more, under the names of its format (Q6_K, w8a8).
func Precisions() []string {
	return []string{string(FP32), string(FP16), string(BF16), string(Int8), string(Int4)}
}

// KnownKV reports whether d may be the type of a KV cache.
func (d DType) KnownKV() bool { return slices.Contains(KVDTypes(), d) }

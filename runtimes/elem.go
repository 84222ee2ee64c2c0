package runtimes

import "mm-abi.org/mm/onnx"

// onnxElems maps ONNX's element types.
var onnxElems = map[onnx.DType]Elem{
	onnx.FLOAT: Float32, onnx.UINT8: Uint8, onnx.INT8: Int8, onnx.UINT16: Uint16, onnx.INT16: Int16, onnx.INT32: Int32, onnx.INT64: Int64,
	onnx.STRING: String, onnx.BOOL: Bool, onnx.FLOAT16: Float16, onnx.DOUBLE: Float64, onnx.UINT32: Uint32, onnx.UINT64: Uint64,
	onnx.BFLOAT16: BFloat16, onnx.FLOAT8E4M3FN: Float8E4M3FN, onnx.FLOAT8E4M3FNUZ: Float8E4M3FNUZ, onnx.FLOAT8E5M2: Float8E5M2,
	onnx.FLOAT8E5M2FNUZ: Float8E5M2FNUZ, onnx.UINT4: Uint4, onnx.INT4: Int4, onnx.FLOAT4E2M1: Float4E2M1, onnx.FLOAT8E8M0: Float8E8M0,
	onnx.UINT2: Uint2, onnx.INT2: Int2,
}

// ElemOf returns the element type for ONNX's, or "" if it is not supported.
func ElemOf(d onnx.DType) Elem { return onnxElems[d] }

// ONNX returns ONNX's element type, or 0 if ONNX has none.
func (e Elem) ONNX() onnx.DType {
	for d, elem := range onnxElems {
		if elem == e {
			return d
		}
	}
	return 0
}

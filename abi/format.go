package abi

// Format is the file format of a module's weights or code, as in manifests and graphs. The
// list is open: exporters may define others.
type Format string

// The formats that MM-ABI names.
const (
	GGUF        Format = "gguf"
	ONNX        Format = "onnx"
	Safetensors Format = "safetensors"
	CoreML      Format = "coreml"
	ExecuTorch  Format = "executorch"
	NNAPI       Format = "nnapi"
	OpenVINO    Format = "openvino"
	QNN         Format = "qnn"
	TFLite      Format = "tflite"
	Wasm        Format = "wasm"
	Starlark    Format = "starlark"
	Python      Format = "python"
	Process     Format = "process" // a native program
	MCP         Format = "mcp"     // a native program that serves tools
)

// Code reports whether files of the format are programs of skills.
func (f Format) Code() bool {
	return f == Wasm || f == Starlark || f == Python || f == Process || f == MCP
}

// Package ask defines the messages about QNN between mm and mm-native that the contract of
// runtimes lacks: how to open a context, and the questions of this engine. They are plain
// data, sent as JSON by runtimes/worker.
package ask

// The questions.
const (
	Device   = "device"   // → [Platform]
	Describe = "describe" // [File] → [Description]
	Compile  = "compile"  // to the compiler: [Compilation] → [Compiled]
	Profile  = "profile"  // of the open context's last run → [Events]
)

// File is a span of a file with a context binary.
type File struct {
	Path   string `json:"path"`   // absolute
	Offset int64  `json:"offset"` // bytes
	Size   int64  `json:"size"`   // bytes
	Digest string `json:"digest"` // sha256:… of the span, verified before the library reads it; "": not verified
}

// Version is the version of an interface: major, minor, patch.
type Version [3]uint32

// Platform describes the libraries and their hardware.
type Platform struct {
	Build     string  `json:"build"`     // of the SDK: v2.51.0.260929181845
	Provider  string  `json:"provider"`  // HTP_QTI_AISW
	Core      Version `json:"core"`      // of QNN's interface
	Backend   Version `json:"backend"`   // of the HTP's
	System    Version `json:"system"`    // of QnnSystem's
	SoC       uint32  `json:"soc"`       // QNN's number of the chip; 30 in emulation
	Arch      uint32  `json:"arch"`      // of the HTP; 68 in emulation
	VTCM      uint32  `json:"vtcm"`      // MiB
	Devices   int     `json:"devices"`   // that the library sees
	Simulated bool    `json:"simulated"` // it computes on the processor
	Compiler  string  `json:"compiler"`  // version of ONNX Runtime in its folder; "": missing, or without plugin
}

// Tensor is an input or an output as QnnSystem describes it.
type Tensor struct {
	ID      uint32   `json:"id"`
	Name    string   `json:"name"`
	Version uint32   `json:"version"` // of the structure, 1 or 2
	DType   uint32   `json:"dtype"`   // QNN's number
	Dims    []uint32 `json:"dims"`
	Scale   float32  `json:"scale"`  // 0: not quantized, or not by one scale
	Offset  int32    `json:"offset"` // value = (q + offset) · scale
}

// Graph is a graph of a context.
type Graph struct {
	Name    string   `json:"name"`
	Inputs  []Tensor `json:"inputs"`
	Outputs []Tensor `json:"outputs"`
}

// Description is QnnSystem's description of a context binary.
type Description struct {
	Build   string  `json:"build"`
	Backend uint32  `json:"backend"` // 6: HTP
	Core    Version `json:"core"`
	API     Version `json:"api"`
	Blob    Version `json:"blob"`
	SoC     uint32  `json:"soc"`
	Graphs  []Graph `json:"graphs"`
}

// Open configures the opening of a context; it is wire.Open's Own.
type Open struct {
	File
	Graph           string   // to run
	Inputs, Outputs []Tensor // as mm read them from the file, in order
	Profile         bool     // record events in every run
}

// Compilation compiles a model for one chip.
type Compilation struct {
	Model   File              // ONNX
	Folder  string            // of the model's external data; "": none
	SoC     uint32            // QNN's number
	Out     string            // the wrapper, FOLDER/NAME_ctx.onnx; the context is in the same folder
	Embed   bool              // embed the context in the wrapper
	Options map[string]string // of ONNX Runtime's provider, such as htp_graph_finalization_optimization_mode
}

// Node is a node of a model and the provider that runs it.
type Node struct {
	Provider string `json:"provider"`
	Name     string `json:"name"`
	Domain   string `json:"domain,omitempty"`
	Op       string `json:"op"`
}

// Compiled is the result of a compilation.
type Compiled struct {
	Ort string `json:"ort"` // version of ONNX Runtime
	// Nodes lists the model's nodes by provider. If any is not QNN's, nothing was
	// written, and Why is the message of ONNX Runtime.
	Nodes []Node `json:"nodes"`
	Why   string `json:"why,omitempty"`
}

// Event is a line of a profile.
type Event struct {
	Type  uint32  `json:"type"`
	Name  string  `json:"name"`
	Unit  uint32  `json:"unit"` // 1 µs, 3 cycles, 4 a count
	Value uint64  `json:"value"`
	Sub   []Event `json:"sub,omitempty"`
}

// Events are the events of a run.
type Events struct {
	Events []Event `json:"events"`
}

// HVXThreads is the event type whose value is 0 in emulation.
const HVXThreads = 8001

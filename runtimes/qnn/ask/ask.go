// Package ask is what mm and mm-native say to each other about QNN beside the
// contract of runtimes: how a context is opened, and the questions that only
// this engine answers. It is plain data, sent as JSON by runtimes/worker.
package ask

// The questions.
const (
	Device   = "device"   // → [Platform]
	Describe = "describe" // [File] → [Description]
	Compile  = "compile"  // of the compiler: [Compilation] → [Compiled]
	Profile  = "profile"  // of the open context's last run → [Events]
)

// File is bytes of a file that hold a context binary.
type File struct {
	Path   string `json:"path"`   // absolute
	Offset int64  `json:"offset"` // bytes
	Size   int64  `json:"size"`   // bytes
	Digest string `json:"digest"` // sha256:… of those bytes, which are hashed before the library sees them; "": not hashed
}

// Version is that of an interface: major, minor, patch.
type Version [3]uint32

// Platform is what the libraries say of themselves and of where they run.
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
	Compiler  string  `json:"compiler"`  // version of ONNX Runtime beside it; "": there is none, or no plugin
}

// Tensor is an input or an output as QnnSystem tells it.
type Tensor struct {
	ID      uint32   `json:"id"`
	Name    string   `json:"name"`
	Version uint32   `json:"version"` // of the structure, 1 or 2
	DType   uint32   `json:"dtype"`   // QNN's number
	Dims    []uint32 `json:"dims"`
	Scale   float32  `json:"scale"`  // 0: not quantised, or not by one scale
	Offset  int32    `json:"offset"` // value = (q + offset) · scale
}

// Graph is one of a context.
type Graph struct {
	Name    string   `json:"name"`
	Inputs  []Tensor `json:"inputs"`
	Outputs []Tensor `json:"outputs"`
}

// Description is what QnnSystem says of a context binary.
type Description struct {
	Build   string  `json:"build"`
	Backend uint32  `json:"backend"` // 6: HTP
	Core    Version `json:"core"`
	API     Version `json:"api"`
	Blob    Version `json:"blob"`
	SoC     uint32  `json:"soc"`
	Graphs  []Graph `json:"graphs"`
}

// Open is how a context is opened: wire.Open's Own.
type Open struct {
	File
	Graph           string   // that is run
	Inputs, Outputs []Tensor // what mm read of the file, in order
	Profile         bool     // events are gathered in every run
}

// Compilation is a model for one chip.
type Compilation struct {
	Model   File              // ONNX
	Folder  string            // of the model's external data; "": it has none
	SoC     uint32            // QNN's number
	Out     string            // the wrapper, FOLDER/NAME_ctx.onnx; the context lies beside it
	Embed   bool              // the context lies in the wrapper
	Options map[string]string // of ONNX Runtime's provider, such as htp_graph_finalization_optimization_mode
}

// Node is one of a model and who computes it.
type Node struct {
	Provider string `json:"provider"`
	Name     string `json:"name"`
	Domain   string `json:"domain,omitempty"`
	Op       string `json:"op"`
}

// Compiled is what came of a compilation.
type Compiled struct {
	Ort string `json:"ort"` // version of ONNX Runtime
	// Nodes are those of the model that each provider takes. Where any is not
	// QNN's, nothing was written, and Why is what ONNX Runtime said.
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

// Events are a run's.
type Events struct {
	Events []Event `json:"events"`
}

// HVXThreads is the event's type that no emulation has above 0.
const HVXThreads = 8001

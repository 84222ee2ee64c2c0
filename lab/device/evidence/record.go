// Package evidence defines the record of a run on a device, and judges whether it proves
// that the NPU of a chip computed a model correctly.
//
// A [Record] is a JSON document. [Record.Seal] sets the digest of its canonical form, and
// [Read] refuses a changed record. [Judge] returns a verdict with a reason for each
// criterion; [Promotes] requires all of them. Missing, unknown or contradictory values do
// not pass.
//
// A device differs from the emulation of the same libraries on a PC in what the emulation
// cannot do (docs/DEVICES.md): the emulation reports another platform than the binary's,
// uses no HVX thread, and its outputs are one unit off the grid of 16-bit floats. Profile
// events of an accelerator prove nothing, since the emulation writes them, too; records do
// not contain them.
//
// A record states what a program observed. Its signature over the canonical form, by a key
// of the kind that signs artifacts, shows who made it ([Record.Sign], [Record.SignedBy]). The
// audit log holds the hash of each record that mm makes.
package evidence

// Schema is the version of the record.
const Schema = "mm.device.evidence/1"

// The platform that the emulation on a PC reports, whatever it runs.
const (
	emulatedSoC  = 30
	emulatedArch = 68
)

// Record describes one run of one binary on one device. Values that may be unknown are
// pointers.
type Record struct {
	Schema string `json:"schema"`
	// Time is when it ran, RFC 3339, set by the caller.
	Time string `json:"time"`
	// Nonce names the run, in hex, and the folder of its outputs.
	Nonce   string   `json:"nonce"`
	Source  Source   `json:"source"`
	Device  Device   `json:"device"`
	SoC     SoC      `json:"soc"` // from the platform information of the runtime
	Runtime Runtime  `json:"runtime"`
	Binary  Binary   `json:"binary"`
	Inputs  []Tensor `json:"inputs"`
	Outputs []Tensor `json:"outputs"`
	// Drawn is set if nonce and inputs are random, so that outputs cannot have been
	// prepared.
	Drawn bool `json:"drawn"`
	// Samples is the number of input sets, each with a set of outputs.
	Samples   int        `json:"samples"`
	Reference *Reference `json:"reference,omitempty"`
	// Cosine is the minimum over outputs and samples, against the reference.
	Cosine     *float64 `json:"cosine,omitempty"`
	HVXThreads *int     `json:"hvx_threads,omitempty"`
	FP16Grid   *Grid    `json:"fp16_grid,omitempty"`
	Times      *Times   `json:"times,omitempty"`
	// Simulated is set if anything was simulated: device, chip or runner. It is never
	// cleared.
	Simulated bool     `json:"simulated"`
	Signs     []string `json:"signs"` // signs of the simulation
	Checks    []Check  `json:"checks"`
	// Digest is the SHA-256 of the canonical form.
	Digest string `json:"digest"`
	// Signature signs the canonical form; nil if unsigned.
	Signature *Signature `json:"signature,omitempty"`
}

// Source describes the connection to the device.
type Source struct {
	Lane    string `json:"lane"`    // adb, ssh
	Address string `json:"address"` // of the adb server or the host
	Serial  string `json:"serial"`
	// Tool is the program that made the record, with its version.
	Tool string `json:"tool"`
}

// Device holds what the system of the device reports.
type Device struct {
	Manufacturer string `json:"manufacturer"`
	Model        string `json:"model"`
	Android      string `json:"android"`
	ABI          string `json:"abi"`     // of its programs, such as arm64-v8a
	Machine      string `json:"machine"` // of its kernel, such as aarch64
	SoC          string `json:"soc"`     // ro.soc.model, such as SM8750
}

// SoC holds QNN's platform information: QNN's number of the chip (its soc_model, not
// Linux's soc_id), its name from the table of chips, and the architecture of its HTP, such
// as 79 for v79. 0 is unknown.
type SoC struct {
	Model uint32 `json:"model"`
	Name  string `json:"name"`
	Arch  uint32 `json:"arch"`
}

// QNNDirect is the backend of context binaries that QNN's libraries run without a
// framework.
const QNNDirect = "qnn_direct"

// Runtime describes what computed.
type Runtime struct {
	// Backend is the backend that the record is for. It is empty in records from before
	// backends were named.
	Backend string `json:"backend,omitempty"`
	Runner  string `json:"runner"` // SHA-256 of the runner on the device, sha256:…
	GoArch  string `json:"goarch"` // of the runner
	Build   string `json:"build"`  // of the QNN libraries, such as v2.47.0.260601114230
}

// Binary is the compiled model.
type Binary struct {
	SHA256 string `json:"sha256"` // sha256:…
	Bytes  int64  `json:"bytes"`
	Build  string `json:"build"` // of the SDK
	SoC    SoC    `json:"soc"`   // target
	Graph  string `json:"graph"`
}

// Tensor is an input or output of a sample.
type Tensor struct {
	Sample int    `json:"sample"`
	Name   string `json:"name"`
	DType  string `json:"dtype"` // as in onnx/htp
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // sha256:…
}

// Reference describes what the outputs were compared with.
type Reference struct {
	Engine string `json:"engine"` // with version
	// Model is the SHA-256 of the source model, not of the binary.
	Model   string   `json:"model"`
	Outputs []Tensor `json:"outputs"`
}

// Grid counts values that are not 16-bit floats. A device computes in 16-bit floats, so
// that each output is one exactly; the outputs of the emulation are one unit of a 32-bit
// float off.
type Grid struct {
	// Applies is false if no output is a float.
	Applies bool  `json:"applies"`
	Values  int64 `json:"values"` // other than 0
	Off     int64 `json:"off"`    // not 16-bit floats
	MaxULP  int64 `json:"max_ulp"`
}

// Times are in microseconds. Infer is that of one inference, without loading.
type Times struct {
	Load       int64 `json:"load_us"`
	Infer      int64 `json:"infer_us"` // median
	Inferences int   `json:"inferences"`
}

// Check is the result of a check of the pulled outputs.
type Check struct {
	Name    string  `json:"name"`
	Outcome Outcome `json:"outcome"`
	Detail  string  `json:"detail,omitempty"`
}

// Outcome is the outcome of a check or criterion.
type Outcome string

// The outcomes. Only Pass and Exempt promote, and Exempt only where Judge itself assigns
// it.
const (
	Pass    Outcome = "pass"
	Fail    Outcome = "fail"
	Unknown Outcome = "unknown"
	Exempt  Outcome = "does not apply"
)

// The checks that a record must have.
const (
	CheckDigest   = "digest"   // digests on the device and here are equal
	CheckCount    = "count"    // no output is missing or unexpected
	CheckSize     = "size"     // sizes match the graph
	CheckFinite   = "finite"   // no NaN or infinity
	CheckNonzero  = "nonzero"  // not all zero
	CheckDistinct = "distinct" // different inputs have different outputs
	CheckFresh    = "fresh"    // written by this run
	CheckCosine   = "cosine"   // agrees with the reference
)

// Checks returns the checks in order.
func Checks() []string {
	return []string{CheckDigest, CheckCount, CheckSize, CheckFinite, CheckNonzero, CheckDistinct, CheckFresh, CheckCosine}
}

// Package evidence is what a run on a device leaves behind, and the judgement of
// whether it shows that a chip's NPU computed a model rightly.
//
// A [Record] is one JSON document. Whoever ran something fills it, [Record.Seal]
// hashes it over its canonical form, [Read] takes one back and refuses what was
// changed. [Judge] gives a verdict for each thing that must hold, with a reason;
// [Promotes] says whether all of them do. It fails closed: what is missing,
// unknown or contradicts itself does not pass.
//
// What tells a device from the emulation of the same libraries on a PC is what
// the emulation cannot do (docs/DEVICES.md): the platform that it reports is not
// the binary's, it uses no HVX thread, and its outputs lie one unit beside the
// grid of 16-bit floats. That there are profile events of an accelerator is no
// sign of anything: the emulation writes them too, and a record has no place for
// them.
//
// A record says what a program saw. Who vouches for that is in its signature,
// over the canonical form, by the keys that sign artifacts ([Record.Sign],
// [Record.Vouched]); the audit log has the hash of each record that mm makes.
package evidence

// Schema is the version of the record.
const Schema = "mm.device.evidence/1"

// Simulated platform: what the emulation on a PC says of itself, whatever it
// runs.
const (
	emulatedSoC  = 30
	emulatedArch = 68
)

// Record is one run of one binary on one device. Numbers that may be unknown
// are pointers: nil is not 0.
type Record struct {
	Schema string `json:"schema"`
	// Time is when it ran, RFC 3339. It is the caller's: this package reads no
	// clock.
	Time string `json:"time"`
	// Nonce is of this run, hex; the runner wrote its outputs into a folder of
	// that name.
	Nonce   string   `json:"nonce"`
	Source  Source   `json:"source"`
	Device  Device   `json:"device"`
	SoC     SoC      `json:"soc"` // as the runtime's platform information says
	Runtime Runtime  `json:"runtime"`
	Binary  Binary   `json:"binary"`
	Inputs  []Tensor `json:"inputs"`
	Outputs []Tensor `json:"outputs"`
	// Drawn is set where the inputs were drawn from the nonce, and the nonce by
	// who made the record, so that nobody can have kept outputs for them.
	Drawn bool `json:"drawn"`
	// Samples is how many sets of inputs were run, each giving a set of outputs.
	Samples   int        `json:"samples"`
	Reference *Reference `json:"reference,omitempty"`
	// Cosine is the smallest over outputs and samples, against the reference.
	Cosine     *float64 `json:"cosine,omitempty"`
	HVXThreads *int     `json:"hvx_threads,omitempty"`
	FP16Grid   *Grid    `json:"fp16_grid,omitempty"`
	Times      *Times   `json:"times,omitempty"`
	// Simulated is set whenever anything of the run was: the device, the chip,
	// the runner. Nothing clears it.
	Simulated bool     `json:"simulated"`
	Signs     []string `json:"signs"` // by which that was seen
	Checks    []Check  `json:"checks"`
	// Digest is the SHA-256 of the canonical form of all of the above.
	Digest string `json:"digest"`
	// Signature is who vouches for it; nil: nobody. It is over the canonical form.
	Signature *Signature `json:"signature,omitempty"`
}

// Source says how the device was reached.
type Source struct {
	Lane    string `json:"lane"`    // adb, ssh
	Address string `json:"address"` // of the adb server or the host
	Serial  string `json:"serial"`
	// Tool is the program that made the record, and its version.
	Tool string `json:"tool"`
}

// Device is what the system of the device says of itself.
type Device struct {
	Manufacturer string `json:"manufacturer"`
	Model        string `json:"model"`
	Android      string `json:"android"`
	ABI          string `json:"abi"`     // of its programs, such as arm64-v8a
	Machine      string `json:"machine"` // of its kernel, such as aarch64
	SoC          string `json:"soc"`     // ro.soc.model, such as SM8750
}

// SoC is what QNN's platform information says: QNN's number of the chip (its
// soc_model, not Linux's soc_id), its name by the table of chips, and the
// architecture of its HTP, 79 for v79. 0 is unknown.
type SoC struct {
	Model uint32 `json:"model"`
	Name  string `json:"name"`
	Arch  uint32 `json:"arch"`
}

// QNNDirect is the backend of a context binary that QNN's libraries run by
// themselves, without a framework around them.
const QNNDirect = "qnn_direct"

// Runtime is what computed.
type Runtime struct {
	// Backend is the way to the chip that the record is of, and of no other; ""
	// in records from before it was named.
	Backend string `json:"backend,omitempty"`
	Runner  string `json:"runner"` // SHA-256 of the runner on the device, sha256:…
	GoArch  string `json:"goarch"` // that the runner was built for
	Build   string `json:"build"`  // of the QNN libraries, such as v2.47.0.260601114230
}

// Binary is the compiled model.
type Binary struct {
	SHA256 string `json:"sha256"` // sha256:…
	Bytes  int64  `json:"bytes"`
	Build  string `json:"build"` // of the SDK that wrote it
	SoC    SoC    `json:"soc"`   // it was compiled for
	Graph  string `json:"graph"`
}

// Tensor is one input or output of one sample.
type Tensor struct {
	Sample int    `json:"sample"`
	Name   string `json:"name"`
	DType  string `json:"dtype"` // as core/htp spells it
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // sha256:…
}

// Reference is what the outputs were compared with.
type Reference struct {
	Engine string `json:"engine"` // and its version
	// Model is the SHA-256 of the model that the engine ran: the source of the
	// binary, not the binary.
	Model   string   `json:"model"`
	Outputs []Tensor `json:"outputs"`
}

// Grid is the test whether values are 16-bit floats. A device computes in them,
// so that every output is one exactly; the emulation's are one unit of a 32-bit
// float beside.
type Grid struct {
	// Applies is false where no output is a float.
	Applies bool  `json:"applies"`
	Values  int64 `json:"values"` // that are not 0
	Off     int64 `json:"off"`    // of them, those that are no 16-bit float
	MaxULP  int64 `json:"max_ulp"`
}

// Times are in microseconds. Infer is of one inference, loading not counted.
type Times struct {
	Load       int64 `json:"load_us"`
	Infer      int64 `json:"infer_us"` // median
	Inferences int   `json:"inferences"`
}

// Check is one check of the results, done when they were pulled.
type Check struct {
	Name    string  `json:"name"`
	Outcome Outcome `json:"outcome"`
	Detail  string  `json:"detail,omitempty"`
}

// Outcome is what a check or a judgement comes to.
type Outcome string

// The outcomes. Only Pass and Exempt promote, and Exempt only where Judge says
// so itself.
const (
	Pass    Outcome = "pass"
	Fail    Outcome = "fail"
	Unknown Outcome = "unknown"
	Exempt  Outcome = "does not apply"
)

// The checks that a record must have.
const (
	CheckDigest   = "digest"   // what was pushed and pulled has the same digests there and here
	CheckCount    = "count"    // every output of every sample is there, and nothing else
	CheckSize     = "size"     // each of the bytes that the graph says
	CheckFinite   = "finite"   // no NaN, no infinity
	CheckNonzero  = "nonzero"  // not all zero
	CheckDistinct = "distinct" // other inputs, other outputs
	CheckFresh    = "fresh"    // written by this run
	CheckCosine   = "cosine"   // agrees with the reference
)

// Checks lists them in the order in which they are made.
func Checks() []string {
	return []string{CheckDigest, CheckCount, CheckSize, CheckFinite, CheckNonzero, CheckDistinct, CheckFresh, CheckCosine}
}

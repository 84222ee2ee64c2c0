package device

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/lab/device/protocol"
	"mm-abi.org/mm/modules/qnnfile"

	"mm-abi.org/mm/onnx/htp"
)

// Reference computes on the processor what the device computes.
type Reference interface {
	// Run takes the inputs of a sample in the graph's order and returns its outputs.
	Run(ctx context.Context, in [][]float32) ([][]float32, error)
}

// Job describes a run.
type Job struct {
	Context string // path of the context binary
	Runner  string // path of the runner for the device
	Libs    string // folder of the QNN libraries for the device
	Graph   string // may be empty if the context has only one
	// Samples are the inputs in the graph's order. If empty, Count sets are drawn from the
	// nonce.
	Samples [][][]float32
	Count   int
	Repeat  int // inferences per sample, for timing
	// Nonce names the run, 16 to 64 hex digits. If empty, it is random, so that outputs for
	// the inputs drawn from it cannot have been prepared.
	Nonce    string
	Time     string        // RFC 3339, recorded in the evidence
	Deadline time.Duration // of the runner; if zero, 2 minutes
	Battery  int           // minimum percent; if zero, MinBattery
	SameArch bool          // accept a context for another chip of the same architecture
	Accept   []string      // axes that may be unknown
	Keep     bool          // keep the folder of the run on the device

	Reference Reference // if nil, nothing is compared
	Engine    string    // engine of the reference
	Model     string    // SHA-256 of its model
	// Before are the records of earlier runs, to detect stale outputs.
	Before []evidence.Record
}

// The limits of a run.
const (
	deadline   = 2 * time.Minute
	maxContext = 8 << 30 // bytes
	maxLibs    = 64      // files
)

// Plan describes what a run would do.
type Plan struct {
	Probe    Probe          `json:"probe"`
	Report   qnnfile.Report `json:"check"`
	Push     []File         `json:"push"`
	Bytes    int64          `json:"bytes"`      // of all pushed files
	Need     int64          `json:"need_bytes"` // free storage: pushed files, the current piece, inputs and outputs
	Command  string         `json:"command"`
	Outputs  []Expected     `json:"outputs"`
	Faults   diag.List      `json:"diagnostics"`
	parsed   *htp.Context
	graph    htp.Graph
	call     protocol.Call
	libBuild string
}

// Expected is an expected output.
type Expected struct {
	Name  string   `json:"name"`
	DType string   `json:"dtype"`
	Shape []uint32 `json:"shape"`
	Bytes int64    `json:"bytes"`
}

// Plan compares a job with a device. Faults holds everything that prevents the run. Nothing
// on the device changes.
func (j Job) Plan(ctx context.Context, d *Device) (*Plan, error) {
	p := &Plan{Push: []File{}, Outputs: []Expected{}, Faults: diag.List{}}
	err := d.folder()
	if err != nil {
		return nil, err
	}
	if p.Probe, err = d.Probe(ctx); err != nil {
		return nil, err
	}
	p.Faults = append(p.Faults, d.ready(p.Probe, max(j.Battery, 0)+b2i(j.Battery == 0)*MinBattery)...)
	set, err := htp.FindLibraries(j.Libs)
	if err != nil {
		return nil, err
	}
	p.libBuild = set.Build
	if err := j.fits(p, d, set); err != nil {
		return nil, err
	}
	if err := j.open(p); err != nil {
		return nil, err
	}
	if err := j.files(p); err != nil {
		return nil, err
	}
	j.room(p, d)
	if j.Nonce == "" {
		j.Nonce = drawNonce()
	}
	run := d.at("runs", j.Nonce)
	p.call = protocol.Call{Program: "./mm-device", Context: "context.bin", Inputs: "in", Outputs: "out", Libs: "lib", Nonce: j.Nonce, Graph: p.graph.Name, Repeat: j.Repeat}
	p.Command = j.command(run, p.call)
	return p, nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// fits checks the context against the device's chip and libraries.
func (j Job) fits(p *Plan, d *Device, set htp.Libraries) error {
	name := p.Probe.Device.SoC
	if name == "" {
		name = "unknown"
	}
	if set.Build != "" {
		name += "@" + set.Build
	}
	target, err := htp.ParseTarget(name, d.Chips)
	if err != nil {
		return fmt.Errorf("chip %q of the device: %w", p.Probe.Device.SoC, err)
	}
	target.Libs, target.Memory, target.SameArch = &set, p.Probe.Memory, j.SameArch
	if p.Report, err = qnnfile.Check(j.Context, qnnfile.CheckOptions{Target: target, Accept: j.Accept}); err != nil {
		return err
	}
	p.Faults = append(p.Faults, p.Report.Faults...)
	return nil
}

// Open reads the description of the context and selects the graph.
func (j Job) Open() (*htp.Context, htp.Graph, error) {
	var g htp.Graph
	f, err := fsx.OpenRegular(j.Context)
	if err != nil {
		return nil, g, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, g, err
	}
	if info.Size() > maxContext {
		return nil, g, fmt.Errorf("%s: file too large: got %d bytes, limit %d", j.Context, info.Size(), int64(maxContext))
	}
	c, err := htp.ReadContext(f, info.Size())
	if err != nil {
		return nil, g, fmt.Errorf("%s: %w (mm qnn extract extracts contexts from other files)", j.Context, err)
	}
	var names []string
	for _, g := range c.Graphs {
		if g.Name == j.Graph || j.Graph == "" && len(c.Graphs) == 1 {
			return c, g, nil
		}
		names = append(names, g.Name)
	}
	return nil, g, fmt.Errorf("%s: unknown graph %q, want one of %s", j.Context, j.Graph, strings.Join(names, ", "))
}

// open selects the graph and sets the expected outputs.
func (j Job) open(p *Plan) (err error) {
	if p.parsed, p.graph, err = j.Open(); err != nil {
		return err
	}
	for _, t := range p.graph.Outputs {
		n, ok := t.Bytes()
		if !ok {
			return fmt.Errorf("%s: output %q has no static size", j.Context, t.Name)
		}
		p.Outputs = append(p.Outputs, Expected{t.Name, t.DType.String(), t.Dims, n})
	}
	return nil
}

// files lists the files to push: the context, the runner and the libraries.
func (j Job) files(p *Plan) error {
	add := func(name, path string, program bool) error {
		f, err := NewFile(name, path)
		if err != nil {
			return err
		}
		f.Program = program
		p.Push = append(p.Push, f)
		p.Bytes += f.Bytes
		return nil
	}
	if err := errors.Join(add("context.bin", j.Context, false), add("mm-device", j.Runner, true)); err != nil {
		return err
	}
	paths, err := filepath.Glob(filepath.Join(j.Libs, "*"))
	if err != nil {
		return err
	}
	slices.Sort(paths)
	n := 0
	for _, path := range paths {
		base := filepath.Base(path)
		if !strings.HasSuffix(base, ".so") && !strings.HasSuffix(base, ".cat") && !strings.Contains(base, ".so.") {
			continue
		}
		if n++; n > maxLibs {
			return fmt.Errorf("%s: more than %d libraries", j.Libs, maxLibs)
		}
		if err := add("lib/"+base, path, false); err != nil {
			return err
		}
	}
	return nil
}

// room compares the free storage with the required one.
func (j Job) room(p *Plan, d *Device) {
	size := d.Segment
	if size <= 0 {
		size = segment
	}
	data := int64(0)
	for _, e := range p.Outputs {
		data += e.Bytes
	}
	for _, t := range p.graph.Inputs {
		n, _ := t.Bytes()
		data += n
	}
	count := len(j.Samples)
	if count == 0 {
		count = max(j.Count, 1)
	}
	p.Need = p.Bytes + min(size, p.Bytes) + int64(count)*data
	if p.Probe.Free >= 0 && p.Probe.Free < p.Need {
		p.Faults.Add(diag.DeviceFull, d.pos(), fmt.Sprintf("%d bytes free, want %d", p.Probe.Free, p.Need), diag.DeviceFull.Fix())
	}
}

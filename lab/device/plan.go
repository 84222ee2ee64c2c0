package device

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/core/htp/fit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/lab/device/protocol"
	"mm-abi.org/mm/modules/qnnfile"

	"mm-abi.org/mm/core/htp/blob"
)

// Reference computes on the processor what the device is to compute.
type Reference interface {
	// Run takes the inputs of one sample in the graph's order and gives its
	// outputs.
	Run(ctx context.Context, in [][]float32) ([][]float32, error)
}

// Job is a run that is wanted.
type Job struct {
	Context string // path of the context binary
	Runner  string // path of the runner for the device
	Libs    string // folder of the QNN libraries for the device
	Graph   string // "" where the context has one
	// Samples are the inputs in the graph's order; empty: Count sets of numbers
	// drawn from the nonce.
	Samples [][][]float32
	Count   int
	Repeat  int // inferences of each sample, for timing
	// Nonce names the run, 16 to 64 hexadecimal digits. "": one is drawn, so that
	// no outputs can have been kept for the inputs that follow from it.
	Nonce    string
	Time     string        // RFC 3339, for the record
	Deadline time.Duration // of the runner; 0 is 2 minutes
	Battery  int           // least percent; 0 is MinBattery
	SameArch bool          // takes a context for another chip of the architecture
	Accept   []string      // axes of fit that may be unknown
	Keep     bool          // leaves the run's folder on the device

	Reference Reference // nil: nothing is compared
	Engine    string    // of the reference
	Model     string    // its model's SHA-256
	// Before are records of earlier runs, by which stale outputs are known, and
	// inputs that outputs may have been kept for.
	Before []evidence.Record
}

// The bounds of a run.
const (
	deadline   = 2 * time.Minute
	maxContext = 8 << 30 // bytes
	maxLibs    = 64      // files
)

// Plan is what a run would do.
type Plan struct {
	Probe    Probe          `json:"probe"`
	Report   qnnfile.Report `json:"check"`
	Push     []File         `json:"push"`
	Bytes    int64          `json:"bytes"`      // of them all
	Need     int64          `json:"need_bytes"` // of the storage, for those and the piece under way
	Command  string         `json:"command"`
	Outputs  []Expected     `json:"outputs"`
	Faults   diag.List      `json:"diagnostics"`
	parsed   *blob.Context
	graph    blob.Graph
	call     protocol.Call
	libBuild string
}

// Expected is an output that must come.
type Expected struct {
	Name  string   `json:"name"`
	DType string   `json:"dtype"`
	Shape []uint32 `json:"shape"`
	Bytes int64    `json:"bytes"`
}

// Plan holds a job against a device. All that speaks against it is in Faults;
// nothing on the device changes.
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
	set, err := fit.FindLibraries(j.Libs)
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

// fits holds the context against the device's chip and libraries.
func (j Job) fits(p *Plan, d *Device, set fit.Libraries) error {
	name := p.Probe.Device.SoC
	if name == "" {
		name = "unknown"
	}
	if set.Build != "" {
		name += "@" + set.Build
	}
	target, err := fit.ParseTarget(name, d.Chips)
	if err != nil {
		return fmt.Errorf("the device's chip %q: %w", p.Probe.Device.SoC, err)
	}
	target.Libs, target.Memory, target.SameArch = &set, p.Probe.Memory, j.SameArch
	if p.Report, err = qnnfile.Check(j.Context, qnnfile.CheckOptions{Target: target, Accept: j.Accept}); err != nil {
		return err
	}
	p.Faults = append(p.Faults, p.Report.Faults...)
	return nil
}

// Open reads the description of the context that is to run, and picks the graph.
func (j Job) Open() (*blob.Context, blob.Graph, error) {
	var g blob.Graph
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
		return nil, g, fmt.Errorf("%s: %d bytes, at most %d are pushed", j.Context, info.Size(), int64(maxContext))
	}
	c, err := blob.ReadContext(f, info.Size())
	if err != nil {
		return nil, g, fmt.Errorf("%s: %w (mm qnn extract takes contexts out of other files)", j.Context, err)
	}
	var names []string
	for _, g := range c.Graphs {
		if g.Name == j.Graph || j.Graph == "" && len(c.Graphs) == 1 {
			return c, g, nil
		}
		names = append(names, g.Name)
	}
	return nil, g, fmt.Errorf("%s: no graph %q; it has %s", j.Context, j.Graph, strings.Join(names, ", "))
}

// open takes the graph, and what must come of it.
func (j Job) open(p *Plan) (err error) {
	if p.parsed, p.graph, err = j.Open(); err != nil {
		return err
	}
	for _, t := range p.graph.Outputs {
		n, ok := t.Bytes()
		if !ok {
			return fmt.Errorf("%s: the output %q has no known size", j.Context, t.Name)
		}
		p.Outputs = append(p.Outputs, Expected{t.Name, t.DType.String(), t.Dims, n})
	}
	return nil
}

// files lists what is pushed: the context, the runner, the libraries.
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

// room compares what is free with what is needed.
func (j Job) room(p *Plan, d *Device) {
	size := d.Segment
	if size <= 0 {
		size = segment
	}
	p.Need = p.Bytes + min(size, p.Bytes)
	if p.Probe.Free >= 0 && p.Probe.Free < p.Need {
		p.Faults.Add(diag.DeviceFull, d.pos(), fmt.Sprintf("%d bytes are free, %d are needed", p.Probe.Free, p.Need), diag.DeviceFull.Fix())
	}
}

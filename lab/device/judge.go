package device

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/lab/device/protocol"
	"mm-abi.org/mm/onnx/htp"
)

// pull pulls the outputs. Missing, unexpected, wrongly sized, stale and differing outputs
// are faults.
func (r *running) pull(ctx context.Context) ([][][]byte, diag.List, error) {
	var faults diag.List
	want := map[string]bool{}
	got := make([][][]byte, len(r.samples))
	for s := range got {
		for i, e := range r.p.Outputs {
			name := protocol.File(s, i)
			want["out/"+name] = true
			b, err := r.output(ctx, name, e, &faults)
			if err != nil {
				return nil, nil, err
			}
			got[s] = append(got[s], b)
		}
	}
	list, err := r.d.exec(ctx, protocol.Command("cd", r.dir)+" && "+protocol.Command("find", "out", "-type", "f"))
	if err != nil {
		return nil, nil, err
	}
	for _, name := range strings.Fields(list) {
		if !want[name] {
			faults.Add(diag.OutputCount, r.d.pos(), fmt.Sprintf("%s is not an output of the graph", name), diag.OutputCount.Fix())
		}
	}
	if n := len(r.result.Outputs); n != len(want) {
		faults.Add(diag.OutputCount, r.d.pos(), fmt.Sprintf("the runner reports %d outputs, want %d in each of %d samples", n, len(r.p.Outputs), len(got)), diag.OutputCount.Fix())
	}
	return got, faults, nil
}

// output pulls an output; nil if it is faulty.
func (r *running) output(ctx context.Context, name string, e Expected, faults *diag.List) ([]byte, error) {
	path := r.dir + "/out/" + name
	info, err := r.d.stat(ctx, path)
	switch {
	case err != nil:
		return nil, err
	case !info.Exists || info.Dir:
		faults.Add(diag.OutputCount, r.d.pos(), fmt.Sprintf("missing out/%s (%q)", name, e.Name), diag.OutputCount.Fix())
		return nil, nil
	case info.Size != e.Bytes:
		faults.Add(diag.OutputSize, r.d.pos(), fmt.Sprintf("out/%s (%q): got %d bytes, want %[6]d for %[4]s%[5]v", name, e.Name, info.Size, e.DType, e.Shape, e.Bytes), diag.OutputSize.Fix())
		return nil, nil
	case info.Time < r.begun:
		faults.Add(diag.OutputStale, r.d.pos(), fmt.Sprintf("out/%s was written %d s before the run started", name, r.begun-info.Time), diag.OutputStale.Fix())
	}
	var b bytes.Buffer
	if err := r.d.get(ctx, path, &b, e.Bytes); err != nil {
		return nil, err
	}
	if int64(b.Len()) != e.Bytes {
		faults.Add(diag.OutputSize, r.d.pos(), fmt.Sprintf("out/%s truncated: got %d bytes, want %d", name, b.Len(), e.Bytes), diag.OutputSize.Fix())
		return nil, nil
	}
	sum, err := r.d.sum(ctx, path, e.Bytes)
	if err != nil {
		return nil, err
	}
	if got := digestOf(b.Bytes()); got != "sha256:"+sum {
		faults.Add(diag.OutputDigest, r.d.pos(), fmt.Sprintf("out/%s: got %s, the device has sha256:%s", name, got, sum), diag.OutputDigest.Fix())
	}
	return b.Bytes(), nil
}

// judge checks the outputs and makes the record.
func (r *running) judge(ctx context.Context, got [][][]byte, faults diag.List) (*Outcome, error) {
	rec := r.record(got)
	grid := &evidence.Grid{}
	values := make([][][]float32, len(got))
	for s := range got {
		for i, b := range got[s] {
			v, err := r.check(s, i, b, &faults, grid)
			if err != nil {
				return nil, err
			}
			values[s] = append(values[s], v)
		}
	}
	rec.FP16Grid = grid
	r.distinct(got, &faults)
	r.fresh(&rec, &faults)
	if err := r.compare(ctx, &rec, values, &faults); err != nil {
		return nil, err
	}
	if r.result.Platform.SoC != r.p.parsed.SoC || r.result.Platform.Arch != uint32(r.p.parsed.Arch) {
		faults.Add(diag.PlatformDiffers, r.d.pos(), fmt.Sprintf("the NPU is v%d (%d), the context is for v%d (%d)", r.result.Platform.Arch, r.result.Platform.SoC, r.p.parsed.Arch, r.p.parsed.SoC), diag.PlatformDiffers.Fix())
	}
	rec.Checks = r.checks(faults)
	if err := rec.Seal(); err != nil {
		return nil, err
	}
	o := &Outcome{Record: rec, Verdicts: evidence.Judge(rec), Outputs: got, Results: r.results(got, values)}
	o.SoC, o.Promotes = evidence.Promotes(rec)
	return o, faults.Err()
}

// check checks a single output.
func (r *running) check(s, i int, b []byte, faults *diag.List, grid *evidence.Grid) ([]float32, error) {
	t := r.p.graph.Outputs[i]
	if b == nil {
		return nil, nil
	}
	where := fmt.Sprintf("out/%s (%q)", protocol.File(s, i), t.Name)
	v, err := DecodeElements(t, b)
	if err != nil { // integers that are not compared are checked as bytes
		v = nil
		if r.j.Reference != nil {
			return nil, err
		}
	}
	bad := 0
	for _, x := range v {
		if x-x != 0 {
			bad++
		}
	}
	if bad > 0 {
		faults.Add(diag.OutputNaN, r.d.pos(), fmt.Sprintf("%s: %d of %d values", where, bad, len(v)), diag.OutputNaN.Fix())
	}
	zero := !slices.ContainsFunc(v, func(x float32) bool { return x != 0 })
	if v == nil {
		zero = !slices.ContainsFunc(b, func(x byte) bool { return x != 0 })
	}
	if zero {
		faults.Add(diag.OutputZero, r.d.pos(), where, diag.OutputZero.Fix())
	}
	if t.DType == htp.Float32 {
		grid.Applies = true
		addGrid(grid, v)
	}
	return v, nil
}

// distinct reports samples with different inputs and equal outputs.
func (r *running) distinct(got [][][]byte, faults *diag.List) {
	same := func(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }
	for s := range got {
		if slices.ContainsFunc(got[s], func(b []byte) bool { return b == nil }) {
			continue
		}
		for o := range s {
			if same(got[s], got[o]) && !same(r.samples[s], r.samples[o]) {
				faults.Add(diag.OutputSame, r.d.pos(), fmt.Sprintf("samples %d and %d", o, s), diag.OutputSame.Fix())
				return
			}
		}
	}
}

// fresh reports outputs that an earlier run of the binary returned for other inputs. If the
// inputs are the same, stale outputs cannot be detected.
func (r *running) fresh(rec *evidence.Record, faults *diag.List) {
	sums := func(list []evidence.Tensor) string {
		var b strings.Builder
		for _, t := range list {
			fmt.Fprintf(&b, "%d %s %s;", t.Sample, t.Name, t.SHA256)
		}
		return b.String()
	}
	for _, old := range r.j.Before {
		if old.Nonce == rec.Nonce || old.Binary.SHA256 == rec.Binary.SHA256 && sums(old.Inputs) == sums(rec.Inputs) {
			r.reused = fmt.Sprintf("the run of %s had the same nonce or inputs: the outputs may be stale", old.Time)
		}
		if old.Binary.SHA256 == rec.Binary.SHA256 && old.Digest != "" && sums(old.Outputs) == sums(rec.Outputs) && sums(old.Inputs) != sums(rec.Inputs) {
			faults.Add(diag.OutputStale, r.d.pos(), fmt.Sprintf("the run of %s had other inputs and the same outputs", old.Time), diag.OutputStale.Fix())
			return
		}
	}
}

// compare computes the reference and the cosine.
func (r *running) compare(ctx context.Context, rec *evidence.Record, values [][][]float32, faults *diag.List) error {
	if r.j.Reference == nil {
		return nil
	}
	ref := &evidence.Reference{Engine: r.j.Engine, Model: r.j.Model, Outputs: []evidence.Tensor{}}
	least, where, complete := math.Inf(1), "", true
	for s, in := range r.values {
		out, err := r.j.Reference.Run(ctx, in)
		if err != nil {
			return fmt.Errorf("computing the reference: %w", err)
		}
		if len(out) != len(r.p.graph.Outputs) {
			return fmt.Errorf("reference has %d outputs, graph has %d", len(out), len(r.p.graph.Outputs))
		}
		for i, v := range out {
			t := r.p.graph.Outputs[i]
			b, err := EncodeElements(t, v)
			if err != nil {
				return err
			}
			ref.Outputs = append(ref.Outputs, evidence.Tensor{Sample: s, Name: t.Name, DType: t.DType.String(), Bytes: int64(len(b)), SHA256: digestOf(b)})
			if values[s][i] == nil {
				complete = false
				continue
			}
			c := Cosine(v, values[s][i])
			if !(c >= least) { // NaN is the lowest
				least, where = c, fmt.Sprintf("out/%s (%q)", protocol.File(s, i), t.Name)
			}
			if math.IsNaN(c) {
				least = math.Inf(-1)
			}
		}
	}
	rec.Reference = ref
	if complete && !math.IsInf(least, 0) {
		least = min(least, 1)
		rec.Cosine = &least
	}
	if !(least >= evidence.MinCosine) || math.IsInf(least, 1) {
		faults.Add(diag.OutputDiffers, r.d.pos(), fmt.Sprintf("%s: cosine %.6f, want at least %.2f", where, least, evidence.MinCosine), diag.OutputDiffers.Fix())
	}
	return nil
}

// record returns the record without the results of checks.
func (r *running) record(got [][][]byte) evidence.Record {
	g, c, res := r.p.graph, r.p.parsed, r.result
	rec := evidence.Record{
		Time: r.j.Time, Nonce: r.j.Nonce, Source: r.d.Source, Device: r.p.Probe.Device, Samples: len(got), Drawn: r.drawn, HVXThreads: res.HVXThreads,
		SoC:     r.soc(res.Platform.SoC, res.Platform.Arch),
		Runtime: evidence.Runtime{Backend: evidence.QNNDirect, Runner: r.p.Push[1].Digest, GoArch: res.GoArch, Build: res.Build},
		Binary:  evidence.Binary{SHA256: r.p.Push[0].Digest, Bytes: r.p.Push[0].Bytes, Build: c.Build, SoC: r.soc(c.SoC, uint32(c.Arch)), Graph: g.Name},
		Inputs:  []evidence.Tensor{}, Outputs: []evidence.Tensor{}, Signs: slices.Clone(r.p.Probe.Signs), Checks: []evidence.Check{},
	}
	if res.Simulated {
		rec.Signs = append(rec.Signs, "reported by the runner")
	}
	rec.Simulated = len(rec.Signs) > 0
	for s := range got {
		for i, t := range g.Inputs {
			b := r.samples[s][i]
			rec.Inputs = append(rec.Inputs, evidence.Tensor{Sample: s, Name: t.Name, DType: t.DType.String(), Bytes: int64(len(b)), SHA256: digestOf(b)})
		}
		for i, t := range g.Outputs {
			if b := got[s][i]; b != nil {
				rec.Outputs = append(rec.Outputs, evidence.Tensor{Sample: s, Name: t.Name, DType: t.DType.String(), Bytes: int64(len(b)), SHA256: digestOf(b)})
			}
		}
	}
	if times := slices.Sorted(slices.Values(res.Times.Infer)); len(times) > 0 {
		rec.Times = &evidence.Times{Load: res.Times.Load, Infer: times[len(times)/2], Inferences: len(times)}
	}
	return rec
}

// soc names a chip by its number. If several chips share it, the name that the device
// reports is preferred.
func (r *running) soc(model, arch uint32) evidence.SoC {
	s := evidence.SoC{Model: model, Arch: arch}
	if model == 0 {
		return s
	}
	if name := r.p.Probe.Device.SoC; r.d.Chips.Has(name, model) {
		s.Name = strings.ToUpper(name)
	} else if names := r.d.Chips.Names(model); len(names) > 0 {
		s.Name = names[0]
	}
	return s
}

// checks returns the result of each check.
func (r *running) checks(faults diag.List) []evidence.Check {
	codes := map[string]diag.Code{evidence.CheckDigest: diag.OutputDigest, evidence.CheckCount: diag.OutputCount, evidence.CheckSize: diag.OutputSize, evidence.CheckFinite: diag.OutputNaN, evidence.CheckNonzero: diag.OutputZero,
		evidence.CheckDistinct: diag.OutputSame, evidence.CheckFresh: diag.OutputStale, evidence.CheckCosine: diag.OutputDiffers}
	missing := slices.ContainsFunc(faults, func(d diag.Diagnostic) bool { return d.Code == diag.OutputCount || d.Code == diag.OutputSize })
	var out []evidence.Check
	for _, name := range evidence.Checks() {
		c := evidence.Check{Name: name, Outcome: evidence.Pass}
		for _, f := range faults {
			if f.Code == codes[name] && c.Outcome == evidence.Pass {
				c.Outcome, c.Detail = evidence.Fail, f.Detail
			}
		}
		switch {
		case c.Outcome == evidence.Fail:
		case name == evidence.CheckCosine && r.j.Reference == nil:
			c.Outcome, c.Detail = evidence.Unknown, "no reference"
		case name == evidence.CheckFresh && r.reused != "":
			c.Outcome, c.Detail = evidence.Unknown, r.reused
		case name == evidence.CheckDistinct && len(r.samples) < 2:
			c.Outcome, c.Detail = evidence.Unknown, "one sample"
		case missing && name != evidence.CheckCount && name != evidence.CheckSize:
			c.Outcome, c.Detail = evidence.Unknown, "missing outputs"
		}
		out = append(out, c)
	}
	return out
}

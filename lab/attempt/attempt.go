package attempt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"mm-abi.org/mm/assemble/compile"
	"mm-abi.org/mm/lab/judge"
	"mm-abi.org/mm/lab/records"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/window"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/qnn"
)

// Options for [Matrix.Fill].
type Options struct {
	Records string          // path of the journal of records
	Only    []string        // SCOPE or SCOPE/TARGET; if empty, all
	Again   bool            // also try cells with a record
	ONNX    runtimes.Engine // mm's own
	ORT     runtimes.Engine
	NPU     compile.Engine
	Chips   htp.Chips
	Now     func() time.Time
	Command func(cell string) string        // returns the command that tries cell SCOPE/TARGET again
	Note    func(judge.Record)              // if not nil, called with each new record
	Begin   func(cell string, stage string) // if not nil, called with each stage
}

// The minimum cosines of a result ok.
const (
	leastHost     = 0.999 // engines with the same arithmetic
	leastCore     = 0.99  // rounds the inputs of products to 8 bits
	leastFloats   = 0.99  // 16 bits
	leastIntegers = 0.9
)

// Fill tries the cells without a record, scope by scope, and returns their number. If this
// machine lacks something, the record says so, and the next call tries the cell again. An
// attempt that ctx ends leaves no record.
func (m Matrix) Fill(ctx context.Context, opt Options) (tried int, err error) {
	if err := m.checkCells(opt.Only); err != nil {
		return 0, err
	}
	rows, err := records.Read[judge.Record](opt.Records)
	if err != nil {
		return 0, err
	}
	for _, s := range m.Scopes {
		digest, err := s.digest()
		if err != nil {
			return tried, err
		}
		n, err := m.scope(ctx, s, digest, rows, opt)
		if tried += n; err != nil {
			return tried, err
		}
	}
	return tried, nil
}

// checkCells refuses cells that the matrix does not have.
func (m Matrix) checkCells(only []string) error {
	for _, name := range only {
		found := false
		for _, s := range m.Scopes {
			for _, t := range m.targets {
				found = found || name == s.Name || name == s.Name+"/"+t.name
			}
		}
		if !found {
			return fmt.Errorf("unknown cell %q", name)
		}
	}
	return nil
}

func selected(only []string, s Scope, t target) bool {
	for _, name := range only {
		if name == s.Name || name == s.Name+"/"+t.name {
			return true
		}
	}
	return len(only) == 0
}

// scope tries the remaining cells of a scope.
func (m Matrix) scope(ctx context.Context, s Scope, digest string, rows []judge.Record, opt Options) (tried int, err error) {
	var sub *subject
	var refused error
	defer func() {
		if sub != nil {
			err = errors.Join(err, sub.close())
		}
	}()
	for _, t := range m.targets {
		r := last(rows, key(digest, t))
		if !selected(opt.Only, s, t) || r != nil && r.Result != judge.Skipped && !opt.Again {
			continue
		}
		if sub == nil && refused == nil {
			sub, refused = open(ctx, s)
		}
		var fresh judge.Record
		if refused != nil {
			fresh = m.unopened(s, t, refused, opt)
		} else if fresh, err = m.attempt(ctx, sub, t, opt); err != nil {
			return tried, err
		}
		if ctx.Err() != nil {
			return tried, ctx.Err()
		}
		fresh.Cell = key(digest, t)
		if err := records.Append(context.WithoutCancel(ctx), opt.Records, fresh); err != nil {
			return tried, err
		}
		if tried++; opt.Note != nil {
			opt.Note(fresh)
		}
	}
	return tried, nil
}

// unopened returns the record of a cell whose scope cannot be opened: unsupported
// if mm does not write or compute such layers, otherwise failed.
func (m Matrix) unopened(s Scope, t target, err error, opt Options) judge.Record {
	c := m.cell(s, t)
	r := judge.Record{
		Model: c.Model, Scope: c.Scope, Target: c.Target, Backend: c.Backend, Simulated: t.npu(), Result: judge.OK,
		Layers: s.Layers, Reached: "open", Command: opt.Command(s.Name + "/" + t.name),
	}
	setResult(&r, err)
	return r
}

// attempt tries a cell. A failure is recorded; only ctx causes an error.
func (m Matrix) attempt(ctx context.Context, sub *subject, t target, opt Options) (judge.Record, error) {
	c, name := m.cell(sub.scope, t), sub.scope.Name+"/"+t.name
	r := judge.Record{
		Model: c.Model, Scope: c.Scope, Target: c.Target, Backend: c.Backend, Simulated: t.npu(), Result: judge.OK,
		Layers: &[2]int{sub.layers[0], sub.layers[1]}, ModelLayers: sub.all, Unit: sub.unit, Weights: sub.weights, Inputs: compile.InputsDigest(sub.inputs), Command: opt.Command(name),
	}
	began := opt.Now()
	at := func(stage string) {
		if r.Reached = stage; opt.Begin != nil {
			opt.Begin(name, stage)
		}
	}
	at("open")
	var err error
	switch {
	case t.npu():
		err = npu(ctx, sub, t, opt, at, &r)
	case t.name == Core:
		err = core(ctx, sub, at, &r)
	case t.name == ONNX:
		err = ours(ctx, sub, opt.ONNX, at, &r)
	default:
		err = native(ctx, sub, opt.ORT, at, &r)
	}
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	r.Seconds = math.Round(opt.Now().Sub(began).Seconds()*100) / 100
	setResult(&r, err)
	return r, nil
}

// errUnsupported reports a target that does not suit the scope.
var errUnsupported = errors.New("unsupported")

// setResult sets the result of an attempt.
func setResult(r *judge.Record, err error) {
	var refused *qnn.Left
	switch {
	case err == nil:
		r.Reached = "done"
		return
	case errors.Is(err, errMissing), errors.Is(err, runtimes.ErrUnavailable):
		r.Result = judge.Skipped
	case errors.As(err, &refused):
		r.Result = judge.Unsupported
		for _, n := range refused.Nodes {
			if !slices.Contains(r.Unsupported, n.Op) {
				r.Unsupported = append(r.Unsupported, n.Op)
			}
		}
		slices.Sort(r.Unsupported)
		if refused.All > 0 && len(refused.Nodes) > 0 {
			r.Delegate = new(1 - float64(len(refused.Nodes))/float64(refused.All))
		}
	case errors.Is(err, errUnsupported), errors.Is(err, window.ErrUnsupported):
		r.Result = judge.Unsupported
	default:
		r.Result = judge.Failed
	}
	r.Failure = r.Reached + ": " + brief(err)
}

// errMissing reports a matrix that lacks inputs.
var errMissing = errors.New("missing inputs")

// brief returns the first line of an error, of at most maxFailure bytes and without the
// names of temporary files, which differ each time.
func brief(err error) string {
	text, _, _ := strings.Cut(temporary().ReplaceAllString(err.Error(), ""), "\n")
	return strings.ToValidUTF8(text[:min(len(text), maxFailure)], "")
}

var temporary = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^ "]*/mm-[a-z]+-[0-9]+/`) })

const maxFailure = 200

// compared records the figures, of which the lowest cosine counts, and fails if it is below
// least.
func compared(r *judge.Record, figures []compile.Output, reference string, least float64) error {
	r.Reference, r.Cosine, r.MaxAbs = reference, new(1.0), new(0.0)
	for _, f := range figures {
		*r.Cosine, *r.MaxAbs = min(*r.Cosine, f.Cosine), max(*r.MaxAbs, f.MaxAbs)
	}
	if *r.Cosine < least {
		return fmt.Errorf("cosine to %[2]s: got %.6[1]f, want at least %[3]g", *r.Cosine, reference, least)
	}
	return nil
}

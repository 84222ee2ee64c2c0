package models

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Watched is a reference whose newer versions replace a model.
type Watched struct {
	Index int // in the caller's list
	Ref   string
	Model *Model // the present version; updated by [Pool.Watch]
	Seen  string // its digest
	// Renew returns the verified version that the reference means now, and its digest, or a
	// nil source if the digest is one of seen.
	Renew func(ctx context.Context, seen ...string) (src *Source, digest string, err error)
	// Changed is called after a newer version has replaced the present one.
	Changed func(m *Model)

	refused string // a digest that was not usable
	fault   string // the last error of the reference
}

// Watch replaces models by newer versions until ctx ends. It looks for them at every interval,
// if it is not 0, and at each signal. A version that cannot be verified or loaded is refused
// once, by a line of the log, and the present one remains.
func (p *Pool) Watch(ctx context.Context, list []*Watched, every time.Duration, now <-chan os.Signal) {
	var tick <-chan time.Time
	if every > 0 {
		t := time.NewTicker(every)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		case <-now:
			for _, w := range list {
				w.refused, w.fault = "", ""
			}
		}
		for _, w := range list {
			p.renew(ctx, w)
		}
	}
}

// renew looks for a newer version of a reference.
func (p *Pool) renew(ctx context.Context, w *Watched) {
	src, digest, err := w.Renew(ctx, w.Seen, w.refused)
	if err == nil && src == nil {
		if w.fault = ""; digest != w.refused { // another name of the present version
			w.Seen = digest
		}
		return
	}
	var next *Model
	if err == nil {
		next, err = p.Replace(w.Model, *src)
	}
	present := id(w.Model.Build())
	switch {
	case ctx.Err() != nil:
		if next != nil { // the end of the pool closes it
			w.Model, w.Seen = next, digest
		}
	case err != nil && digest == "":
		if w.fault != err.Error() {
			p.opt.Log(fmt.Sprintf("watching %s: %v; %s remains", w.Ref, err, present))
		}
		w.fault = err.Error()
	case err != nil:
		p.opt.Log(fmt.Sprintf("refused %s of %s: %v; %s remains", digest, w.Ref, err, present))
		w.refused = digest
	default:
		w.Model, w.Seen, w.refused, w.fault = next, digest, "", ""
		w.Changed(next)
		p.opt.Log(fmt.Sprintf("replaced %s by %s (%s)", present, id(next.Build()), digest))
	}
}

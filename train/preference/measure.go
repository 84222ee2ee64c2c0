package preference

import (
	"context"
	"maps"
	"slices"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train"
)

// MeasureOptions configure a measurement.
type MeasureOptions struct {
	N       int    // held-out errands
	Dir     string // folder of the recipe's paths; "": as recorded in the checkpoint
	Threads int    // 0: all of the machine
}

// Measured compares the core before the first step with a checkpoint on the
// same held-out pairs.
type Measured struct {
	Before  train.Evaluation `json:"before"`
	After   train.Evaluation `json:"after"`
	Changes []train.Change   `json:"changes"`
}

// Measure evaluates the start of the run and the checkpoint at path on the same
// held-out pairs. It writes nothing.
func Measure(ctx context.Context, path string, opt MeasureOptions) (Measured, error) {
	var out Measured
	c, err := OpenCheckpoint(path)
	if err != nil {
		return out, err
	}
	defer c.Close()
	if opt.Dir == "" {
		opt.Dir = c.Dir()
	}
	workers := pool.New(opt.Threads)
	defer workers.Close()
	r := c.Preference.Recipe
	m, tok, err := r.Core.open(opt.Dir, r.Seed)
	if err != nil {
		return out, err
	}
	_, held, err := r.Data.open(opt.Dir, r.Seed, opt.N)
	if err != nil {
		return out, err
	}
	t, err := NewTask(r, m, tok, held, held, workers) // the pairs of training are not needed
	if err != nil {
		return out, err
	}
	var before, after []Verdict
	if out.Before, before, err = t.Try(); err != nil {
		return out, err
	}
	if err := c.ReadInto(t.Tensors()); err != nil {
		return out, err
	}
	if err := ctx.Err(); err != nil {
		return out, err
	}
	m.Stale()
	t.Refresh()
	if out.After, after, err = t.Try(); err != nil {
		return out, err
	}
	out.Changes = changes(before, after)
	return out, nil
}

// changes compares the verdicts on each kind of errand and on all.
func changes(before, after []Verdict) []train.Change {
	all := map[string]*train.Change{}
	add := func(kind string, was, is bool) {
		if all[kind] == nil {
			all[kind] = &train.Change{Kind: kind}
		}
		all[kind].Add(was, is)
	}
	for i, b := range before {
		if b.Kind == "" {
			continue
		}
		a := after[i]
		for _, kind := range []string{b.Kind, "all"} {
			add(kind+routeScore, b.Routes, a.Routes)
			add(kind+rightScore, b.Right, a.Right)
		}
	}
	var out []train.Change
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[kind])
	}
	return out
}

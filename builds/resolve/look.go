package resolve

import (
	"context"
	"errors"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
)

// Look finds the manifests that Resolve would choose, as far as the sources
// have them, and fetches nothing. A missing module is absent from the result.
// An unusable one is nil in it, and the list holds the reason: the faults of a
// module's folder; faults of an artifact, and versions that do not fit, as
// warnings.
func Look(ctx context.Context, g *builds.Graph, opt Options) (builds.Resolved, diag.List, error) {
	opt.Locked = false
	r := newRun(g, opt)
	resolved := builds.Resolved{}
	var list diag.List
	for { // each iteration finishes or leaves out one more module
		chosen, worst, err := r.search(ctx, wantsOf(g))
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		var bad *moduleError
		switch {
		case errors.As(err, &bad):
			list = append(list, r.unusable(bad)...)
			r.ignored[bad.name], resolved[bad.name] = true, nil
		case errors.Is(err, errSteps):
			list.Warn(diag.TooManySteps, diag.Pos{File: g.File}, err.Error(), "")
			return resolved, list, nil
		case err != nil:
			return nil, nil, err
		case chosen == nil:
			r.ignored[worst.name] = true
			if len(worst.available) > 0 {
				resolved[worst.name] = nil
				for _, d := range r.failure(worst) {
					list.Warn(d.Code, d.Pos, d.Detail, d.Hint)
				}
			}
		default:
			for name, c := range chosen {
				if resolved[name], err = c.module.manifest(ctx); err != nil {
					return nil, nil, err
				}
			}
			return resolved, list, nil
		}
	}
}

// unusable reports why an existing module cannot be used.
func (r *run) unusable(bad *moduleError) (list diag.List) {
	faults, ok := diag.From(bad.err)
	if ok && !bad.stored {
		return faults
	}
	list.Warn(diag.NotChecked, r.pos(bad.name), bad.err.Error(), "")
	return list
}

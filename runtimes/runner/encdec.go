package runner

import (
	"context"
	"fmt"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes/encdec"
)

// HasLoop reports whether a build is an encoder-decoder that writes text.
func HasLoop(b *builds.Build) bool { return loopOf(b) != "" }

// loopOf returns the name of the first decoder with a loop block, or "".
func loopOf(b *builds.Build) string {
	for _, d := range b.Assembly.Decoders {
		if m := b.Manifests[d.Name]; m != nil && m.Loop != nil {
			return d.Name
		}
	}
	return ""
}

// Transcriber opens the build's decoder with a loop block; see [encdec.Model]. The
// caller closes it before the runner.
func (r *Runner) Transcriber(ctx context.Context) (*encdec.Model, error) {
	f := r.parts.Function(loopOf(r.build))
	if f == nil {
		var list diag.List
		list.Add(diag.NoLoop, diag.Pos{}, fmt.Sprintf("no decoder of %s has a loop block", r.build.Assembly.Name), "")
		return nil, list.Err()
	}
	return encdec.Open(ctx, f)
}

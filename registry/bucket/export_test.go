package bucket

import "context"

// Continue returns a mirror that continues the closed mirror m.
func Continue(ctx context.Context, m *Mirror) *Mirror {
	next := NewMirror(ctx, m.b, m.place, m.opt)
	next.sweeper = m.sweeper
	return next
}

// Sweep sweeps the pieces below a place twice, as two saves do.
func Sweep(ctx context.Context, b Bucket, place Address) error {
	var s sweeper
	if err := s.sweep(ctx, b, place); err != nil {
		return err
	}
	return s.sweep(ctx, b, place)
}

// The limits of [Source].
const (
	MaxExpanded = maxExpanded
	RangeSize   = rangeSize
)

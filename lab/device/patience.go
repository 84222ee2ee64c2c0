package device

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"mm-abi.org/mm/lab/device/protocol"
)

// The default time limits: patience for a step on a device, plus the time for the bytes
// that it transfers or hashes, and farewell for the cleanup after a run.
const (
	patience = time.Minute
	farewell = 10 * time.Second
	slowest  = 256 << 10 // bytes sent per second
	hashing  = 8 << 20   // bytes hashed per second
)

// within executes a step with a time limit, extended by more seconds.
func (d *Device) within(ctx context.Context, more int64, step func(context.Context) error) error {
	limit := cmp.Or(d.Patience, patience) + time.Duration(more)*time.Second
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := step(limited)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		err = fmt.Errorf("%w: no answer within %s", protocol.ErrLost, limit)
	}
	return err
}

// long runs a command with a time limit extended by more seconds.
func (d *Device) long(ctx context.Context, more int64, command string) (out protocol.CommandOutput, err error) {
	err = d.within(ctx, more, func(ctx context.Context) error {
		out, err = d.Lane.Exec(ctx, command)
		return err
	})
	return out, d.lost(err)
}

func (d *Device) stat(ctx context.Context, name string) (info protocol.Info, err error) {
	err = d.within(ctx, 0, func(ctx context.Context) error {
		info, err = d.Lane.Stat(ctx, name)
		return err
	})
	return info, d.lost(err)
}

func (d *Device) put(ctx context.Context, name string, r io.Reader, bytes int64) error {
	return d.lost(d.within(ctx, bytes/slowest, func(ctx context.Context) error { return d.Lane.Put(ctx, name, r) }))
}

func (d *Device) get(ctx context.Context, name string, w io.Writer, limit int64) error {
	return d.lost(d.within(ctx, limit/slowest, func(ctx context.Context) error { return d.Lane.Get(ctx, name, w, limit) }))
}

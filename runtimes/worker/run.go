package worker

import (
	"context"
	"errors"
	"fmt"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// lender is a function that lends its results for the duration of use. The results of
// other functions belong to the caller.
type lender interface {
	Lend(ctx context.Context, in map[string]runtimes.Tensor, use func(out map[string]runtimes.Tensor) error) error
}

// run computes and sends the results, or returns an error. Inputs are used in place,
// in the frame or in the shared memory.
func (s *server) run(ctx context.Context, f *wire.Frame, send func(*wire.Call, [][]byte)) error {
	var req wire.Call
	if err := f.Decode(&req); err != nil {
		return err
	}
	s.mu.Lock()
	model, ok := s.model.(runtimes.Function)
	s.mu.Unlock()
	if !ok {
		return errors.New("no function is open")
	}
	room, err := s.room(req.Room)
	if err != nil {
		return err
	}
	in, err := wire.Unpacked(req.Tensors, f.Payload, req.Room, func(at, n int64) ([]byte, error) { return room[at : at+n : at+n], nil })
	if err != nil {
		return err
	}
	from := int64(0) // after the inputs, which results may alias
	for _, t := range req.Tensors {
		if t.Shared {
			from = max(from, wire.Fit(in))
		}
	}
	use := func(out map[string]runtimes.Tensor) error {
		var r wire.Call
		var payload [][]byte
		var err error
		r.Tensors, payload, err = wire.Tensors(out, req.Room, from, func(at int64, b []byte) error { copy(room[at:], b); return nil })
		if err == nil {
			send(&r, payload)
		}
		return err
	}
	if l, ok := model.(lender); ok {
		return l.Lend(ctx, in, use)
	}
	out, err := model.Run(ctx, in)
	if err != nil {
		return err
	}
	return use(out)
}

// room returns a span of the shared memory.
func (s *server) room(r *wire.Room) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	all := int64(len(s.shared))
	if r.At < 0 || r.Size < 0 || r.Size > all || r.At > all-r.Size {
		return nil, fmt.Errorf("bad room: %d bytes at %d of %d", r.Size, r.At, all)
	}
	return s.shared[r.At : r.At+r.Size : r.At+r.Size], nil
}

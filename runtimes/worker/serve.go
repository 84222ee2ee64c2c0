package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// Beat is the interval of the child's signs of life.
const Beat = 500 * time.Millisecond

// grace is how long Serve waits for a computing engine after the end of its input.
const grace = time.Second

// Serve answers requests from r on w with the engine until r ends. Errors of the engine
// are sent in replies; Serve returns errors of the pipe.
func Serve(ctx context.Context, e runtimes.Engine, r io.Reader, w io.Writer) error {
	first, err := wire.Read(r, 0)
	if errors.Is(err, io.EOF) {
		return nil
	}
	var hello wire.Hello
	if err == nil {
		err = first.Decode(&hello)
	}
	if err != nil {
		return fmt.Errorf("reading the greeting: %w", err)
	}
	s := &server{engine: e, out: wire.NewWriter(w), cancels: make(map[uint64]context.CancelFunc), sequences: make(map[uint64]*heldSequence)}
	mine := wire.Hello{Version: wire.Version}
	if hello.Version != wire.Version {
		err = fmt.Errorf("protocol version mismatch: mm has %d, mm-native %d", hello.Version, wire.Version)
	} else {
		mine.Info, err = e.Probe(ctx)
	}
	if err == nil && hello.Shared > 0 {
		if s.shared = attach(hello.Shared); s.shared != nil {
			mine.Shared = hello.Shared
		}
	}
	mine.Fault = wire.NewFault(err)
	if err := s.out.Write(wire.KindHello, 0, mine); err != nil || mine.Fault != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	var beating sync.WaitGroup
	beating.Go(func() { s.beat(ctx) })
	err = s.listen(ctx, r)
	end()
	beating.Wait()
	return errors.Join(err, s.end())
}

// server is the state of one child.
type server struct {
	engine runtimes.Engine
	out    *wire.Writer
	shared []byte // memory shared with the parent; nil: none

	mu        sync.Mutex
	model     runtimes.Model // nil: not open
	cancels   map[uint64]context.CancelFunc
	sequences map[uint64]*heldSequence
	running   sync.WaitGroup
}

// heldSequence is a sequence and the lock that orders its requests.
type heldSequence struct {
	turn sync.Mutex
	runtimes.Sequence
}

func (s *server) beat(ctx context.Context) {
	tick := time.NewTicker(Beat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if s.out.Write(wire.KindBeat, 0, nil) != nil {
				return // the parent is gone, so the input ends too
			}
		}
	}
}

// listen starts requests until r ends.
func (s *server) listen(ctx context.Context, r io.Reader) error {
	for {
		f, err := wire.Read(r, 0)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch f.Kind {
		case wire.KindCancel:
			s.mu.Lock()
			if cancel := s.cancels[f.ID]; cancel != nil {
				cancel()
			}
			s.mu.Unlock()
		case wire.KindRequest, wire.KindRun:
			ctx, cancel := context.WithCancel(ctx)
			s.mu.Lock()
			_, twice := s.cancels[f.ID]
			s.cancels[f.ID] = cancel
			s.mu.Unlock()
			if twice {
				cancel()
				return fmt.Errorf("duplicate request id %d", f.ID)
			}
			s.running.Go(func() { s.answer(ctx, f, cancel) })
		default:
			return fmt.Errorf("frame kind %d, want a request", f.Kind)
		}
	}
}

// answer performs one request.
func (s *server) answer(ctx context.Context, f *wire.Frame, cancel context.CancelFunc) {
	defer cancel()
	if f.Kind == wire.KindRun {
		// Lent results are written before the engine takes them back.
		if err := s.run(ctx, f, func(c *wire.Call, payload [][]byte) { s.reply(f, wire.KindRan, c, payload) }); err != nil {
			s.reply(f, wire.KindReply, wire.Reply{Fault: wire.NewFault(err)}, nil)
		}
		return
	}
	var req wire.Request
	err := f.Decode(&req)
	var reply wire.Reply
	var payload [][]byte
	if err == nil {
		reply, payload, err = s.do(ctx, f, &req)
	}
	reply.Fault = wire.NewFault(err)
	s.reply(f, wire.KindReply, reply, payload)
}

// reply sends the last frame of a request.
func (s *server) reply(f *wire.Frame, kind wire.Kind, reply any, payload [][]byte) {
	s.mu.Lock()
	delete(s.cancels, f.ID)
	s.mu.Unlock()
	if err := s.out.Write(kind, f.ID, reply, payload...); err != nil {
		// Report a reply that is too large; if the pipe is broken, the input ends
		// too.
		s.out.Write(wire.KindReply, f.ID, wire.Reply{Fault: wire.NewFault(err)})
	}
}

func (s *server) do(ctx context.Context, f *wire.Frame, req *wire.Request) (wire.Reply, [][]byte, error) {
	switch req.Op {
	case wire.OpOpen:
		r, err := s.open(ctx, req.Open)
		return r, nil, err
	case wire.OpSequence:
		r, err := s.begin(ctx, req.Options)
		return r, nil, err
	case wire.OpAsk:
		r, err := s.ask(ctx, req.Ask)
		return r, nil, err
	}
	s.mu.Lock()
	q := s.sequences[req.Sequence]
	s.mu.Unlock()
	if q == nil {
		return wire.Reply{}, nil, fmt.Errorf("sequence %d is %w", req.Sequence, runtimes.ErrClosed)
	}
	q.turn.Lock()
	defer q.turn.Unlock()
	return s.follow(ctx, q, f, req)
}

// follow performs a request on a sequence.
func (s *server) follow(ctx context.Context, q *heldSequence, f *wire.Frame, req *wire.Request) (r wire.Reply, payload [][]byte, err error) {
	switch req.Op {
	case wire.OpFeed:
		var in []runtimes.Positions
		if in, err = wire.Fed(req.Feed, f.Payload); err == nil {
			err = q.Feed(ctx, in...)
		}
	case wire.OpTruncate:
		err = q.Truncate(req.N)
	case wire.OpGenerate:
		if req.Generation == nil {
			return r, nil, errors.New("missing options of a generation")
		}
		r.Stop, err = q.Generate(ctx, *req.Generation, func(id int32) error {
			return s.out.Write(wire.KindToken, f.ID, nil, wire.Bytes([]int32{id}))
		})
	case wire.OpLogits:
		scorer, ok := q.Sequence.(runtimes.Scorer)
		if !ok {
			return r, nil, errors.New("the engine does not provide logits")
		}
		var logits []float32
		logits, err = scorer.Logits(ctx)
		payload = [][]byte{wire.Bytes(logits)}
	case wire.OpHidden:
		states, ok := q.Sequence.(runtimes.Hidden)
		if !ok {
			return r, nil, &runtimes.Unavailable{What: "the core's states", Why: "the engine does not provide them", Hint: "--backend core provides them"}
		}
		var x []float32
		x, err = states.Hidden(req.From, req.N)
		payload = [][]byte{wire.Bytes(x)}
	case wire.OpClose:
		err = q.Close()
		s.mu.Lock()
		delete(s.sequences, req.Sequence)
		s.mu.Unlock()
	default:
		err = fmt.Errorf("unknown operation %q", req.Op)
	}
	r.Len = q.Len()
	return r, payload, err
}

// end closes what is open, unless the engine does not return.
func (s *server) end() error {
	done := make(chan struct{})
	go func() { // abandoned after grace: the process ends
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(grace):
		return errors.New("the engine is still computing")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, q := range s.sequences {
		errs = append(errs, q.Close())
	}
	if s.model != nil {
		errs = append(errs, s.model.Close())
	}
	return errors.Join(errs...)
}

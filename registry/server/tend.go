package server

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"mm-abi.org/mm/registry"
)

// How often [Server.Tend] looks, and how long names must have been at rest
// before index.json is written.
const (
	tendEvery  = 10 * time.Second
	sweepEvery = time.Minute
	restFor    = 30 * time.Second
)

// Tend runs the background work until ctx ends: it makes index.json complete
// when pushes have ceased, drops abandoned uploads, and measures the store
// again if its size is limited. It returns ctx's error.
func (s *Server) Tend(ctx context.Context) error {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	var swept time.Time
	for {
		if !s.opt.ReadOnly && time.Since(swept) >= sweepEvery {
			swept = time.Now()
			s.sweep(ctx)
		}
		if at := s.edited.Load(); at > 0 && time.Since(time.Unix(0, at)) >= restFor && s.edited.CompareAndSwap(at, 0) {
			_ = s.store.Compact(ctx) // Close tries again, and nothing is lost meanwhile
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// sweep drops old uploads. Failures are retried at the next sweep.
func (s *Server) sweep(ctx context.Context) {
	if n, err := s.store.DropUploads(ctx, s.opt.UploadAge); err == nil && n > 0 {
		_ = s.room.measure(ctx)
	}
}

// changed notes that names changed.
func (s *Server) changed() { s.edited.Store(time.Now().UnixNano()) }

// measureEvery bounds how often a full store is measured again, to see whether
// something was removed.
const measureEvery = 5 * time.Second

// room is the remaining size limit of the store. It counts incoming bytes and
// measures the store when the count reaches the limit.
type room struct {
	store *registry.Store
	limit int64 // bytes; 0: none

	mu   sync.Mutex
	used int64
	at   time.Time // of the last measurement
}

// errFull is the answer where the limit is reached.
var errFull = fault(http.StatusInsufficientStorage, "DENIED", "the registry has no room for that (mm registry serve --max-store)")

func (r *room) measure(ctx context.Context) error {
	if r.limit <= 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.measureLocked(ctx)
}

func (r *room) measureLocked(ctx context.Context) error {
	used, err := r.store.Usage(ctx)
	if err == nil {
		r.used, r.at = used, time.Now()
	}
	return err
}

// take reserves n bytes, or refuses them.
func (r *room) take(ctx context.Context, n int64) error {
	if r.limit <= 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > r.limit-r.used && time.Since(r.at) > measureEvery {
		if err := r.measureLocked(ctx); err != nil {
			return err
		}
	}
	if n > r.limit-r.used {
		return errFull
	}
	r.used += n
	return nil
}

// give returns reserved bytes that were dropped.
func (r *room) give(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n
}

// full reports whether err is a full disk or the store's limit.
func full(err error) bool { return errors.Is(err, errFull) || diskFull(err) }

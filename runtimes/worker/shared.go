package worker

import (
	"os"
	"slices"
	"sync"

	"mm-abi.org/mm/runtimes/worker/wire"
)

// Sizes of the memory that is shared with a child.
const (
	// sharedBytes is all of it. Of a request that it has no room for, the
	// tensors go through the pipe. Pages that nothing was written to do not
	// exist.
	sharedBytes = 256 << 20
	// shareFrom is the size of a request's tensors from which the memory is
	// faster than the pipe (BenchmarkEcho).
	shareFrom = 16 << 10
)

// shared is memory that a child sees as well. mm reads and writes it as a file
// and maps nothing: whatever the child does to it, mm gets bytes or an error,
// and what it got changes no more.
type shared struct {
	file *os.File

	mu   sync.Mutex
	used []wire.Room // in the order of their places
}

// take reserves a room of n bytes; nil when there is none.
func (s *shared) take(n int64) *wire.Room {
	if s == nil || n > sharedBytes {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := int64(0)
	for i, r := range s.used {
		if n <= r.At-at {
			return s.reserve(i, wire.Room{At: at, Size: n})
		}
		at = r.At + r.Size
	}
	if n > sharedBytes-at {
		return nil
	}
	return s.reserve(len(s.used), wire.Room{At: at, Size: n})
}

func (s *shared) reserve(i int, r wire.Room) *wire.Room {
	s.used = slices.Insert(s.used, i, r)
	return &r
}

// give ends a reservation.
func (s *shared) give(r *wire.Room) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = slices.DeleteFunc(s.used, func(u wire.Room) bool { return u == *r })
}

// read copies bytes of a room.
func (s *shared) read(r *wire.Room, at, n int64) ([]byte, error) {
	b := make([]byte, n)
	_, err := s.file.ReadAt(b, r.At+at)
	return b, err
}

// write copies bytes into a room.
func (s *shared) write(r *wire.Room, at int64, b []byte) error {
	_, err := s.file.WriteAt(b, r.At+at)
	return err
}

func (s *shared) close() {
	if s != nil {
		s.file.Close() // what was in it is gone either way
	}
}

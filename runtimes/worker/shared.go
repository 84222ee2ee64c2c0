package worker

import (
	"os"
	"slices"
	"sync"

	"mm-abi.org/mm/runtimes/worker/wire"
)

// Sizes of the memory shared with a child.
const (
	// sharedBytes is the total. The tensors of a request that does not fit use the
	// pipe. Pages that were never written take no memory.
	sharedBytes = 256 << 20
	// shareFrom is the size of a request's tensors from which shared memory is
	// faster than the pipe (BenchmarkEcho).
	shareFrom = 16 << 10
)

// shared is memory shared with a child. The parent reads and writes it as a file and
// does not map it: whatever the child does to it, the parent gets bytes or an error,
// and those bytes do not change later.
type shared struct {
	file *os.File

	mu   sync.Mutex
	used []wire.Room // in order of position
}

// take reserves n bytes; it returns nil if there is no room.
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

// free frees a reservation.
func (s *shared) free(r *wire.Room) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = slices.DeleteFunc(s.used, func(u wire.Room) bool { return u == *r })
}

// read copies bytes out of a room.
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
		s.file.Close() // idempotent; the contents are not needed any longer
	}
}

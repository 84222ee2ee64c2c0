package media

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
)

// Vectors are what an input comes to.
type Vectors struct {
	Numbers []float32 // n × Width
	Width   int
	Assumed []string // what the encoder's manifest did not say
}

// Key is a hash of what vectors depend on.
type Key [sha256.Size]byte

// NewKey hashes parts; where one ends and the next begins counts.
func NewKey(parts ...[]byte) Key {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(p))))
		h.Write(p)
	}
	return Key(h.Sum(nil))
}

// Held are vectors with the id that they have in this process.
type Held struct {
	Vectors
	ID int32 // of each of its positions: below zero, as no token is
}

// Memory holds vectors, those used last. The zero value is ready and safe for
// concurrent use.
type Memory struct {
	mu    sync.Mutex
	held  map[Key]Held
	order []Key // the one used last at the end
	size  int   // numbers held
	last  int32 // the id given last
}

// maxNumbers bounds the numbers that a Memory holds: 64 MiB of them.
const maxNumbers = 16 << 20

// Get gives what is remembered under a key.
func (c *Memory) Get(k Key) (Held, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.held[k]
	if ok {
		c.order = append(slices.DeleteFunc(c.order, func(o Key) bool { return o == k }), k)
	}
	return f, ok
}

// Put remembers vectors, forgets those of longest ago where there are too many,
// and gives them an id. What another put meanwhile stays.
func (c *Memory) Put(k Key, v Vectors) Held {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.held[k]; ok {
		return f
	}
	c.last--
	f := Held{v, c.last}
	if c.held == nil {
		c.held = map[Key]Held{}
	}
	c.held[k], c.size = f, c.size+len(v.Numbers)
	c.order = append(c.order, k)
	for c.size > maxNumbers && len(c.order) > 1 {
		c.size -= len(c.held[c.order[0]].Numbers)
		delete(c.held, c.order[0])
		c.order = c.order[1:]
	}
	return f
}

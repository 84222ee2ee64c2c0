package infer

import "fmt"

// kvChunks returns the number of chunks that hold the positions below n.
func kvChunks(n int) int { return (n + kvChunk - 1) / kvChunk }

// Blank overwrites the discarded positions from n on.
func (c *kvCache) Blank(n int) {
	c.Own(n)
	zero := make([]float32, max(c.shape.Dim, c.shape.LocalDim))
	for pos := n; pos < len(c.chunks)*kvChunk; pos++ {
		for layer, s := range c.slots {
			zero := zero[:s.dim]
			for head := range s.heads {
				c.Store(layer, head, pos, zero, zero)
			}
		}
	}
}

// Adopt replaces the contents by chunks saved from a cache of the same shape
// and type. The slices are retained.
func (c *kvCache) Adopt(chunks [][]byte) error {
	for _, b := range chunks {
		if len(b) != c.ChunkBytes() {
			return fmt.Errorf("bad chunk size: got %d bytes, want %d", len(b), c.ChunkBytes())
		}
	}
	c.chunks, c.shared = chunks, make([]int, len(chunks))
	return nil
}

package wasm

import "github.com/tetratelabs/wazero/experimental"

// memory is the linear memory of one instance: an address range of the size of
// its limit, backed by the system when touched.
type memory struct {
	data    []byte
	free    func()
	peak    int64
	refused bool // the guest exceeded it
}

// Allocate implements experimental.MemoryAllocator.
func (m *memory) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// Reallocate implements experimental.LinearMemory.
func (m *memory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.data)) {
		m.refused = true
		return nil
	}
	m.peak = max(m.peak, int64(size))
	return m.data[:size]
}

// Free implements experimental.LinearMemory.
func (m *memory) Free() {
	if m.free != nil {
		m.free()
	}
	m.free, m.data = nil, nil
}

package gguf

import "mm-abi.org/mm/core/tensor"

// geometry returns the number of elements and of bytes in a block of type t.
func geometry(t tensor.Type) (elems, bytes int, ok bool) {
	return t.BlockSize(), t.BlockBytes(), t.Known()
}

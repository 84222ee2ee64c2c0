package llamalib

import (
	"slices"
	"strings"

	"mm-abi.org/mm/core/cpu"
	"mm-abi.org/mm/core/gguf"
)

// ExtraBuffers reports whether the library may pack the weights of a file in buffers of
// its processor. On processors with AMX it aborts if matrices of single heads (latent
// attention) lie in such a buffer.
func ExtraBuffers(path string) bool { return extraBuffers(path, cpu.Machine()) }

func extraBuffers(path string, machine []cpu.Level) bool {
	if !slices.Contains(machine, cpu.AMX) {
		return true
	}
	f, err := gguf.Open(path)
	if err != nil {
		return true // the library reports the fault
	}
	defer f.Close()
	return !slices.ContainsFunc(f.Names(), func(name string) bool { return strings.HasSuffix(name, ".attn_k_b.weight") })
}

//go:build !purego

package cpu

import (
	"slices"

	"golang.org/x/sys/cpu"
)

// detect returns the levels of the processor, the best last.
func detect() []level {
	out := []level{{Plain, nil}}
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA || !cpu.X86.HasF16C {
		return out
	}
	out = append(out, level{AVX2, []Level{AVX2}})
	if cpu.X86.HasAVXVNNI {
		out = append(out, level{AVXVNNI, []Level{AVX2, AVXVNNI}})
	}
	if !cpu.X86.HasAVX512F || !cpu.X86.HasAVX512BW || !cpu.X86.HasAVX512DQ || !cpu.X86.HasAVX512VL {
		return out
	}
	out = append(out, level{AVX512, []Level{AVX2, AVX512}})
	if !cpu.X86.HasAVX512VNNI {
		return out
	}
	best := []Level{AVX2, AVX512, VNNI}
	if cpu.X86.HasAVX512BF16 {
		best = append(best, BF16)
	}
	out = append(out, level{VNNI, best})
	if cpu.X86.HasAMXTile && cpu.X86.HasAMXInt8 && tilesPermitted() {
		out = append(out, level{AMX, append(slices.Clone(best), AMX)})
	}
	return out
}

//go:build !purego

package cpu

import "golang.org/x/sys/cpu"

// detect returns the levels of the processor, the best last.
func detect() []level {
	out := []level{{Plain, nil}, {NEON, []Level{NEON}}}
	if cpu.ARM64.HasASIMDDP {
		out = append(out, level{DotProd, []Level{NEON, DotProd}})
		if cpu.ARM64.HasI8MM {
			out = append(out, level{I8MM, []Level{NEON, DotProd, I8MM}})
		}
	}
	return out
}

// Package cpu reports which instructions the kernels of this process may use.
//
// A [Level] is a set of instructions that kernels are written for. The process
// uses the best level of the processor; the environment variable MM_CPU selects
// a lower one, so that every level can be tested and measured on a better
// machine. Kernels of different levels may round differently; those of one
// level compute the same bits with any number of threads.
package cpu

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Level is a set of instructions.
type Level string

// The levels. Each comment names the instructions that the level adds.
const (
	Plain   Level = "plain"   // Go only
	AVX2    Level = "avx2"    // with FMA and F16C: x86-64-v3
	AVXVNNI Level = "avxvnni" // AVX2 and 256-bit products of bytes, without AVX-512
	AVX512  Level = "avx512"  // AVX-512 F, BW, DQ and VL: x86-64-v4
	VNNI    Level = "vnni"    // AVX-512 and its products of bytes
	AMX     Level = "amx"     // and products of tiles of bytes
	BF16    Level = "bf16"    // products of bfloat16: not a level by itself; included in VNNI and AMX if the processor has it
	NEON    Level = "neon"    // every arm64
	DotProd Level = "dotprod" // NEON and products of bytes, SDOT
	I8MM    Level = "i8mm"    // DotProd and products of matrices of bytes, SMMLA
)

// level is a Level with all levels whose kernels run on it, the best last,
// itself included.
type level struct {
	name     Level
	includes []Level
}

// The level in use is detected once, when the process starts.
var (
	machine          = detect()
	chosen, levelErr = choose(os.Getenv("MM_CPU"), machine)
)

// Use returns the level of this process.
func Use() Level { return chosen.name }

// Has reports whether kernels of a level may run.
func Has(l Level) bool { return slices.Contains(chosen.includes, l) }

// Machine returns the levels of the processor, the best last.
func Machine() []Level {
	var out []Level
	for _, l := range machine {
		out = append(out, l.name)
	}
	return out
}

// Check returns an error if MM_CPU names no level of this machine. The process
// then runs at the machine's best level.
func Check() error { return levelErr }

// choose finds a level by name; "" selects the best.
func choose(name string, machine []level) (level, error) {
	best := machine[len(machine)-1]
	if name == "" {
		return best, nil
	}
	var names []string
	for _, l := range machine {
		if string(l.name) == name {
			return l, nil
		}
		names = append(names, string(l.name))
	}
	return best, fmt.Errorf("unknown MM_CPU %q: this processor has %s", name, strings.Join(names, ", "))
}

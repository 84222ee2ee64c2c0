// Package cpu says which instructions the kernels of this process may use.
//
// A [Level] is a set of instructions that kernels are written for. The process
// takes the best that the processor has; MM_CPU in the environment names a
// lower one, so that every level can be tested and measured on a better
// machine. Kernels of different levels may round differently; those of one
// level give the same bits with any number of threads.
package cpu

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Level is a set of instructions.
type Level string

// The levels. Each names what it adds.
const (
	Plain   Level = "plain"   // Go alone
	AVX2    Level = "avx2"    // with FMA and F16C: x86-64-v3
	AVXVNNI Level = "avxvnni" // AVX2 and 256-bit products of bytes, without AVX-512
	AVX512  Level = "avx512"  // its F, BW, DQ and VL: x86-64-v4
	VNNI    Level = "vnni"    // AVX-512 and its products of bytes
	AMX     Level = "amx"     // and products of tiles of bytes
	BF16    Level = "bf16"    // products of bfloat16: no level by itself, part of VNNI and AMX where the processor has it
	NEON    Level = "neon"    // what every arm64 has
	DotProd Level = "dotprod" // NEON and products of bytes, SDOT
	I8MM    Level = "i8mm"    // and of matrices of bytes, SMMLA
)

// level is a Level with those whose kernels run on it as well, the best last,
// itself included.
type level struct {
	name     Level
	includes []Level
}

// The level in use is found once, as the process starts.
var (
	machine      = detect()
	chosen, told = choose(os.Getenv("MM_CPU"), machine)
)

// Use is the level of this process.
func Use() Level { return chosen.name }

// Has says whether kernels of a level may run.
func Has(l Level) bool { return slices.Contains(chosen.includes, l) }

// Machine is all that the processor has, the best last.
func Machine() []Level {
	var out []Level
	for _, l := range machine {
		out = append(out, l.name)
	}
	return out
}

// Check reports an MM_CPU that names no level of this machine. The process
// then runs at the machine's best.
func Check() error { return told }

// choose finds a level by name; "" is the best.
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
	return best, fmt.Errorf("MM_CPU is %q; this processor has %s", name, strings.Join(names, ", "))
}
